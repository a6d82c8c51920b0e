//! HTTP/2 connections to one replica, each of which carries many requests at once.
//!
//! One connection is enough until it carries as many streams as the replica, or the configuration, allows; then another
//! one is opened, up to [`CONNECTIONS_MAX`]. Requests that find no connection wait for one and the same attempt to
//! open it, and share its failure, so that a dead replica costs each of them one connect timeout and not a queue of them.

use super::LocalExecutor;
use super::connect::{Target, connect};
use super::deadline::Deadlines;
use super::exchange::ReplicaOptions;
use super::request_body::RequestBody;
use super::stream::Stream;
use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::pin::pin;
use core::time::Duration;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::rc::Rc;
use tokio::sync::Mutex;

/// Connections to one replica at most, from one worker.
pub(super) const CONNECTIONS_MAX: usize = 8;

/// What a replica may send on one stream before it was read; bounds the memory that a slow client can bind.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// While requests are out, a connection that is silent for so long is asked whether it is alive, and is closed if it
/// doesn't say so in time: nothing else would find out that a replica's machine is gone.
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) type Sender = SendRequest<RequestBody>;

/// The connections to one replica.
#[derive(Debug)]
pub(super) struct Multiplex {
    open: RefCell<Vec<Shared>>,
    /// Held while a connection is opened.
    opening: Mutex<()>,
    /// How often no connection could be opened so far, and why not the last time.
    failures: Cell<u64>,
    last_failure: Cell<io::ErrorKind>,
    connections_max: usize,
    streams_max: usize,
    idle_ticks: u64,
    deadlines: Rc<Deadlines>,
    builder: Builder<LocalExecutor>,
}

#[derive(Debug)]
struct Shared {
    sender: Sender,
    load: Rc<Load>,
}

#[derive(Debug)]
struct Load {
    streams: Cell<usize>,
    /// As many as the replica allows now.
    streams_max: Cell<usize>,
    idle_since: Cell<u64>,
    /// No more requests on it.
    is_given_up: Cell<bool>,
    deadlines: Rc<Deadlines>,
}

/// A request's place on a connection, until dropped.
#[derive(Debug)]
pub(super) struct Place(Rc<Load>);

impl Place {
    fn take(load: &Rc<Load>) -> Self {
        load.streams.set(load.streams.get() + 1);
        Self(Rc::clone(load))
    }

    /// No further request is sent on this connection: it may be dead. Those that are on it stay until they end.
    pub(super) fn give_up_connection(&self) {
        self.0.is_given_up.set(true);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.streams.set(self.0.streams.get() - 1);
        self.0.idle_since.set(self.0.deadlines.now());
    }
}

impl Multiplex {
    pub(super) fn new(options: &ReplicaOptions, deadlines: &Rc<Deadlines>) -> Self {
        let streams_max = u32::try_from(options.streams_max).unwrap_or(u32::MAX);
        let mut builder = Builder::new(LocalExecutor);
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE_INTERVAL)
            .keep_alive_timeout(ALIVE_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            // Slow clients must not be able to use up what all streams share.
            .initial_connection_window_size(
                STREAM_WINDOW_BYTES
                    .saturating_mul(streams_max)
                    .min((1 << 31) - 1),
            )
            .max_header_list_size(u32::try_from(options.head_bytes_max).unwrap_or(u32::MAX));
        Self {
            open: RefCell::new(Vec::new()),
            opening: Mutex::new(()),
            failures: Cell::new(0),
            last_failure: Cell::new(io::ErrorKind::Other),
            connections_max: options.connections_max.clamp(1, CONNECTIONS_MAX),
            streams_max: options.streams_max,
            idle_ticks: deadlines.ticks(options.idle),
            deadlines: Rc::clone(deadlines),
            builder,
        }
    }

    /// A place on a connection that is there, or on a new one.
    pub(super) async fn find_or_open(
        &self,
        target: &Target,
        options: &ReplicaOptions,
    ) -> io::Result<(Sender, Place)> {
        let failures_before = self.failures.get();
        let _opening = self.opening.lock().await;
        if let Some(found) = self.find() {
            return Ok(found);
        }
        if self.failures.get() > failures_before {
            return Err(self.last_failure.get().into());
        }
        let opened = self.open(target, options).await;
        let shared = opened.inspect_err(|error| {
            self.failures.set(self.failures.get() + 1);
            self.last_failure.set(error.kind());
        })?;
        let taken = (shared.sender.clone(), Place::take(&shared.load));
        self.open.borrow_mut().push(shared);
        Ok(taken)
    }

    /// A place on the least loaded connection, unless it is full and there may be another one.
    pub(super) fn find(&self) -> Option<(Sender, Place)> {
        let mut open = self.open.borrow_mut();
        open.retain(|shared| !shared.sender.is_closed() && !shared.load.is_given_up.get());
        let shared = open.iter().min_by_key(|shared| shared.load.streams.get())?;
        let streams_max = shared.load.streams_max.get().min(self.streams_max);
        let is_full = shared.load.streams.get() >= streams_max;
        (!is_full || open.len() >= self.connections_max)
            .then(|| (shared.sender.clone(), Place::take(&shared.load)))
    }

    /// Closes what has been idle for too long.
    pub(super) fn sweep(&self) {
        let now = self.deadlines.now();
        self.open.borrow_mut().retain(|shared| {
            let idle = now.saturating_sub(shared.load.idle_since.get());
            !shared.sender.is_closed()
                && !shared.load.is_given_up.get()
                && (shared.load.streams.get() > 0 || idle <= self.idle_ticks)
        });
    }

    async fn open(&self, target: &Target, options: &ReplicaOptions) -> io::Result<Shared> {
        let stream = connect(target, None, options.connect).await?;
        let handshake = self.builder.handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        let load = Rc::new(Load {
            streams: Cell::new(0),
            streams_max: Cell::new(connection.current_max_send_streams()),
            idle_since: Cell::new(self.deadlines.now()),
            is_given_up: Cell::new(false),
            deadlines: Rc::clone(&self.deadlines),
        });
        tokio::task::spawn_local(run(connection, Rc::clone(&load)));
        Ok(Shared { sender, load })
    }
}

/// Carries a connection to its end, and notes how many streams the replica allows. Whoever waits for a response hears of
/// an error; nobody else needs to.
async fn run(connection: Connection<TokioIo<Stream>, RequestBody, LocalExecutor>, load: Rc<Load>) {
    let mut connection = pin!(connection);
    let ended = poll_fn(|cx| {
        let polled = connection.as_mut().poll(cx);
        load.streams_max.set(connection.current_max_send_streams());
        polled
    });
    if let Err(error) = ended.await {
        tracing::trace!(%error, "a connection to a replica ended");
    }
}

#[cfg(test)]
mod tests;
