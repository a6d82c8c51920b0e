//! What all policies without probes share: a fleet, counts, and the handling of a query from pick
//! to end.
//!
//! Such a policy only defines its rule of choice, a [`Choose`]. [`Unprobed`] turns that into a
//! [`Policy`]. A rule that learns from the client's own queries gets joins and leaves, latencies,
//! and ends of queries.

use crate::draw::Draw;
use crate::policy::Policy;
use crate::policy::candidates::Candidates;
use crate::policy::event::Event;
use crate::policy::explanation::{Candidate, Explanation, NotedDraws};
use crate::policy::fleet::Fleet;
use crate::policy::narrow::Narrowed;
use crate::policy::observe::{Counters, Snapshot};
use crate::policy::outcome::Outcome;
use crate::policy::probe::{Probe, ProbeId};
use crate::policy::query::{Attempt, Decision, Pick, PickReason, Query, Ticket};
use crate::policy::waits::Waits;
use crate::replica::ReplicaId;
use crate::time::Instant;
use core::cell::RefCell;
use core::fmt::Debug;
use core::time::Duration;

/// A rule of choice that uses only the fleet and what the client measures.
///
/// Time in its inputs never steps back. They may concern a replica that has left, or come back
/// under another name; a rule has only replicas that were added and not removed. By default a rule
/// learns nothing.
pub trait Choose: Debug + Send {
    /// The policy's name.
    const NAME: &'static str;
    /// The reason of its picks.
    const REASON: PickReason;

    /// Chooses one of the replicas that the query may go to.
    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId>;

    /// The reason of the last pick, for rules whose inputs may be missing.
    fn reason(&self) -> PickReason {
        Self::REASON
    }

    /// Adds a replica about which nothing is known.
    fn add_replica(&mut self, now: Instant, replica: ReplicaId) {
        let _ = (now, replica);
    }

    /// Removes a replica, and forgets what was known about it.
    fn remove_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Notes the latency of a good answer: at the head of the response or, if the driver reports no
    /// heads, at its end.
    fn handle_latency(&mut self, now: Instant, replica: ReplicaId, latency: Duration) {
        let _ = (now, replica, latency);
    }

    /// Notes the end of a query with its outcome. Called exactly once per query.
    fn handle_end(&mut self, now: Instant, end: &QueryEnd) {
        let _ = (now, end);
    }
}

/// The end of a query.
#[derive(Clone, Copy, Debug)]
pub struct QueryEnd {
    /// The replica that it went to.
    pub replica: ReplicaId,
    /// From the pick to the head of the response, or to the end of a query without one.
    pub latency: Duration,
    /// The outcome by the head, unless the response broke off after a good head: then it failed. A
    /// query given up after a good head is a success: the replica did its part.
    pub outcome: Outcome,
    /// Queries of this client that are still in flight there.
    pub in_flight: u32,
}

/// A policy without probes.
#[derive(Clone, Default)]
pub struct Unprobed<C> {
    pub(in crate::policy) fleet: Fleet,
    pub(in crate::policy) counters: Counters,
    pub(in crate::policy) rule: C,
    pub(in crate::policy) waits: Waits,
    /// The latest time seen: what a rule learns relies on time that does not step back.
    latest: Instant,
}

impl<C: Choose> Unprobed<C> {
    /// The policy with this rule and an empty fleet.
    pub fn with(rule: impl Into<C>) -> Self {
        Self {
            fleet: Fleet::default(),
            counters: Counters::default(),
            rule: rule.into(),
            waits: Waits::default(),
            latest: Instant::EPOCH,
        }
    }

    /// The current time: `now`, or the latest time seen if the driver's clock has stepped back.
    pub(in crate::policy) fn tick(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }
}

impl<C: Choose> Unprobed<C> {
    fn choose_explained(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: &mut Explanation,
    ) -> Option<ReplicaId> {
        let noted = RefCell::new(core::mem::take(explanation));
        let candidates = Candidates::new(now, &self.fleet, &self.waits, query);
        let mut draws = NotedDraws::new(draw);
        let choice = self.rule.choose(candidates.explained(&noted), &mut draws);
        *explanation = noted.into_inner();
        explanation.note_draw(draws.last);
        choice
    }
}

