//! Probes by HTTP/1.1: `GET` on kept connections, the report in the reply's headers.
//!
//! Works through everything that speaks HTTP, at several times the cost of UDP. Each probe is a
//! task that ends at the probe's deadline whatever the replica does. The number of tasks is capped,
//! so a replica that hangs costs a few tasks and delays no query. A body is read only to keep the
//! connection, after the probe is over, and only up to a small size and time.

mod connect;
mod connections;

use super::round_trip::RoundTrips;
use super::{ProbeCounters, ProbeToSend, Prober, Refused, Reports, log_second_start};
use crate::wire::headers::{read_report, write_hint};
use crate::wire::signed::{self, Challenge};
use crate::wire::{HINT_BYTES_MAX, PROBE_PATH, ProbeKey};
use connect::TcpConnector;
pub use connect::{Connect, Connecting, ProbeStream};
use connections::{Connection, Connections};
use core::fmt;
use core::future::pending;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use http::header::{HOST, HeaderMap};
use http::uri::PathAndQuery;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body as _, Incoming};
use slackwater_core::LoadReport;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// How long opening a connection may take.
const OPEN_TIME_MAX: Duration = Duration::from_secs(5);

/// The most of a reply's body that is read to keep its connection.
const BODY_BYTES_MAX: u64 = 4096;
/// The longest wait for a reply's body, after its probe is over.
const BODY_TIME_MAX: Duration = Duration::from_millis(100);

/// Settings of an [`HttpProber`].
#[derive(Clone, Debug)]
pub struct HttpProberConfig {
    /// The path of probes; default [`PROBE_PATH`].
    pub path: PathAndQuery,
    /// The most probes outstanding at once, over all replicas; one more is refused. Default 256; 0
    /// refuses all.
    pub outstanding_max: u32,
    /// The most idle connections to one replica. Default 4, which is what synchronous mode can use.
    /// 0 opens a connection for each probe.
    pub idle_connections_max: usize,
    /// Signs probes; reports without a valid signature are rejected. Default none: neither probes
    /// nor reports are signed.
    pub key: Option<ProbeKey>,
}

impl Default for HttpProberConfig {
    fn default() -> Self {
        Self {
            path: PathAndQuery::from_static(PROBE_PATH),
            outstanding_max: 256,
            idle_connections_max: 4,
            key: None,
        }
    }
}

/// Probes replicas by HTTP.
pub struct HttpProber {
    inner: Arc<Inner>,
    started: OnceLock<(Handle, Reports)>,
}

struct Inner {
    config: HttpProberConfig,
    connections: Connections,
    connector: Box<dyn Connect>,
    outstanding: AtomicU32,
    /// Replies whose bodies are being read; at most `outstanding_max`.
    reading: AtomicU32,
    counters: Mutex<ProbeCounters>,
    round_trips: Mutex<RoundTrips>,
}

/// A reply's report, and its connection with the body that is still to be read.
struct Reply {
    report: Result<LoadReport, Loss>,
    connection: Connection,
    body: Incoming,
}

/// Why a probe was lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Connect,
    Broken,
    Status,
    Report,
    /// There is a key, and the report is not signed with it.
    Unsigned,
    Hint,
    /// The system provided no random number.
    Nonce,
}

/// A request, and the challenge that its answer is bound to.
type Asked = (Request<Empty<bytes::Bytes>>, Option<Challenge>);

impl HttpProber {
    /// A prober without connections yet.
    pub fn new(config: HttpProberConfig) -> Self {
        Self::with_connector(config, TcpConnector)
    }

    /// As [`HttpProber::new`], over the connections that `connector` opens: TLS, a Unix socket.
    pub fn with_connector(config: HttpProberConfig, connector: impl Connect) -> Self {
        Self {
            inner: Arc::new(Inner {
                connections: Connections::new(config.idle_connections_max),
                connector: Box::new(connector),
                config,
                outstanding: AtomicU32::new(0),
                reading: AtomicU32::new(0),
                counters: Mutex::default(),
                round_trips: Mutex::default(),
            }),
            started: OnceLock::new(),
        }
    }

