//! S1–S4: synchronous mode.

use crate::world::{MS, load, quantile, rate};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Decision, Event, Explanation, Pick, PickReason, Policy, PrequalSync, ProbeRound, Query,
};
use slackwater_core::{
    Instant, LoadReport, LoadScale, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64,
};
use std::collections::{BTreeMap, BTreeSet};

struct Round {
    policy: PrequalSync,
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
}

impl Round {
    fn new(replicas: usize, sync_probes: u8) -> Self {
        Self::with(
            replicas,
            PrequalSettings {
                sync_probes,
                ..PrequalSettings::default()
            },
        )
    }

    fn with(replicas: usize, settings: PrequalSettings) -> Self {
        let mut policy = PrequalSync::new(settings.validate().expect("in range"));
        let mut ids = ReplicaIds::new();
        let now = Instant::from_nanos(5);
        let replicas: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(now, Event::Added(replica), &mut NoDraw);
        }
        Self {
            policy,
            replicas,
            now,
            draw: SplitMix64::new(3),
        }
    }

    fn begin(&mut self, query: Query<'_>) -> ProbeRound {
        match self.policy.choose(self.now, query, &mut self.draw, None) {
            Decision::Probe(round) => round,
            other => panic!("{other:?}"),
        }
    }

    fn finish(&mut self, round: &ProbeRound) -> Pick {
        let query = Query {
            round: Some(round),
            ..Query::first()
        };
        let decision = (self.policy).choose(self.now, query, &mut self.draw, None);
        decision.pick().expect("replicas are known")
    }

    /// Plays a round that probes every replica, answered by the given ones.
    fn play(&mut self, answers: &[(usize, LoadReport)]) -> Pick {
        let mut round = self.begin(Query::first());
        for (index, report) in answers {
            round.handle_report(self.replicas[*index], report);
        }
        self.finish(&round)
    }
}

#[test]
fn s1_d_distinct_replicas_are_probed_with_equal_probability() {
    let mut rounds = Round::new(10, 3);
    let mut counts = BTreeMap::new();
    for _ in 0..20_000 {
        let round = rounds.begin(Query::first());
        let targets: BTreeSet<_> = round.targets().collect();
        assert_eq!(targets.len(), 3);
        for target in targets {
            *counts.entry(target).or_insert(0_i32) += 1;
        }
    }
    // Binomial: mean 6,000, standard deviation 65; the limit is six of them.
    assert!(
        counts.values().all(|count| (count - 6_000).abs() < 390),
        "{counts:?}"
    );
    assert_eq!(counts.len(), 10);
}

#[test]
fn s1_retry_probes_d_other_replicas_with_equal_probability() {
    let mut rounds = Round::new(10, 3);
    let avoid = [rounds.replicas[4]];
    let mut counts = BTreeMap::new();
    for _ in 0..20_000 {
        let round = rounds.begin(Query::retry(&avoid));
        let targets: BTreeSet<_> = round.targets().collect();
        assert_eq!(targets.len(), 3);
        assert!(!targets.contains(&avoid[0]));
        for target in targets {
            *counts.entry(target).or_insert(0_i32) += 1;
        }
    }
    // Binomial: mean 6,667, standard deviation 67; the limit is six of them.
    assert!(
        counts.values().all(|count| (count - 6_667).abs() < 400),
        "{counts:?}"
    );
    assert_eq!(counts.len(), 9);
}

#[test]
fn s1_pick_waits_for_all_but_one_reply_and_at_least_two() {
    for (replicas, sync_probes, asked, quorum) in [
        (10, 2, 2, 2),
        (10, 3, 3, 2),
        (10, 4, 4, 3),
        (10, 8, 8, 7),
        (3, 5, 3, 2),
        (2, 5, 2, 2),
    ] {
        let mut rounds = Round::new(replicas, sync_probes);
        let mut round = rounds.begin(Query::first());
        let targets: Vec<_> = round.targets().collect();
        assert_eq!(targets.len(), asked, "at most the fleet");
        for (answers, &target) in targets.iter().enumerate() {
            assert_eq!(round.is_ready(), answers >= quorum, "{answers} of {asked}");
            round.handle_report(target, &load(1, 1));
            round.handle_report(target, &load(1, 1)); // only the first counts
        }
        assert!(round.is_ready());
    }
}

