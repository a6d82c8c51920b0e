//! Counts of a service's requests besides those of each replica.

use core::ops::AddAssign;

/// Results of requests to a service before they reached a replica. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdmissionCounts {
    /// Requests that had to wait for a permit.
    pub queued: u64,
    /// Requests rejected because no replica had a free connection in time.
    pub shed_replicas_full: u64,
    /// Requests rejected because the queue was full.
    pub shed_queue_full: u64,
    /// Requests rejected after waiting for `queue.wait_max`.
    pub shed_wait_over: u64,
    /// Requests rejected because their own deadline passed while they waited.
    pub shed_deadline: u64,
    /// Retries that were not made because the budget was used up.
    pub retries_over_budget: u64,
    /// Second copies of late requests.
    pub hedges: u64,
    /// Hedges whose answer was used. Part of `hedges`.
    pub hedges_won: u64,
    /// Late requests without a hedge, because the budget was used up.
    pub hedges_over_budget: u64,
    /// Late requests without a hedge, because too many were late.
    pub hedges_while_slow: u64,
    /// Requests without a delay after which they count as late: too few of their class had ended.
    pub hedges_unknown: u64,
    /// Requests sent with the name of a second replica.
    pub ties: u64,
    /// Tied requests whose second copy was sent. Part of `ties`.
    pub ties_sent: u64,
    /// Tied requests whose second copy's answer was used. Part of `ties`.
    pub ties_won: u64,
    /// Copies that a replica dropped because the other copy had started.
    pub ties_dropped: u64,
    /// Requests whose second copy was not sent, because too many had not been dropped.
    pub ties_over_budget: u64,
    /// Shadow trials: copies of requests to ejected replicas.
    pub shadow_trials: u64,
    /// Requests sent to replicas in another zone, including retries and copies.
    #[serde(default)]
    pub far: u64,
    /// Copies of requests sent to other services.
    pub mirrored: u64,
    /// Copies that were not sent: the body was too large or incomplete, or too many copies were in
    /// flight.
    pub mirror_skipped: u64,
}

impl AdmissionCounts {
    /// Requests that were turned away, for whatever reason.
    pub const fn shed(&self) -> u64 {
        self.shed_replicas_full + self.shed_queue_full + self.shed_wait_over + self.shed_deadline
    }
}

impl AddAssign for AdmissionCounts {
    fn add_assign(&mut self, other: Self) {
        self.queued += other.queued;
        self.shed_queue_full += other.shed_queue_full;
        self.shed_wait_over += other.shed_wait_over;
        self.shed_deadline += other.shed_deadline;
        self.shed_replicas_full += other.shed_replicas_full;
        self.retries_over_budget += other.retries_over_budget;
        self.hedges += other.hedges;
        self.hedges_won += other.hedges_won;
        self.hedges_over_budget += other.hedges_over_budget;
        self.hedges_while_slow += other.hedges_while_slow;
        self.hedges_unknown += other.hedges_unknown;
        self.ties += other.ties;
        self.ties_sent += other.ties_sent;
        self.ties_won += other.ties_won;
        self.ties_dropped += other.ties_dropped;
        self.ties_over_budget += other.ties_over_budget;
        self.shadow_trials += other.shadow_trials;
        self.far += other.far;
        self.mirrored += other.mirrored;
        self.mirror_skipped += other.mirror_skipped;
    }
}
