//! Explanations of every policy's choices, and that explaining has no effect.

mod compared;
mod kept;
mod outs;
mod reasons;

use super::*;
use crate::draw::{NoDraw, SplitMix64};
use crate::health::{HealthConfig, HealthSettings, build};
use crate::policy::{
    Decision, Event, Outcome, POLICIES, Pick, PickReason, Policy, PolicySettings, ProbeRound,
    Query, Settings,
};
use crate::replica::ReplicaIds;
use crate::report::{LoadReport, Rif};
use crate::time::Instant;
use alloc::boxed::Box;
use core::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A policy with a fleet, driven by hand.
struct Rig {
    policy: Box<dyn Policy>,
    ids: ReplicaIds,
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
    /// The replica whose reports have the draining flag.
    draining: Option<ReplicaId>,
    /// Replicas that report no latency.
    without_latency: Vec<ReplicaId>,
    /// Whether reports contain capacity and cost: at place i they are i + 1 and i + 1 ms.
    with_capacity: bool,
}

impl Rig {
    fn new(policy: &str, replicas: usize) -> Self {
        let entry = POLICIES.iter().find(|entry| entry.name == policy);
        let entry = entry.expect("a policy of that name");
        Self::of((entry.build)(&PolicySettings::default()), replicas)
    }

    fn of(mut policy: Box<dyn Policy>, replicas: usize) -> Self {
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        Self {
            policy,
            ids,
            replicas,
            now: Instant::EPOCH,
            draw: SplitMix64::new(5),
            draining: None,
            without_latency: Vec::new(),
            with_capacity: false,
        }
    }

    /// A policy with health around it.
    fn guarded(policy: &str, replicas: usize) -> Self {
        let config: HealthConfig = HealthSettings::default().validate().expect("valid");
        let entry = POLICIES.iter().find(|entry| entry.name == policy);
        let entry = entry.expect("a policy of that name");
        Self::of(build(entry, &PolicySettings::default(), &config), replicas)
    }

    fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    fn join(&mut self) -> ReplicaId {
        let replica = self.ids.allocate().expect("room");
        self.handle(Event::Added(replica));
        self.replicas.push(replica);
        replica
    }

    /// Makes the first `count` replicas unavailable.
    fn take_out(&mut self, count: usize) {
        for place in 0..count {
            let replica = self.replicas[place];
            self.handle(Event::Available(replica, false));
        }
    }

    fn end(&mut self, pick: Pick, outcome: Outcome) {
        self.policy
            .handle_query_done(self.now, pick.ticket, outcome);
    }

    /// Runs queries that end this way at the replica at this place, as if they had tried all
    /// others.
    fn serve(&mut self, place: usize, outcome: Outcome, queries: usize) {
        let mut others = self.replicas.clone();
        others.remove(place);
        for _ in 0..queries {
            let pick = self.pick(Query::retry(&others));
            self.now += MS;
            self.end(pick, outcome);
        }
    }

