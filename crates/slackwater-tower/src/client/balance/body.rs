//! The response's body, which holds the query's lease until its last byte. `[T1]`

use super::classify::Classify;
use crate::client::lease::Lease;
use crate::response::BytesLeft;
use crate::watched_body::{Watch, WatchedBody};
use bytes::Buf;
use http::response::Parts;
use http_body::{Body, Frame};
use slackwater_core::policy::Outcome;
use std::sync::Arc;

/// A body that ends its query. The outcome is the head's at the body's end or announced length,
/// that of the trailers if there are some, and broken off on an error. If the body is dropped
/// earlier, the outcome is dropped, or the head's if that was failed or pushed back.
pub type LeasedBody<B> = WatchedBody<B, Leasing>;

/// The query that a body answers.
pub struct Leasing {
    lease: Option<Lease>,
    outcome: Outcome,
    bytes_left: BytesLeft,
    classify: Arc<dyn Classify>,
}

impl<B: Body> LeasedBody<B> {
    pub(super) fn new(
        body: B,
        mut lease: Lease,
        head: &Parts,
        classify: Arc<dyn Classify>,
        asks_head_only: bool,
    ) -> Self {
        let outcome = classify.head(head);
        lease.head_ready(outcome);
        let mut leasing = Leasing {
            lease: Some(lease),
            outcome,
            bytes_left: BytesLeft::of_response(head.status, &head.headers, &body, asks_head_only),
            classify,
        };
        if body.is_end_stream() || leasing.bytes_left.is_none() {
            // A body that has ended is not polled, so this is the only moment to end the query.
            leasing.end(outcome);
        }
        Self::watched(Some(body), leasing)
    }
}

impl Leasing {
    fn end(&mut self, outcome: Outcome) {
        if let Some(lease) = self.lease.take() {
            lease.finish(outcome);
        }
    }
}

impl Watch for Leasing {
    fn polled<D: Buf, E>(&mut self, frame: Option<&Result<Frame<D>, E>>, is_last: bool) {
        match frame {
            None => self.end(self.outcome),
            Some(Err(_)) => self.end(Outcome::Broken),
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.outcome = self.classify.trailers(trailers, self.outcome);
                }
                self.bytes_left.take(frame);
                if is_last || self.bytes_left.is_none() {
                    self.end(self.outcome);
                }
            }
        }
    }
}

impl Drop for Leasing {
    fn drop(&mut self) {
        if self.outcome != Outcome::Success || self.bytes_left.have_come() {
            self.end(self.outcome);
        }
    }
}

impl core::fmt::Debug for Leasing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Leasing")
            .field("lease", &self.lease)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
