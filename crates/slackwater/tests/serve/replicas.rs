//! Replicas: scripted ones that send and receive bytes, and HTTP/2 ones with hyper or h2.

use bytes::Bytes;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use slackwater_discovery::testing::sharing;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore};

/// One connection to a scripted replica, with the received bytes.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) unread: Vec<u8>,
    /// Index from 0, in the order of arrival at this replica.
    pub(crate) index: usize,
}

impl Connection {
    /// Reads the next head, with its blank line; `None` at the end of the connection.
    pub(crate) async fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                let head: Vec<u8> = self.unread.drain(..end + 4).collect();
                return Some(String::from_utf8(head).unwrap());
            }
            if self.more().await == 0 {
                return None;
            }
        }
    }

    /// Reads exactly this many bytes of a body; `None` if the connection ends before.
    pub(crate) async fn body(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.unread.len() < bytes {
            if self.more().await == 0 {
                return None;
            }
        }
        Some(self.unread.drain(..bytes).collect())
    }

    /// Reads what is available; 0 at the end of the connection.
    pub(crate) async fn more(&mut self) -> usize {
        self.stream.read_buf(&mut self.unread).await.unwrap_or(0)
    }

    pub(crate) async fn send(&mut self, text: &str) {
        // If the proxy has closed the connection, the replica does not fail.
        let _ = self.stream.write_all(text.as_bytes()).await;
    }

    /// Answers with this text.
    pub(crate) async fn answer(&mut self, text: &str) {
        let length = text.len();
        self.send(&format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}"
        ))
        .await;
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A replica that handles each connection with `script`.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    /// Never listens. It holds the port, which another test could get otherwise once the replica
    /// has stopped.
    _held: TcpSocket,
    accepted: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Replica {
    /// A replica that answers `/slow` only when notified, and all other requests at once.
    pub(crate) async fn slow(go_on: &Arc<Notify>, answer: &'static str) -> Self {
        let go_on = Arc::clone(go_on);
        Self::scripted(move |mut connection| {
            let go_on = Arc::clone(&go_on);
            async move {
                while let Some(head) = connection.head().await {
                    if head.starts_with("GET /slow") {
                        go_on.notified().await;
                    }
                    connection.answer(answer).await;
                }
            }
        })
        .await
    }

    /// A replica that reads one head on each connection and closes it.
    pub(crate) async fn closing() -> Self {
        Self::scripted(|mut connection| async move {
            connection.head().await;
        })
        .await
    }

    pub(crate) async fn scripted<F>(script: impl Fn(Connection) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::scripted_at("127.0.0.1:0", script).await
    }

    #[expect(
        clippy::unused_async,
        reason = "it needs a runtime, which those who await it have"
    )]
    pub(crate) async fn scripted_at<F>(
        address: &str,
        script: impl Fn(Connection) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let held = sharing(address.parse().unwrap());
        let address = held.local_addr().unwrap();
        let listener = sharing(address).listen(1024).unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let index = counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(Connection {
                    stream,
                    unread: Vec::new(),
                    index,
                }));
            }
        });
        Self {
            address,
            _held: held,
            accepted,
            task,
        }
    }

    /// A replica that answers all requests, also those with a body by `Content-Length`, with its
    /// name and the request's head.
    pub(crate) async fn echo(name: &'static str) -> Self {
        Self::echo_at("127.0.0.1:0", name).await
    }

    pub(crate) async fn echo_at(address: &str, name: &'static str) -> Self {
        Self::scripted_at(address, move |mut connection| async move {
            while let Some(head) = connection.head().await {
                let Some(body) = connection.body(length_in(&head)).await else {
                    return;
                };
                let body = String::from_utf8_lossy(&body).into_owned();
                connection.answer(&format!("{name}\n{head}{body}")).await;
            }
        })
        .await
    }

    /// Stops listening. Connections are refused then, until this is dropped.
    pub(crate) fn stop(&self) {
        self.task.abort();
    }

    /// Number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn length_in(head: &str) -> usize {
    head.lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap())
}

/// An address at which nothing listens for as long as the test runs. The port is held, because
/// another test could get it otherwise.
pub(crate) async fn unused_address() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let _held = socket;
        core::future::pending::<()>().await;
    });
    address
}

/// An address to listen at, on a loopback host that no other test uses, so that its port stays
/// free.
pub(crate) async fn vacant(host: [u8; 4]) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from((host, 0))).await;
    listener.unwrap().local_addr().unwrap()
}

pub(crate) type AnyBody = UnsyncBoxBody<Bytes, hyper::Error>;

/// An HTTP/2 replica that answers each request when `go` has a permit for it.
pub(crate) async fn http2_held(go: &Arc<Semaphore>) -> SocketAddr {
    let go = Arc::clone(go);
    http2(move |_| {
        let go = Arc::clone(&go);
        async move {
            go.acquire().await.unwrap().forget();
            Response::new(crate::clients::empty())
        }
    })
    .await
}

/// An HTTP/2 replica of one connection, which may send what hyper does not: interim heads, resets.
pub(crate) async fn http2_streams(
    mut handle: impl FnMut(Request<RecvStream>, SendResponse<Bytes>) + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            handle(request, respond);
        }
    });
    address
}

/// An HTTP/2 replica.
pub(crate) async fn http2<F>(
    handle: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = Response<AnyBody>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let handle = handle.clone();
            let service = service_fn(move |request| {
                let answering = handle(request);
                async move { Ok::<_, Infallible>(answering.await) }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    address
}
