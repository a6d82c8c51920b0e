//! What each policy tells of its choices, and that to tell changes nothing.

use super::*;
use crate::draw::SplitMix64;
use crate::health::{HealthConfig, HealthSettings, build};
use crate::policy::{
    Decision, Outcome, POLICIES, Pick, PickReason, Policy, PolicySettings, ProbeRound, Query,
    Settings,
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
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
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
            policy.add_replica(Instant::EPOCH, replica);
        }
        Self {
            policy,
            replicas,
            now: Instant::EPOCH,
            draw: SplitMix64::new(5),
        }
    }

    /// Answers every probe that is due.
    fn answer_probes(&mut self) {
        self.policy.handle_timeout(self.now, &mut self.draw);
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            let mut report = self.report(probe.replica);
            report.query_rate_millis = Some(100_000);
            report.cpu_millionths = Some(500_000);
            (self.policy).handle_report(self.now, probe.id, &report, &mut self.draw);
        }
    }

    fn place(&self, replica: ReplicaId) -> usize {
        let place = self.replicas.iter().position(|&other| other == replica);
        place.expect("one of the fleet")
    }

    fn pick(&mut self, query: Query<'_>) -> Pick {
        let decision = self.policy.handle_query(self.now, query, &mut self.draw);
        match decision {
            Decision::Pick(pick) => pick,
            Decision::NoReplica => panic!("there are replicas"),
            Decision::Probe(mut round) => {
                self.answer(&mut round);
                let (policy, draw) = (&mut self.policy, &mut self.draw);
                let pick = policy.finish_round(self.now, round, query, draw);
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

    /// The replica at place i has i in flight and a latency of 10 + i ms.
    fn report(&self, replica: ReplicaId) -> LoadReport {
        let place = u32::try_from(self.place(replica)).expect("few");
        LoadReport::new(Rif::new(place), Some(10 * MS + MS * place))
    }

    fn explained(&mut self, query: Query<'_>) -> (Pick, Explanation) {
        let mut explanation = Explanation::new();
        let (now, draw) = (self.now, &mut self.draw);
        let explained = Some(&mut explanation);
        let pick = match (self.policy).handle_query_explained(now, query, draw, explained) {
            Decision::Pick(pick) => pick,
            Decision::NoReplica => panic!("there are replicas"),
            Decision::Probe(mut round) => {
                self.answer(&mut round);
                let (policy, draw) = (&mut self.policy, &mut self.draw);
                let explained = Some(&mut explanation);
                let pick = policy.finish_round_explained(now, round, query, draw, explained);
                pick.expect("there are replicas")
            }
        };
        (pick, explanation)
    }

    /// Some traffic, after which there are reports, latencies and weights.
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
        // Probes that the last query asked for.
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

#[test]
fn to_explain_changes_nothing_of_what_any_policy_does() {
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
fn every_policy_tells_of_the_one_that_it_chose_as_it_was_before_the_choice() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 6);
        rig.warm();
        let (pick, explanation) = rig.explained(Query::first());
        assert_eq!(explanation.available(), 6, "{}", entry.name);
        assert_eq!(explanation.outs(), [], "{}", entry.name);
        let replica = pick.ticket.replica();
        if matches!(entry.name, "random" | "round_robin") {
            assert_eq!(explanation.candidates(), [], "{}", entry.name);
            continue;
        }
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

#[test]
fn what_is_compared_is_what_decided() {
    for (policy, count) in [
        ("power_of_d", 2),
        ("polled_power_of_d", 2),
        ("peak_ewma", 2),
        ("least_loaded", 6),
        ("els", 6),
        ("weighted_round_robin", 6),
        ("rif_then_latency", 6),
        ("prequal_sync", 3),
    ] {
        let mut rig = Rig::new(policy, 6);
        rig.warm();
        let (pick, explanation) = rig.explained(Query::first());
        let candidates = explanation.candidates();
        assert_eq!(candidates.len(), count, "{policy}: {explanation:?}");
        let best = candidates.iter().min_by_key(|candidate| candidate.rank());
        let best = best.expect("candidates").rank();
        let chosen = candidate(&explanation, pick.ticket.replica());
        let is_drawn = pick.reason == PickReason::Weighted || pick.reason == PickReason::Turn;
        assert!(
            is_drawn || chosen.rank() == best,
            "{policy}: {explanation:?}"
        );
        let is_scored = |candidate: &Candidate| match (policy, candidate.score) {
            ("peak_ewma", Some(Score::Nanoseconds(ns))) => ns > 0,
            ("polled_power_of_d", Some(Score::Rif(_))) => true,
            ("els", Some(Score::Weight(part))) => part > 0 && part < 1_000_000,
            ("weighted_round_robin", Some(Score::Weight(weight))) => weight > 0,
            (_, score) => score.is_none(),
        };
        assert!(
            candidates.iter().all(is_scored),
            "{policy}: {explanation:?}"
        );
    }
}

#[test]
fn the_pool_is_told_with_its_limit_uses_and_scores() {
    for (policy, is_scored) in [("prequal", false), ("linear", true), ("c3", true)] {
        let mut rig = Rig::new(policy, 6);
        rig.warm();
        let before = rig.policy.snapshot(rig.now);
        let (pick, explanation) = rig.explained(Query::first());
        assert!(pick.chosen.is_some(), "{policy} chose by a report");
        let mut told: Vec<_> = (explanation.candidates().iter())
            .filter_map(|candidate| candidate.report)
            .collect();
        told.sort_by_key(|report| core::cmp::Reverse(report.age));
        assert_eq!(told, before.pool, "{policy}");
        for candidate in explanation.candidates() {
            assert_eq!(candidate.score.is_some(), is_scored, "{policy}");
        }
        let best = explanation.candidates().iter().min_by_key(|it| it.rank());
        assert_eq!(
            best.map(|best| best.replica),
            Some(pick.ticket.replica()),
            "{policy}"
        );
    }
}

#[test]
fn who_has_had_the_query_is_told_as_avoided_and_a_pinned_one_compares_nobody() {
    for policy in ["prequal", "rif_then_latency", "linear"] {
        let mut rig = Rig::new(policy, 4);
        rig.warm();
        let tried = [rig.replicas[0], rig.replicas[1]];
        let (_, explanation) = rig.explained(Query::retry(&tried));
        for candidate in explanation.candidates() {
            assert_eq!(
                candidate.avoided,
                tried.contains(&candidate.replica),
                "{policy}"
            );
        }
        let (pick, explanation) = rig.explained(Query::pinned(rig.replicas[3]));
        assert_eq!(pick.reason, PickReason::Pinned);
        assert_eq!((explanation.considered(), explanation.available()), (0, 4));
    }
}

#[test]
fn who_is_out_is_told_with_the_reason() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 4);
        let out = rig.replicas[2];
        rig.policy.set_available(rig.now, out, false);
        let (_, explanation) = rig.explained(Query::first());
        assert_eq!(explanation.available(), 3, "{}", entry.name);
        let taken_out = Out {
            replica: out,
            why: OutReason::TakenOut,
            share_millionths: 0,
        };
        assert_eq!(explanation.outs(), [taken_out], "{}", entry.name);
        assert_eq!(explanation.out(), 1);
    }
}

