//! A response's body on its way to a client, and what happens when it ends.
//!
//! A response's body holds everything that must be settled exactly once when the request is over:
//! the connection goes back to its pool, and a [`Watch`] hears how it ended. Three ways lead there:
//! the last frame has been handed on, an error, or the body is dropped because the client left.
//! Bytes are never copied or re-cut here.

use crate::forward::counts::ReplicaEnd;
use crate::forward::head::hygiene;
use crate::forward::replica::Pool;
use crate::forward::replica::http1::{Connection, Download};
use crate::forward::replica::http2;
use crate::forward::session::{RequestInFlight, Session};
use crate::forward::time::Deadline;
use bytes::Bytes;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use slackwater_tower::wire::carried::CarriedField;
use std::io;
use std::rc::Rc;
use tokio::time::Instant;

/// How a request that a replica had begun to answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response is complete.
    Complete,
    /// The connection to the replica broke.
    Broken,
    /// Nothing came from the replica for too long.
    Stalled,
    /// Neither side of a tunnel said anything for too long.
    TunnelIdle,
}

/// Hears how a request ended. Dropped without a word: the client left, or was cut off.
pub trait Watch: Unpin {
    /// Bytes of the response's body go to the client.
    fn passed(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Trailers go to the client, after all of the body.
    fn trailers(&mut self, trailers: &mut HeaderMap) {
        let _ = trailers;
    }

    /// The request is over.
    fn finish(self, end: End);
}

/// A response's body on its way to a client.
#[derive(Debug)]
pub struct ResponseBody<W: Watch> {
    source: ResponseSource,
    /// No replica gave it.
    is_own: bool,
    /// There until the request is over; absent from the start in answers of our own.
    open: Option<Open<W>>,
    /// Counts the request as in flight on its client's connection, over HTTP/2.
    pub(crate) in_flight: Option<RequestInFlight>,
    /// What the response's head is to say of the server's load. It is not in the map of the head's
    /// fields, because to put it there costs more than to write it.
    pub load: Option<CarriedField>,
}

/// Where a body comes from, and the connection that it needs until it ends.
#[derive(Debug)]
pub(crate) enum ResponseSource {
    Http1(Box<Download>, Rc<Pool>),
    Http2(Box<http2::Download>),
    Own(Option<Bytes>),
}

/// What has to be settled when the response ends.
#[derive(Debug)]
struct Open<W> {
    /// Runs while the replica is waited for.
    deadline: Deadline,
    /// For which it may be: of a tunnel, for which both sides may be silent.
    stall_ticks: u64,
    /// When it has to be over, in ticks; `None`: whenever.
    ends_at: Option<u64>,
    waiting: bool,
    watch: W,
}

impl ResponseSource {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self {
            Self::Http1(download, _) => download.poll_frame(cx),
            Self::Http2(download) => download.poll_frame(cx),
            Self::Own(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    /// Whether it carries no body, but bytes both ways.
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self, Self::Http1(download, _) if download.is_tunnel)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(download, _) => download.is_end_stream(),
            Self::Http2(download) => download.is_end_stream(),
            Self::Own(text) => text.is_none(),
        }
    }
}

impl<W: Watch> ResponseBody<W> {
    /// A text of our own, perhaps empty.
    pub fn own(text: Bytes) -> Self {
        Self {
            source: ResponseSource::Own((!text.is_empty()).then_some(text)),
            is_own: true,
            open: None,
            in_flight: None,
            load: None,
        }
    }

    /// A replica's body. One that has ended already is settled here.
    pub(crate) fn forwarded(
        source: ResponseSource,
        deadline: Deadline,
        stall_ticks: u64,
        watch: W,
    ) -> Self {
        deadline.disarm();
        let mut body = Self {
            source,
            is_own: false,
            open: Some(Open {
                deadline,
                stall_ticks,
                ends_at: None,
                waiting: false,
                watch,
            }),
            in_flight: None,
            load: None,
        };
        if body.is_end_stream() {
            body.settle(End::Complete);
        }
        body
    }

    /// Bounds what is left of a replica's response: the time between two of its pieces, if `stall`
    /// says so, and the time until it is over. A tunnel is bounded by `tunnel` alone.
    pub(crate) fn bound(
        &mut self,
        stall: Option<Duration>,
        tunnel: Option<Duration>,
        ends: Option<Instant>,
    ) {
        let is_tunnel = self.source.is_tunnel();
        let Some(open) = &mut self.open else {
            return;
        };
        let stall = if is_tunnel { tunnel } else { stall };
        let ticks = |span| open.deadline.deadlines().ticks(span);
        if let Some(stall) = stall {
            open.stall_ticks = ticks(stall);
        }
        if let Some(ends) = ends.filter(|_| !is_tunnel) {
            let left = ticks(ends.saturating_duration_since(Instant::now()));
            open.ends_at = Some(open.deadline.deadlines().now().saturating_add(left));
        }
    }

    /// Whether no replica gave it.
    pub(crate) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// How long a text of our own is.
    pub(crate) fn own_length(&self) -> Option<u64> {
        match &self.source {
            ResponseSource::Own(text) => Some(text.as_ref().map_or(0, |text| text.len() as u64)),
            _ => None,
        }
    }

    /// Takes a text of our own away, so that nothing is left of the body.
    pub(crate) fn take_own(&mut self) -> Option<Bytes> {
        match &mut self.source {
            ResponseSource::Own(text) => Some(text.take().unwrap_or_default()),
            _ => None,
        }
    }

