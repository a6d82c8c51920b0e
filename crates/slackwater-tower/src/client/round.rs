//! A query that waits for its probes: synchronous mode. `[S1]`
//!
//! The parts are public for drivers that are futures themselves; everyone else calls
//! [`Balancer::choose`]. A round that is dropped is forgotten, and answers to it change nothing.

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
    /// There from the first poll on.
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

    /// Sends the round's probes, with `hint` in each (empty: none). `[S3]`
    pub fn send(&mut self, hint: &Bytes) {
        self.balancer.send_round(self.id, hint);
    }

    /// Ready when enough replicas have answered, when nobody is left who could, or at the deadline.
    /// Needs a tokio runtime with time.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let replaced = match self.balancer.lock().rounds.find_mut(self.id) {
            None => return Poll::Ready(()),
            Some(active) if active.round.is_ready() => return Poll::Ready(()),
            Some(active) => active.waker.replace(waker),
        };
        // Not under the lock: dropping a waker may run the code of whoever made it.
        drop(replaced);
        self.deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(self.budget)))
            .as_mut()
            .poll(cx)
    }

    /// Decides with the answers that are here; `None` if there is no replica to choose.
    pub fn finish(self, query: Query<'_>) -> Option<Lease> {
        self.finish_explained(query, None)
    }

    /// As [`Round::finish`]; where there is an `explanation`, it says then what the choice was made
    /// from.
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
        // After `finish` the name means nothing any more, and this does nothing.
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
