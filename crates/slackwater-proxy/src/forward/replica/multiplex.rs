//! HTTP/2 connections to one replica, each of which carries many requests concurrently.
//!
//! One connection is enough until it carries as many streams as the replica or the configuration
//! allows. Then another is opened, up to [`CONNECTIONS_MAX`]. Requests that find no connection wait
//! for the same connect, and share its failure, so that a dead replica costs each of them one
//! connect timeout and not a queue of timeouts.
//!
//! All requests on a connection share its send window, and bodies that the replica does not read
//! use it up. A long body therefore gets a connection of whose window they use less than half, if
//! necessary a new one, and short bodies prefer such a connection. When no more connections are
//! allowed, bodies share the existing ones, but none is sent on a connection that has been short of
//! window for [`SHORT_MAX`]. If all streams are in use, a request waits for one, for at most the
//! connect timeout.

use super::connect::{Target, connect};
use super::liveness::{Liveness, LivenessAction};
use super::options::{CONNECTIONS_MAX, ReplicaOptions};
use crate::forward::counts::{ReplicaEnd, ReplicaEnds};
use crate::forward::time::Deadlines;
use crate::forward::wire::buffers;
use crate::forward::wire::{
    Notes, SharedConnection, StreamReader, StreamWriter, WINDOW_FIRST_BYTES, WINDOW_MAX_BYTES,
    Wire, owners,
};
use bytes::Bytes;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use http::{Method, Uri};
use http_body::Body;
use slackwater_http::Fields;
use slackwater_http::http2::{Config, Connection, Ended, Lost, Role};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

/// Maximum number of requests that wait for a stream to one replica.
const WAITING_MAX: usize = 256;

/// A connection that has been short of window for this long takes no bodies at all. A replica that
/// reads returns window within a round trip; one with a longer round trip gets more connections.
const SHORT_MAX: Duration = Duration::from_millis(10);

/// A body up to this size may pass unread ones, as long as the reserved part of the window lasts.
/// It is the size that even a connection with the smallest window reserves for one such body.
const SHORT_BYTES_MAX: u64 = 1 << 10;

/// While requests are in flight, a connection that is silent for this long gets a PING, and is
/// closed if it does not answer in time. Without it, the loss of a replica's machine would go
/// unnoticed. After two PINGs without a response, the next ones follow after the longer silence,
/// and meanwhile TCP keepalive notices the loss.
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const ALIVE_LONG_INTERVAL: Duration = Duration::from_secs(330);
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections to one replica.
#[derive(Debug)]
pub(crate) struct Multiplex {
    open: RefCell<Vec<Rc<Link>>>,
    /// Held while a connection is opened.
    opening: Mutex<()>,
    /// Number of failed connects so far, and the last failure.
    failures: Cell<u64>,
    last_failure: Cell<(io::ErrorKind, Option<i32>)>,
    freed: Rc<Freed>,
    connections_max: usize,
    streams_max: usize,
    idle_ticks: u64,
    deadlines: Rc<Deadlines>,
    config: Config,
}

/// Wakes requests that wait for a stream. Requests with a body wait separately, because there may
/// be a stream for others and none for them.
#[derive(Debug, Default)]
struct Freed {
    waiting: Cell<usize>,
    any: Notify,
    with_body: Notify,
    /// Whether the next stream is for a request with a body. The two kinds take turns.
    is_for_body: Cell<bool>,
}

impl Freed {
    /// Wakes one of each kind. The first that runs takes the stream, if that takes bodies; the
    /// other waits again, behind its kind.
    fn call_one(&self) {
        if self.waiting.get() == 0 {
            return;
        }
        let mut kinds = [&self.any, &self.with_body];
        if self.is_for_body.replace(!self.is_for_body.get()) {
            kinds.reverse();
        }
        for kind in kinds {
            kind.notify_one();
        }
    }

    /// Wakes all, when there may be streams for several.
    fn call_all(&self) {
        self.any.notify_waiters();
        self.with_body.notify_waiters();
    }
}

/// Why a request gets no stream.
#[derive(Debug)]
pub(crate) enum NoStream {
    /// No connection could be opened.
    Unreachable(io::Error),
    /// All allowed connections were full until the end of the wait.
    Full,
}

/// A connection as its requests share it. It ends when all of them have dropped it.
#[derive(Debug)]
struct Link {
    connection: SharedConnection,
    load: Rc<Load>,
}

