//! The response's body, which holds the query's lease until its last byte. `[T1]`

use super::classify::Classify;
use crate::client::lease::Lease;
use crate::response::BytesLeft;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::response::Parts;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use slackwater_core::policy::Outcome;
use std::sync::Arc;

pin_project! {
    /// A body that ends its query: with the head's outcome at its end or its announced length, as broken off on an error, as
    /// dropped (or as the head said, if it said that it failed or was pushed back) when it is dropped before.
    pub struct LeasedBody<B> {
        #[pin]
        body: B,
        lease: Option<Lease>,
        outcome: Outcome,
        bytes_left: BytesLeft,
        classify: Arc<dyn Classify>,
    }

    impl<B> PinnedDrop for LeasedBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let Some(lease) = this.lease.take()
                && *this.outcome != Outcome::Success
            {
                lease.finish(*this.outcome);
            }
        }
    }
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
        let bytes_left = BytesLeft::of_response(head.status, &head.headers, &body, asks_head_only);
        let mut body = Self {
            body,
            lease: Some(lease),
            outcome,
            bytes_left,
            classify,
        };
        if body.body.is_end_stream() || bytes_left.is_none() {
            // Nobody polls a body that has ended, so this is the only moment to say so.
            end(&mut body.lease, outcome);
        }
        body
    }
}

fn end(lease: &mut Option<Lease>, outcome: Outcome) {
    if let Some(lease) = lease.take() {
        lease.finish(outcome);
    }
}

impl<B: Body> Body for LeasedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(cx));
        match &frame {
            None => end(this.lease, *this.outcome),
            Some(Err(_)) => end(this.lease, Outcome::Broken),
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    *this.outcome = this.classify.trailers(trailers, *this.outcome);
                }
                this.bytes_left.take(frame);
                if this.body.is_end_stream() || this.bytes_left.is_none() {
                    end(this.lease, *this.outcome);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> core::fmt::Debug for LeasedBody<B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LeasedBody")
            .field("lease", &self.lease)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
