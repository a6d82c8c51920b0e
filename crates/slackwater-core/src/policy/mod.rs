//! Policies: who gets the next query.
//!
//! Every policy is a value behind one trait. A driver tells it what happened (`handle_…`, `add_…`, `remove_…`), asks
//! what it wants done (`poll_…`) and looks at it (`counters`, `snapshot`). Completion is part of the trait: each pick
//! carries a [`Ticket`], and whoever picked hands it back with the query's [`Outcome`], also when the query was dropped.
//!
//! Adding a policy is one file here and one line in [`POLICIES`].

mod c3;
mod candidates;
mod capacity;
mod decay;
mod els;
mod explanation;
mod fleet;
mod latest;
mod least_loaded;
mod linear;
mod observe;
mod peak_ewma;
mod polled;
mod polled_power_of_d;
mod polling;
mod pooled;
mod power_of_d;
pub mod prequal;
mod probe;
mod probed;
mod query;
mod random;
mod registry;
mod rif_then_latency;
mod round_robin;
mod settings;
mod shortest_expected_delay;
mod stride;
#[cfg(test)]
mod trial;
mod turns;
mod unprobed;
mod usual;
mod waits;
mod weighted_round_robin;

pub use c3::{C3, C3Config, C3Settings};
pub use candidates::Candidates;
pub use capacity::{Capacity, CapacityConfig, CapacitySettings};
pub use els::{Els, ElsConfig, ElsSettings};
pub use explanation::{Candidate, Explanation, Out, OutReason, Score};
pub use least_loaded::LeastLoaded;
pub use linear::{Linear, LinearConfig, LinearSettings};
pub use observe::{Counters, PooledView, ReasonCounts, ReplicaView, Snapshot};
pub use peak_ewma::{PeakEwma, PeakEwmaConfig, PeakEwmaSettings};
pub use polled::{ChoosePolled, Polled};
pub use polled_power_of_d::{PolledPowerOfD, PolledPowerOfDConfig, PolledPowerOfDSettings};
pub use power_of_d::{PowerOfD, PowerOfDConfig, PowerOfDSettings};
pub use prequal::{Prequal, PrequalConfig, PrequalSync};
pub use probe::{Probe, ProbeId, ProbeRound, RoundReply};
pub use query::{Attempt, Decision, Outcome, Pick, PickReason, Query, Ticket};
pub use random::Random;
pub use registry::{DEFAULT_POLICY, POLICIES, PolicyEntry, PolicySettings, policy_named};
pub use rif_then_latency::{RifThenLatency, RifThenLatencyConfig, RifThenLatencySettings};
pub use round_robin::RoundRobin;
#[cfg(test)]
pub(crate) use settings::check_ranges;
pub use settings::{ConfigError, Settings, Valid};
pub(crate) use settings::{require, require_span, require_span_or_none};
pub use shortest_expected_delay::{
    ShortestExpectedDelay, ShortestExpectedDelayConfig, ShortestExpectedDelaySettings,
};
pub use unprobed::{Choose, QueryEnd, Unprobed};
pub use weighted_round_robin::{
    WeightedRoundRobin, WeightedRoundRobinConfig, WeightedRoundRobinSettings,
};

use crate::draw::Draw;
use crate::replica::ReplicaId;
use crate::report::LoadReport;
use crate::time::Instant;
use core::fmt::Debug;

/// A way to choose replicas.
///
/// Picking never waits, never does I/O and never allocates `[A1]`. Events about replicas, probes or tickets that the
/// policy does not know (any more) are normal: ignored and, where they tell something, counted. What concerns asynchronous
/// probes, timeouts and heads is by default nothing, for policies that have none.
pub trait Policy: Debug + Send {
    /// The name by which users select it, as in [`POLICIES`].
    fn name(&self) -> &'static str;

    /// A replica joins the fleet and may be chosen and probed from now on. Adding a known replica changes nothing.
    fn add_replica(&mut self, now: Instant, replica: ReplicaId);

    /// A replica leaves the fleet: it is neither chosen nor probed any more, and all that was known of it is forgotten.
    fn remove_replica(&mut self, now: Instant, replica: ReplicaId);

    /// Takes a replica out of the choice (`false`: the driver ejects or drains it) or back into it. It stays known and
    /// probed. When no replica at all may be chosen, all may be (panic). `[A8]` `[A12]`
    fn set_available(&mut self, now: Instant, replica: ReplicaId, available: bool);

    /// Whether a replica may be chosen: it is known, nobody took it out of the choice, it does not drain by its own
    /// word, and it has not stopped answering probes while others go on. In a panic, false of all. `[Decision 0007]`
    fn is_available(&self, replica: ReplicaId) -> bool;

    /// How many replicas may be chosen; in a panic, none.
    fn available_count(&self) -> usize;

