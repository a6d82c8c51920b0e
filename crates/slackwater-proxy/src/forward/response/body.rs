//! A response body on its way to a client, and what happens when it ends.
//!
//! A response body holds everything that must be settled exactly once when the request is over: the
//! connection returns to its pool, and a [`Watch`] is notified how it ended. This happens when the
//! last frame has been handed on, on an error, or when the body is dropped because the client left.
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
use slackwater_http::Response;
use slackwater_tower::wire::carried::CarriedField;
use std::io;
use std::rc::Rc;
use tokio::time::Instant;

/// How a request ended after its replica had started to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The response is complete.
    Complete,
    /// The connection to the replica broke.
    Broken,
    /// The replica sent nothing for too long.
    Stalled,
    /// The response took longer than its route allows, though the replica did not stall.
    TooLong,
    /// Both sides of a tunnel were silent for too long.
    TunnelIdle,
}

/// Observes how a request ends. If it is dropped without [`finish`](Self::finish), the client left
/// or was cut off.
pub trait Watch: Unpin {
    /// Called when bytes of the response body are sent to the client.
    fn passed(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Called when trailers are sent to the client, after the body.
    fn trailers(&mut self, trailers: &mut HeaderMap) {
        let _ = trailers;
    }

    /// Called when the request is over.
    fn finish(self, end: End);
}

/// A response on its way to a client. Boxed, because it is large and passes through many hands.
pub type Answer<W> = Box<Response<ResponseBody<W>>>;

/// A response body on its way to a client.
#[derive(Debug)]
pub struct ResponseBody<W: Watch> {
    source: ResponseSource,
    /// Whether the body is the proxy's own and not a replica's.
    is_own: bool,
    /// Present until the request is over; never present in the proxy's own answers.
    open: Option<Open<W>>,
    /// Counts the request as in flight on its client's HTTP/2 connection.
    pub(crate) in_flight: Option<RequestInFlight>,
    /// The server's load, to be sent in the response head. It is not among the fields, because
    /// inserting it costs more than writing it.
    pub load: Option<CarriedField>,
}

/// Source of a body, with the connection that it needs until it ends.
#[derive(Debug)]
pub(crate) enum ResponseSource {
    Http1(Download, Rc<Pool>),
    Http2(http2::Download),
    Own(Option<Bytes>),
}

/// Everything that must be settled when the response ends.
#[derive(Debug)]
struct Open<W> {
    /// Armed while the body waits for the replica.
    deadline: Deadline,
    /// Longest wait for the replica; for a tunnel, longest silence of both sides.
    stall_ticks: u64,
    /// When the response must be complete, in ticks; `None` for no limit.
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

    /// Whether it is a tunnel, which carries bytes both ways, and not a body.
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
    /// Makes a body with the proxy's own text, possibly empty.
    pub fn own(text: Bytes) -> Self {
        Self {
            source: ResponseSource::Own((!text.is_empty()).then_some(text)),
            is_own: true,
            open: None,
            in_flight: None,
            load: None,
        }
    }

    /// Makes the body of a replica's response. A body that has ended already is settled here.
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

    /// Limits the rest of a replica's response: the time between two pieces, if `stall` is set, and
    /// the time of its end. A tunnel is limited by `tunnel` only.
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

    /// Whether the body is the proxy's own.
    pub(crate) const fn is_own(&self) -> bool {
        self.is_own
    }

    /// The length of the proxy's own text.
    pub(crate) fn own_length(&self) -> Option<u64> {
        match &self.source {
            ResponseSource::Own(text) => Some(text.as_ref().map_or(0, |text| text.len() as u64)),
            _ => None,
        }
    }

    /// Takes the proxy's own text, which leaves an empty body.
    pub(crate) fn take_own(&mut self) -> Option<Bytes> {
        match &mut self.source {
            ResponseSource::Own(text) => Some(text.take().unwrap_or_default()),
            _ => None,
        }
    }

