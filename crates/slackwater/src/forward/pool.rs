//! Idle HTTP/1.1 connections to one replica, kept for the next request.
//!
//! Last in, first out: the busiest connections stay warm and the others grow old and go. One worker's pool is not
//! another's, so taking and giving back is a push and a pop. A connection comes back only when both sides of the exchange
//! are complete; whatever is unclear is closed instead.

use super::body::RequestBody;
use super::connect::{Target, connect};
use super::deadline::Deadlines;
use super::exchange::ReplicaOptions;
use super::stream::Stream;
use core::cell::{Cell, RefCell};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use std::io;
use std::rc::Rc;

pub(super) type Sender = SendRequest<RequestBody>;

/// hyper's own default; asking for it anew costs time in each parse.
const HEAD_FIELDS_DEFAULT: usize = 100;

/// The idle connections to one replica, oldest first.
#[derive(Debug)]
pub(super) struct Pool {
    idle: RefCell<Vec<Idle>>,
    idle_max: Cell<usize>,
    idle_ticks: u64,
    deadlines: Rc<Deadlines>,
    builder: Builder,
}

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: u64,
}

impl Pool {
    pub(super) fn new(options: &ReplicaOptions, deadlines: &Rc<Deadlines>) -> Self {
        let mut builder = Builder::new();
        builder.max_header_size(options.head_bytes_max);
        if options.head_fields_max != HEAD_FIELDS_DEFAULT {
            builder.max_headers(options.head_fields_max);
        }
        Self {
            idle: RefCell::new(Vec::new()),
            idle_max: Cell::new(options.idle_connections_max),
            idle_ticks: deadlines.ticks(options.idle),
            deadlines: Rc::clone(deadlines),
            builder,
        }
    }

    /// The connection that was used last, if one is fit to be used again.
    pub(super) fn take(&self) -> Option<Sender> {
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { sender, .. }) = idle.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// Keeps a connection that has carried a whole exchange; closes it if it is not quite done, or if enough are kept.
    pub(super) fn give_back(&self, sender: Sender) {
        let mut idle = self.idle.borrow_mut();
        if sender.is_ready() && idle.len() < self.idle_max.get() {
            let since = self.deadlines.now();
            idle.push(Idle { sender, since });
        }
    }

    /// Closes what is idle, and keeps nothing from now on.
    pub(super) fn retire(&self) {
        self.idle_max.set(0);
        self.idle.borrow_mut().clear();
    }

    /// Closes what has been idle for too long, or has been closed by the replica.
    pub(super) fn sweep(&self) {
        let now = self.deadlines.now();
        self.idle.borrow_mut().retain(|idle| {
            idle.sender.is_ready() && now.saturating_sub(idle.since) <= self.idle_ticks
        });
    }

    /// A new connection.
    pub(super) async fn open(
        &self,
        target: &Target,
        options: &ReplicaOptions,
    ) -> io::Result<Sender> {
        let stream = connect(target, options.connect).await?;
        let handshake = self.builder.handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        tokio::task::spawn_local(run(connection));
        Ok(sender)
    }
}

/// Carries a connection to its end. Whoever waits for a response on it hears of an error; nobody else needs to.
async fn run(connection: Connection<TokioIo<Stream>, RequestBody>) {
    if let Err(error) = connection.await {
        tracing::trace!(%error, "a connection to a replica ended");
    }
}
