//! What people may see of a policy: counts of what happened, and a picture of what it knows.

use crate::fixed::Rate;
use crate::policy::comparison::{Comparison, Values};
use crate::policy::health_view::{HealthCounters, HealthView};
use crate::policy::pooled_view::PooledView;
use crate::policy::query::PickReason;
use crate::replica::ReplicaId;
use crate::report::Rif;
use alloc::vec::Vec;

/// How many picks each reason made.
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

    /// So many picks that were counted for one reason were made for another.
    pub(crate) const fn recount(&mut self, from: PickReason, to: PickReason, picks: u64) {
        self.0[from as usize] = self.0[from as usize].saturating_sub(picks);
        self.0[to as usize] += picks;
    }
}

/// What has happened to a policy since it was made. Every count only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Picks by the rule that decided.
    pub picks: ReasonCounts,
    /// Queries for which there was no replica.
    pub no_replica: u64,
    /// Probes handed out to be sent.
    pub probes_sent: u64,
    /// Of these: could not be sent, by no fault of the replica's.
    pub probes_unsent: u64,
    /// Probes answered in time.
    pub probes_answered: u64,
    /// Probes that failed, or whose deadline passed.
    pub probes_lost: u64,
    /// Answers that came after their probe's deadline; each of these probes is counted as lost,
    /// too. In a synchronous round: answers that the choice did not wait for.
    pub reports_late: u64,
    /// Answers from replicas that had left the fleet.
    pub reports_unknown: u64,
    /// Probes not sent because the replica was probed less than `probe_interval_min` ago; or, if it
    /// is silent, answered for.
    pub probes_skipped_interval: u64,
    /// Probes not sent because one to the same replica was outstanding.
    pub probes_skipped_outstanding: u64,
    /// Probes not sent because too many were outstanding or waiting to be sent.
    pub probes_skipped_cap: u64,
    /// Probes not sent because `probes_per_second_max` had been.
    pub probes_skipped_rate: u64,
    /// Probes that queries did not ask for, because probing showed an overload.
    pub probes_backed_off: u64,
    /// Probes asked for because none had been sent for `probe_idle_max`.
    pub probes_idle: u64,
    /// Probes of silent replicas, answered from the client's own knowledge. `[A13]`
    pub probes_local: u64,
    /// Reports removed from the pool because their uses were spent.
    pub removed_spent: u64,
    /// Reports removed because of their age.
    pub removed_expired: u64,
    /// Reports removed by rate as the oldest.
    pub removed_oldest: u64,
    /// Reports removed by rate as the worst.
    pub removed_worst: u64,
    /// Removals by rate left out because they would have taken the pool below four.
    pub removals_withheld: u64,
    /// Reports that made room for a newer one in a full pool.
    pub evicted: u64,
    /// Reports replaced by a newer one of the same replica.
    pub replaced: u64,
    /// Synchronous rounds finished.
    pub rounds: u64,
    /// Time that queries spent in synchronous rounds, in nanoseconds. `[S4]`
    pub probing_ns: u64,
    /// What health has done; all zero without it.
    pub health: HealthCounters,
}

/// What a policy knows of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each holds or not, whatever the others do"
)]
pub struct ReplicaView {
    /// Which one.
    pub replica: ReplicaId,
    /// It may be chosen.
    pub available: bool,
    /// It said itself that it wants no queries.
    pub draining: bool,
    /// Queries that this client has in flight there.
    pub in_flight: u32,
    /// It answers no probes and is balanced by what this client sees itself. `[A13]`
    pub silent: bool,
    /// It has answered probes and does not any more, while others do: it is not chosen as long as
    /// there are others.
    pub lost: bool,
}

/// A replica in the order of the next choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Which one.
    pub replica: ReplicaId,
    /// The values of the factors that are compared.
    pub values: Values,
}

/// A policy's knowledge at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Every known replica.
    pub replicas: Vec<ReplicaView>,
    /// The pool, or whatever else is kept of reports, oldest first; empty for policies that keep
    /// none.
    pub pool: Vec<PooledView>,
    /// Whose reports of [`pool`](Self::pool) the next query's choice compares, the best first and
    /// of equals the older. Empty where reports decide nothing, such as too few of them.
    pub order: Vec<Ranked>,
    /// How they are compared; `None` where [`order`](Self::order) is empty.
    pub comparison: Option<&'static Comparison>,
    /// The values of its [shared](Comparison::shared) factors.
    pub shared: Values,
    /// The first of [`order`](Self::order), to which the next query goes if it may go to any.
    /// `None` where it has an equal, so that chance decides, and where there is no order. Under
    /// `shortest_expected_delay` the last turn of each decides between equals.
    pub next: Option<ReplicaId>,
    /// The RIF limit now; `None` where nothing is hot.
    pub rif_limit: Option<Rif>,
    /// Probes that the next query asks for, in the mean: what the policy wants, less what it leaves
    /// out while probing shows an overload; before `probes_per_second_max`. `None` where queries
    /// ask for no probes. `[A2]` `[Decision 0011]`
    pub probe_rate: Option<Rate>,
    /// Every known replica's health; empty where nobody watches it.
    pub health: Vec<HealthView>,
}