    /// Probes outstanding now.
    pub fn outstanding(&self) -> u32 {
        self.inner.outstanding.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for HttpProber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProber")
            .field("path", &self.inner.config.path)
            .field("outstanding", &self.outstanding())
            .finish_non_exhaustive()
    }
}

impl Prober for HttpProber {
    fn start(&self, reports: Reports) {
        if self.started.set((Handle::current(), reports)).is_err() {
            log_second_start();
        }
    }

    fn send(&self, probe: ProbeToSend) -> Result<(), Refused> {
        let inner = &self.inner;
        let (runtime, reports) = self.started.get().ok_or(Refused::Stopped)?;
        if probe.hint.len() > HINT_BYTES_MAX {
            inner.count(|c| c.refused_unsupported += 1);
            return Err(Refused::Unsupported);
        }
        if let Err(refused) = inner.connections.may_try(probe.addr) {
            inner.count(|c| match refused {
                Refused::Full => c.refused_full += 1,
                _ => c.refused_back_off += 1,
            });
            return Err(refused);
        }
        let Some(place) = Place::take(inner, |inner| &inner.outstanding) else {
            inner.count(|c| c.refused_full += 1);
            return Err(Refused::Full);
        };
        let reports = reports.clone();
        runtime.spawn(place.probe(probe, reports));
        Ok(())
    }

    fn forget(&self, addr: SocketAddr) {
        self.inner.connections.forget(addr);
    }

    fn counters(&self) -> ProbeCounters {
        *self.inner.lock_counters()
    }

    fn round_trip(&self) -> Option<Duration> {
        self.inner.lock_round_trips().value()
    }
}

impl Drop for HttpProber {
    fn drop(&mut self) {
        // Probes under way end by their deadlines. Their connections are then closed.
        self.inner.connections.close();
    }
}

/// A permit out of the limit for a count, released on drop.
struct Place {
    inner: Arc<Inner>,
    count: fn(&Inner) -> &AtomicU32,
}

