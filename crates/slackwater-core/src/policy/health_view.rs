//! Health as seen from outside: the state of each replica with its reason, and counts.

use crate::named;
use crate::replica::ReplicaId;
use core::fmt;
use core::time::Duration;

named! {
    /// The health state of a replica.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum HealthState by as_str {
        /// It has its whole share.
        Sound = "sound",
        /// It is new, or has restarted, and has not yet shown that it is as fast as the others.
        WarmingUp = "warming_up",
        /// It pushes queries back, and gets fewer for a moment.
        PushingBack = "pushing_back",
        /// It fails more often than the others or is slower, and gets only what they have no
        /// capacity for.
        HeldBack = "held_back",
        /// It was readmitted, and its share grows again.
        Returning = "returning",
        /// It is ejected for its failures.
        Ejected = "ejected",
        /// It is ejected because it is slow or has stopped.
        OnProbation = "on_probation",
    }
}

impl HealthState {
    /// The replica state that operators see: `ejected`, `limited` or `warming_up`. `None` if health
    /// does not limit the replica.
    pub const fn replica_state(self) -> Option<&'static str> {
        match self {
            Self::Sound => None,
            Self::WarmingUp | Self::Returning => Some("warming_up"),
            Self::PushingBack | Self::HeldBack => Some("limited"),
            Self::Ejected | Self::OnProbation => Some("ejected"),
        }
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
    /// The replica.
    pub replica: ReplicaId,
    /// Its state.
    pub state: HealthState,
    /// If it has less than its whole share: whether slowness is the reason, and not failures.
    pub is_slow: bool,
    /// The part of the queries that it may get, in millionths. 0 if it is out.
    pub share_millionths: u32,
    /// Its success rate in millionths, as of the last estimate: its answers or its report,
    /// whichever is worse.
    pub success_millionths: u32,
    /// Recent latency of its good answers. `None` if there were none.
    pub latency: Option<Duration>,
}

/// Counts of events. They only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthCounters {
    /// Replicas that were taken out for their failures.
    pub ejections: u64,
    /// Replicas that were taken out for being slow or having stopped.
    pub probations: u64,
    /// Replicas that were not taken out, although they should have been, because too many were out.
    pub spared: u64,
    /// Replicas that came back from being out.
    pub readmissions: u64,
    /// Queries sent as trials.
    pub trials: u64,
    /// Trials that passed.
    pub trials_passed: u64,
    /// Warm-ups started: replicas that joined or restarted.
    pub warm_ups: u64,
}
