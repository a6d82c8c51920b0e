//! The wrapper: a policy that sends queries with a key to the replicas of the key.

use super::loads::Loads;
use super::order::Order;
use super::partitions::Partitions;
use super::recent::Recent;
use super::settings::KeyConfig;
use crate::draw::Draw;
use crate::policy::{
    Counters, Decision, Event, Explanation, Fleet, KeyChoice, KeyView, Outcome, Pick, PickReason,
    Policy, Probe, ProbeId, Query, ReasonCounts, Reports, Snapshot, Ticket, learns_rif,
    policy_named,
};
use crate::replica::ReplicaId;
use crate::report::LoadReport;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The reasons that the choice for a key has.
const REASONS: [PickReason; 3] = [
    PickReason::KeyHome,
    PickReason::KeySet,
    PickReason::KeySpill,
];

/// Wraps `policy` in keys. The policy has an empty fleet. Health, if there is any, belongs inside.
pub fn keyed(policy: Box<dyn Policy>, config: &KeyConfig) -> Box<dyn Policy> {
    Box::new(Keyed::new(policy, config.clone()))
}

/// A policy whose queries with a key go to the replicas of the key.
#[derive(Debug)]
pub struct Keyed {
    pub(super) policy: Box<dyn Policy>,
    pub(super) config: KeyConfig,
    /// It waits for probes, so the answers decide and nothing is bounded.
    pub(super) has_rounds: bool,
    /// The reports of responses have RIF.
    learns_rif: bool,
    pub(super) order: Order,
    pub(super) loads: Loads,
    pub(super) partitions: Partitions,
    /// Without partitions: the servers of keys.
    pub(super) recent: Recent,
    /// For each of [`REASONS`]: the picks by the reason that the policy gave.
    picks: [ReasonCounts; 3],
    /// What a query is [narrowed](Self::narrow) to, and the choice to explain: buffers.
    pub(super) homes: Vec<ReplicaId>,
    pub(super) among: Vec<ReplicaId>,
    pub(super) explained: KeyChoice,
    latest: Instant,
}

impl Keyed {
    /// Puts keys around a policy with an empty fleet.
    pub fn new(policy: Box<dyn Policy>, config: KeyConfig) -> Self {
        let entry = policy_named(policy.name());
        let has_rounds = entry.is_some_and(|entry| entry.reports == Reports::Round);
        let hinted = if has_rounds { config.hint_homes } else { 0 };
        Self {
            has_rounds,
            learns_rif: learns_rif(policy.name()),
            policy,
            recent: Recent::new(config.set.max(hinted).into()),
            order: Order::default(),
            loads: Loads::default(),
            partitions: Partitions::new(&config),
            config,
            picks: [ReasonCounts::default(); 3],
            homes: Vec::with_capacity(Query::AMONG_MAX),
            among: Vec::with_capacity(Query::AMONG_MAX),
            explained: KeyChoice::EMPTY,
            latest: Instant::EPOCH,
        }
    }

    fn tick(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Takes in an event before the policy does, which may forget what it is about.
    fn note(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Added(replica) => {
                if !self.policy.fleet().knows(replica) {
                    self.order.add(replica);
                    self.loads.add(replica);
                }
            }
            Event::Removed(replica) => {
                if self.policy.fleet().knows(replica) {
                    self.order.remove(replica);
                    self.loads.remove(replica);
                }
            }
            Event::Identified(replica, identity) => self.order.identify(replica, identity),
            Event::Report(probe, report) => {
                if let Some(replica) = self.policy.probe_target(probe) {
                    self.reported(now, replica, report);
                }
            }
            Event::CarriedReport(..) if !self.learns_rif => {}
            Event::SiblingReport(replica, report) | Event::CarriedReport(replica, report) => {
                self.reported(now, replica, report);
            }
            Event::SiblingQueries(replica, queries) => self.loads.siblings_sent(replica, queries),
            // They change which replicas may be chosen, which shows in the fleet.
            Event::Available(..)
            | Event::Far(..)
            | Event::ProbeLost(_)
            | Event::ProbeUnsent(_)
            | Event::Timeout => {}
        }
    }

