//! The response body that keeps its query in flight until its last byte. `[T1]`

use super::QueryInFlight;
use super::ends::end_by_trailers;
use crate::response::BytesLeft;
use crate::watched_body::{Watch, WatchedBody};
use bytes::Buf;
use http_body::{Body, Frame};
use slackwater_core::tracker::End;

/// A response body `B` whose query is in flight until the body ends, fails or is dropped. Also used
/// for bodies without a query: the empty one of a probe's answer, or one whose query has ended.
pub type TrackedBody<B> = WatchedBody<B, Tracking>;

/// The query that a body answers.
#[derive(Debug)]
pub struct Tracking {
    query: Option<QueryInFlight>,
    bytes_left: BytesLeft,
}

impl Tracking {
    const NONE: Self = Self {
        query: None,
        bytes_left: BytesLeft::UNKNOWN,
    };
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
        Self::watched(Some(inner), Tracking { query, bytes_left })
    }

    pub(super) const fn untracked(inner: B) -> Self {
        Self::watched(Some(inner), Tracking::NONE)
    }

    pub(super) const fn empty() -> Self {
        Self::watched(None, Tracking::NONE)
    }
}

impl Watch for Tracking {
    fn poll<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        match &mut self.query {
            Some(query) => query.run(poll),
            None => poll(),
        }
    }

    fn polled<D: Buf, E>(&mut self, frame: Option<&Result<Frame<D>, E>>, is_last: bool) {
        let end = match frame {
            None => Some(End::Success),
            Some(Err(_)) => Some(End::Failed),
            Some(Ok(frame)) => end_after(frame, &mut self.bytes_left, is_last),
        };
        if let Some(end) = end
            && let Some(query) = self.query.take()
        {
            query.finish(end);
        }
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        // A server may stop at the announced length, and leave trailers unread.
        if self.bytes_left.have_come()
            && let Some(query) = self.query.take()
        {
            query.finish(End::Success);
        }
    }
}

/// Returns how a query ends with this frame; `None` if more is to come.
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
