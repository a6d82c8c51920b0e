//! Copies of one query, each of which goes to a replica of its own.

use crate::client::lease::Lease;
use slackwater_core::ReplicaId;
use slackwater_core::policy::Query;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where copies of one query have gone. Among a request's extensions it keeps a
/// [`Balance`](super::Balance) from sending a further copy to a replica that has one: clones share
/// it, and so do the clones of a request that has it. `[H1]`
#[derive(Clone, Debug, Default)]
pub struct Copies(Arc<Mutex<Vec<ReplicaId>>>);

impl Copies {
    /// Of a query that has not been sent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where they have gone, in order.
    pub fn replicas(&self) -> Vec<ReplicaId> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ReplicaId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses for one more copy; without copies for a query like others.
    pub(super) fn choose(
        copies: Option<&Self>,
        choose: impl FnOnce(Query<'_>) -> Option<Lease>,
    ) -> Option<Lease> {
        let Some(copies) = copies else {
            return choose(Query::first());
        };
        let avoid = copies.replicas();
        let lease = choose(if avoid.is_empty() {
            Query::first()
        } else {
            Query::hedge(&avoid)
        })?;
        copies.lock().push(lease.replica());
        Some(lease)
    }
}
