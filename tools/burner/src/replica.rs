//! A replica: HTTP/1.1 on one thread. Requests burn CPU on a few other threads, or on the same one,
//! as in a server with one event loop.

use crate::burn::burn;
use crate::costs::Costs;
use bytes::Bytes;
use core::cell::RefCell;
use core::convert::Infallible;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::io;
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_blocking};

/// A path that is answered at once, without a cost.
const READY: &str = "/ready";

/// Serves until the process is ended; up to `threads` requests burn at once.
///
/// # Errors
///
/// Fails if the listener cannot be used.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    costs: Costs,
    threads: usize,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .max_blocking_threads(threads)
        .build()?;
    let replica = Rc::new(Replica {
        costs: RefCell::new(costs),
        is_loop: threads == 1,
    });
    LocalSet::new().block_on(&runtime, async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::task::spawn_local(Rc::clone(&replica).carry(stream));
        }
    })
}

struct Replica {
    costs: RefCell<Costs>,
    /// Whether requests burn on the thread that carries connections.
    is_loop: bool,
}

impl Replica {
    async fn carry(self: Rc<Self>, stream: TcpStream) {
        // Without this option a connection is only slower. A client that leaves needs no handling.
        let _ = stream.set_nodelay(true);
        let service = service_fn(|request| self.answer(request));
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        if request.uri().path() != READY {
            let cost = self.costs.borrow_mut().next();
            if self.is_loop {
                burn(cost);
            } else {
                // Fails only if burning panics.
                let _ = spawn_blocking(move || burn(cost)).await;
            }
        }
        Ok(Response::new(Full::new(Bytes::from_static(b"served\n"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;
    use core::time::Duration;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    /// A replica on its own thread, until the tests end.
    fn start(mean_ms: u64, threads: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let costs = Costs::new(1, Duration::from_millis(mean_ms));
        std::thread::spawn(move || serve(listener, costs, threads));
        address
    }

    /// The answers to these paths on one connection.
    fn ask(address: SocketAddr, paths: &[&str]) -> Vec<String> {
        let stream = std::net::TcpStream::connect(address).unwrap();
        let limit = Some(Duration::from_secs(30));
        stream.set_read_timeout(limit).unwrap();
        let mut stream = BufReader::new(stream);
        let mut answer = |path: &&str| {
            write!(stream.get_mut(), "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert_ne!(stream.read_line(&mut head).unwrap(), 0);
            }
            let mut body = [0; 7];
            stream.read_exact(&mut body).unwrap();
            assert_eq!(body, *b"served\n");
            head.lines().next().unwrap().to_owned()
        };
        paths.iter().map(&mut answer).collect()
    }

    #[test]
    fn connection_serves_consecutive_requests_in_both_modes() {
        for threads in [1, 2] {
            let address = start(1, threads);
            let answers = ask(address, &[READY, "/", "/again"]);
            assert_eq!(answers, ["HTTP/1.1 200 OK"; 3]);
        }
    }

    #[test]
    fn other_threads_accept_connections_while_a_request_runs() {
        // The request burns for longer than any test waits.
        let address = start(3_600_000, 2);
        let mut first = std::net::TcpStream::connect(address).unwrap();
        first
            .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            .unwrap();
        assert_eq!(ask(address, &[READY]), ["HTTP/1.1 200 OK"]);
    }
}