#[derive(Debug)]
struct Load {
    streams: Cell<usize>,
    /// Number of streams that the replica allows now.
    streams_max: Cell<usize>,
    idle_since: Cell<u64>,
    /// When data last arrived from the replica, in ticks.
    received_at: Cell<u64>,
    /// When a response head last arrived, in ticks.
    answered_at: Cell<u64>,
    /// When it became short of window.
    short_since: Cell<Option<Instant>>,
    /// Whether it takes no more requests.
    is_given_up: Cell<bool>,
    /// Why it ends, if the proxy decides that.
    end: Cell<ReplicaEnd>,
    ends: Arc<ReplicaEnds>,
    deadlines: Rc<Deadlines>,
    freed: Rc<Freed>,
}

impl Load {
    /// Records whether the connection is short of window.
    fn note_window(&self, is_short: bool) {
        let since = self.short_since.get();
        if is_short != since.is_some() {
            self.short_since.set(is_short.then(Instant::now));
            if since.is_some() {
                self.freed.call_all();
            }
        }
    }

    /// Whether new bodies would have to wait for others that the replica does not read.
    fn takes_no_bodies(&self) -> bool {
        let short_for = self.short_since.get().map(|since| since.elapsed());
        short_for.is_some_and(|short_for| short_for >= SHORT_MAX)
    }
}

/// Length class of a request body, which determines the connections it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    None,
    /// Short enough to pass unread bodies.
    Short,
    /// Longer, or unknown.
    Any,
}

impl Length {
    /// Classifies a body by what is known of its length.
    pub(crate) fn of(body: &impl Body) -> Self {
        match body.size_hint().upper() {
            Some(0) => Self::None,
            Some(length) if length <= SHORT_BYTES_MAX => Self::Short,
            _ => Self::Any,
        }
    }
}

/// The right to one stream on a connection, until dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit(Rc<Link>);

impl StreamPermit {
    fn take(link: &Rc<Link>) -> Self {
        let load = &link.load;
        load.streams.set(load.streams.get() + 1);
        Self(Rc::clone(link))
    }

    /// Records that a response head has arrived.
    pub(crate) fn answered(&self) {
        let load = &self.0.load;
        load.answered_at.set(load.deadlines.now());
    }

    /// Records that a request sent at `sent_at`, in ticks, was not answered in time. If no other
    /// request was answered since, the connection may be dead and gets no more requests. Its
    /// current requests stay until they end.
    pub(crate) fn unanswered(&self, sent_at: u64) {
        let load = &self.0.load;
        if load.answered_at.get() <= sent_at {
            load.is_given_up.set(true);
            load.end.set(ReplicaEnd::Late);
        }
    }

    /// Checks whether a request can be started: the connection is open, and the replica accepts
    /// more requests on it.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.0
            .check()
            .inspect_err(|_| self.0.load.is_given_up.set(true))?;
        let has_room = self.0.connection.borrow().has_room();
        has_room.then_some(()).ok_or(Lost::TurnedAway)
    }

    /// Starts a request. [`check`](Self::check) must have succeeded.
    pub(crate) fn begin(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &Fields,
        is_end: bool,
    ) -> (StreamReader, StreamWriter) {
        let connection = &self.0.connection;
        let key = (connection.borrow_mut()).begin(method, uri, headers, is_end);
        owners(connection, key)
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let load = &self.0.load;
        load.streams.set(load.streams.get() - 1);
        load.idle_since.set(load.deadlines.now());
        load.freed.call_one();
    }
}

impl Link {
    fn check(&self) -> Result<(), Lost> {
        self.connection.borrow().check()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.connection.borrow_mut().leave_now();
    }
}

impl Multiplex {
    /// `is_secure` is whether connections use TLS.
    pub(crate) fn new(
        options: &ReplicaOptions,
        is_secure: bool,
        deadlines: &Rc<Deadlines>,
    ) -> Self {
        let streams_max = u32::try_from(options.streams_max).unwrap_or(u32::MAX);
        let config = Config {
            role: Role::Client,
            // No pushes are allowed.
            streams_max: 0,
            stream_window: WINDOW_FIRST_BYTES,
            // It covers all streams, so that slow clients cannot use up what all streams share.
            connection_window: WINDOW_MAX_BYTES.saturating_mul(streams_max),
            is_secure,
            head: options.head_limits,
            stock: buffers::STOCK,
        };
        Self {
            open: RefCell::new(Vec::new()),
            opening: Mutex::new(()),
            failures: Cell::new(0),
            last_failure: Cell::new((io::ErrorKind::Other, None)),
            freed: Rc::default(),
            connections_max: options.connections_max.clamp(1, CONNECTIONS_MAX),
            streams_max: options.streams_max,
            idle_ticks: deadlines.ticks(options.idle),
            deadlines: Rc::clone(deadlines),
            config,
        }
    }

