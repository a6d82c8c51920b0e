//! A7, A8, A11: which replica is chosen, what is drawn, and how a choice is charged.

use crate::world::{World, load, quantile, quiet, quiet_default, rate};
use slackwater_core::Rif;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Decision, Event, PickReason, Policy, Query};
use std::collections::BTreeMap;

fn at_quantile(millionths: u32) -> PrequalSettings {
    PrequalSettings {
        rif_limit_quantile: quantile(millionths),
        ..quiet()
    }
}

#[test]
fn a7_quantile_zero_uses_rif_only_and_one_latency_only() {
    let loads = [(7, 10), (2, 80), (3, 5)];
    for (millionths, reason, chosen, second) in [
        (0, PickReason::Hot, 1, 2),
        (1_000_000, PickReason::Cold, 2, 0),
    ] {
        let mut world = World::new(3, at_quantile(millionths));
        world.reports(&loads);
        let pick = world.pick();
        assert_eq!(pick.reason, reason);
        assert_eq!(pick.ticket.replica(), world.replicas[chosen]);
        assert_eq!(pick.runner_up, Some(world.replicas[second]));
        assert_eq!(pick.rif_limit, (millionths == 0).then_some(Rif::ZERO));
    }
}

#[test]
fn a7_rif_equal_to_the_limit_is_hot() {
    // The 0.84 quantile of 1, 4, 4, 4 is the fourth value: the maximum, for which three are tied.
    let mut world = World::new(4, quiet());
    world.reports(&[(4, 1), (4, 2), (4, 3), (1, 90)]);
    let pick = world.pick();
    assert_eq!(pick.rif_limit, Some(Rif::new(4)));
    assert_eq!(
        pick.ticket.replica(),
        world.replicas[3],
        "the only cold one, however slow"
    );
    assert_eq!(pick.reason, PickReason::Cold);
    assert_eq!(
        pick.runner_up,
        Some(world.replicas[0]),
        "of the hot the one with the lower latency"
    );
}

#[test]
fn a7_default_quantile_uses_seven_of_ten() {
    // The 0.7 quantile of 1 to 10 is the seventh value; the paper's would be the ninth.
    let mut world = World::new(10, quiet_default());
    let latencies = [90, 80, 70, 60, 50, 40, 3, 2, 1, 1];
    let loads: Vec<_> = (1..).zip(latencies).collect();
    world.reports(&loads);
    let pick = world.pick();
    assert_eq!(pick.rif_limit, Some(Rif::new(7)));
    assert_eq!(pick.reason, PickReason::Cold);
    assert_eq!(
        pick.ticket.replica(),
        world.replicas[5],
        "the fastest below 7, and not the faster ones from there on"
    );
    assert_eq!(pick.runner_up, Some(world.replicas[4]));
}

#[test]
fn a7_unknown_latency_ranks_as_the_median() {
    // Known: 10, 20, 30, 40. The median is element ⌈4/2⌉, 20: better than 30 and 40, worse than 10.
    let loads = [(5, 30), (5, 0), (5, 10), (5, 20), (5, 40)];
    let mut world = World::new(5, at_quantile(1_000_000));
    world.reports(&loads);
    let pick = world.pick();
    assert_eq!(
        pick.ticket.replica(),
        world.replicas[2],
        "10 ms, known, beats unknown"
    );
    world.handle(Event::Removed(world.replicas[2]));
    // Known: 20, 30, 40; the median is 30.
    assert_eq!(
        world.pick().ticket.replica(),
        world.replicas[3],
        "20 ms beats unknown"
    );
    world.handle(Event::Removed(world.replicas[3]));
    // Known: 30, 40; the median is 30. Latencies tie, and RIF decides.
    world.report(world.replicas[1], &load(4, 0));
    let pick = world.pick();
    assert_eq!(
        pick.ticket.replica(),
        world.replicas[1],
        "tied with 30 ms, and of lower RIF"
    );
    assert_eq!(
        pick.chosen.expect("by a report").latency,
        None,
        "unknown is shown as unknown"
    );
}

#[test]
fn a7_equal_replicas_are_equally_likely() {
    let mut world = World::new(4, quiet());
    let mut counts = BTreeMap::new();
    for _ in 0..2_000 {
        world.reports(&[(1, 3); 4]);
        *counts.entry(world.pick().ticket.replica()).or_insert(0_i32) += 1;
    }
    // Binomial: mean 500, standard deviation 19; the limit is six of them.
    assert!(
        counts.values().all(|count| (count - 500).abs() < 117),
        "{counts:?}"
    );
    assert_eq!(counts.len(), 4);
}

#[test]
fn a8_fewer_than_two_reports_mean_a_random_pick() {
    let mut world = World::new(3, quiet());
    let pick = world.pick();
    assert_eq!((pick.reason, pick.candidates), (PickReason::Fallback, 0));
    assert_eq!((pick.chosen, pick.runner_up), (None, None));
    world.reports(&[(9, 9)]);
    let pick = world.pick();
    assert_eq!((pick.reason, pick.candidates), (PickReason::Fallback, 1));
    world.reports(&[(9, 9), (1, 1)]);
    let pick = world.pick();
    assert_eq!((pick.reason, pick.candidates), (PickReason::Cold, 2));
    assert_eq!(pick.ticket.replica(), world.replicas[1]);
}

