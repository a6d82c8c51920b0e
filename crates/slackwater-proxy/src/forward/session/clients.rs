//! All clients of one worker: what holds for each of their connections, how many there are, and
//! where the worker is in its life.

use crate::forward::counts::{ClientEnd, ConnectionCounts};
use crate::forward::head::{Origin, client_cert};
use crate::forward::time::Deadlines;
use crate::forward::wire::{Memory, buffers};
use core::cell::Cell;
use core::time::Duration;
use http::{HeaderMap, HeaderValue};
use slackwater_config::{Limits, Timeouts};
use slackwater_http::http1::HeadLimits;
use slackwater_http::http2::{self, Config, Role};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// What a client may send on one stream, and on a connection, before a replica took it: several
/// streams that are not taken leave room for others.
const STREAM_WINDOW_BYTES: u32 = 65_535;
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;

/// What a connection may have beyond that once replicas have taken as much, and each of its streams
/// that is read.
pub(crate) const CONNECTION_LOAN_BYTES: u32 = 1 << 20;
pub(crate) const STREAM_WINDOW_LARGE_BYTES: u32 = 256 << 10;

/// How clients are dealt with.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// For which a connection may carry nothing.
    pub idle: Duration,
    /// From a connection's beginning to the end of its TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// For which a connection may move no byte in either direction while a response is there for
    /// its client.
    pub stall: Duration,
    /// Requests at once on an HTTP/2 connection, at most.
    pub streams_max: u32,
    /// Size of a request's head, at most.
    pub head_bytes_max: u32,
    /// Fields of a request's head, at most.
    pub head_fields_max: u32,
    /// Whether replicas are told clients' certificates, by some listener; then nobody else may tell
    /// them.
    pub forwards_certificates: bool,
    /// Protocols to which an HTTP/1.1 connection may change, by their names in `Upgrade`. Others
    /// are not asked for.
    pub upgrades: Box<[HeaderValue]>,
    /// Where they are counted.
    pub counts: Arc<ConnectionCounts>,
}

impl ClientSettings {
    /// As configured.
    pub fn new(timeouts: &Timeouts, limits: &Limits, upgrades: &[HeaderValue]) -> Self {
        Self {
            idle: timeouts.idle,
            handshake: timeouts.handshake,
            head: timeouts.head,
            stall: timeouts.stall,
            streams_max: limits.streams_max,
            head_bytes_max: limits.head_bytes_max,
            head_fields_max: limits.head_fields_max,
            forwards_certificates: false,
            upgrades: upgrades.into(),
            counts: Arc::default(),
        }
    }
}

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It takes requests.
    Serving,
    /// It takes no connections, and each that is open ends with its next response. Those that carry
    /// nothing are kept: a request may be on its way to them.
    Leaving,
    /// It finishes what it has; idle connections are closed.
    Draining,
    /// Whatever is left is cut off.
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
    /// For the clients of one worker.
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
            head_limits: HeadLimits {
                bytes_max: settings.head_bytes_max as usize,
                fields_max: settings.head_fields_max as usize,
            },
            upgrades: settings.upgrades.clone(),
        })
    }

    /// Connections now.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// A connection has begun.
    pub(crate) fn add(&self) {
        self.open.set(self.open.get() + 1);
        self.counts.begun.add_one();
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, end: ClientEnd) {
        let open = self.open.get() - 1;
        self.open.set(open);
        self.counts.ended.add_one(end);
        if open == 0 {
            self.all_gone.notify_waiters();
        }
    }

    /// Leaves in a request's head the client's certificate as it was verified, and nothing else of
    /// that kind.
    pub(crate) fn set_certificate(&self, headers: &mut HeaderMap, origin: &Origin) {
        if self.forwards_certificates {
            client_cert::state(headers, origin.certificate.as_ref());
        }
    }

    /// Tells every connection; phases only go forward.
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

/// How clients' connections are set up.
fn http2_config(settings: &ClientSettings) -> Config {
    Config {
        role: Role::Server,
        streams_max: settings.streams_max,
        stream_window: STREAM_WINDOW_BYTES,
        connection_window: CONNECTION_WINDOW_BYTES,
        head: http2::HeadLimits {
            bytes_max: settings.head_bytes_max as usize,
            fields_max: settings.head_fields_max as usize,
        },
        lend_headers: buffers::lend_headers,
        take_headers_back: buffers::take_headers_back,
    }
}
