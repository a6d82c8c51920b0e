//! Clients' connections: HTTP/1.1 or HTTP/2 by what the client says first, with deadlines and a graceful end.
//!
//! A connection has one deadline at a time. While it carries no request it may be idle; from the first byte of a head
//! (HTTP/1.1) the head must be complete within its own time; while it carries requests, bytes must move one way or the
//! other. HTTP/1.1 clients that close their sending side are taken to have left.

use super::LocalExecutor;
use super::body::{RequestBody, ResponseBody, Watch};
use super::deadline::{Deadline, Deadlines};
use super::hygiene::Origin;
use crate::config::{Limits, Timeouts};
use core::cell::Cell;
use core::convert::Infallible;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use std::io::{self, IoSlice};
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// For which a response's body, or a client's connection in the midst of a request, may show no sign of life.
pub(super) const STALL_MAX: Duration = Duration::from_mins(5);

/// What a client may send on one HTTP/2 stream, and on a connection, before a replica took it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Decides what becomes of a request.
pub(crate) trait Handler: 'static {
    /// Hears how forwarded requests ended.
    type Watch: Watch + 'static;

    /// The response to a request. Dropped when the client leaves.
    fn handle(
        &self,
        request: Box<Request<RequestBody>>,
        origin: &Origin,
    ) -> impl Future<Output = Response<ResponseBody<Self::Watch>>>;
}

/// How clients are dealt with.
#[derive(Clone, Debug)]
pub(crate) struct ClientSettings {
    /// For which a connection may carry nothing.
    pub(crate) idle: Duration,
    /// From the first byte of a head to its last.
    pub(crate) head: Duration,
    /// For which a connection with requests may move no byte in either direction.
    pub(crate) stall: Duration,
    /// Requests at once on an HTTP/2 connection, at most.
    pub(crate) streams_max: u32,
    /// Size of a request's head, at most.
    pub(crate) head_bytes_max: u32,
    /// Fields of a request's head, at most.
    pub(crate) head_fields_max: u32,
}

impl ClientSettings {
    /// As configured.
    pub(crate) fn new(timeouts: &Timeouts, limits: &Limits) -> Self {
        Self {
            idle: timeouts.idle,
            head: timeouts.head,
            stall: STALL_MAX,
            streams_max: limits.streams_max,
            head_bytes_max: limits.head_bytes_max,
            head_fields_max: limits.head_fields_max,
        }
    }
}

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It takes requests.
    Serving,
    /// It finishes what it has; idle connections are closed.
    Draining,
    /// Whatever is left is cut off.
    Stopped,
}

/// All clients of one worker.
#[derive(Debug)]
pub(crate) struct Clients {
    builder: Builder<LocalExecutor>,
    deadlines: Rc<Deadlines>,
    phase: Cell<Phase>,
    open: Cell<usize>,
    all_gone: Notify,
    idle_ticks: u64,
    head_ticks: u64,
    stall_ticks: u64,
}

impl Clients {
    pub(crate) fn new(settings: &ClientSettings, deadlines: &Rc<Deadlines>) -> Rc<Self> {
        let mut builder = Builder::new(LocalExecutor);
        let mut http1 = builder.http1();
        // No timeout: deadlines are kept here, see above.
        http1
            .header_read_timeout(None)
            .max_buf_size(settings.head_bytes_max as usize);
        // hyper's own default; asking for it anew costs time in each parse.
        if settings.head_fields_max != 100 {
            http1.max_headers(settings.head_fields_max as usize);
        }
        builder
            .http2()
            .max_concurrent_streams(settings.streams_max)
            .max_header_list_size(settings.head_bytes_max)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        Rc::new(Self {
            builder,
            deadlines: Rc::clone(deadlines),
            phase: Cell::new(Phase::Serving),
            open: Cell::new(0),
            all_gone: Notify::new(),
            idle_ticks: deadlines.ticks(settings.idle),
            head_ticks: deadlines.ticks(settings.head),
            stall_ticks: deadlines.ticks(settings.stall),
        })
    }