#[test]
fn a_replica_that_health_has_ejected_is_told_so() {
    let config: HealthConfig = HealthSettings::default().validate().expect("valid");
    let entry = POLICIES.iter().find(|entry| entry.name == "round_robin");
    let entry = entry.expect("a policy");
    let mut rig = Rig::of(build(entry, &PolicySettings::default(), &config), 5);
    let bad = rig.replicas[1];
    let mut told = None;
    for _ in 0..5_000 {
        rig.now += MS;
        let (pick, explanation) = rig.explained(Query::first());
        let is_bad = pick.ticket.replica() == bad;
        let outcome = if is_bad {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        rig.policy.handle_query_done(rig.now, pick.ticket, outcome);
        told = explanation.outs().first().copied().or(told);
        if told.is_some_and(|out| out.why == OutReason::Health(HealthState::Ejected)) {
            break;
        }
    }
    let told = told.expect("it is told of");
    assert_eq!(told.replica, bad);
    assert_eq!(told.why.as_str(), "ejected");
    assert_eq!(told.share_millionths, 0);
}

#[test]
fn of_many_candidates_the_best_are_told_and_the_chosen_one() {
    let mut rig = Rig::new("least_loaded", 100);
    for _ in 0..90 {
        let _ = rig.pick(Query::first());
    }
    let (pick, explanation) = rig.explained(Query::first());
    assert_eq!(explanation.considered(), 100);
    assert_eq!(explanation.candidates().len(), Explanation::CANDIDATES_MAX);
    let idle = explanation
        .candidates()
        .iter()
        .filter(|it| it.in_flight == 0);
    assert_eq!(idle.count(), 10, "all that are idle");
    candidate(&explanation, pick.ticket.replica());

    let mut rig = Rig::new("els", 100);
    for _ in 0..50 {
        let (pick, explanation) = rig.explained(Query::first());
        candidate(&explanation, pick.ticket.replica());
    }
}

#[test]
fn of_many_that_are_out_the_first_are_told_and_all_are_counted() {
    let mut rig = Rig::new("random", 50);
    for place in 0..40 {
        let out = rig.replicas[place];
        rig.policy.set_available(rig.now, out, false);
    }
    let (_, explanation) = rig.explained(Query::first());
    assert_eq!(explanation.outs().len(), Explanation::OUTS_MAX);
    assert_eq!((explanation.out(), explanation.available()), (40, 10));
}
