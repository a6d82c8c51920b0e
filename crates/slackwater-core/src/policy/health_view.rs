//! What people may see of health: where each replica stands and why, and counts of what happened.

use crate::named;
use crate::replica::ReplicaId;
use core::fmt;
use core::time::Duration;

named! {
    /// Where a replica stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum HealthState by as_str {
        /// It has its whole share.
        Sound = "sound",
        /// It is new, or has restarted, and has not shown yet that it is as fast as the others.
        WarmingUp = "warming_up",
        /// It pushes queries back, and gets fewer for a moment.
        PushingBack = "pushing_back",
        /// It fails more often than the others or is slower, and gets what they have no room for.
        HeldBack = "held_back",
        /// It was out, and its share rises again.
        Returning = "returning",
        /// It is out for its failures.
        Ejected = "ejected",
        /// It is out for being slow, or for having stopped.
        OnProbation = "on_probation",
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A replica's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthView {
    /// Whose.
    pub replica: ReplicaId,
    /// Where it stands.
    pub state: HealthState,
    /// The part of the queries that may go there, in millionths; 0 of one that is out.
    pub share_millionths: u32,
    /// The part of its queries that succeed, in millionths, as it was estimated last: its own
    /// answers and its report, of which the worse counts.
    pub success_millionths: u32,
    /// What its good answers took of late; `None` if there were none.
    pub latency: Option<Duration>,
}

/// What has happened. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthCounters {
    /// Replicas that were taken out for their failures.
    pub ejections: u64,
    /// Replicas that were taken out for being slow or having stopped.
    pub probations: u64,
    /// Those that should have been taken out, and were not because too many were.
    pub spared: u64,
    /// Replicas that came back from being out.
    pub readmissions: u64,
    /// Queries sent as trials.
    pub trials: u64,
    /// Of these, those that went well.
    pub trials_passed: u64,
    /// Warm-ups begun: by who joined, and by who restarted.
    pub warm_ups: u64,
}
