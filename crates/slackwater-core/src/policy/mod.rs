//! Policies: which replica gets the next query.
//!
//! Every policy is a value behind one trait. A driver passes in what has happened ([`Event`]),
//! requests choices, polls what to do (`poll_…`) and inspects it (`fleet`, `counters`, `snapshot`).
//! Completion is part of the trait: each pick carries a [`Ticket`], which the driver returns with
//! the query's [`Outcome`], even if the query was dropped.
//!
//! A new policy needs one file in `policies/` and its lines in `policies/mod.rs`.

mod candidates;
mod comparison;
mod debug;
mod decay;
mod entry;
mod event;
mod explanation;
mod fleet;
mod health_view;
mod key_view;
mod last_probe;
mod latest;
pub(crate) mod mark;
mod narrow;
mod observe;
mod outcome;
mod policies;
mod polled;
mod polling;
mod pooled;
mod pooled_view;
mod probe;
mod probe_loss;
mod probed;
mod query;
mod report_yield;
pub(crate) mod settings;
mod stride;
#[cfg(test)]
mod trial;
mod turns;
mod unprobed;
mod usual;
mod waits;

pub use candidates::Candidates;
pub use comparison::{Best, Comparison, Equals, Factor, Step, Unit, Values};
pub use entry::{Carried, PolicyEntry, Reports};
pub use event::Event;
pub use explanation::{Candidate, Explanation, Out, OutReason};
pub use fleet::Fleet;
pub use health_view::{HealthCounters, HealthState, HealthView};
pub use key_view::{KeyChoice, KeyServer, KeyView, PartitionView};
pub use observe::{Counters, Ranked, ReasonCounts, ReplicaView, Snapshot};
pub use outcome::Outcome;
pub use policies::*;
pub use polled::{ChoosePolled, Polled};
pub use pooled_view::PooledView;
pub use probe::{Probe, ProbeId, ProbeRound, RoundReply};
pub use query::{Attempt, Decision, Pick, PickReason, Query, Ticket};
#[cfg(test)]
pub(crate) use settings::check_ranges;
pub use settings::{ConfigError, Field, Kind, Section, SectionVisitor, Settings, Valid};
pub(crate) use settings::{require, require_span, require_span_or_none, section};
pub use unprobed::{Choose, QueryEnd, Unprobed};

use crate::draw::Draw;
use crate::replica::ReplicaId;
use crate::time::Instant;
use core::fmt::Debug;

/// A way to choose replicas.
///
/// A choice never waits, never does I/O and never allocates `[A1]`. `now` should not step back. If
/// it does, the policy keeps the latest time that it has seen. No method has a default: a wrapper
/// that leaves one out does not compile, and a new [`Event`] passes through it.
pub trait Policy: Debug + Send {
    /// The name that selects it, as in [`POLICIES`].
    fn name(&self) -> &'static str;

    /// Handles an event. Only reports and timeouts need draws: with any other event,
    /// [`NoDraw`](crate::draw::NoDraw) is enough.
    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw);

    /// Chooses a replica for a query, and charges the choice in the same step. A
    /// [pinned](Query::pinned) query goes to its replica if that is available, and is charged as
    /// well. A query whose [probing round](Query::round) ends is decided by the answers. A
    /// [trial](Attempt::Trial) goes to a replica that health has taken out of the choice, or
    /// nowhere. `[S1]` `[S2]` `[H4]`
    ///
    /// An `explanation` is overwritten with what the choice was made from. It does not affect the
    /// choice.
    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision;

    /// Handles the head of a query's response: the latency ends now, while the query stays in
    /// flight to its last byte. `outcome` is that of the head: [`Outcome::Success`],
    /// [`Outcome::Failed`] or [`Outcome::PushedBack`]. Only the first call for a ticket counts;
    /// without one, latency ends with the query. A policy that measures no latency ignores it.
    /// `[T1]` `[T4]`
    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome);

    /// Handles the end of a query, with any outcome. Each ticket is returned exactly once.
    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome);

    /// The next probe to send, if one is due. Call it after each event until it returns `None`.
    /// Send each probe, and pass the answer back as [`Event::Report`].
    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe>;

    /// The replica that a probe was sent to. `None` once the probe has ended.
    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId>;

    /// When the policy next needs an [`Event::Timeout`], if at all.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether a [trial](Attempt::Trial) would find a replica now, as of the last event. Only
    /// health uses trials, and only with
    /// [`shadow_trials`](crate::health::HealthSettings::shadow_trials).
    fn wants_trial(&self) -> bool;

    /// Settles the standing of all replicas if that is due. Returns whether some may get less than
    /// their share of queries, so that a query may be kept from a replica that may be chosen. Only
    /// health does that.
    fn spares_some(&mut self, now: Instant) -> bool;

    /// The known replicas, and which of them are available.
    fn fleet(&self) -> &Fleet;

    /// Counts since the start.
    fn counters(&self) -> Counters;

    /// The current state of the policy, for display. It allocates, so it must not be used on a
    /// query's path.
    fn snapshot(&self, now: Instant) -> Snapshot;
}