    /// Answers every probe that is due.
    fn answer_probes(&mut self) {
        self.handle(Event::Timeout);
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            let mut report = self.report(probe.replica);
            report.query_rate_millis = Some(100_000);
            report.cpu_millionths = Some(500_000);
            self.handle(Event::Report(probe.id, &report));
        }
    }

    fn place(&self, replica: ReplicaId) -> usize {
        let place = self.replicas.iter().position(|&other| other == replica);
        place.expect("one of the fleet")
    }

    fn pick(&mut self, query: Query<'_>) -> Pick {
        let decision = self.policy.choose(self.now, query, &mut self.draw, None);
        match decision {
            Decision::Pick(pick) => pick,
            Decision::NoReplica => panic!("there are replicas"),
            Decision::Probe(mut round) => {
                self.answer(&mut round);
                let (policy, draw) = (&mut self.policy, &mut self.draw);
                let pick = policy
                    .choose(
                        self.now,
                        Query {
                            round: Some(&round),
                            ..query
                        },
                        draw,
                        None,
                    )
                    .pick();
                pick.expect("there are replicas")
            }
        }
    }

    fn answer(&self, round: &mut ProbeRound) {
        let targets: Vec<_> = round.targets().collect();
        for replica in targets {
            round.handle_report(replica, &self.report(replica));
        }
    }

    /// The report of the replica at place i: i in flight and a latency of 10 + i ms.
    fn report(&self, replica: ReplicaId) -> LoadReport {
        let place = u32::try_from(self.place(replica)).expect("few");
        let latency = Some(10 * MS + MS * place);
        let latency = latency.filter(|_| !self.without_latency.contains(&replica));
        let mut report = LoadReport::new(Rif::new(place), latency);
        report.draining = self.draining == Some(replica);
        if self.with_capacity {
            report.capacity_millirif = Some(1_000 * (place + 1));
            report.cost = Some(MS * (place + 1));
        }
        report
    }

    fn explained(&mut self, query: Query<'_>) -> (Pick, Explanation) {
        let mut explanation = Explanation::new();
        let (now, draw) = (self.now, &mut self.draw);
        let explained = Some(&mut explanation);
        let pick = match (self.policy).choose(now, query, draw, explained) {
            Decision::Pick(pick) => pick,
            Decision::NoReplica => panic!("there are replicas"),
            Decision::Probe(mut round) => {
                self.answer(&mut round);
                let (policy, draw) = (&mut self.policy, &mut self.draw);
                let explained = Some(&mut explanation);
                let round = Some(&round);
                let decision = policy.choose(now, Query { round, ..query }, draw, explained);
                decision.pick().expect("there are replicas")
            }
        };
        (pick, explanation)
    }

    /// Plays some traffic, after which there are reports, latencies and weights.
    fn warm(&mut self) {
        for _ in 0..60 {
            self.now += 250 * MS;
            self.answer_probes();
            let pick = self.pick(Query::first());
            self.now += 5 * MS;
            self.policy
                .handle_query_done(self.now, pick.ticket, Outcome::Success);
            self.answer_probes();
        }
        // Probes that the last query triggered.
        self.now += 20 * MS;
        self.answer_probes();
        self.now += 120 * MS;
        self.answer_probes();
    }
}

fn candidate(explanation: &Explanation, replica: ReplicaId) -> &Candidate {
    let mut candidates = explanation.candidates().iter();
    let found = candidates.find(|candidate| candidate.replica == replica);
    found.expect("one of the candidates")
}

/// The raw value of a candidate's factor.
fn value(explanation: &Explanation, candidate: &Candidate, key: &str) -> Option<u64> {
    let comparison = explanation.comparison().expect("candidates were compared");
    let place = comparison
        .factors
        .iter()
        .position(|factor| factor.key == key);
    candidate.values.at(place?)
}

#[test]
fn explaining_does_not_change_picks_of_any_policy() {
    for entry in POLICIES {
        let (mut plain, mut told) = (Rig::new(entry.name, 6), Rig::new(entry.name, 6));
        plain.warm();
        told.warm();
        for query in 0..200 {
            let expected = plain.pick(Query::first());
            let (found, _) = told.explained(Query::first());
            assert_eq!(
                expected.ticket.replica(),
                found.ticket.replica(),
                "{} {query}",
                entry.name
            );
            assert_eq!(expected.reason, found.reason);
            assert_eq!(expected.chosen, found.chosen);
            for (rig, pick) in [(&mut plain, expected), (&mut told, found)] {
                rig.now += 3 * MS;
                rig.policy
                    .handle_query_done(rig.now, pick.ticket, Outcome::Success);
                rig.answer_probes();
            }
        }
        assert_eq!(
            plain.policy.counters(),
            told.policy.counters(),
            "{}",
            entry.name
        );
    }
}

#[test]
fn explanation_shows_state_before_the_pick() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 6);
        rig.warm();
        let (pick, explanation) = rig.explained(Query::first());
        assert_eq!(explanation.available(), 6, "{}", entry.name);
        assert_eq!(explanation.outs(), [], "{}", entry.name);
        let replica = pick.ticket.replica();
        let chosen = candidate(&explanation, replica);
        assert_eq!(
            chosen.report, pick.chosen,
            "{}: {explanation:?}",
            entry.name
        );
        assert_eq!(chosen.in_flight, 0, "{}: before the charge", entry.name);
        assert_eq!(
            explanation.considered() as usize,
            explanation.candidates().len()
        );
        if let Some(runner_up) = pick.runner_up {
            candidate(&explanation, runner_up);
        }
    }
}
