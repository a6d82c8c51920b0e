//! Servers on loopback for the generator's tests: well-behaved, gated, or with a byte-exact
//! response.
//!
//! Each binds a free port and lives as long as the test's runtime.

use bytes::Bytes;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(super) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server that handles each connection by `serve`.
pub(super) async fn raw<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// A server that reads one request's head on each connection, answers with these bytes and closes.
pub(super) async fn answering(bytes: &'static [u8]) -> SocketAddr {
    raw(move |mut stream| async move {
        let mut head = [0; 4_096];
        if stream.read(&mut head).await.is_ok() {
            let _ = stream.write_all(bytes).await;
        }
    })
    .await
}

/// A server that speaks HTTP/1.1 and h2c and responds with the results of `answer`.
pub(super) async fn http<F>(
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    raw(move |stream| {
        let answer = answer.clone();
        async move {
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await
}

/// Status 200 and a body of five bytes.
pub(super) fn ok() -> Response<Full<Bytes>> {
    Response::new(Full::from("hello"))
}

/// A server that responds only while `open` is true, and counts the requests that it holds.
pub(super) async fn gated() -> (SocketAddr, watch::Sender<bool>, Arc<AtomicUsize>) {
    let (gate, open) = watch::channel(false);
    let held = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&held);
    let address = http(move |_| {
        let (mut open, counter) = (open.clone(), Arc::clone(&counter));
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = open.wait_for(|is_open| *is_open).await;
            counter.fetch_sub(1, Ordering::SeqCst);
            ok()
        }
    })
    .await;
    (address, gate, held)
}
