//! One timer for all that a lane's task waits for.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use tokio::time::{Instant, Sleep};

/// A pause that ends on its own; at most one at a time.
#[derive(Debug)]
pub(super) struct Nap {
    sleep: Pin<Box<Sleep>>,
    is_on: bool,
}

impl Nap {
    pub(super) fn new() -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            is_on: false,
        }
    }

    /// Starts a pause of this length, unless one is on.
    pub(super) fn begin(&mut self, span: Duration) {
        if !self.is_on {
            self.shorten(span);
        }
    }

    /// Starts a pause of this length, unless one is on that ends earlier.
    pub(super) fn shorten(&mut self, span: Duration) {
        let until = Instant::now() + span;
        if !self.is_on || until < self.sleep.deadline() {
            self.sleep.as_mut().reset(until);
            self.is_on = true;
        }
    }

    /// Ready once at the end of each pause; never while none is on.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_on {
            return Poll::Pending;
        }
        let ended = self.sleep.as_mut().poll(cx);
        self.is_on = ended.is_pending();
        ended
    }
}