    /// Returns a stream for a request with such a body: on an existing connection, on a new one, or
    /// the first that becomes free within `stream_wait`. It waits for connects that others have
    /// begun for `wait`; its own has its own timeout.
    pub(crate) async fn find_or_open(
        &self,
        target: &Target,
        options: &ReplicaOptions,
        body: Length,
        (wait, stream_wait): (Duration, Duration),
    ) -> Result<StreamPermit, NoStream> {
        let waits_until = Instant::now() + wait;
        let stream_until = Instant::now() + stream_wait;
        loop {
            let failures_before = self.failures.get();
            {
                // Long bodies wait for each other's connects; one that has waited for too long
                // shares a connection.
                let opening = tokio::time::timeout_at(waits_until, self.opening.lock());
                let Ok(_opening) = opening.await else {
                    return self.find_shared(body).ok_or(NoStream::Full);
                };
                self.drop_given_up();
                if let Some(found) = self.find(body) {
                    return Ok(found);
                }
                if self.failures.get() > failures_before {
                    return Err(NoStream::Unreachable(self.last_failure()));
                }
                if self.open.borrow().len() < self.connections_max {
                    let opened = self.open(target, options).await;
                    let link = opened.map_err(|error| {
                        self.failures.set(self.failures.get() + 1);
                        self.last_failure.set((error.kind(), error.raw_os_error()));
                        NoStream::Unreachable(error)
                    })?;
                    let permit = StreamPermit::take(&link);
                    self.open.borrow_mut().push(link);
                    self.freed.call_all();
                    return Ok(permit);
                }
            }
            self.wait(body, stream_until).await?;
        }
    }

    fn last_failure(&self) -> io::Error {
        let (kind, errno) = self.last_failure.get();
        errno.map_or_else(|| kind.into(), io::Error::from_raw_os_error)
    }

    /// Waits until a stream may be free.
    async fn wait(&self, body: Length, until: Instant) -> Result<(), NoStream> {
        if self.freed.waiting.get() >= WAITING_MAX {
            return Err(NoStream::Full);
        }
        let _waiting = Waiting::begin(&self.freed.waiting);
        let freed = match body {
            Length::None => &self.freed.any,
            Length::Short | Length::Any => &self.freed.with_body,
        };
        let called = tokio::time::timeout_at(until, freed.notified()).await;
        called.map_err(|_| NoStream::Full)
    }

    /// Returns a stream on the least loaded connection that is not full and takes such a body;
    /// `None` if the body should get a new connection.
    pub(crate) fn find(&self, body: Length) -> Option<StreamPermit> {
        let permit = self.find_shared(body)?;
        let may_be_another = self.open.borrow().len() < self.connections_max;
        let has_unread = || permit.0.connection.borrow().has_unread();
        let is_to_be_another = body == Length::Any && may_be_another && has_unread();
        (!is_to_be_another).then_some(permit)
    }

    /// Returns a stream on the least loaded connection that is not full and takes such a body,
    /// preferring connections of whose window unread bodies use less than half.
    fn find_shared(&self, body: Length) -> Option<StreamPermit> {
        self.keep(|link| !link.load.is_given_up.get());
        let open = self.open.borrow();
        let has_room = |link: &&Rc<Link>| {
            let load = &link.load;
            let streams_max = load.streams_max.get().min(self.streams_max);
            load.streams.get() < streams_max
        };
        let streams = |link: &&Rc<Link>| link.load.streams.get();
        if body == Length::None {
            let link = open.iter().filter(has_room).min_by_key(streams);
            return link.map(StreamPermit::take);
        }
        let takes_bodies = |link: &&Rc<Link>| has_room(link) && !link.load.takes_no_bodies();
        let has_unread = |link: &&Rc<Link>| link.connection.borrow().has_unread();
        let link = open.iter().filter(takes_bodies);
        link.min_by_key(|link| (has_unread(link), streams(link)))
            .map(StreamPermit::take)
    }

    /// Forgets the connections that `is_kept` does not name.
    fn keep(&self, is_kept: impl Fn(&Link) -> bool) {
        let mut open = self.open.borrow_mut();
        let before = open.len();
        open.retain(|link| is_kept(link));
        if open.len() < before {
            // New connections may be opened in their place.
            self.freed.call_all();
        }
    }

    /// Forgets the connections that take no more requests.
    fn drop_given_up(&self) {
        self.keep(|link| link.check().is_ok() && !link.load.is_given_up.get());
    }