#[test]
fn s1_round_does_not_wait_for_lost_probes() {
    let mut rounds = Round::new(5, 3);
    let mut round = rounds.begin(Query::first());
    let targets: Vec<_> = round.targets().collect();
    assert_eq!(round.deadline(), rounds.now + 3 * MS);
    round.handle_lost(targets[0]);
    round.handle_report(targets[0], &load(0, 0)); // too late
    round.handle_report(targets[1], &load(5, 5));
    assert!(!round.is_ready());
    round.handle_lost(targets[2]);
    assert!(round.is_ready(), "no replica is left that could answer");
    let pick = rounds.finish(&round);
    assert_eq!(pick.ticket.replica(), targets[1]);
    let counters = rounds.policy.counters();
    assert_eq!(counters.probes_sent, 3);
    assert_eq!((counters.probes_answered, counters.probes_lost), (1, 2));
}

#[test]
fn s1_hot_cold_rule_uses_a_limit_from_responses() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(600_000),
        probe_rate: rate(0),
        ..PrequalSettings::default()
    };
    let mut rounds = Round::with(3, settings);
    // Responses: 4, 6, 9; the limit is the second of three.
    let pick = rounds.play(&[(0, load(6, 1)), (1, load(4, 80)), (2, load(9, 1))]);
    assert_eq!(
        (pick.reason, pick.rif_limit),
        (PickReason::Cold, Some(Rif::new(6)))
    );
    assert_eq!(pick.ticket.replica(), rounds.replicas[1]);
    assert_eq!(
        (pick.runner_up, pick.candidates),
        (Some(rounds.replicas[0]), 3)
    );
    assert!(!pick.chosen.expect("by a report").hot);
    // Now 4, 6, 7, 8, 9: the third of five is 7. Both answers are hot.
    let pick = rounds.play(&[(0, load(8, 1)), (2, load(7, 90))]);
    assert_eq!(
        (pick.reason, pick.rif_limit),
        (PickReason::Hot, Some(Rif::new(7)))
    );
    assert_eq!(pick.ticket.replica(), rounds.replicas[2]);
}

#[test]
fn a6_unavailable_replica_in_a_round_does_not_move_the_limit() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(999_999),
        probe_rate: rate(0),
        ..PrequalSettings::default()
    };
    let mut rounds = Round::with(4, settings);
    let [first, second, draining, ejected] = rounds.replicas[..] else {
        panic!("four replicas")
    };
    rounds
        .policy
        .handle(rounds.now, Event::Available(ejected, false), &mut NoDraw);
    let mut drains = load(50, 1);
    drains.draining = true;
    let (mut of_draining, mut of_ejected) = (0, 0);
    for _ in 0..100 {
        let mut round = rounds.begin(Query::first());
        for target in round.targets().collect::<Vec<_>>() {
            of_draining += u32::from(target == draining);
            of_ejected += u32::from(target == ejected);
            let report = match target {
                _ if target == first => load(6, 1),
                _ if target == second => load(4, 80),
                _ if target == draining => drains.clone(),
                _ => load(60, 1),
            };
            round.handle_report(target, &report);
        }
        let pick = rounds.finish(&round);
        assert_eq!(pick.rif_limit, Some(Rif::new(6)), "the highest of two");
    }
    assert!(of_draining > 10 && of_ejected > 10, "they answer");
}

#[test]
fn s2_sole_reply_is_used_and_no_reply_means_random_pick() {
    let mut rounds = Round::new(3, 3);
    let pick = rounds.play(&[(2, load(99, 99))]);
    assert_eq!(
        (pick.reason, pick.ticket.replica()),
        (PickReason::SoleAnswer, rounds.replicas[2])
    );
    assert_eq!(rounds.policy.counters().reports_late, 2);

    rounds.policy.handle(
        rounds.now,
        Event::Available(rounds.replicas[0], false),
        &mut NoDraw,
    );
    let mut chosen = BTreeSet::new();
    for _ in 0..200 {
        let pick = rounds.play(&[]);
        assert_eq!(pick.reason, PickReason::Fallback);
        chosen.insert(pick.ticket.replica());
    }
    assert_eq!(chosen, [rounds.replicas[1], rounds.replicas[2]].into());
}

