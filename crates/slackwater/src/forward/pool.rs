//! Idle HTTP/1.1 connections to one replica, kept for the next request.
//!
//! Last in, first out: the busiest connections stay warm and the others grow old and go. One worker's pool is not
//! another's, so taking and giving back is a push and a pop. A connection comes back only when both sides of the exchange
//! are complete; whatever is unclear is closed instead.

use super::connect::{Target, connect};
use super::deadline::Deadlines;
use super::exchange::ReplicaOptions;
use super::replica_http1::Connection;
use core::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// The idle connections to one replica, oldest first.
#[derive(Debug)]
pub(super) struct Pool {
    idle: RefCell<Vec<Idle>>,
    idle_max: Cell<usize>,
    idle_ticks: u64,
    deadlines: Rc<Deadlines>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: u64,
}

impl Pool {
    pub(super) fn new(options: &ReplicaOptions, deadlines: &Rc<Deadlines>) -> Self {
        Self {
            idle: RefCell::new(Vec::new()),
            idle_max: Cell::new(options.idle_connections_max),
            idle_ticks: deadlines.ticks(options.idle),
            deadlines: Rc::clone(deadlines),
        }
    }

    /// The connection that was used last, if one is fit to be used again.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle { mut connection, .. }) = idle.pop() {
            if connection.is_usable() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection that has carried a whole exchange; closes it if enough are kept.
    pub(super) fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < self.idle_max.get() {
            let since = self.deadlines.now();
            idle.push(Idle { connection, since });
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
        self.idle.borrow_mut().retain_mut(|idle| {
            idle.connection.is_usable() && now.saturating_sub(idle.since) <= self.idle_ticks
        });
    }

    /// A new connection.
    pub(super) async fn open(
        &self,
        target: &Target,
        options: &ReplicaOptions,
    ) -> io::Result<Connection> {
        connect(target, options.connect).await.map(Connection::new)
    }
}