impl Place {
    fn take(inner: &Arc<Inner>, count: fn(&Inner) -> &AtomicU32) -> Option<Self> {
        let max = inner.config.outstanding_max;
        count(inner)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |outstanding| {
                (outstanding < max).then_some(outstanding + 1)
            })
            .ok()
            .map(|_| Self {
                inner: Arc::clone(inner),
                count,
            })
    }

    /// Runs one probe, and keeps its connection if the body ends soon.
    async fn probe(self, probe: ProbeToSend, reports: Reports) {
        let inner = Arc::clone(&self.inner);
        let reply = inner.ask(&probe, &reports).await;
        drop(self);
        let Some((connection, body)) = reply else {
            return;
        };
        if body.is_end_stream() {
            inner.connections.keep(probe.addr, connection);
        } else if let Some(_place) = Self::take(&inner, |inner| &inner.reading)
            && let Ok(true) = timeout(BODY_TIME_MAX, ends_soon(body)).await
        {
            inner.connections.keep(probe.addr, connection);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.count)(&self.inner).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Runs one probe and reports its result exactly once. Returns the connection with the unread
    /// body.
    async fn ask(
        self: &Arc<Self>,
        probe: &ProbeToSend,
        reports: &Reports,
    ) -> Option<(Connection, Incoming)> {
        let span = probe.deadline.saturating_since(probe.sent_at);
        let began = Instant::now();
        let (report, rest) = match timeout(span, self.reply(probe)).await {
            Ok(Ok(reply)) => (
                reply.report.map_err(Some),
                Some((reply.connection, reply.body)),
            ),
            Ok(Err(loss)) => (Err(Some(loss)), None),
            Err(_) => (Err(None), None),
        };
        self.count(|counters| match &report {
            Ok(_) => counters.answered += 1,
            Err(Some(Loss::Connect)) => counters.connect_failed += 1,
            Err(Some(Loss::Broken)) => counters.broken += 1,
            Err(Some(Loss::Status)) => counters.bad_status += 1,
            Err(Some(Loss::Report | Loss::Unsigned)) => counters.bad_report += 1,
            Err(Some(Loss::Hint | Loss::Nonce)) => counters.refused_unsupported += 1,
            Err(None) => counters.timed_out += 1,
        });
        match &report {
            Ok(report) => {
                self.lock_round_trips().add(began.elapsed());
                reports.report(probe.token, report);
            }
            Err(_) => reports.lost(probe.token),
        }
        rest
    }

    async fn reply(self: &Arc<Self>, probe: &ProbeToSend) -> Result<Reply, Loss> {
        let (request, challenge) = self.request(probe)?;
        let (connection, response) = self.exchange(probe.addr, &request).await?;
        let (head, body) = response.into_parts();
        let report = if !head.status.is_success() {
            Err(Loss::Status)
        } else if !self.believes(challenge.as_ref(), &head.headers) {
            Err(Loss::Unsigned)
        } else {
            read_report(&head.headers).map_err(|_| Loss::Report)
        };
        Ok(Reply {
            report,
            connection,
            body,
        })
    }

    /// Sends the request. If a kept connection turns out to be closed, sends it again on a new one.
    async fn exchange(
        self: &Arc<Self>,
        addr: SocketAddr,
        request: &Request<Empty<bytes::Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), Loss> {
        if let Some(mut kept) = self.connections.take(addr)
            && kept.ready().await
        {
            self.count(|counters| counters.sent += 1);
            match kept.send(request.clone()).await {
                Ok(response) => return Ok((kept, response)),
                Err(error) if error.is_canceled() || error.is_closed() => {}
                // The replica may have closed the connection just as the request left.
                Err(error) if error.is_incomplete_message() => {}
                Err(_) => return Err(Loss::Broken),
            }
        }
        let mut fresh = self.open(addr).await?;
        self.count(|counters| counters.sent += 1);
        let response = fresh.send(request.clone()).await;
        Ok((fresh, response.map_err(|_| Loss::Broken)?))
    }

    /// Opens a connection, in a task of its own: a probe has little time, and a connection that
    /// takes longer is for the next one.
    async fn open(self: &Arc<Self>, addr: SocketAddr) -> Result<Connection, Loss> {
        if !self.connections.may_open(addr) {
            // Until the probe's deadline.
            return pending().await;
        }
        let (probe, opened) = oneshot::channel();
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let opening = Connection::open(&*inner.connector, addr);
            if let Ok(Ok(connection)) = timeout(OPEN_TIME_MAX, opening).await {
                inner.connections.succeeded(addr);
                if let Err(connection) = probe.send(connection) {
                    inner.connections.keep(addr, connection);
                }
            } else {
                inner.connections.failed(addr);
            }
        });
        opened.await.map_err(|_| Loss::Connect)
    }

    /// Whether the report's signature is valid, or none is needed.
    fn believes(&self, challenge: Option<&Challenge>, headers: &HeaderMap) -> bool {
        let signed = self.config.key.as_ref().zip(challenge);
        signed.is_none_or(|(key, challenge)| signed::check_report(key, challenge, headers).is_ok())
    }

    /// Returns the request and, if there is a key, the challenge that its answer is bound to.
    fn request(&self, probe: &ProbeToSend) -> Result<Asked, Loss> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.config.path.clone().into();
        let headers = request.headers_mut();
        if let Some(host) = self.connections.host(probe.addr) {
            headers.insert(HOST, host);
        }
        write_hint(&probe.hint, headers).map_err(|_| Loss::Hint)?;
        let challenge = match &self.config.key {
            Some(key) => {
                let nonce = getrandom::u64().map_err(|_| Loss::Nonce)?;
                Some(signed::sign_probe(key, SystemTime::now(), nonce, headers))
            }
            None => None,
        };
        Ok((request, challenge))
    }

    fn count(&self, event: impl FnOnce(&mut ProbeCounters)) {
        event(&mut self.lock_counters());
    }

    fn lock_counters(&self) -> std::sync::MutexGuard<'_, ProbeCounters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_round_trips(&self) -> std::sync::MutexGuard<'_, RoundTrips> {
        self.round_trips
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a body to its end. Returns `false` on an error, or if it is too long.
async fn ends_soon(mut body: Incoming) -> bool {
    let mut left = BODY_BYTES_MAX;
    while !body.is_end_stream() {
        match body.frame().await {
            None => break,
            Some(Err(_)) => return false,
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(rest) = left.checked_sub(bytes) else {
                    return false;
                };
                left = rest;
            }
        }
    }
    true
}
