//! Policies: who gets the next query.
//!
//! Every policy is a value behind one trait. A driver passes it what has happened ([`Event`]), has
//! it choose, polls what is to be done (`poll_…`) and looks at it (`fleet`, `counters`,
//! `snapshot`). Completion is part of the trait: each pick carries a [`Ticket`], which the driver
//! hands back with the query's [`Outcome`], also when the query was dropped.
//!
//! Adding a policy is one file in `policies/` and its lines in `policies/mod.rs`.

mod candidates;
mod comparison;
mod debug;
mod decay;
mod entry;
mod event;
mod explanation;
mod fleet;
mod health_view;
mod latest;
pub(crate) mod mark;
mod observe;
mod outcome;
mod policies;
mod polled;
mod polling;
mod pooled;
mod pooled_view;
mod probe;
mod probed;
mod query;
mod settings;
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
pub(crate) use settings::{require, require_span, require_span_or_none};
pub use unprobed::{Choose, QueryEnd, Unprobed};

use crate::draw::Draw;
use crate::time::Instant;
use core::fmt::Debug;

/// A way to choose replicas.
///
/// Choosing never waits, never does I/O and never allocates `[A1]`. `now` should not step back;
/// where it does, the policy keeps the latest time that it has seen. No method has a default: a
/// policy around a policy that leaves one out does not compile, and a new [`Event`] passes through
/// it.
pub trait Policy: Debug + Send {
    /// The name by which users select it, as in [`POLICIES`].
    fn name(&self) -> &'static str;

    /// Handles what has happened. Draws are made for reports and timeouts alone: with any other
    /// event, [`NoDraw`](crate::draw::NoDraw) will do.
    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw);

    /// Chooses a replica for a query, and charges the choice in the same step. A query that is
    /// [pinned](Query::pinned) goes where it is pinned to, if that replica may be chosen, and is
    /// charged alike. One whose [probing round](Query::round) ends is chosen by the answers. One
    /// for a [trial](Attempt::Trial) goes to a replica that health has taken out of the choice, or
    /// nowhere. `[S1]` `[S2]` `[H4]`
    ///
    /// An `explanation` is overwritten with what the choice was made from; it changes nothing of
    /// the choice.
    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision;

    /// The head of a query's response is here: its latency ends now, while it stays in flight to
    /// its last byte. `outcome` is what the head says: [`Outcome::Success`], [`Outcome::Failed`] or
    /// [`Outcome::PushedBack`]. Only the first call for a ticket counts; without one, latency ends
    /// with the query. A policy that measures no latency ignores it. `[T1]` `[T4]`
    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome);

    /// The end of a query, however it ended. Each ticket comes back exactly once.
    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome);

    /// The next probe to send, if one is due. Call it after each event until it gives `None`; send
    /// what it gives, and hand the answer back as [`Event::Report`].
    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe>;

    /// When the policy next wants an [`Event::Timeout`], if at all.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether a [trial](Attempt::Trial) would go anywhere now, as of the last event. Only health
    /// wants trials, and only with [`shadow_trials`](crate::health::HealthSettings::shadow_trials).
    fn wants_trial(&self) -> bool;

    /// The replicas that it knows, and which of them may be chosen.
    fn fleet(&self) -> &Fleet;

    /// What has happened so far.
    fn counters(&self) -> Counters;

    /// What the policy knows now, for people to look at. Allocates; not for a query's path.
    fn snapshot(&self, now: Instant) -> Snapshot;
}
