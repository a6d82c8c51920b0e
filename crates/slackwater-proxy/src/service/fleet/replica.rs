//! A replica in one worker.

use crate::forward::{Replica, ReplicaCounts};
use crate::service::admission::{ReplicaLimiter, ServiceCounts};
use core::cell::Cell;
use slackwater_config::ReplicaConfig;
use slackwater_core::ReplicaId;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// A replica in this worker.
#[derive(Debug)]
pub(crate) struct FleetReplica {
    pub(crate) config: ReplicaConfig,
    /// The name in `config`, which records of requests share.
    pub(crate) name: Rc<str>,
    /// The policy's ids of its parts; empty if it has no weight.
    pub(crate) parts: Vec<ReplicaId>,
    pub(crate) connections: Rc<Replica>,
    pub(crate) counts: Arc<ReplicaCounts>,
    /// `None` if its requests in flight are not limited.
    pub(crate) replica_limiter: Option<Rc<ReplicaLimiter>>,
    /// Counts of the requests that leave this process's zone, if it is in another one.
    pub(super) far: Option<Arc<ServiceCounts>>,
    /// When its weight became 0.
    pub(super) resting_since: Option<Instant>,
    /// Whether it was not excluded when that was last looked at.
    pub(super) was_included: Cell<bool>,
}

impl FleetReplica {
    pub(crate) fn counts(&self) -> &ReplicaCounts {
        &self.counts
    }

    /// Counts a request that is sent there.
    #[inline]
    pub(crate) fn count_sent(&self) {
        self.counts.sent.add_one();
        if let Some(counts) = &self.far {
            counts.far.add_one();
        }
    }
}