    /// Continues the upload while the client does not read the response. Ready when the response
    /// should have ended.
    pub(crate) fn poll_untaken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.source {
            ResponseSource::Http1(download, _) => download.poll_upload(cx),
            ResponseSource::Http2(download) => download.poll_upload(cx),
            ResponseSource::Own(_) => (),
        }
        match &self.open {
            // Otherwise the replica's timeout runs, and it ends no later.
            Some(open) if !open.waiting => ready!(open.poll_ended(cx)),
            _ => return Poll::Pending,
        }
        self.settle(End::TooLong);
        Poll::Ready(())
    }

    /// The connection to the replica, if it carries a tunnel.
    pub(crate) fn tunnel(&mut self) -> Option<&mut Connection> {
        match &mut self.source {
            ResponseSource::Http1(download, _) if download.is_tunnel => {
                Some(&mut download.connection)
            }
            _ => None,
        }
    }

    /// Ready when both sides of a tunnel have been silent for too long.
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

    /// Settles a tunnel that has ended, and returns the connection to its replica.
    pub(crate) fn end_tunnel(mut self, end: End) -> Option<Box<Connection>> {
        self.settle(end);
        match core::mem::replace(&mut self.source, ResponseSource::Own(None)) {
            ResponseSource::Http1(download, _) => Some(download.connection),
            _ => None,
        }
    }

    /// Whether the body waits for its replica, with a timeout.
    pub(crate) fn awaits_replica(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.waiting)
    }

    /// The observer of the body's end; `None` once it was notified.
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
                // If the connection is reusable, its pool replaces this reason.
                End::Complete => ReplicaEnd::Answered,
                End::Broken => ReplicaEnd::Failed,
                End::Stalled | End::TooLong | End::TunnelIdle => ReplicaEnd::Late,
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
    /// Ready when the replica has been silent for too long while the body waited for it.
    fn poll_stalled(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.waiting {
            self.waiting = true;
            let left = self.left();
            self.deadline
                .arm(left.map_or(self.stall_ticks, |left| left.min(self.stall_ticks)));
        }
        self.deadline.poll_passed(cx)
    }

    /// Ready when the response should have ended, while the body does not wait for the replica.
    fn poll_ended(&self, cx: &Context<'_>) -> Poll<()> {
        let Some(left) = self.left() else {
            return Poll::Pending;
        };
        self.deadline.arm(left);
        self.deadline.poll_passed(cx)
    }

    /// Ticks until the response must end.
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
        // The limit holds even if the replica keeps sending.
        let is_over = this.open.as_ref().and_then(Open::left) == Some(0);
        if is_over {
            this.settle(if this.awaits_replica() {
                End::Stalled
            } else {
                End::TooLong
            });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::time::Deadlines;
    use core::cell::Cell;
    use core::task::Waker;
    use std::rc::Rc;

    /// Records the end.
    struct Ends(Rc<Cell<Option<End>>>);

    impl Watch for Ends {
        fn finish(self, end: End) {
            self.0.set(Some(end));
        }
    }

    /// A body whose time is over, and its end.
    fn overdue(waiting: bool) -> (ResponseBody<Ends>, Rc<Cell<Option<End>>>) {
        let deadlines = Deadlines::new(Duration::from_secs(1));
        let ended = Rc::default();
        let watch = Ends(Rc::clone(&ended));
        let text = ResponseSource::Own(Some(Bytes::from_static(b"more")));
        let mut body = ResponseBody::forwarded(text, deadlines.add(), 1, watch);
        let open = body.open.as_mut().expect("not ended");
        (open.ends_at, open.waiting) = (Some(0), waiting);
        (body, ended)
    }

    #[test]
    fn response_beyond_its_time_is_only_a_stall_if_the_replica_is_waited_for() {
        for (waiting, expected) in [(false, End::TooLong), (true, End::Stalled)] {
            let (mut body, ended) = overdue(waiting);
            let mut cx = Context::from_waker(Waker::noop());
            let polled = Pin::new(&mut body).poll_frame(&mut cx);
            assert!(matches!(polled, Poll::Ready(Some(Err(_)))));
            assert_eq!(ended.get(), Some(expected));
        }
    }

    #[test]
    fn response_that_is_not_taken_in_its_time_is_no_stall() {
        let (mut body, ended) = overdue(false);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(body.poll_untaken(&mut cx).is_ready());
        assert_eq!(ended.get(), Some(End::TooLong));
    }
}