    /// Chooses a replica for a query, and charges the choice in the same step. A query that is [pinned](Query::pinned)
    /// goes where it is pinned to, if that replica may be chosen, and is charged alike.
    fn handle_query(&mut self, now: Instant, query: Query<'_>, draw: &mut dyn Draw) -> Decision {
        self.handle_query_explained(now, query, draw, None)
    }

    /// As [`Policy::handle_query`]; where there is an `explanation`, it says then what the choice was made from. It changes
    /// nothing of the choice, and what it said before is forgotten.
    fn handle_query_explained(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision;

    /// Whether [`Policy::poll_trial`] would give something now, as of the last event. By default never.
    fn wants_trial(&self) -> bool {
        false
    }

    /// Where a copy of a query is to go, whose answer nobody waits for: to a replica that is out, to see how it does. Charged
    /// as a choice is, and its ticket comes back as any other. There are no more of them than there may be trials, and
    /// none but with [`shadow_trials`](crate::health::HealthSettings::shadow_trials). `[H4]`
    fn poll_trial(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Pick> {
        let _ = (now, draw);
        None
    }

    /// The head of a query's response is here: its latency ends now, while it stays in flight to its last byte.
    /// `outcome` is what the head says: [`Outcome::Success`], [`Outcome::Failed`] or
    /// [`Outcome::PushedBack`]. Only the first call for a ticket
    /// counts; without one, latency ends with the query. A policy that measures no latency ignores it. `[T1]` `[T4]`
    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let _ = (now, ticket, outcome);
    }

    /// The end of a query, however it ended. Each ticket comes back exactly once.
    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome);

    /// Ends a probing round that [`Decision::Probe`] began for `query`, with whatever answers it has; `None` if no
    /// replica is left. Policies that never begin a round choose as they always do. `[S1]` `[S2]`
    fn finish_round(
        &mut self,
        now: Instant,
        round: ProbeRound,
        query: Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<Pick> {
        self.finish_round_explained(now, round, query, draw, None)
    }

    /// As [`Policy::finish_round`], explained as [`Policy::handle_query_explained`] does.
    fn finish_round_explained(
        &mut self,
        now: Instant,
        round: ProbeRound,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Option<Pick> {
        let _ = round;
        match self.handle_query_explained(now, query, draw, explanation) {
            Decision::Pick(pick) => Some(pick),
            Decision::Probe(_) | Decision::NoReplica => None,
        }
    }

    /// The next probe to send, if one is due. Call it after each event until it gives `None`; send what it gives, and
    /// hand the answer to [`Policy::handle_report`].
    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        let _ = (now, draw);
        None
    }

    /// The answer to a probe. One that comes after the probe's deadline is counted and ignored. `[A4]`
    fn handle_report(
        &mut self,
        now: Instant,
        probe: ProbeId,
        report: &LoadReport,
        draw: &mut dyn Draw,
    ) {
        let _ = (now, probe, report, draw);
    }

    /// What a replica has answered to a probe of a sibling's: of another client's on the same machine, which tells it on. It
    /// is as fair a sample of the fleet as the answers to one's own probes are. By default it is nothing. `[Decision 0006]`
    fn handle_sibling_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        draw: &mut dyn Draw,
    ) {
        let _ = (now, replica, report, draw);
    }

    /// Siblings have sent so many queries to a replica since they last said so. They are in flight there, as one's own are,
    /// and what is known of the replica counts them until it reports again. By default it is nothing. `[A11]`
    /// `[Decision 0006]`
    fn handle_sibling_queries(&mut self, replica: ReplicaId, queries: u32) {
        let _ = (replica, queries);
    }

    /// What a replica says of its load with a response, unasked. Such reports come from replicas that were chosen, so they
    /// are no fair sample of the fleet, and a policy that tells high from low by what it is told at one moment ignores them.
    /// One that only wants to know what a query costs there, or how much of its capacity is in use, may learn from them.
    /// `[A6]` `[Decision 0009]`
    fn handle_carried_report(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        let _ = (now, replica, report);
    }

    /// A probe is known to have failed before its deadline (refused, unreachable). The deadline itself needs no call:
    /// the policy watches it in [`Policy::handle_timeout`].
    fn handle_probe_lost(&mut self, now: Instant, probe: ProbeId, draw: &mut dyn Draw) {
        let _ = (now, probe, draw);
    }

    /// A probe could not be sent, by no fault of the replica's (the sender's queue is full): it tells nothing of the
    /// replica, and another one may go there at once.
    fn handle_probe_unsent(&mut self, probe: ProbeId) {
        let _ = probe;
    }

    /// When the policy next wants [`Policy::handle_timeout`] to be called, if at all.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Time has passed: probes whose deadline is over count as lost, idle probes fall due. `[A3]` `[A4]`
    fn handle_timeout(&mut self, now: Instant, draw: &mut dyn Draw) {
        let _ = (now, draw);
    }

    /// What has happened so far.
    fn counters(&self) -> Counters;

    /// What the policy knows now, for people to look at. Allocates; not for a query's path.
    fn snapshot(&self, now: Instant) -> Snapshot;
}
