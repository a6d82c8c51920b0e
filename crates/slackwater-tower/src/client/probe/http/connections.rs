//! Kept connections to where replicas answer probes, and patience with those that cannot be reached.

use bytes::Bytes;
use core::net::SocketAddr;
use core::time::Duration;
use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The pause after a first failure to connect; each further one doubles it.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// More headers than this are no report.
const HEADERS_MAX: usize = 64;
/// A reply's head may be as long as this, in bytes; the least that hyper allows.
const HEAD_BYTES_MAX: usize = 8192;

/// One connection; its task ends with it, whatever state the exchange is in.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    task: JoinHandle<()>,
}

impl Connection {
    pub(super) async fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = Builder::new()
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let task = tokio::spawn(async move {
            // How the connection ended is told to whoever waits for a reply on it.
            let _ = connection.await;
        });
        Ok(Self { sender, task })
    }

    /// Waits until it takes another request; `false` if it is closed.
    pub(super) async fn ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Empty<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        self.sender.send_request(request).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where one replica, or several, answer probes.
#[derive(Debug)]
struct Place {
    host: Option<HeaderValue>,
    idle: Vec<Connection>,
    failures: u32,
    retry_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct State {
    places: HashMap<SocketAddr, Place>,
    closed: bool,
}

/// The connections of one prober.
#[derive(Debug)]
pub(super) struct Connections {
    idle_max: usize,
    state: Mutex<State>,
}

impl Connections {
    pub(super) fn new(idle_max: usize) -> Self {
        Self {
            idle_max,
            state: Mutex::default(),
        }
    }

    /// Whether it is worth a try: not within the pause that follows a failure. Makes the place known.
    pub(super) fn may_try(&self, addr: SocketAddr) -> bool {
        let mut state = self.lock();
        let place = state.places.entry(addr).or_insert_with(|| Place {
            host: HeaderValue::try_from(addr.to_string()).ok(),
            idle: Vec::new(),
            failures: 0,
            retry_at: None,
        });
        place.retry_at.is_none_or(|at| at <= Instant::now())
    }

    pub(super) fn host(&self, addr: SocketAddr) -> Option<HeaderValue> {
        self.lock().places.get(&addr)?.host.clone()
    }

    pub(super) fn take(&self, addr: SocketAddr) -> Option<Connection> {
        let mut state = self.lock();
        let idle = &mut state.places.get_mut(&addr)?.idle;
        // The latest first: it is the least likely to have been closed.
        loop {
            let connection = idle.pop()?;
            if !connection.sender.is_closed() {
                return Some(connection);
            }
        }
    }

    pub(super) fn keep(&self, addr: SocketAddr, connection: Connection) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        if let Some(place) = state.places.get_mut(&addr)
            && place.idle.len() < self.idle_max
        {
            place.idle.push(connection);
        }
    }

    pub(super) fn failed(&self, addr: SocketAddr) {
        if let Some(place) = self.lock().places.get_mut(&addr) {
            let pause = BACK_OFF_MIN.saturating_mul(1 << place.failures.min(10));
            place.failures = place.failures.saturating_add(1);
            place.retry_at = Some(Instant::now() + pause.min(BACK_OFF_MAX));
        }
    }

    pub(super) fn succeeded(&self, addr: SocketAddr) {
        if let Some(place) = self.lock().places.get_mut(&addr) {
            place.failures = 0;
            place.retry_at = None;
        }
    }

    pub(super) fn forget(&self, addr: SocketAddr) {
        self.lock().places.remove(&addr);
    }

    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.places.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
