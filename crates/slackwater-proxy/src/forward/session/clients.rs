//! All clients of one worker: the settings of their connections, their number, and the phase of the
//! worker.

use crate::forward::counts::{ClientEnd, ConnectionCounts};
use crate::forward::head::{Origin, client_cert};
use crate::forward::time::Deadlines;
use crate::forward::wire::{Memory, buffers};
use core::cell::Cell;
use core::time::Duration;
use http::HeaderValue;
use slackwater_config::{Limits, Timeouts};
use slackwater_http::http2::{Config, Role};
use slackwater_http::{Fields, HeadLimits};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// Receive windows of a stream and of a connection before a replica takes data. Several streams
/// that are not read leave room for others.
const STREAM_WINDOW_BYTES: u32 = 65_535;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;

/// Additional window of a connection after replicas have taken as much, and the larger window of
/// each of its streams that is read.
pub(crate) const CONNECTION_LOAN_BYTES: u32 = 1 << 20;
pub(crate) const STREAM_WINDOW_LARGE_BYTES: u32 = 256 << 10;

/// Settings of clients' connections.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Longest time that a connection is idle.
    pub idle: Duration,
    /// Time from the start of a connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// Time from the first byte of a request head to its last.
    pub head: Duration,
    /// Longest time without progress in either direction while a response waits for its client.
    pub stall: Duration,
    /// Maximum number of concurrent requests on an HTTP/2 connection.
    pub streams_max: u32,
    /// Maximum size of a request head.
    pub head_limits: HeadLimits,
    /// Whether some listener forwards client certificates to replicas. Fields about certificates
    /// are then removed from all requests.
    pub forwards_certificates: bool,
    /// Protocols to which an HTTP/1.1 connection may switch, by their names in `Upgrade`. Others
    /// are ignored.
    pub upgrades: Box<[HeaderValue]>,
    /// Counters of the connections.
    pub counts: Arc<ConnectionCounts>,
}

impl ClientSettings {
    /// Makes the settings from the configuration.
    pub fn new(timeouts: &Timeouts, limits: &Limits, upgrades: &[HeaderValue]) -> Self {
        Self {
            idle: timeouts.idle,
            handshake: timeouts.handshake,
            head: timeouts.head,
            stall: timeouts.stall,
            streams_max: limits.streams_max,
            head_limits: HeadLimits {
                bytes_max: limits.head_bytes_max as usize,
                fields_max: limits.head_fields_max as usize,
            },
            forwards_certificates: false,
            upgrades: upgrades.into(),
            counts: Arc::default(),
        }
    }
}

/// Phase of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It accepts requests.
    Serving,
    /// It accepts no connections, and each open one ends with its next response. Idle connections
    /// are kept, because a request may be on its way to them.
    Leaving,
    /// It finishes its requests and closes idle connections.
    Draining,
    /// It cuts off everything that is left.
    Stopped,
}

/// All clients of one worker.
#[derive(Debug)]
pub struct Clients {
    pub(crate) http2: Config,
    pub(crate) memory: Rc<Memory>,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) phase: Cell<Phase>,
    open: Cell<usize>,
    counts: Arc<ConnectionCounts>,
    all_gone: Notify,
    pub(crate) idle_ticks: u64,
    pub(crate) handshake_ticks: u64,
    pub(crate) head_ticks: u64,
    pub(crate) stall_ticks: u64,
    forwards_certificates: bool,
    pub(crate) head_limits: HeadLimits,
    pub(crate) upgrades: Box<[HeaderValue]>,
}

impl Clients {
    /// Makes the state for the clients of one worker.
    pub fn new(
        settings: &ClientSettings,
        deadlines: &Rc<Deadlines>,
        memory: &Rc<Memory>,
    ) -> Rc<Self> {
        Rc::new(Self {
            http2: http2_config(settings),
            memory: Rc::clone(memory),
            deadlines: Rc::clone(deadlines),
            phase: Cell::new(Phase::Serving),
            open: Cell::new(0),
            counts: Arc::clone(&settings.counts),
            all_gone: Notify::new(),
            idle_ticks: deadlines.ticks(settings.idle),
            handshake_ticks: deadlines.ticks(settings.handshake),
            head_ticks: deadlines.ticks(settings.head),
            stall_ticks: deadlines.ticks(settings.stall),
            forwards_certificates: settings.forwards_certificates,
            head_limits: settings.head_limits,
            upgrades: settings.upgrades.clone(),
        })
    }

    /// Number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// Counts a connection that has started.
    pub(crate) fn add(&self) {
        self.open.set(self.open.get() + 1);
        self.counts.begun.add_one();
    }

    /// Counts a connection that has ended.
    pub(crate) fn remove(&self, end: ClientEnd) {
        let open = self.open.get() - 1;
        self.open.set(open);
        self.counts.ended.add_one(end);
        if open == 0 {
            self.all_gone.notify_waiters();
        }
    }

    /// Sets the client's verified certificate in a request head, and removes all other fields of
    /// that kind.
    pub(crate) fn set_certificate(&self, headers: &mut Fields, origin: &Origin) {
        if self.forwards_certificates {
            client_cert::state(headers, origin.certificate.as_ref());
        }
    }

    /// Sets the phase and wakes every connection. Phases only go forward.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.set(self.phase.get().max(phase));
        self.deadlines.wake_all();
    }

    /// Waits until the last connection has ended.
    pub(crate) async fn gone(&self) {
        while self.open.get() > 0 {
            self.all_gone.notified().await;
        }
    }
}

/// HTTP/2 settings of clients' connections.
fn http2_config(settings: &ClientSettings) -> Config {
    Config {
        role: Role::Server,
        streams_max: settings.streams_max,
        stream_window: STREAM_WINDOW_BYTES,
        connection_window: CONNECTION_WINDOW_BYTES,
        is_secure: false,
        head: settings.head_limits,
        stock: buffers::STOCK,
    }
}
