//! A server whose behaviour the test determines: it takes a request when the test does so, and
//! writes exactly the test's bytes.

use crate::process::soon;
use core::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A listening server.
pub(crate) struct Server {
    listener: Listener,
    /// Its address in the form of `--to`.
    pub(crate) to: String,
}

/// A request that has arrived, and the connection that it came on.
pub(crate) struct Exchange {
    stream: Box<dyn Io>,
    /// The head as received, up to the empty line.
    pub(crate) head: String,
}

impl Server {
    pub(crate) async fn tcp() -> Self {
        Self::tcp_at(([127, 0, 0, 1], 0).into()).await
    }

    pub(crate) async fn tcp_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let listener = Listener::Tcp(listener);
        Self { listener, to }
    }

    pub(crate) fn unix(path: &Path) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = Listener::Unix(UnixListener::bind(path).unwrap());
        let to = format!("unix:{}", path.display());
        Self { listener, to }
    }

    /// Returns the next request on a new connection. Connections without a request, as of checks,
    /// are skipped.
    pub(crate) async fn request(&self) -> Exchange {
        loop {
            let stream: Box<dyn Io> = match &self.listener {
                Listener::Tcp(listener) => {
                    Box::new(soon("a connection", listener.accept()).await.unwrap().0)
                }
                Listener::Unix(listener) => {
                    Box::new(soon("a connection", listener.accept()).await.unwrap().0)
                }
            };
            let mut exchange = Exchange {
                stream,
                head: String::new(),
            };
            if exchange.read_head().await {
                return exchange;
            }
        }
    }
}

impl Exchange {
    /// Returns the next request on the same connection.
    pub(crate) async fn next(mut self) -> Self {
        assert!(self.read_head().await, "the connection is kept");
        self
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Answers with 200 and this body.
    pub(crate) async fn answer(&mut self, body: &str) {
        let length = body.len();
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        self.write(response).await;
    }

    /// Reads the available bytes, as many as fit; returns 0 at the end.
    pub(crate) async fn read(&mut self, into: &mut [u8]) -> usize {
        soon("bytes", self.stream.read(into)).await.unwrap_or(0)
    }

    /// Returns `false` if the connection ended before a request.
    async fn read_head(&mut self) -> bool {
        self.head.clear();
        while !self.head.ends_with("\r\n\r\n") {
            let mut byte = [0];
            if self.read(&mut byte).await == 0 {
                assert!(self.head.is_empty(), "half a head: {}", self.head);
                return false;
            }
            self.head.push(char::from(byte[0]));
        }
        true
    }
}

/// An address at which nothing listens, on the test's own host, so that no other test takes it by
/// chance.
pub(crate) async fn vacant(host: [u8; 4]) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from((host, 0)))
        .await
        .unwrap();
    listener.local_addr().unwrap()
}

/// A path for a socket of this test alone, at which there is nothing. It is short, since the path
/// of a socket may have only about 100 bytes.
pub(crate) fn socket_path(name: &str) -> PathBuf {
    let id = std::process::id();
    let path = std::env::temp_dir().join(format!("slackwater-agent-{id}-{name}.sock"));
    let _ = std::fs::remove_file(&path);
    path
}
