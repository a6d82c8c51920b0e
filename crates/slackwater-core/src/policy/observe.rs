//! A policy as seen from outside: counts, and a snapshot of its state.

use crate::fixed::Rate;
use crate::policy::comparison::{Comparison, Values};
use crate::policy::health_view::{HealthCounters, HealthView};
use crate::policy::key_view::KeyView;
use crate::policy::pooled_view::PooledView;
use crate::policy::query::PickReason;
use crate::replica::ReplicaId;
use crate::report::Rif;
use alloc::vec::Vec;

/// Number of picks for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasonCounts([u64; PickReason::ALL.len()]);

impl ReasonCounts {
    /// Picks for this reason.
    pub const fn of(&self, reason: PickReason) -> u64 {
        self.0[reason as usize]
    }

    /// All picks.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason with its picks.
    pub fn iter(&self) -> impl Iterator<Item = (PickReason, u64)> + '_ {
        PickReason::ALL
            .into_iter()
            .map(|reason| (reason, self.of(reason)))
    }

    pub(crate) const fn count(&mut self, reason: PickReason) {
        self.0[reason as usize] += 1;
    }

    /// Moves `picks` that were counted for one reason to another.
    pub(crate) const fn recount(&mut self, from: PickReason, to: PickReason, picks: u64) {
        self.0[from as usize] = self.0[from as usize].saturating_sub(picks);
        self.0[to as usize] += picks;
    }
}

/// Counts since the policy was created. They only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Picks by the rule that decided.
    pub picks: ReasonCounts,
    /// Queries for which there was no replica.
    pub no_replica: u64,
    /// Probes that were returned to be sent.
    pub probes_sent: u64,
    /// Probes that could not be sent, through no fault of the replica.
    pub probes_unsent: u64,
    /// Probes answered in time.
    pub probes_answered: u64,
    /// Probes that failed, or whose deadline passed.
    pub probes_lost: u64,
    /// Answers that came after their probe's deadline; each of these probes is also counted as
    /// lost. In a synchronous round: answers that the choice did not wait for.
    pub reports_late: u64,
    /// Answers from replicas that had left the fleet.
    pub reports_unknown: u64,
    /// Probes not sent because the replica was probed less than `probe_interval_min` ago or, if it
    /// is unprobed, answered for.
    pub probes_skipped_interval: u64,
    /// Probes not sent because one to the same replica was in flight.
    pub probes_skipped_outstanding: u64,
    /// Probes not sent because too many were in flight or waiting to be sent.
    pub probes_skipped_cap: u64,
    /// Probes not sent because of `probes_per_second_max`.
    pub probes_skipped_rate: u64,
    /// Probes that queries did not trigger, because probes showed an overload.
    pub probes_backed_off: u64,
    /// Probes that were triggered because none had been sent for `probe_idle_max`.
    pub probes_idle: u64,
    /// Probes of unprobed replicas, answered from the client's own measurements. `[A13]`
    pub probes_local: u64,
    /// Reports removed from the pool because their uses were spent.
    pub removed_spent: u64,
    /// Reports removed because of their age.
    pub removed_expired: u64,
    /// Reports removed by rate as the oldest.
    pub removed_oldest: u64,
    /// Reports removed by rate as the worst.
    pub removed_worst: u64,
    /// Removals by rate skipped because they would have left fewer than four reports in the pool.
    pub removals_withheld: u64,
    /// Reports evicted for a newer one from a full pool.
    pub evicted: u64,
    /// Reports replaced by a newer one of the same replica.
    pub replaced: u64,
    /// Synchronous rounds finished.
    pub rounds: u64,
    /// Time that queries spent in synchronous rounds, in nanoseconds. `[S4]`
    pub probing_ns: u64,
    /// Counts of health; all zero without it.
    pub health: HealthCounters,
}

/// The state of one replica in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each holds or not, whatever the others do"
)]
pub struct ReplicaView {
    /// The replica.
    pub replica: ReplicaId,
    /// It is available.
    pub available: bool,
    /// It reports that it takes no queries.
    pub draining: bool,
    /// Queries that this client has in flight there.
    pub in_flight: u32,
    /// It answers no probes and is balanced by what this client measures. `[A13]`
    pub unprobed: bool,
    /// It answered probes and no longer does, while others do: it is not chosen as long as there
    /// are others.
    pub lost: bool,
}

/// A replica in the order of the next choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The replica.
    pub replica: ReplicaId,
    /// The values of the compared factors.
    pub values: Values,
}

/// The state of a policy at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Every known replica.
    pub replicas: Vec<ReplicaView>,
    /// The pool, or other kept reports, oldest first. Empty for policies that keep none.
    pub pool: Vec<PooledView>,
    /// The reports of [`pool`](Self::pool) that the next query's choice compares, best first and of
    /// equals the older first. Empty if reports decide nothing, for example if there are too few.
    pub order: Vec<Ranked>,
    /// How they are compared; `None` if [`order`](Self::order) is empty.
    pub comparison: Option<&'static Comparison>,
    /// The values of its [shared](Comparison::shared) factors.
    pub shared: Values,
    /// The first of [`order`](Self::order), to which the next query goes if it may go to any.
    /// `None` if it has an equal, so that chance decides, or if there is no order. Under
    /// `shortest_expected_delay` the last turn decides between equals.
    pub next: Option<ReplicaId>,
    /// The current RIF limit; `None` if nothing is hot.
    pub rif_limit: Option<Rif>,
    /// Probes per query at present, in the mean: the policy's rate minus what it leaves out while
    /// probes show an overload, before `probes_per_second_max`. `None` if queries trigger no
    /// probes. `[A2]` `[Decision 0011]`
    pub probe_rate: Option<Rate>,
    /// Health of every known replica; empty without health.
    pub health: Vec<HealthView>,
    /// Keys; `None` without them.
    pub keys: Option<KeyView>,
}
