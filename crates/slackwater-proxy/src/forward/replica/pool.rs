//! Idle HTTP/1.1 connections to one replica, kept for the next request.
//!
//! Last in, first out: the busiest connections stay warm, and the rest expire. Each worker has its
//! own pool, so taking and giving back is a pop and a push. A connection comes back only when both
//! sides of the exchange are complete; in any doubt it is closed. A connection whose PROXY header
//! names a client carries only that client's requests; when the client is gone, it expires.

use super::http1::Connection;
use super::options::ReplicaOptions;
use crate::forward::counts::ReplicaEnd;
use crate::forward::time::Deadlines;
use core::cell::{Cell, RefCell};
use slackwater_http::proxy_protocol::Ends;
use std::rc::Rc;
use std::sync::Arc;

/// The idle connections to one replica, oldest first.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: RefCell<Vec<Idle>>,
    idle_max: Cell<usize>,
    idle_ticks: u64,
    deadlines: Rc<Deadlines>,
}

#[derive(Debug)]
struct Idle {
    connection: Box<Connection>,
    since: u64,
}

impl Pool {
    pub(crate) fn new(options: &ReplicaOptions, deadlines: &Rc<Deadlines>) -> Self {
        Self {
            idle: RefCell::new(Vec::new()),
            idle_max: Cell::new(options.idle_connections_max),
            idle_ticks: deadlines.ticks(options.idle),
            deadlines: Rc::clone(deadlines),
        }
    }

    /// Takes the most recently used connection that is still usable. It must belong to `client` or,
    /// if `None`, to no client.
    pub(crate) fn take(&self, client: Option<&Arc<Ends>>) -> Option<Box<Connection>> {
        let mut idle = self.idle.borrow_mut();
        // If connections belong to no client, this matches the last one.
        let is_his = |idle: &Idle| idle.connection.client.as_ref() == client;
        while let Some(place) = idle.iter().rposition(is_his) {
            let Idle { mut connection, .. } = idle.remove(place);
            if connection.is_usable() {
                connection.end = ReplicaEnd::default();
                return Some(connection);
            }
            connection.close(ReplicaEnd::Closed);
        }
        None
    }

    /// Keeps a connection after a complete exchange, or closes it if enough are kept.
    pub(crate) fn give_back(&self, mut connection: Box<Connection>) {
        let mut idle = self.idle.borrow_mut();
        if connection.client.is_some() && idle.len() >= self.idle_max.get().max(1) {
            // Its client may be gone, and no other client can use it.
            idle.remove(0).connection.close(ReplicaEnd::Surplus);
        }
        connection.end = match self.idle_max.get() {
            0 => ReplicaEnd::Retired,
            _ => ReplicaEnd::Surplus,
        };
        if idle.len() < self.idle_max.get() {
            let since = self.deadlines.now();
            idle.push(Idle { connection, since });
        }
    }

    /// Closes idle connections, and keeps none from now on.
    pub(crate) fn retire(&self) {
        self.idle_max.set(0);
        for Idle { connection, .. } in self.idle.take() {
            connection.close(ReplicaEnd::Retired);
        }
    }

    /// Closes connections that have been idle for too long, or that the replica has closed.
    pub(crate) fn sweep(&self) {
        let now = self.deadlines.now();
        self.idle.borrow_mut().retain_mut(|idle| {
            let is_usable = idle.connection.is_usable();
            idle.connection.end = if is_usable {
                ReplicaEnd::Idle
            } else {
                ReplicaEnd::Closed
            };
            is_usable && now.saturating_sub(idle.since) <= self.idle_ticks
        });
    }
}