impl<C: Choose + Default> Unprobed<C> {
    /// The policy with an empty fleet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C: Choose> Policy for Unprobed<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, _draw: &mut dyn Draw) {
        match event {
            Event::Added(replica) => {
                let now = self.tick(now);
                if self.fleet.add(replica) {
                    self.waits.add(replica);
                    self.rule.add_replica(now, replica);
                }
            }
            Event::Removed(replica) => {
                self.tick(now);
                if self.fleet.remove(replica) {
                    self.waits.remove(replica);
                    self.rule.remove_replica(replica);
                }
            }
            Event::Available(replica, available) => {
                self.tick(now);
                self.fleet.set_ejected(replica, !available);
            }
            // It sends no probes, has nothing to wait for, and learns neither names nor reports.
            Event::Report(..)
            | Event::SiblingReport(..)
            | Event::Identified(..)
            | Event::Far(..)
            | Event::SiblingQueries(..)
            | Event::CarriedReport(..)
            | Event::ProbeLost(_)
            | Event::ProbeUnsent(_)
            | Event::Timeout => {}
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Decision {
        if query.attempt == Attempt::Trial {
            return Decision::NoReplica;
        }
        let now = self.tick(now);
        let narrowed;
        let mut query = query;
        if query.is_narrow() {
            narrowed = Narrowed::of(&self.fleet, query);
            query = narrowed.apply(query);
        }
        if let Some(explanation) = &mut explanation {
            self.fleet.explain(explanation);
        }
        let pinned = self.fleet.pinned(query);
        let choice = match &mut explanation {
            _ if pinned.is_some() => pinned,
            None => {
                let candidates = Candidates::new(now, &self.fleet, &self.waits, query);
                self.rule.choose(candidates, draw)
            }
            Some(explanation) => self.choose_explained(now, query, draw, explanation),
        };
        // The query may have tried all available replicas. One that is not available is better than
        // none.
        let replica = match (choice, &mut explanation) {
            (Some(_), _) => choice,
            (None, None) => self.fleet.random(query, draw),
            (None, Some(explanation)) => self.fleet.random_explained(query, draw, explanation),
        };
        let Some(replica) = replica else {
            self.counters.no_replica += 1;
            return Decision::NoReplica;
        };
        let rule = match choice {
            Some(_) => self.rule.reason(),
            None => PickReason::Random,
        };
        let reason = match choice {
            _ if pinned.is_some() => query.pin_reason(),
            _ if self.fleet.in_panic() => PickReason::Panic,
            Some(_) => rule,
            None => self.fleet.reason_for(replica, rule),
        };
        match explanation {
            Some(explanation) if pinned.is_some() => explanation.choose_pinned(replica),
            Some(explanation) => {
                let in_flight = self.fleet.in_flight(replica);
                explanation.choose(Candidate::new(replica, None, in_flight), rule, None);
            }
            None => {}
        }
        self.counters.picks.count(reason);
        self.fleet.query_sent(replica);
        self.waits.query_sent(now, replica);
        Decision::Pick(Pick::without_reports(Ticket::new(replica, now), reason))
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let now = self.tick(now);
        let Some(head) = ticket.end_latency(now, outcome) else {
            return;
        };
        self.waits.answered(now, ticket.replica());
        if !head.failed() {
            self.rule
                .handle_latency(now, ticket.replica(), head.latency);
        }
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        let now = self.tick(now);
        let replica = ticket.replica();
        self.fleet.query_done(replica);
        match (ticket.head, outcome) {
            (Some(_), _) => {}
            (None, Outcome::NoConnection | Outcome::Dropped) => self.waits.given_up(replica),
            (None, _) => self.waits.answered(now, replica),
        }
        let outcome = match ticket.head {
            Some(head) if head.failed() => head.outcome,
            Some(_) if outcome == Outcome::Dropped => Outcome::Success,
            _ => outcome,
        };
        let latency = ticket.head.map_or_else(
            || now.saturating_since(ticket.sent_at()),
            |head| head.latency,
        );
        if ticket.head.is_none() && outcome == Outcome::Success {
            self.rule.handle_latency(now, replica, latency);
        }
        let end = QueryEnd {
            replica,
            latency,
            outcome,
            in_flight: self.fleet.in_flight(replica),
        };
        self.rule.handle_end(now, &end);
    }

    fn poll_probe(&mut self, _now: Instant, _draw: &mut dyn Draw) -> Option<Probe> {
        None
    }

    fn probe_target(&self, _probe: ProbeId) -> Option<ReplicaId> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn wants_trial(&self) -> bool {
        false
    }

    fn spares_some(&mut self, _now: Instant) -> bool {
        false
    }

    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn snapshot(&self, _now: Instant) -> Snapshot {
        Snapshot {
            replicas: self.fleet.views(|_| false),
            ..Snapshot::default()
        }
    }
}
