//! Clients' connections: HTTP/1.1 or HTTP/2 by what the client says first, with deadlines and a graceful end.
//!
//! HTTP/1.1 clients that close their sending side are taken to have left. A request's future is dropped when its client
//! leaves, and everything that it holds with it.

mod accept;
mod date;
mod http1;
mod http2;
mod listen;
mod tunnel;

pub use accept::{Intake, Listening};
pub use listen::{advice_on_port, listen};

use crate::forward::counts::{ClientEnd, ConnectionCounts};
use crate::forward::head::Origin;
use crate::forward::head::client_cert;
use crate::forward::request::RequestBody;
use crate::forward::response::{ResponseBody, Watch};
use crate::forward::session::{Inbound, Session};
use crate::forward::time::Deadlines;
use crate::forward::wire::{Memory, Stream};
use crate::tls::Handshakes;
use bytes::Bytes;
use core::cell::Cell;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use http::{HeaderMap, HeaderValue, Request, Response};
use slackwater_config::tls::HttpVersion;
use slackwater_config::{Limits, Timeouts};
use slackwater_http::http1::HeadLimits;
use slackwater_http::http2::Config;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Decides what becomes of a request.
pub trait Handler: 'static {
    /// Hears how forwarded requests ended.
    type Watch: Watch + 'static;

    /// The response to a request. Dropped when the client leaves.
    fn handle(
        &self,
        request: Box<Request<RequestBody>>,
        origin: &Origin,
    ) -> impl Future<Output = Response<ResponseBody<Self::Watch>>>;

    /// A request could not be read, and this is what its client is told.
    fn unreadable(&self, _answer: &Response<ResponseBody<Self::Watch>>, _origin: &Origin) {}
}

/// How clients are dealt with.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// For which a connection may carry nothing.
    pub idle: Duration,
    /// From a connection's beginning to the end of its TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// For which a connection may move no byte in either direction while a response is there for its client.
    pub stall: Duration,
    /// Requests at once on an HTTP/2 connection, at most.
    pub streams_max: u32,
    /// Size of a request's head, at most.
    pub head_bytes_max: u32,
    /// Fields of a request's head, at most.
    pub head_fields_max: u32,
    /// Whether replicas are told clients' certificates, by some listener; then nobody else may tell them.
    pub tells_certificates: bool,
    /// Protocols to which an HTTP/1.1 connection may change, by their names in `Upgrade`. Others are not asked for.
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
            tells_certificates: false,
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
    /// It takes no connections, and each that is open ends with its next response. Those that carry nothing are kept: a
    /// request may be on its way to them.
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
    tells_certificates: bool,
    pub(crate) head_limits: HeadLimits,
    upgrades: Box<[HeaderValue]>,
}

impl Clients {
    /// For the clients of one worker.
    pub fn new(
        settings: &ClientSettings,
        deadlines: &Rc<Deadlines>,
        memory: &Rc<Memory>,
    ) -> Rc<Self> {
        Rc::new(Self {
            http2: http2::config(settings),
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
            tells_certificates: settings.tells_certificates,
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

    /// Leaves in a request's head the client's certificate as it was verified, and nothing else of that kind.
    fn tell_certificate(&self, headers: &mut HeaderMap, origin: &Origin) {
        if self.tells_certificates {
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

    /// Carries a connection to its end.
    pub(crate) async fn carry<H: Handler>(
        self: &Rc<Self>,
        mut stream: TcpStream,
        mut origin: Origin,
        handshakes: Option<Rc<Handshakes>>,
        handler: Rc<H>,
    ) {
        let session = Rc::new(Session::new(self));
        if origin.proxied().is_some() && !session.carry_proxy_header(&mut stream, &mut origin).await
        {
            return;
        }
        let (inbound, speaks_http2) = if let Some(handshakes) = handshakes {
            // In a box, so that connections do not carry its size around.
            let Some(secured) = Box::pin(session.carry_handshake(&handshakes, stream)).await else {
                return;
            };
            origin.is_tls = true;
            origin.certificate = secured.certificate;
            let inbound = Inbound::new(Stream::Tls(secured.stream), Bytes::new(), &session);
            // Without ALPN it is HTTP/1.1: HTTP/2 has to be agreed on. RFC 9113 §3.2
            (inbound, secured.protocol == HttpVersion::Http2)
        } else {
            let inbound = Inbound::new(Stream::Tcp(stream), Bytes::new(), &session);
            let Some(Some(speaks_http2)) =
                session.carry(pin!(speaks_http2(&inbound)), |_| ()).await
            else {
                return;
            };
            (inbound, speaks_http2)
        };
        origin.cut = Rc::clone(&session.cut);
        let origin = Rc::new(origin);
        if speaks_http2 {
            // In a box, so that HTTP/1.1 connections do not carry its size around.
            Box::pin(http2::serve(self, inbound, origin, handler)).await;
        } else {
            let serving = pin!(http1::serve(&inbound, &origin, &*handler));
            // It sees for itself when it is asked to end.
            session.carry(serving, |_| ()).await;
        }
    }
}

/// Whether the client begins as HTTP/2 does: no method of HTTP/1.1 starts with these letters. None if it ends before that
/// is known.
async fn speaks_http2(inbound: &Inbound) -> Option<bool> {
    const START: &[u8] = b"PRI";
    poll_fn(|cx| {
        loop {
            {
                let unread = inbound.unread.borrow();
                let start = &unread[..unread.len().min(START.len())];
                if !START.starts_with(start) || start.len() == START.len() {
                    return Poll::Ready(Some(start == START));
                }
            }
            match inbound.poll_read_more(cx) {
                Poll::Ready(Ok(true)) => (),
                Poll::Ready(more) => {
                    inbound.session.ended_by(ClientEnd::of_read(&more));
                    return Poll::Ready(None);
                }
                Poll::Pending if inbound.session.phase() >= Phase::Draining => {
                    inbound.session.ended_by(ClientEnd::Drain);
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}
