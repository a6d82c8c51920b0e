//! Idle connections to the addresses where replicas answer probes, and back-off for those that
//! cannot be reached.

use super::super::Refused;
use super::connect::Connect;
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The most replies from one address that are waited for at once after their probes: one connection
/// is enough for the next probe.
const LATE_MAX: usize = 1;
/// The pause after a first failure to connect; each further failure doubles it.
const BACK_OFF_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// An address without a probe for this long is dropped, with its connections.
const UNUSED_MAX: Duration = Duration::from_mins(1);
/// The most addresses known at once. A probe to one more is refused.
const PLACES_MAX: usize = 1 << 16;
/// A reply with more headers than this is not a report.
const HEADERS_MAX: usize = 64;
/// The longest head of a reply, in bytes: the minimum that hyper allows.
const HEAD_BYTES_MAX: usize = 8192;

/// One connection. Dropping it ends its task, whatever state the exchange is in.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    task: JoinHandle<()>,
}

impl Connection {
    pub(super) async fn open(connector: &dyn Connect, addr: SocketAddr) -> io::Result<Self> {
        let stream = connector.connect(addr).await?;
        let (sender, connection) = Builder::new()
            .max_headers(HEADERS_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let task = tokio::spawn(async move {
            // The request that waits for a reply on this connection gets the error.
            let _ = connection.await;
        });
        Ok(Self { sender, task })
    }

    /// Waits until it can take another request; `false` if it is closed.
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

/// An address where one replica, or several, answer probes.
#[derive(Debug)]
struct Place {
    host: Option<HeaderValue>,
    idle: Vec<Connection>,
    late: Arc<Semaphore>,
    failures: u32,
    retry_at: Option<Instant>,
    used_at: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// A probe that was under way may bring an address back after it was forgotten, so unused ones
    /// are dropped, too.
    places: HashMap<SocketAddr, Place>,
    /// When to look for unused addresses.
    sweep_at: Option<Instant>,
    closed: bool,
}

impl State {
    /// Drops the unused addresses, if it is time to look.
    fn sweep(&mut self, now: Instant) {
        if self.sweep_at.is_some_and(|at| at > now) {
            return;
        }
        self.sweep_at = Some(now + UNUSED_MAX);
        self.places
            .retain(|_, place| now.duration_since(place.used_at) < UNUSED_MAX);
    }
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

    /// Checks that this is not within the pause after a failure. Adds the address if there is room.
    pub(super) fn may_try(&self, addr: SocketAddr) -> Result<(), Refused> {
        let now = Instant::now();
        let mut state = self.lock();
        state.sweep(now);
        if state.places.len() >= PLACES_MAX && !state.places.contains_key(&addr) {
            return Err(Refused::Full);
        }
        let place = state.places.entry(addr).or_insert_with(|| Place {
            host: HeaderValue::try_from(addr.to_string()).ok(),
            idle: Vec::new(),
            late: Arc::new(Semaphore::new(LATE_MAX)),
            failures: 0,
            retry_at: None,
            used_at: now,
        });
        place.used_at = now;
        if place.retry_at.is_some_and(|at| at > now) {
            return Err(Refused::BackOff);
        }
        Ok(())
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

    /// A permit to wait for a reply after its probe, unless others are waited for already.
    pub(super) fn may_be_late(&self, addr: SocketAddr) -> Option<OwnedSemaphorePermit> {
        let late = Arc::clone(&self.lock().places.get(&addr)?.late);
        late.try_acquire_owned().ok()
    }

    /// Notes whether a connection could be opened.
    pub(super) fn note(&self, addr: SocketAddr, is_open: bool) {
        let now = Instant::now();
        let mut state = self.lock();
        let Some(place) = state.places.get_mut(&addr) else {
            return;
        };
        if is_open {
            place.failures = 0;
            place.retry_at = None;
        } else if place.retry_at.is_none_or(|at| at <= now) {
            // Several that fail together are one failure.
            let pause = BACK_OFF_MIN.saturating_mul(1 << place.failures.min(10));
            place.failures = place.failures.saturating_add(1);
            place.retry_at = Some(now + pause.min(BACK_OFF_MAX));
        }
    }

    pub(super) fn forget(&self, addr: SocketAddr) {
        let mut state = self.lock();
        state.places.remove(&addr);
        state.sweep(Instant::now());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[tokio::test(start_paused = true)]
    async fn address_readded_by_a_late_probe_is_removed_when_unused() {
        let connections = Connections::new(4);
        let known = |port| connections.lock().places.contains_key(&addr(port));
        let _ = connections.may_try(addr(1));
        connections.forget(addr(1));
        let _ = connections.may_try(addr(1));
        assert!(known(1), "the race that is meant");
        for _ in 0..4 {
            tokio::time::advance(Duration::from_secs(30)).await;
            let _ = connections.may_try(addr(2));
        }
        assert!(!known(1));
        assert!(known(2), "in use all the time");
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_addresses_is_bounded_and_unused_ones_are_removed() {
        let connections = Connections::new(4);
        let many = (0..=u16::MAX).map(|low| SocketAddr::from(([127, 0, 0, 1], low)));
        for addr in many {
            let _ = connections.may_try(addr);
        }
        let one_more = SocketAddr::from(([127, 0, 0, 2], 1));
        let _ = connections.may_try(one_more);
        assert_eq!(connections.lock().places.len(), PLACES_MAX);
        let _ = connections.may_try(addr(1));
        tokio::time::advance(UNUSED_MAX).await;
        let _ = connections.may_try(one_more);
        assert_eq!(connections.lock().places.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_fail_together_are_one_failure() {
        let connections = Connections::new(1);
        let addr = addr(1);
        connections.note(addr, false);
        connections.may_try(addr).expect("it was not known");
        connections.note(addr, false);
        connections.note(addr, false);
        assert_eq!(connections.may_try(addr), Err(Refused::BackOff));
        tokio::time::advance(BACK_OFF_MIN).await;
        connections.may_try(addr).expect("the first pause is over");
        connections.note(addr, false);
        connections.note(addr, true);
        connections.may_try(addr).expect("it can be reached");
    }

    #[tokio::test(start_paused = true)]
    async fn pause_doubles_up_to_five_seconds_until_a_connection_opens() {
        let connections = Connections::new(1);
        let addr = addr(1);
        for _ in 0..2 {
            for pause_ms in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
                connections.may_try(addr).expect("the pause is over");
                connections.note(addr, false);
                tokio::time::advance(Duration::from_millis(pause_ms - 1)).await;
                assert_eq!(
                    connections.may_try(addr),
                    Err(Refused::BackOff),
                    "{pause_ms}"
                );
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            connections.note(addr, true);
        }
    }

    #[test]
    fn few_late_replies_are_waited_for() {
        let connections = Connections::new(1);
        let addr = addr(1);
        assert!(connections.may_be_late(addr).is_none(), "it is not known");
        connections.may_try(addr).expect("there is room");
        let waiting: Vec<_> = (0..=LATE_MAX)
            .map(|_| connections.may_be_late(addr))
            .collect();
        assert_eq!(waiting.iter().flatten().count(), LATE_MAX);
        drop(waiting);
        assert!(connections.may_be_late(addr).is_some());
    }
}
