//! The response body that keeps its query in flight to the last byte.
//!
//! Servers stop polling a body in many ways: at its end, at the announced length, when `is_end_stream` says so, at an
//! error, when the client has left. All of them end the query here, once. `[T1]`

use super::QueryInFlight;
use super::layer::end_by_trailers;
use crate::response::BytesLeft;
use bytes::Buf;
use core::pin::Pin;
use core::task::{Context, Poll};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use slackwater_core::tracker::End;

pin_project! {
    /// A response body `B` whose query is in flight until it ends, fails or is dropped; or the empty body of a probe's
    /// answer, or any other to a query that has ended.
    #[derive(Debug)]
    pub struct TrackedBody<B> {
        #[pin]
        inner: Option<B>,
        query: Option<QueryInFlight>,
        bytes_left: BytesLeft,
    }
}

impl<B: Body> TrackedBody<B> {
    pub(super) fn new(inner: B, query: QueryInFlight, bytes_left: BytesLeft) -> Self {
        let complete = inner.is_end_stream() || bytes_left.is_none();
        let query = if complete {
            query.finish_with_head(End::Success);
            None
        } else {
            Some(query)
        };
        Self {
            inner: Some(inner),
            query,
            bytes_left,
        }
    }

    pub(super) const fn untracked(inner: B) -> Self {
        Self {
            inner: Some(inner),
            query: None,
            bytes_left: BytesLeft::UNKNOWN,
        }
    }

    pub(super) const fn empty() -> Self {
        Self {
            inner: None,
            query: None,
            bytes_left: BytesLeft::UNKNOWN,
        }
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let mut poll = || inner.as_mut().poll_frame(cx);
        let polled = match this.query {
            Some(query) => query.run(poll),
            None => poll(),
        };
        let end = match &polled {
            Poll::Pending => None,
            Poll::Ready(None) => Some(End::Success),
            Poll::Ready(Some(Err(_))) => Some(End::Failed),
            Poll::Ready(Some(Ok(frame))) => {
                end_after(frame, this.bytes_left, inner.is_end_stream())
            }
        };
        if let Some(end) = end
            && let Some(query) = this.query.take()
        {
            query.finish(end);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// How a query ends with this frame; `None` if more is to come.
fn end_after<D: Buf>(
    frame: &Frame<D>,
    bytes_left: &mut BytesLeft,
    is_end_stream: bool,
) -> Option<End> {
    if let Some(trailers) = frame.trailers_ref() {
        return Some(end_by_trailers(trailers));
    }
    bytes_left.take(frame);
    (is_end_stream || bytes_left.is_none()).then_some(End::Success)
}