    /// Connections now.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
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
        stream: TcpStream,
        peer: SocketAddr,
        local: Authority,
        handler: Rc<H>,
    ) {
        let state = Rc::new(State::new(self));
        let Ok(client) = HeaderValue::from_str(&peer.ip().to_canonical().to_string()) else {
            return;
        };
        let origin = Rc::new(Origin { client, local });
        let io = ClientIo {
            stream: TokioIo::new(stream),
            state: Rc::clone(&state),
        };
        let service = service_fn(|request: Request<Incoming>| {
            let busy = Busy::new(&state, request.version());
            let request = Box::new(request.map(|body| RequestBody::new(body, &self.deadlines)));
            let (handler, origin) = (Rc::clone(&handler), Rc::clone(&origin));
            // In a box, because hyper moves it around several times, and keeps room for it while there is no request.
            Box::pin(async move {
                let mut response = handler.handle(request, &origin).await;
                response.body_mut().busy = Some(busy);
                Ok::<_, Infallible>(response)
            })
        });
        let mut connection = pin!(self.builder.serve_connection(io, service));
        let mut asked_to_end = false;
        poll_fn(|cx| {
            loop {
                let phase = self.phase.get();
                if phase >= Phase::Draining && !asked_to_end {
                    asked_to_end = true;
                    connection.as_mut().graceful_shutdown();
                }
                if phase == Phase::Stopped || connection.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                if state.deadline.poll_passed(cx).is_pending() {
                    return Poll::Pending;
                }
                match state.overdue(asked_to_end) {
                    Overdue::NotYet => (),
                    Overdue::AskToEnd => {
                        asked_to_end = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    Overdue::Close => return Poll::Ready(()),
                }
            }
        })
        .await;
    }
}

/// What a connection, its socket and its requests know together.
#[derive(Debug)]
struct State {
    clients: Rc<Clients>,
    deadline: Deadline,
    requests: Cell<u32>,
    http2: Cell<bool>,
    in_head: Cell<bool>,
    moved_at: Cell<u64>,
}

enum Overdue {
    NotYet,
    AskToEnd,
    Close,
}

impl State {
    fn new(clients: &Rc<Clients>) -> Self {
        clients.open.set(clients.open.get() + 1);
        let deadline = clients.deadlines.add();
        deadline.arm(clients.idle_ticks);
        Self {
            clients: Rc::clone(clients),
            deadline,
            requests: Cell::new(0),
            http2: Cell::new(false),
            in_head: Cell::new(false),
            moved_at: Cell::new(0),
        }
    }

    /// Bytes went in or out.
    fn moved(&self) {
        self.moved_at.set(self.clients.deadlines.now());
    }

    /// Bytes came in.
    fn received(&self) {
        self.moved();
        // HTTP/2 has frames between requests that begin no head.
        if self.requests.get() == 0 && !self.http2.get() && !self.in_head.replace(true) {
            self.deadline.arm(self.clients.head_ticks);
        }
    }

    fn overdue(&self, asked_to_end: bool) -> Overdue {
        if self.requests.get() > 0 {
            let now = self.clients.deadlines.now();
            let still_for = now.saturating_sub(self.moved_at.get());
            if still_for >= self.clients.stall_ticks {
                return Overdue::Close;
            }
            self.deadline.arm(self.clients.stall_ticks - still_for);
            return Overdue::NotYet;
        }
        if self.http2.get() && !asked_to_end {
            self.deadline.arm(self.clients.head_ticks);
            return Overdue::AskToEnd;
        }
        Overdue::Close
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let open = self.clients.open.get() - 1;
        self.clients.open.set(open);
        if open == 0 {
            self.clients.all_gone.notify_waiters();
        }
    }
}

/// A request on a connection, to the end of its response.
#[derive(Debug)]
pub(super) struct Busy(Rc<State>);

impl Busy {
    fn new(state: &Rc<State>, version: Version) -> Self {
        state.in_head.set(false);
        state.http2.set(version == Version::HTTP_2);
        if state.requests.replace(state.requests.get() + 1) == 0 {
            state.deadline.arm(state.clients.stall_ticks);
        }
        Self(Rc::clone(state))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let state = &self.0;
        let requests = state.requests.get() - 1;
        state.requests.set(requests);
        if requests == 0 {
            state.deadline.arm(state.clients.idle_ticks);
        }
    }
}

/// A client's socket that notes when bytes move.
#[derive(Debug)]
struct ClientIo {
    stream: TokioIo<TcpStream>,
    state: Rc<State>,
}

impl Read for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.state.received();
        }
        read
    }
}

impl Write for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.state.moved();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        if written.is_ready() {
            self.state.moved();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
