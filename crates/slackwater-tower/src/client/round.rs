//! A query that waits for its probes: synchronous mode. `[S1]`
//!
//! The parts are public for drivers that are futures themselves; other callers use
//! [`Balancer::choose`]. A dropped round is forgotten, and later answers to it change nothing.

use super::balancer::Balancer;
use super::lease::Lease;
use super::rounds::RoundId;
use bytes::Bytes;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use slackwater_core::policy::{Explanation, Query};
use tokio::time::Sleep;

/// A probing round for one query. [`Round::send`] it, poll it until it is ready, then
/// [`Round::finish`] it.
#[must_use = "the query waits for it"]
pub struct Round {
    balancer: Balancer,
    id: RoundId,
    budget: Duration,
    /// Present from the first poll on.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Round {
    pub(super) fn new(balancer: &Balancer, id: RoundId, budget: Duration) -> Self {
        Self {
            balancer: balancer.clone(),
            id,
            budget,
            deadline: None,
        }
    }

    /// Sends the round's probes, with `hint` in each (empty: none). A hint of more than
    /// [`HINT_BYTES_MAX`](crate::wire::HINT_BYTES_MAX) bytes is left out. `[S3]`
    pub fn send(&mut self, hint: &Bytes) {
        self.balancer.send_round(self.id, hint);
    }

    /// Becomes ready when enough replicas have answered, when no outstanding probe is left, or at
    /// the deadline. Needs a tokio runtime with time.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let replaced = match self.balancer.lock().rounds.find_mut(self.id) {
            None => return Poll::Ready(()),
            Some(active) if active.round.is_ready() => return Poll::Ready(()),
            Some(active) => active.waker.replace(waker),
        };
        // Not under the lock: dropping a waker may run arbitrary code.
        drop(replaced);
        self.deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(self.budget)))
            .as_mut()
            .poll(cx)
    }

    /// Picks with the answers that have arrived. Returns `None` if there is no replica to choose.
    pub fn finish(self, query: Query<'_>) -> Option<Lease> {
        self.finish_explained(query, None)
    }

    /// As [`Round::finish`], and fills in `explanation`, if there is one, with the inputs of the
    /// choice.
    pub fn finish_explained(
        self,
        query: Query<'_>,
        explanation: Option<&mut Explanation>,
    ) -> Option<Lease> {
        self.balancer.finish_round(self.id, query, explanation)
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        // After `finish` the id is no longer valid, and this does nothing.
        let ended = self.balancer.lock().rounds.end(self.id);
        drop(ended);
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round")
            .field("id", &self.id)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
