//! A replica as one worker knows it.

use crate::forward::{Replica, ReplicaCounts};
use crate::service::admission::ReplicaLimiter;
use slackwater_config::ReplicaConfig;
use slackwater_core::ReplicaId;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// A replica to this worker.
#[derive(Debug)]
pub(crate) struct FleetReplica {
    pub(crate) config: ReplicaConfig,
    /// What the policy calls its parts; none if it has no weight.
    pub(crate) parts: Vec<ReplicaId>,
    pub(crate) connections: Rc<Replica>,
    pub(crate) counts: Arc<ReplicaCounts>,
    /// `None`: requests in flight there are not limited.
    pub(crate) replica_limiter: Option<Rc<ReplicaLimiter>>,
    /// When its weight was taken.
    pub(super) resting_since: Option<Instant>,
}

impl FleetReplica {
    pub(crate) fn counts(&self) -> &ReplicaCounts {
        &self.counts
    }
}