    fn reported(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        self.loads.reported(now, replica, report);
    }

    /// Takes in the latency of a query, once: at the head of its response, or else at its end.
    #[inline]
    fn measure(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let is_first = !core::mem::replace(&mut ticket.is_measured, true);
        if is_first && outcome == Outcome::Success {
            let latency = now.saturating_since(ticket.sent_at());
            self.loads.answered(now, ticket.replica(), latency);
        }
    }

    /// Notes that a query is in flight.
    fn sent(&mut self, now: Instant, pick: &mut Pick, partition: Option<u16>) {
        self.loads.sent(pick.ticket.replica());
        self.partitions.sent(now, partition, &self.order);
        pick.ticket.partition = partition;
    }

    /// Gives a pick the reason that it has for the key, unless the policy had no choice.
    fn give_reason(&mut self, pick: &mut Pick, reason: PickReason) {
        let is_choice = !matches!(
            pick.reason,
            PickReason::Panic
                | PickReason::LastResort
                | PickReason::Pinned
                | PickReason::Room
                | PickReason::Trial
        );
        if let Some(place) = REASONS.iter().position(|&it| it == reason)
            && is_choice
        {
            self.picks[place].count(pick.reason);
            pick.reason = reason;
        }
    }
}

impl Policy for Keyed {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        let latest = self.tick(now);
        self.note(latest, event);
        self.policy.handle(now, event, draw);
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Decision {
        let latest = self.tick(now);
        self.loads.sweep(latest, self.policy.fleet().known());
        // A query that the caller has narrowed goes where the caller wants.
        let Some(key) = query.key.filter(|_| !query.is_narrow()) else {
            let mut decision = self.policy.choose(now, query, draw, explanation);
            if let Decision::Pick(pick) = &mut decision {
                self.sent(latest, pick, None);
            }
            return decision;
        };
        // Before the order is looked at, because it may change which replicas may be chosen.
        let spares_some = self.policy.spares_some(now);
        if !self.order.is_current(self.policy.fleet()) {
            self.order.refresh(self.policy.fleet(), &mut self.loads);
        }
        let mut set = self.homes_of(key);
        self.narrow(latest, query, (key, &mut set), spares_some);
        if explanation.is_some() {
            self.complete(key, &mut set);
            self.explain(query, &set);
        }
        let query = Query {
            homes: &self.homes,
            among: &self.among,
            ..query
        };
        let mut decision = (self.policy).choose(now, query, draw, explanation.as_deref_mut());
        if let Some(explanation) = explanation {
            explanation.set_key(&self.explained);
        }
        if let Decision::Pick(pick) = &mut decision {
            let reason = self.reason(pick.ticket.replica(), &set);
            self.give_reason(pick, reason);
            self.sent(latest, pick, set.partition);
        }
        decision
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let latest = self.tick(now);
        self.measure(latest, ticket, outcome);
        self.policy.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, mut ticket: Ticket, outcome: Outcome) {
        let latest = self.tick(now);
        self.measure(latest, &mut ticket, outcome);
        self.loads.done(ticket.replica());
        self.partitions.done(latest, ticket.partition, &self.order);
        self.policy.handle_query_done(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        self.policy.poll_probe(now, draw)
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.policy.probe_target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.policy.poll_timeout()
    }

    fn wants_trial(&self) -> bool {
        self.policy.wants_trial()
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.policy.spares_some(now)
    }

    fn fleet(&self) -> &Fleet {
        self.policy.fleet()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.policy.counters();
        for (reason, picks) in REASONS.into_iter().zip(&self.picks) {
            for (from, count) in picks.iter() {
                counters.picks.recount(from, reason, count);
            }
        }
        counters
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        let now = self.latest.max(now);
        let cap = self.loads.usual_cap(self.config.balance_factor_millionths);
        let view = KeyView {
            cap: cap.filter(|_| !self.has_rounds),
            ..self.partitions.view(now, &self.order)
        };
        Snapshot {
            keys: Some(view),
            ..self.policy.snapshot(now)
        }
    }
}