    /// Goes on with the request while the client does not take the response. Ready when it had to
    /// be over.
    pub(crate) fn poll_untaken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            ResponseSource::Http1(download, _) => download.poll_upload(cx),
            ResponseSource::Http2(download) => download.poll_upload(cx),
            ResponseSource::Own(_) => (),
        }
        match &self.open {
            // Otherwise the time for the replica runs, which is no longer.
            Some(open) if !open.waiting => open.poll_ended(cx),
            _ => Poll::Pending,
        }
    }

    /// The connection to the replica, if it is no body any more that it carries.
    pub(crate) fn tunnel(&mut self) -> Option<&mut Connection> {
        match &mut self.source {
            ResponseSource::Http1(download, _) if download.is_tunnel => {
                Some(&mut download.connection)
            }
            _ => None,
        }
    }

    /// Ready when neither side of a tunnel has said anything for too long.
    pub(crate) fn poll_tunnel_idle(&self, session: &Session, cx: &Context<'_>) -> Poll<()> {
        let Some(open) = &self.open else {
            return Poll::Pending;
        };
        loop {
            let left = open.stall_ticks.saturating_sub(session.still_for());
            if left == 0 {
                return Poll::Ready(());
            }
            open.deadline.arm(left);
            ready!(open.deadline.poll_passed(cx));
        }
    }

    /// The tunnel has ended.
    pub(crate) fn end_tunnel(mut self, end: End) {
        self.settle(end);
    }

    /// Whether its replica is waited for, and has only so much time.
    pub(crate) fn awaits_replica(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.waiting)
    }

    /// Whoever is to hear how the body ends; `None` once that is settled.
    pub(crate) fn watch_mut(&mut self) -> Option<&mut W> {
        self.open.as_mut().map(|open| &mut open.watch)
    }

    fn settle(&mut self, end: End) {
        let Some(open) = self.open.take() else {
            return;
        };
        let is_tunnel = self.source.is_tunnel();
        if let ResponseSource::Http1(download, _) = &mut self.source {
            download.connection.end = match end {
                End::Complete | End::TunnelIdle if is_tunnel => ReplicaEnd::Tunnel,
                // Otherwise it is said below.
                End::Complete => ReplicaEnd::Answered,
                End::Broken => ReplicaEnd::Failed,
                End::Stalled | End::TunnelIdle => ReplicaEnd::Late,
            };
        }
        if end == End::Complete
            && !is_tunnel
            && let ResponseSource::Http1(download, pool) =
                core::mem::replace(&mut self.source, ResponseSource::Own(None))
            && let Some(connection) = download.into_reusable()
        {
            pool.give_back(connection);
        }
        open.watch.finish(end);
    }
}

impl<W> Open<W> {
    /// Whether the replica has been silent for too long while it was waited for.
    fn poll_stalled(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.waiting {
            self.waiting = true;
            let left = self.left();
            self.deadline
                .arm(left.map_or(self.stall_ticks, |left| left.min(self.stall_ticks)));
        }
        self.deadline.poll_passed(cx)
    }

    /// Whether it had to be over, while nothing is waited for from the replica.
    fn poll_ended(&self, cx: &Context<'_>) -> Poll<()> {
        let Some(left) = self.left() else {
            return Poll::Pending;
        };
        self.deadline.arm(left);
        self.deadline.poll_passed(cx)
    }

    /// Until it has to be over.
    fn left(&self) -> Option<u64> {
        let now = self.deadline.deadlines().now();
        self.ends_at.map(|ends_at| ends_at.saturating_sub(now))
    }

    fn moved(&mut self) {
        if self.waiting {
            self.waiting = false;
            self.deadline.disarm();
        }
    }
}

impl<W: Watch> Body for ResponseBody<W> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let is_over = this.open.as_ref().and_then(Open::left) == Some(0);
        if is_over {
            this.settle(End::Stalled);
            let error = io::Error::new(io::ErrorKind::TimedOut, "the response took too long");
            return Poll::Ready(Some(Err(error)));
        }
        let mut polled = this.source.poll_frame(cx);
        let Some(open) = &mut this.open else {
            return polled;
        };
        if polled.is_pending() {
            ready!(open.poll_stalled(cx));
            this.settle(End::Stalled);
            let error = io::Error::new(io::ErrorKind::TimedOut, "the replica stalled");
            return Poll::Ready(Some(Err(error)));
        }
        open.moved();
        if let Poll::Ready(Some(Err(error))) = polled {
            this.settle(End::Broken);
            return Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(Some(Ok(frame))) = &mut polled {
            if let Some(data) = frame.data_ref() {
                open.watch.passed(data.len());
            } else if let Some(trailers) = frame.trailers_mut() {
                open.watch.trailers(trailers);
                hygiene::prepare_trailers(trailers);
            }
        }
        match &polled {
            Poll::Ready(None) => this.settle(End::Complete),
            Poll::Ready(Some(Ok(_))) if this.source.is_end_stream() => this.settle(End::Complete),
            _ => (),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = match &self.source {
            ResponseSource::Http1(download, _) => download.left(),
            ResponseSource::Http2(download) => download.left(),
            ResponseSource::Own(_) => self.own_length(),
        };
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl<W: Watch> Drop for ResponseBody<W> {
    fn drop(&mut self) {
        if self.open.is_some() && self.is_end_stream() {
            self.settle(End::Complete);
        }
    }
}