#[test]
fn s2_excluded_replica_is_not_chosen_despite_its_reply() {
    let mut rounds = Round::new(3, 3);
    let mut draining = load(0, 1);
    draining.draining = true;
    let pick = rounds.play(&[(0, draining.clone()), (1, load(9, 9))]);
    assert_eq!(
        (pick.reason, pick.ticket.replica()),
        (PickReason::SoleAnswer, rounds.replicas[1])
    );
    // It is probed beside the others now and then, and comes back by its report.
    let was_asked = (0..100).any(|_| {
        let mut round = rounds.begin(Query::first());
        let asked = round.targets().any(|target| target == rounds.replicas[0]);
        for index in 0..3 {
            round.handle_report(rounds.replicas[index], &load(9, 9));
        }
        let _ = rounds.finish(&round);
        asked
    });
    assert!(was_asked);
    let pick = rounds.play(&[(0, load(0, 1)), (1, load(9, 9))]);
    assert_eq!(
        pick.ticket.replica(),
        rounds.replicas[0],
        "no longer draining"
    );

    let mut round = rounds.begin(Query::first());
    round.handle_report(rounds.replicas[0], &load(0, 1));
    round.handle_report(rounds.replicas[1], &load(9, 9));
    rounds
        .policy
        .handle(rounds.now, Event::Removed(rounds.replicas[0]), &mut NoDraw);
    assert_eq!(rounds.finish(&round).ticket.replica(), rounds.replicas[1]);
    assert_eq!(rounds.policy.counters().reports_unknown, 1);

    let all = [0, 1, 2].map(|_| draining.clone());
    let pick = rounds.play(&[(1, all[0].clone()), (2, all[1].clone())]);
    assert_eq!(pick.reason, PickReason::Panic);
}

#[test]
fn s2_replica_that_a_copy_took_during_the_round_is_not_chosen_again() {
    let mut rounds = Round::new(3, 3);
    let mut round = rounds.begin(Query::first());
    for (&replica, rif) in rounds.replicas.iter().zip([1, 5, 9]) {
        round.handle_report(replica, &load(rif, 9));
    }
    let taken = [rounds.replicas[0]];
    let query = Query {
        round: Some(&round),
        ..Query::hedge(&taken)
    };
    let mut explanation = Explanation::default();
    let decision =
        (rounds.policy).choose(rounds.now, query, &mut rounds.draw, Some(&mut explanation));
    let pick = decision.pick().expect("two are left");
    assert_eq!(pick.ticket.replica(), rounds.replicas[1]);
    assert_eq!(pick.candidates, 2);
    let avoided = explanation.candidates().iter().filter(|it| it.avoided);
    assert_eq!(avoided.map(|it| it.replica).collect::<Vec<_>>(), taken);
}

#[test]
fn s2_with_fewer_than_two_targets_no_replica_is_probed() {
    let mut rounds = Round::new(2, 3);
    let avoid = [rounds.replicas[0]];
    let decision = rounds
        .policy
        .choose(rounds.now, Query::retry(&avoid), &mut rounds.draw, None);
    let Decision::Pick(pick) = decision else {
        panic!("{decision:?}")
    };
    assert_eq!(
        (pick.reason, pick.ticket.replica()),
        (PickReason::Fallback, rounds.replicas[1])
    );
    assert_eq!(rounds.policy.counters().probes_sent, 0);
    let all = rounds.replicas.clone();
    let decision = rounds
        .policy
        .choose(rounds.now, Query::retry(&all), &mut rounds.draw, None);
    assert!(matches!(decision, Decision::NoReplica));
}

#[test]
fn s3_load_scale_affects_the_pick_but_not_the_distribution() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(500_000),
        ..PrequalSettings::default()
    };
    let mut rounds = Round::with(2, settings);
    let mut cached = load(20, 100);
    cached.load_scale = LoadScale::from_1024ths(102);
    // It looks like RIF 1.99 and 9.96 ms. The limit is the lower of 20 and 2.
    let pick = rounds.play(&[(0, cached.clone()), (1, load(2, 10))]);
    assert_eq!(pick.ticket.replica(), rounds.replicas[0]);
    assert_eq!(
        (pick.reason, pick.rif_limit),
        (PickReason::Cold, Some(Rif::new(2)))
    );
    let chosen = pick.chosen.expect("by a report");
    assert_eq!(
        (chosen.rif, chosen.latency),
        (Rif::new(20), Some(100 * MS)),
        "shown as it is"
    );
    // 2, 2, 20, 20: if the ring had scaled values, the limit would be lower.
    let _ = rounds.play(&[(0, cached.clone()), (1, load(20, 10))]);
    assert_eq!(
        rounds.policy.snapshot(rounds.now).rif_limit,
        Some(Rif::new(20))
    );

    cached.load_scale = LoadScale::from_1024ths(2048);
    cached.rif = Rif::new(11);
    let pick = rounds.play(&[(0, cached), (1, load(21, 10))]);
    assert_eq!(
        pick.reason,
        PickReason::Hot,
        "twice 11 is more than the limit"
    );
    assert_eq!(
        pick.ticket.replica(),
        rounds.replicas[1],
        "21 is less than twice 11"
    );
    assert_eq!(
        LoadScale::from_1024ths(0).in_1024ths(),
        1,
        "no replica is never busy"
    );
}

