//! A worker's counts of a service's requests before they reach a replica, or that never do.

use crate::forward::{Count, Level, Moment};
use slackwater_telemetry::facts::{AdmissionCounts, LineFacts};
use slackwater_telemetry::latency_histogram::LatencyHistogram;

/// A worker's counts for one service; [`AdmissionCounts`] explains each.
#[derive(Debug, Default)]
pub(crate) struct ServiceCounts {
    pub(crate) retries_over_budget: Count,
    pub(crate) hedges: Count,
    pub(crate) hedges_won: Count,
    pub(crate) hedges_over_budget: Count,
    pub(crate) hedges_while_slow: Count,
    pub(crate) hedges_unknown: Count,
    pub(crate) ties: Count,
    pub(crate) ties_sent: Count,
    pub(crate) ties_won: Count,
    pub(crate) ties_dropped: Count,
    pub(crate) ties_over_budget: Count,
    pub(crate) shadow_trials: Count,
    pub(super) shed_queue_full: Count,
    pub(super) shed_wait_over: Count,
    pub(crate) shed_deadline: Count,
    pub(crate) shed_replicas_full: Count,
    pub(crate) queued: Count,
    /// Only with a limiter.
    pub(super) inside: Level,
    pub(crate) waiting: Level,
    pub(crate) oldest: Moment,
    /// Waits in the queue, including those without success.
    pub(crate) waits: LatencyHistogram,
    /// Requests whose response has not started.
    pub(crate) awaited: Level,
    /// Retries in flight that use the budget.
    pub(crate) retries_out: Level,
    /// Balances of the budgets for second copies, in millionths of a copy.
    pub(crate) hedges_saved: Level,
    pub(crate) ties_saved: Level,
    pub(crate) far: Count,
    pub(crate) mirrored: Count,
    pub(crate) mirror_skipped: Count,
}

impl ServiceCounts {
    /// Returns the state of the service's queue, if it has one.
    pub(crate) fn queue(&self) -> LineFacts {
        LineFacts {
            inside: self.inside.read(),
            waiting: self.waiting.read(),
            age_us: u64::try_from(self.oldest.age().as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// Returns the current counts.
    pub(crate) fn read(&self) -> AdmissionCounts {
        AdmissionCounts {
            queued: self.queued.read(),
            shed_queue_full: self.shed_queue_full.read(),
            shed_wait_over: self.shed_wait_over.read(),
            shed_deadline: self.shed_deadline.read(),
            shed_replicas_full: self.shed_replicas_full.read(),
            retries_over_budget: self.retries_over_budget.read(),
            hedges: self.hedges.read(),
            hedges_won: self.hedges_won.read(),
            hedges_over_budget: self.hedges_over_budget.read(),
            hedges_while_slow: self.hedges_while_slow.read(),
            hedges_unknown: self.hedges_unknown.read(),
            ties: self.ties.read(),
            ties_sent: self.ties_sent.read(),
            ties_won: self.ties_won.read(),
            ties_dropped: self.ties_dropped.read(),
            ties_over_budget: self.ties_over_budget.read(),
            shadow_trials: self.shadow_trials.read(),
            far: self.far.read(),
            mirrored: self.mirrored.read(),
            mirror_skipped: self.mirror_skipped.read(),
        }
    }
}
