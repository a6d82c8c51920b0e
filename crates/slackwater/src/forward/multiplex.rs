//! HTTP/2 connections to one replica, each of which carries many requests at once.
//!
//! One connection is enough until it carries as many streams as the replica, or the configuration, allows; then another
//! one is opened, up to [`CONNECTIONS_MAX`]. Requests that find no connection wait for one and the same attempt to
//! open it, and share its failure, so that a dead replica costs each of them one connect timeout and not a queue of them.

use super::buffers;
use super::connect::{Target, connect};
use super::connection_ends::{ReplicaEnd, ReplicaEnds};
use super::deadline::Deadlines;
use super::exchange::ReplicaOptions;
use super::http2_body::{Reader, Writer, owners};
use super::http2_wire::{Notes, Shared, Wire};
use super::liveness::{Liveness, Next};
use crate::http2::{Config, Connection, Ended, HeadLimits, Lost, Role};
use bytes::Bytes;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use http::{HeaderMap, Method, Uri};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Connections to one replica at most, from one worker.
pub(super) const CONNECTIONS_MAX: usize = 8;

/// What a replica may send on one stream before it was read; bounds the memory that a slow client can bind.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// While requests are out, a connection that is silent for so long is asked whether it is alive, and is closed if it
/// doesn't say so in time: nothing else would find out that a replica's machine is gone.
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The connections to one replica.
#[derive(Debug)]
pub(super) struct Multiplex {
    open: RefCell<Vec<Rc<Link>>>,
    /// Held while a connection is opened.
    opening: Mutex<()>,
    /// How often no connection could be opened so far, and why not the last time.
    failures: Cell<u64>,
    last_failure: Cell<io::ErrorKind>,
    connections_max: usize,
    streams_max: usize,
    idle_ticks: u64,
    deadlines: Rc<Deadlines>,
    config: Config,
}

/// A connection as those see it who send requests on it. It ends when they all have let go of it.
#[derive(Debug)]
struct Link {
    connection: Shared,
    load: Rc<Load>,
}

#[derive(Debug)]
struct Load {
    streams: Cell<usize>,
    /// As many as the replica allows now.
    streams_max: Cell<usize>,
    idle_since: Cell<u64>,
    /// When anything came from the replica, in ticks.
    heard_at: Cell<u64>,
    /// When the head of a response did.
    answered_at: Cell<u64>,
    /// No more requests on it.
    is_given_up: Cell<bool>,
    /// Why it ends, where that is for us to say.
    end: Cell<ReplicaEnd>,
    ends: Arc<ReplicaEnds>,
    deadlines: Rc<Deadlines>,
}

/// A request's place on a connection, until dropped.
#[derive(Debug)]
pub(super) struct Place(Rc<Link>);

impl Place {
    fn take(link: &Rc<Link>) -> Self {
        let load = &link.load;
        load.streams.set(load.streams.get() + 1);
        Self(Rc::clone(link))
    }

    /// The head of a response has come.
    pub(super) fn answered(&self) {
        let load = &self.0.load;
        load.answered_at.set(load.deadlines.now());
    }

    /// A request that was sent at `sent_at`, in ticks, was not answered in time. If no other was since then, the connection
    /// may be dead, and no further request is sent on it. Those that are on it stay until they end.
    pub(super) fn unanswered(&self, sent_at: u64) {
        let load = &self.0.load;
        if load.answered_at.get() <= sent_at {
            load.is_given_up.set(true);
            load.end.set(ReplicaEnd::Late);
        }
    }

    /// Whether a request can be begun: the replica has not said that it takes no more, and the connection is there.
    pub(super) fn check(&self) -> Result<(), Lost> {
        self.0
            .check()
            .inspect_err(|_| self.0.load.is_given_up.set(true))
    }