#[test]
fn s3_latency_is_scaled_as_well_as_rif() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(1_000_000),
        ..PrequalSettings::default()
    };
    for (latency_ms, chosen) in [(11, 0), (9, 1)] {
        let mut rounds = Round::with(2, settings.clone());
        let mut cached = load(5, 100);
        cached.load_scale = LoadScale::from_1024ths(102);
        let pick = rounds.play(&[(0, cached), (1, load(5, latency_ms))]);
        assert_eq!(
            pick.ticket.replica(),
            rounds.replicas[chosen],
            "100 ms look like 9.96 ms"
        );
    }
}

#[test]
fn s3_unknown_latency_is_scaled_as_the_median() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(1_000_000),
        sync_probes: 4,
        ..PrequalSettings::default()
    };
    let cached = |scale, latency_ms| {
        let mut cached = load(0, latency_ms);
        cached.load_scale = LoadScale::from_1024ths(scale);
        cached
    };
    // The median of what the others report is 40 ms; it is 20 ms with the scale of 512.
    for (other_ms, chosen) in [(21, 0), (19, 1)] {
        let mut rounds = Round::with(4, settings.clone());
        let answers = [
            (0, cached(512, 0)),
            (1, load(0, other_ms)),
            (2, cached(2_048, 40)),
            (3, load(0, 90)),
        ];
        let pick = rounds.play(&answers);
        assert_eq!(pick.ticket.replica(), rounds.replicas[chosen], "{other_ms}");
        assert_eq!(pick.runner_up, Some(rounds.replicas[1 - chosen]));
    }
    for chosen in 0..3 {
        let mut rounds = Round::with(3, settings.clone());
        let scale = |replica| if replica == chosen { 1_023 } else { 1_024 };
        let answers = [0, 1, 2].map(|replica| (replica, cached(scale(replica), 0)));
        let pick = rounds.play(&answers);
        assert_eq!(
            pick.ticket.replica(),
            rounds.replicas[chosen],
            "none is known"
        );
    }
}

#[test]
fn s4_probing_time_is_measured() {
    let mut rounds = Round::new(3, 3);
    for spent_us in [700, 3_000] {
        let round = rounds.begin(Query::first());
        rounds.now += Duration::from_micros(spent_us);
        let pick = rounds.finish(&round);
        assert_eq!(
            pick.probing,
            Duration::from_micros(spent_us),
            "also of a pick by chance"
        );
        assert_eq!(
            pick.ticket.sent_at(),
            rounds.now,
            "the query leaves after its probes"
        );
    }
    let counters = rounds.policy.counters();
    assert_eq!((counters.rounds, counters.probing_ns), (2, 3_700_000));
}

#[test]
fn s1_unavailable_replicas_do_not_fill_the_quorum() {
    let mut rounds = Round::new(20, 3);
    for index in 0..10 {
        let ejected = rounds.replicas[index];
        rounds
            .policy
            .handle(rounds.now, Event::Available(ejected, false), &mut NoDraw);
    }
    for _ in 0..1_000 {
        let mut round = rounds.begin(Query::first());
        let targets: Vec<_> = round.targets().collect();
        let ejected = targets
            .iter()
            .filter(|target| rounds.replicas[..10].contains(target))
            .count();
        assert_eq!(
            (targets.len() - ejected, ejected.min(1)),
            (3, ejected),
            "three, and at most a scout"
        );
        // The scout answers first; two of the others are needed to decide.
        for target in targets.iter().rev() {
            assert!(!round.is_ready());
            round.handle_report(*target, &load(1, 1));
            if round.is_ready() {
                break;
            }
        }
        let pick = rounds.finish(&round);
        assert!(rounds.replicas[10..].contains(&pick.ticket.replica()));
        assert_eq!(pick.candidates, 2);
    }
}
