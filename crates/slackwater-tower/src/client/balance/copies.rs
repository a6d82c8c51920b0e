//! Copies of one query, each of which goes to a different replica.

use crate::client::lease::Lease;
use slackwater_core::ReplicaId;
use slackwater_core::policy::Query;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The replicas that copies of one query went to. As an extension of a request it keeps a
/// [`Balance`](super::Balance) from sending a further copy to one of them. Clones share it, and so
/// do the clones of a request that has it. `[H1]`
#[derive(Clone, Debug, Default)]
pub struct Copies(Arc<Mutex<Vec<ReplicaId>>>);

impl Copies {
    /// The copies of a query that has not been sent.
    pub fn new() -> Self {
        Self::default()
    }

    /// The replicas that the copies went to, in order.
    pub fn replicas(&self) -> Vec<ReplicaId> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ReplicaId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Picks a replica for one more copy. Without `copies` it picks as for any query.
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
