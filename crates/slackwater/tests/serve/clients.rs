//! Clients: one that sends bytes over HTTP/1.1, and hyper's for HTTP/2.

use crate::proxy::{PATIENCE, until};
use crate::replicas::AnyBody;
use bytes::Bytes;
use core::net::SocketAddr;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// An HTTP/1.1 client that sends exactly the given bytes.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

/// A response as it was on the wire.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        core::str::from_utf8(&self.body).unwrap()
    }

    /// The value of a field, if it is there.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(": ")?;
            field.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// The entry of a socket in `/proc/net/tcp`. Addresses there are IPv4 in the machine's byte order,
/// and ports are hexadecimal.
struct Socket {
    /// Bytes that the peer has not acknowledged yet.
    sending: u64,
    /// Bytes that wait to be read.
    received: u64,
    /// A process still holds the socket.
    is_held: bool,
    /// Neither side has ended.
    is_established: bool,
}

/// Whether a connection is open, as its side at `from` sees it.
pub(crate) fn is_open(from: SocketAddr, to: SocketAddr) -> bool {
    Socket::of(from, to).is_some_and(|socket| socket.is_established)
}

impl Socket {
    fn of(from: SocketAddr, to: SocketAddr) -> Option<Self> {
        let text = |address: SocketAddr| match address {
            SocketAddr::V4(address) => {
                let ip = u32::from_ne_bytes(address.ip().octets());
                format!("{ip:08X}:{:04X}", address.port())
            }
            SocketAddr::V6(_) => String::new(),
        };
        let (from, to) = (text(from), text(to));
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        sockets.lines().find_map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            let [_, local, remote, state, queues, _, _, _, _, inode, ..] = *cells else {
                return None;
            };
            let (sending, received) = queues.split_once(':')?;
            let bytes = |hexadecimal| u64::from_str_radix(hexadecimal, 16).ok();
            (local == from && remote == to).then_some(Self {
                sending: bytes(sending)?,
                received: bytes(received)?,
                is_held: inode != "0",
                is_established: state == "01",
            })
        })
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) const fn of(stream: TcpStream) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until the peer has read everything that was sent, as Linux reports it for both
    /// sockets.
    pub(crate) async fn is_read(&self) {
        let own = self.stream.local_addr().unwrap();
        let other = self.stream.peer_addr().unwrap();
        until("all that was sent has been read", async || {
            let is_empty = |from, to| {
                Socket::of(from, to).is_some_and(|socket| socket.sending + socket.received == 0)
            };
            (is_empty(own, other) && is_empty(other, own)).then_some(())
        })
        .await;
    }

    /// Closes the connection, and waits until the peer has closed its socket, too.
    pub(crate) async fn leave(self) {
        let own = self.stream.local_addr().unwrap();
        let other = self.stream.peer_addr().unwrap();
        drop(self);
        until("the client's socket is closed", async || {
            let socket = Socket::of(other, own);
            socket.is_none_or(|socket| !socket.is_held).then_some(())
        })
        .await;
    }

    /// Sends `GET path`, and reads the response.
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n"))
            .await;
        self.answer().await
    }

    /// Reads a response with a `Content-Length`.
    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let mut answer = Answer {
            status: head[9..12].parse().unwrap(),
            head,
            body: Vec::new(),
        };
        let length = answer
            .field("content-length")
            .map_or(0, |length| length.parse().unwrap());
        answer.body = self.exactly(length).await;
        answer
    }

    /// Reads a head.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            let end = self
                .unread
                .windows(4)
                .position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let head: Vec<u8> = self.unread.drain(..end + 4).collect();
                return String::from_utf8(head).unwrap();
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.unread)).await;
            let read = read.expect("no head in time").unwrap();
            assert_ne!(
                read, 0,
                "the connection ended within a head: {:?}",
                self.unread
            );
        }
    }

    /// Reads exactly this many bytes.
    pub(crate) async fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        while self.unread.len() < bytes {
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.unread)).await;
            let read = read.expect("the body stopped").unwrap();
            assert_ne!(read, 0, "the connection ended within a body");
        }
        self.unread.drain(..bytes).collect()
    }

    /// Reads to the end of the connection, which may be a reset.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        let reading = self.stream.read_to_end(&mut self.unread);
        let _ = timeout(PATIENCE, reading)
            .await
            .expect("the connection stays open");
        self.unread
    }
}

/// Sends `GET path` on a new connection.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    Client::connect(address).await.get(path).await
}

/// Like [`get`], while the test goes on.
pub(crate) fn ask(address: SocketAddr, path: &'static str) -> JoinHandle<Answer> {
    tokio::spawn(get(address, path))
}

/// An HTTP/2 connection by prior knowledge.
pub(crate) async fn http2(address: SocketAddr) -> SendRequest<AnyBody> {
    http2_over(TcpStream::connect(address).await.unwrap()).await
}

/// An HTTP/2 connection over an existing stream.
pub(crate) async fn http2_over<S>(stream: S) -> SendRequest<AnyBody>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn empty() -> AnyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn full(text: impl Into<Bytes>) -> AnyBody {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}
