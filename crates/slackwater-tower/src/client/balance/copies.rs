//! Copies of one query, each of which goes to a different replica.

use crate::client::balancer::{Balancer, Shared};
use crate::client::lease::Lease;
use slackwater_core::ReplicaId;
use slackwater_core::policy::{Attempt, Query};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The replicas, each with its balancer: those of two balancers may have the same id.
type SentTo = Vec<(Weak<Shared>, ReplicaId)>;

/// The replicas that copies of one query went to. As an extension of a request it keeps a
/// [`Balance`](super::Balance) from sending a further copy to one of them. Each balancer on a
/// request's way counts only the copies that it has picked for. Clones share the list, and so do
/// the clones of a request that has it. `[H1]`
#[derive(Clone, Debug)]
pub struct Copies {
    replicas: Arc<Mutex<SentTo>>,
    /// What a copy is that is not the first.
    further: Attempt,
}

impl Default for Copies {
    fn default() -> Self {
        Self::new()
    }
}

impl Copies {
    /// The copies of a query that has not been sent. Further copies are sent while the first is
    /// in flight.
    pub fn new() -> Self {
        Self {
            replicas: Arc::default(),
            further: Attempt::Hedge,
        }
    }

    /// The copies of a query that has not been sent. Each further copy is sent after the one before
    /// it failed.
    pub fn for_retries() -> Self {
        Self {
            replicas: Arc::default(),
            further: Attempt::Retry,
        }
    }

    /// The replicas of this balancer that the copies went to, in order.
    pub fn replicas(&self, balancer: &Balancer) -> Vec<ReplicaId> {
        let owner = Arc::as_ptr(&balancer.shared);
        let all = self.lock();
        let own = all.iter().filter(|(of, _)| of.as_ptr() == owner);
        own.map(|&(_, replica)| replica).collect()
    }

    /// How many copies were sent, by all balancers.
    pub(in crate::client) fn sent(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, SentTo> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Picks a replica of `balancer` for one more copy. Without `copies` it picks as for any query.
    pub(super) fn choose(
        copies: Option<&Self>,
        balancer: &Balancer,
        choose: impl FnOnce(Query<'_>) -> Option<Lease>,
    ) -> Option<Lease> {
        let Some(copies) = copies else {
            return choose(Query::first());
        };
        let avoid = copies.replicas(balancer);
        let further = Query {
            attempt: copies.further,
            avoid: &avoid,
            ..Query::first()
        };
        let is_first = avoid.is_empty();
        let lease = choose(if is_first { Query::first() } else { further })?;
        let owner = Arc::downgrade(&balancer.shared);
        copies.lock().push((owner, lease.replica()));
        Some(lease)
    }
}
