//! Copies of one query, each of which goes to a replica of its own.

use crate::client::lease::Lease;
use slackwater_core::ReplicaId;
use slackwater_core::policy::{Attempt, Query};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where copies of one query have gone. Among a request's extensions it keeps a
/// [`Balance`](super::Balance) from sending a further copy to a replica that has one: clones share
/// it, and so do the clones of a request that has it. `[H1]`
#[derive(Clone, Debug)]
pub struct Copies {
    replicas: Arc<Mutex<Vec<ReplicaId>>>,
    /// What a copy is that is not the first.
    further: Attempt,
}

impl Default for Copies {
    fn default() -> Self {
        Self::new()
    }
}

impl Copies {
    /// Of a query that has not been sent. Its further copies are sent while the first is out.
    pub fn new() -> Self {
        Self {
            replicas: Arc::default(),
            further: Attempt::Hedge,
        }
    }

    /// Of a query that has not been sent. Each further copy is sent after the one before it failed.
    pub fn for_retries() -> Self {
        Self {
            replicas: Arc::default(),
            further: Attempt::Retry,
        }
    }

    /// Where they have gone, in order.
    pub fn replicas(&self) -> Vec<ReplicaId> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ReplicaId>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
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
        let further = Query {
            attempt: copies.further,
            avoid: &avoid,
            ..Query::first()
        };
        let is_first = avoid.is_empty();
        let lease = choose(if is_first { Query::first() } else { further })?;
        copies.lock().push(lease.replica());
        Some(lease)
    }
}