#[test]
fn a8_excluded_replicas_do_not_count_as_candidates() {
    let mut world = World::new(4, quiet());
    world.reports(&[(1, 1), (2, 2), (3, 3)]);
    let avoid = [world.replicas[0]];
    let pick = world.pick_for(Query::retry(&avoid));
    assert_eq!((pick.reason, pick.candidates), (PickReason::Cold, 2));
    assert_eq!(pick.ticket.replica(), world.replicas[1]);
    let avoid = [world.replicas[0], world.replicas[1]];
    for _ in 0..100 {
        let pick = world.pick_for(Query::hedge(&avoid));
        assert_eq!((pick.reason, pick.candidates), (PickReason::Fallback, 1));
        assert!(!avoid.contains(&pick.ticket.replica()));
    }
    let all = world.replicas.clone();
    let decision = world
        .policy
        .choose(world.now, Query::retry(&all), &mut world.draw, None);
    assert!(
        matches!(decision, Decision::NoReplica),
        "it has been everywhere"
    );
    assert_eq!(world.policy.counters().no_replica, 1);
}

#[test]
fn a8_random_pick_is_uniform_over_available_replicas() {
    let mut world = World::new(6, quiet());
    world.handle(Event::Available(world.replicas[1], false));
    let mut counts = BTreeMap::new();
    for _ in 0..50_000 {
        *counts.entry(world.pick().ticket.replica()).or_insert(0_i32) += 1;
    }
    assert!(!counts.contains_key(&world.replicas[1]));
    // Binomial: mean 10,000, standard deviation 89; the limit is six of them.
    assert!(
        counts.values().all(|count| (count - 10_000).abs() < 540),
        "{counts:?}"
    );
}

#[test]
fn a8_if_no_replica_is_available_all_are_candidates() {
    let mut world = World::new(3, quiet());
    for index in 0..2 {
        world.handle(Event::Available(world.replicas[index], false));
    }
    let mut draining = load(1, 1);
    draining.draining = true;
    world.report(world.replicas[2], &draining);
    let mut counts = BTreeMap::new();
    for _ in 0..300 {
        let pick = world.pick();
        assert_eq!(pick.reason, PickReason::Panic);
        *counts.entry(pick.ticket.replica()).or_insert(0_i32) += 1;
    }
    assert_eq!(counts.len(), 3);
    world.handle(Event::Available(world.replicas[0], true));
    let pick = world.pick();
    assert_eq!(
        (pick.reason, pick.ticket.replica()),
        (PickReason::Fallback, world.replicas[0])
    );
}

#[test]
fn a8_fallback_pick_sends_probes() {
    let mut world = World::new(
        4,
        PrequalSettings {
            probe_rate: rate(3_000_000),
            ..quiet()
        },
    );
    assert_eq!(world.pick().reason, PickReason::Fallback);
    assert_eq!(world.probes().len(), 3);
}

#[test]
fn a8_fallback_pick_removes_a_report() {
    // This query can use one of five reports, so the pick is random. Removal takes the oldest.
    let settings = PrequalSettings {
        remove_rate: rate(1_000_000),
        ..quiet()
    };
    let mut world = World::new(6, settings);
    world.reports(&[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]);
    let avoid = [0, 1, 2, 3].map(|index| world.replicas[index]);
    let mut query = Query::first();
    query.avoid = &avoid;
    assert_eq!(world.pick_for(query).reason, PickReason::Fallback);
    assert_eq!(world.pooled(), [1, 2, 3, 4]);
}

#[test]
fn a11_every_kind_of_pick_increments_the_pooled_rif() {
    let mut world = World::new(2, quiet());
    world.reports(&[(3, 1), (9, 9)]);
    let [first, second] = world.replicas[..] else {
        panic!("two")
    };
    let pick = world.pick();
    assert_eq!(
        pick.chosen.expect("by a report").rif,
        Rif::new(3),
        "as it was at the choice"
    );
    assert_eq!(
        (world.rif_of(first), world.rif_of(second)),
        (Some(4), Some(9))
    );
    let _ = world.pick_for(Query::retry(&[]));
    assert_eq!(world.rif_of(first), Some(5));
    let _ = world.pick_for(Query::hedge(&[]));
    assert_eq!(world.rif_of(first), Some(6));

    let pick = world.pick_for(Query::retry(&[first]));
    assert_eq!(
        (pick.reason, pick.ticket.replica()),
        (PickReason::Fallback, second)
    );
    assert_eq!(world.rif_of(second), Some(10), "by chance, too");
    let uses: Vec<_> = world.pool().iter().map(|view| view.uses_left).collect();
    assert_eq!(uses, [13, 16], "what chance decided spends no use");
    assert_eq!(world.rif_of(first), Some(6), "and no other is charged");
}