    /// Closes connections that have been idle for too long.
    pub(crate) fn sweep(&self) {
        let now = self.deadlines.now();
        self.drop_given_up();
        self.keep(|link| {
            let load = &link.load;
            let idle = now.saturating_sub(load.idle_since.get());
            let is_idle = load.streams.get() == 0 && idle > self.idle_ticks;
            if is_idle {
                load.end.set(ReplicaEnd::Idle);
            }
            !is_idle
        });
    }

    async fn open(&self, target: &Target, options: &ReplicaOptions) -> io::Result<Rc<Link>> {
        let stream = connect(target, None, options.connect).await?;
        stream.detect_loss();
        let now = self.deadlines.now();
        let load = Rc::new(Load {
            streams: Cell::new(0),
            streams_max: Cell::new(usize::MAX),
            idle_since: Cell::new(now),
            received_at: Cell::new(now),
            answered_at: Cell::new(now),
            short_since: Cell::new(None),
            is_given_up: Cell::new(false),
            end: Cell::new(ReplicaEnd::Retired),
            ends: Arc::clone(&options.ends),
            deadlines: Rc::clone(&self.deadlines),
            freed: Rc::clone(&self.freed),
        });
        let connection = Rc::new(RefCell::new(Connection::new(self.config)));
        load.streams_max.set(connection.borrow().streams_max());
        let wire = Wire::new(stream, Bytes::new(), Rc::clone(&load), &connection);
        tokio::task::spawn_local(run(wire, Rc::clone(&connection), Rc::clone(&load)));
        Ok(Rc::new(Link { connection, load }))
    }
}

/// A request that waits for a stream, until dropped.
struct Waiting<'m>(&'m Cell<usize>);

impl<'m> Waiting<'m> {
    fn begin(waiting: &'m Cell<usize>) -> Self {
        waiting.set(waiting.get() + 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Drives a connection to its end, tracks how many streams the replica allows, and checks that it
/// is alive. The requests that wait for responses receive its errors.
async fn run(mut wire: Wire<Rc<Load>>, connection: SharedConnection, load: Rc<Load>) {
    let deadlines = &load.deadlines;
    let mut liveness = Liveness::new(
        deadlines.ticks(ALIVE_INTERVAL),
        deadlines.ticks(ALIVE_LONG_INTERVAL),
        deadlines.ticks(ALIVE_TIMEOUT),
    );
    let deadline = deadlines.add();
    deadline.arm(liveness.interval());
    poll_fn(|cx| {
        let polled = wire.poll(cx, |_| ());
        let streams_max = connection.borrow().streams_max();
        // The replica allows more streams than before, so waiting requests may get one.
        if load.streams_max.replace(streams_max) < streams_max {
            load.freed.call_all();
        }
        load.note_window(connection.borrow().is_short_of_window());
        if polled.is_ready() {
            return polled;
        }
        while deadline.poll_passed(cx).is_ready() {
            // A replica that reads nothing would otherwise keep the connection open for ever.
            let is_busy = load.streams.get() > 0 || connection.borrow().is_over();
            let last = (load.received_at.get(), load.answered_at.get());
            let next = liveness.look(deadlines.now(), last, is_busy);
            deadline.arm(match next {
                LivenessAction::Wait(ticks) => ticks,
                LivenessAction::Ask(ticks) => {
                    connection.borrow_mut().ask_whether_alive();
                    ticks
                }
                LivenessAction::Dead => {
                    let silent = Ended::Failed(io::ErrorKind::TimedOut);
                    connection.borrow_mut().end(silent);
                    return Poll::Ready(());
                }
            });
        }
        Poll::Pending
    })
    .await;
    // Another connection may be opened in place of this one, for a request that waits.
    load.is_given_up.set(true);
    load.freed.call_one();
    let is_busy = load.streams.get() > 0;
    load.ends.add_one(match connection.borrow().ended() {
        Some(Ended::Failed(io::ErrorKind::TimedOut)) => ReplicaEnd::Late,
        Some(Ended::Closed | Ended::GoneAway(_)) if !is_busy => ReplicaEnd::Closed,
        Some(_) => ReplicaEnd::Failed,
        None => load.end.get(),
    });
    if let Some(ended) = connection.borrow().ended() {
        tracing::trace!(%ended, "replica connection ended");
    }
}

impl Notes for Rc<Load> {
    fn received(&self) {
        self.received_at.set(self.deadlines.now());
    }
}

#[cfg(test)]
mod tests;
