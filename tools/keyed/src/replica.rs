//! A replica with a cache: HTTP/1.1 on one thread. A number of requests is served at once, and
//! others wait in order of arrival. A request takes time without using the CPU, and more if its key
//! is not in the cache.

use crate::KEY;
use crate::cache::Cache;
use bytes::Bytes;
use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use core::net::SocketAddr;
use core::time::Duration;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::io;
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

/// Path that reports the counts since the start.
const STATS: &str = "/stats";

/// Path that changes the pace: `?percent=N`.
const PACE: &str = "/pace";

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) index: u32,
    pub(crate) workers: usize,
    /// Time of a request.
    pub(crate) hit: Duration,
    /// Additional time of a request whose key is not in the cache.
    pub(crate) miss: Duration,
    /// Keys that the cache holds.
    pub(crate) cache: usize,
    /// Times in percent of the configured ones; 0: none.
    pub(crate) pace_percent: u32,
}

/// Serves until the process is ended.
///
/// # Errors
///
/// Fails if it cannot listen.
pub(crate) fn serve(listen: SocketAddr, settings: &Settings) -> io::Result<()> {
    let replica = Rc::new(Replica {
        index: settings.index,
        hit: settings.hit,
        miss: settings.miss,
        pace_percent: Cell::new(settings.pace_percent),
        workers: Semaphore::new(settings.workers),
        cache: RefCell::new(Cache::new(settings.cache)),
        hits: Cell::new(0),
        misses: Cell::new(0),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind(listen).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::task::spawn_local(Rc::clone(&replica).carry(stream));
        }
    })
}

#[derive(Debug)]
struct Replica {
    index: u32,
    hit: Duration,
    miss: Duration,
    pace_percent: Cell<u32>,
    workers: Semaphore,
    cache: RefCell<Cache>,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl Replica {
    async fn carry(self: Rc<Self>, stream: TcpStream) {
        // Without this option a connection is only slower. A client that leaves needs no handling:
        // its request is dropped wherever it is.
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
        let mut status = StatusCode::OK;
        let body = match request.uri().path() {
            STATS => self.stats(),
            PACE => {
                if let Some(percent) = pace(request.uri().query()) {
                    self.pace_percent.set(percent);
                    format!("{percent}\n")
                } else {
                    status = StatusCode::BAD_REQUEST;
                    "expected ?percent=N\n".to_owned()
                }
            }
            _ => match request.headers().get(KEY) {
                Some(key) => self.look_up(key.as_bytes()).await,
                None => format!("{} no-key\n", self.index),
            },
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        Ok(response)
    }

    async fn look_up(&self, key: &[u8]) -> String {
        // Fails only if the semaphore is closed, which never happens.
        let _worker = self.workers.acquire().await;
        let is_hit = self.cache.borrow_mut().touch(key);
        let time = self.hit + if is_hit { Duration::ZERO } else { self.miss };
        let time = time * self.pace_percent.get() / 100;
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        let (count, word) = if is_hit {
            (&self.hits, "hit")
        } else {
            // Not earlier: a second request for the same key before this is a miss, too.
            self.cache.borrow_mut().insert(key);
            (&self.misses, "miss")
        };
        count.set(count.get() + 1);
        format!("{} {word}\n", self.index)
    }

    fn stats(&self) -> String {
        let (hits, misses) = (self.hits.get(), self.misses.get());
        json!({"hits": hits, "misses": misses, "keys": self.cache.borrow().len()}).to_string()
    }
}

fn pace(query: Option<&str>) -> Option<u32> {
    query?.strip_prefix("percent=")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// A replica on its own thread, until the tests end.
    fn start() -> SocketAddr {
        // A host that no other test uses, so that the port stays free.
        let free = std::net::TcpListener::bind("127.97.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        std::thread::spawn(move || {
            let settings = Settings {
                index: 7,
                workers: 1,
                hit: Duration::from_millis(1),
                miss: Duration::from_millis(1),
                cache: 1,
                pace_percent: 100,
            };
            serve(address, &settings)
        });
        address
    }

    fn ask(address: SocketAddr, path: &str, key: &str) -> String {
        let mut stream = loop {
            if let Ok(stream) = std::net::TcpStream::connect(address) {
                break stream;
            }
        };
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{key}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        body.trim().to_owned()
    }

    #[test]
    fn a_key_is_a_hit_until_it_is_evicted() {
        let address = start();
        let key = |name: &str| ask(address, "/", &format!("x-key: {name}\r\n"));
        assert_eq!(key("a"), "7 miss");
        assert_eq!(key("a"), "7 hit");
        assert_eq!(key("b"), "7 miss");
        assert_eq!(key("a"), "7 miss");
        assert_eq!(ask(address, "/", ""), "7 no-key");
        assert_eq!(ask(address, "/pace?percent=0", ""), "0");
        assert_eq!(ask(address, "/pace", ""), "expected ?percent=N");
        assert_eq!(
            ask(address, "/stats", ""),
            r#"{"hits":1,"keys":1,"misses":3}"#
        );
    }
}
