//! The response body that holds its query's permit until it ends.

use super::Permit;
use crate::watched_body::{Watch, WatchedBody};
use bytes::Buf;
use http_body::{Body, Frame};

/// A response body `B` whose query holds its permit until the body ends, fails or is dropped; or
/// the empty body of an answer to a rejected query.
pub type AdmittedBody<B> = WatchedBody<B, Option<Permit>>;

impl<B: Body> AdmittedBody<B> {
    pub(super) fn new(inner: B, permit: Permit) -> Self {
        let permit = (!inner.is_end_stream()).then_some(permit);
        Self::watched(Some(inner), permit)
    }

    pub(super) const fn empty() -> Self {
        Self::watched(None, None)
    }
}

impl Watch for Option<Permit> {
    fn polled<D: Buf, E>(&mut self, frame: Option<&Result<Frame<D>, E>>, is_last: bool) {
        let goes_on = matches!(frame, Some(Ok(frame)) if !frame.is_trailers()) && !is_last;
        if !goes_on {
            *self = None;
        }
    }
}
