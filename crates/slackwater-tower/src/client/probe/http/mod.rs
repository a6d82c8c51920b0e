//! Probes by HTTP/1.1: `GET` on kept connections, the report in the reply's headers.
//!
//! Works through everything that speaks HTTP, at several times the cost of UDP. Each probe is a
//! task and ends at the probe's deadline whatever the replica does. The number of tasks is capped,
//! so a replica that hangs costs a few tasks and delays no query. After the probe is over, a task
//! goes on only to keep its connection: it waits for a late one, or reads a body, for a small time
//! and up to a small size.

mod connect;
mod connections;

use super::round_trip::RoundTrips;
use super::{ProbeCounters, ProbeToSend, Prober, Refused, Reports};
use crate::wire::headers::{read_report, write_hint};
use crate::wire::signed::{self, Challenge};
use crate::wire::{HINT_BYTES_MAX, PROBE_PATH, ProbeKey};
use connect::TcpConnector;
pub use connect::{Connect, Connecting, ProbeStream};
use connections::{Connection, Connections};
use core::fmt;
use core::net::SocketAddr;
use core::pin::pin;
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
use tokio::time::{Instant, timeout};

/// The longest wait for a connection and its reply, after their probe is over.
const LATE_TIME_MAX: Duration = Duration::from_secs(2);

/// The most of a reply's body that is read to keep its connection.
const BODY_BYTES_MAX: u64 = 4096;
/// The longest wait for a reply's body, after its probe is over.
const BODY_TIME_MAX: Duration = Duration::from_millis(100);

/// Settings of an [`HttpProber`].
#[derive(Clone, Debug)]
pub struct HttpProberConfig {
    /// The path of probes; default [`PROBE_PATH`].
    pub path: PathAndQuery,
    /// The most probes outstanding at once, over all replicas; one more is refused. After their
    /// probes, as many connections that are late are waited for. Default 256; 0 refuses all.
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
    /// Replies that are late; at most `outstanding_max`.
    late: AtomicU32,
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
                late: AtomicU32::new(0),
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
    fn start(&self, reports: Reports) -> bool {
        self.started.set((Handle::current(), reports)).is_ok()
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
        // Probes under way end by their deadlines or soon after. Then their connections are closed.
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

    /// Runs one probe and reports its result exactly once. Keeps its connection, unless its reply
    /// or the body takes much longer.
    async fn probe(self, probe: ProbeToSend, reports: Reports) {
        let inner = Arc::clone(&self.inner);
        let span = probe.deadline.saturating_since(probe.sent_at);
        let began = Instant::now();
        let mut reply = pin!(inner.reply(&probe));
        let in_time = timeout(span, &mut reply).await.ok();
        inner.report(&probe, began, in_time.as_ref(), &reports);
        drop(self);
        let reply = match in_time {
            Some(reply) => reply.ok(),
            None => inner.late(probe.addr, reply).await,
        };
        if let Some(Reply {
            connection, body, ..
        }) = reply
            && (body.is_end_stream() || inner.ends_soon(body).await)
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
    /// Reports the result of a probe; `None` if its deadline has passed.
    fn report(
        &self,
        probe: &ProbeToSend,
        began: Instant,
        reply: Option<&Result<Reply, Loss>>,
        reports: &Reports,
    ) {
        let report = match reply {
            Some(Ok(reply)) => reply.report.as_ref().map_err(|&loss| Some(loss)),
            Some(Err(loss)) => Err(Some(*loss)),
            None => Err(None),
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
        match report {
            Ok(report) => {
                self.lock_round_trips().add(began.elapsed());
                reports.report(probe.token, report);
            }
            Err(_) => reports.lost(probe.token),
        }
    }

    /// Waits for a reply after its probe, because a connection that takes longer than a probe is
    /// for the next one. `None` if it takes much longer, or others are waited for.
    async fn late(
        self: &Arc<Self>,
        addr: SocketAddr,
        reply: impl Future<Output = Result<Reply, Loss>>,
    ) -> Option<Reply> {
        let _place = Place::take(self, |inner| &inner.late)?;
        let _one_of_few = self.connections.may_be_late(addr)?;
        timeout(LATE_TIME_MAX, reply).await.ok()?.ok()
    }

    /// Reads a body to its end. `false` on an error, if it is too long, or if it takes too long.
    async fn ends_soon(self: &Arc<Self>, body: Incoming) -> bool {
        let place = Place::take(self, |inner| &inner.reading);
        place.is_some() && timeout(BODY_TIME_MAX, is_short(body)).await == Ok(true)
    }

    async fn reply(&self, probe: &ProbeToSend) -> Result<Reply, Loss> {
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
        &self,
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

    async fn open(&self, addr: SocketAddr) -> Result<Connection, Loss> {
        let opened = Connection::open(&*self.connector, addr).await;
        self.connections.note(addr, opened.is_ok());
        opened.map_err(|_| Loss::Connect)
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
async fn is_short(mut body: Incoming) -> bool {
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