    /// Begins a request, for which there was nothing against it.
    pub(super) fn begin(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        is_end: bool,
    ) -> (Reader, Writer) {
        let connection = &self.0.connection;
        let key = (connection.borrow_mut()).begin(method, uri, headers, is_end);
        owners(connection, key)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let load = &self.0.load;
        load.streams.set(load.streams.get() - 1);
        load.idle_since.set(load.deadlines.now());
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
    pub(super) fn new(options: &ReplicaOptions, deadlines: &Rc<Deadlines>) -> Self {
        let streams_max = u32::try_from(options.streams_max).unwrap_or(u32::MAX);
        let config = Config {
            role: Role::Client,
            // We let it push nothing.
            streams_max: 0,
            stream_window: STREAM_WINDOW_BYTES,
            // Slow clients must not be able to use up what all streams share.
            connection_window: STREAM_WINDOW_BYTES.saturating_mul(streams_max),
            head: HeadLimits {
                bytes_max: options.head_bytes_max,
                fields_max: options.head_fields_max,
            },
            lend_headers: buffers::lend_headers,
            take_headers_back: buffers::take_headers_back,
        };
        Self {
            open: RefCell::new(Vec::new()),
            opening: Mutex::new(()),
            failures: Cell::new(0),
            last_failure: Cell::new(io::ErrorKind::Other),
            connections_max: options.connections_max.clamp(1, CONNECTIONS_MAX),
            streams_max: options.streams_max,
            idle_ticks: deadlines.ticks(options.idle),
            deadlines: Rc::clone(deadlines),
            config,
        }
    }

    /// A place on a connection that is there, or on a new one.
    pub(super) async fn find_or_open(
        &self,
        target: &Target,
        options: &ReplicaOptions,
    ) -> io::Result<Place> {
        let failures_before = self.failures.get();
        let _opening = self.opening.lock().await;
        if let Some(found) = self.find() {
            return Ok(found);
        }
        if self.failures.get() > failures_before {
            return Err(self.last_failure.get().into());
        }
        let opened = self.open(target, options).await;
        let link = opened.inspect_err(|error| {
            self.failures.set(self.failures.get() + 1);
            self.last_failure.set(error.kind());
        })?;
        let place = Place::take(&link);
        self.open.borrow_mut().push(link);
        Ok(place)
    }

    /// A place on the least loaded connection, unless it is full and there may be another one.
    pub(super) fn find(&self) -> Option<Place> {
        let mut open = self.open.borrow_mut();
        open.retain(|link| !link.load.is_given_up.get());
        let link = open.iter().min_by_key(|link| link.load.streams.get())?;
        let streams_max = link.load.streams_max.get().min(self.streams_max);
        let is_full = link.load.streams.get() >= streams_max;
        (!is_full || open.len() >= self.connections_max).then(|| Place::take(link))
    }

    /// Closes what has been idle for too long.
    pub(super) fn sweep(&self) {
        let now = self.deadlines.now();
        self.open.borrow_mut().retain(|link| {
            let load = &link.load;
            let idle = now.saturating_sub(load.idle_since.get());
            let is_idle = load.streams.get() == 0 && idle > self.idle_ticks;
            if is_idle {
                load.end.set(ReplicaEnd::Idle);
            }
            link.check().is_ok() && !load.is_given_up.get() && !is_idle
        });
    }

    async fn open(&self, target: &Target, options: &ReplicaOptions) -> io::Result<Rc<Link>> {
        let stream = connect(target, None, options.connect).await?;
        let now = self.deadlines.now();
        let load = Rc::new(Load {
            streams: Cell::new(0),
            streams_max: Cell::new(usize::MAX),
            idle_since: Cell::new(now),
            heard_at: Cell::new(now),
            answered_at: Cell::new(now),
            is_given_up: Cell::new(false),
            end: Cell::new(ReplicaEnd::Retired),
            ends: Arc::clone(&options.ends),
            deadlines: Rc::clone(&self.deadlines),
        });
        let connection = Rc::new(RefCell::new(Connection::new(self.config)));
        load.streams_max.set(connection.borrow().streams_max());
        let wire = Wire::new(stream, Bytes::new(), Rc::clone(&load), &connection);
        tokio::task::spawn_local(run(wire, Rc::clone(&connection), Rc::clone(&load)));
        Ok(Rc::new(Link { connection, load }))
    }
}

/// Carries a connection to its end, notes how many streams the replica allows, and sees to it that it is alive. Whoever
/// waits for a response hears of an error; nobody else needs to.
async fn run(mut wire: Wire<Rc<Load>>, connection: Shared, load: Rc<Load>) {
    let deadlines = &load.deadlines;
    let mut liveness = Liveness::new(
        deadlines.ticks(ALIVE_INTERVAL),
        deadlines.ticks(ALIVE_TIMEOUT),
    );
    let deadline = deadlines.add();
    deadline.arm(liveness.interval());
    poll_fn(|cx| {
        let polled = wire.poll(cx, |_| ());
        load.streams_max.set(connection.borrow().streams_max());
        if polled.is_ready() {
            return polled;
        }
        while deadline.poll_passed(cx).is_ready() {
            let is_busy = load.streams.get() > 0;
            let next = liveness.look(deadlines.now(), load.heard_at.get(), is_busy);
            deadline.arm(match next {
                Next::Wait(ticks) => ticks,
                Next::Ask(ticks) => {
                    connection.borrow_mut().ask_whether_alive();
                    ticks
                }
                Next::Dead => {
                    let silent = Ended::Failed(io::ErrorKind::TimedOut);
                    connection.borrow_mut().end(silent);
                    return Poll::Ready(());
                }
            });
        }
        Poll::Pending
    })
    .await;
    load.is_given_up.set(true);
    let is_busy = load.streams.get() > 0;
    load.ends.add_one(match connection.borrow().ended() {
        Some(Ended::Failed(io::ErrorKind::TimedOut)) => ReplicaEnd::Late,
        Some(Ended::Closed | Ended::Told(_)) if !is_busy => ReplicaEnd::Closed,
        Some(_) => ReplicaEnd::Failed,
        None => load.end.get(),
    });
    if let Some(ended) = connection.borrow().ended() {
        tracing::trace!(%ended, "a connection to a replica ended");
    }
}

impl Notes for Rc<Load> {
    fn received(&self) {
        self.heard_at.set(self.deadlines.now());
    }
}

#[cfg(test)]
mod tests;
