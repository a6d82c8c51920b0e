//! A1, A2, A4: probes that queries trigger, their targets, and how they end.

use crate::world::{MS, World, load, quantile, quiet, rate};
use core::time::Duration;
use slackwater_core::Instant;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Event, Policy, Query};
use std::collections::{BTreeMap, BTreeSet};

fn probing(probe_rate_millionths: u32) -> PrequalSettings {
    PrequalSettings {
        probe_rate: rate(probe_rate_millionths),
        idle_probes: 0,
        ..quiet()
    }
}

#[test]
fn a1_pick_sends_no_probe_itself_and_needs_no_report() {
    let mut world = World::new(3, PrequalSettings::default());
    let pick = world.pick();
    assert_eq!(pick.probing, Duration::ZERO);
    assert_eq!(
        world.policy.counters().probes_sent,
        0,
        "they wait to be polled"
    );
    assert_eq!(world.probes().len(), 3);
    assert_eq!(world.policy.counters().probes_sent, 3);
}

#[test]
fn a2_long_run_probe_rate_is_exact() {
    for millionths in [500_000, 333_333, 1_410_000, 3_000_000] {
        let mut world = World::new(50, probing(millionths));
        let mut sent = 0;
        for queries in 1..=2_000_u64 {
            let _ = world.pick();
            let probes = world.probes();
            let least = u64::from(millionths / 1_000_000);
            assert!(
                (least..=least + 1).contains(&(probes.len() as u64)),
                "floor or ceiling"
            );
            for probe in probes {
                sent += 1;
                world.answer(probe, &load(1, 1));
            }
            assert_eq!(
                sent,
                queries * u64::from(millionths) / 1_000_000,
                "after {queries}"
            );
        }
    }
}

#[test]
fn a2_probe_targets_are_distinct_and_pairs_equally_likely() {
    let mut world = World::new(6, probing(2_000_000));
    let mut pairs = BTreeMap::new();
    for _ in 0..30_000 {
        let _ = world.pick();
        let probes = world.probes();
        let pair: BTreeSet<_> = probes.iter().map(|probe| probe.replica).collect();
        assert_eq!(pair.len(), 2, "distinct");
        *pairs.entry(pair).or_insert(0_i32) += 1;
        for probe in probes {
            world.answer(probe, &load(1, 1));
        }
    }
    assert_eq!(pairs.len(), 15);
    // Binomial: mean 2,000, standard deviation 43; the limit is six of them.
    assert!(
        pairs.values().all(|count| (count - 2_000).abs() < 260),
        "{pairs:?}"
    );
}

#[test]
fn a2_query_probes_each_replica_at_most_once() {
    let mut world = World::new(2, probing(3_000_000));
    let _ = world.pick();
    let targets: BTreeSet<_> = world.probes().iter().map(|probe| probe.replica).collect();
    assert_eq!(targets.len(), 2);
}

#[test]
fn a2_unavailable_and_draining_replicas_are_probed() {
    let mut world = World::new(4, probing(4_000_000));
    let [ejected, draining, gone, _] = world.replicas[..] else {
        panic!("four")
    };
    let _ = world.pick();
    let probes = world.probes();
    assert_eq!(probes.len(), 4);
    for probe in probes {
        let mut report = load(1, 1);
        report.draining = probe.replica == draining;
        world.answer(probe, &report);
    }
    world.handle(Event::Available(ejected, false));
    let _ = world.pick();
    world.handle(Event::Removed(gone));
    let targets: BTreeSet<_> = world.probes().iter().map(|probe| probe.replica).collect();
    assert_eq!(targets, [ejected, draining, world.replicas[3]].into());
}

#[test]
fn a2_retries_and_hedges_trigger_no_probes() {
    let mut world = World::new(4, probing(3_000_000));
    let avoid = [world.replicas[0]];
    let _ = world.pick_for(Query::retry(&avoid));
    let _ = world.pick_for(Query::hedge(&avoid));
    assert_eq!(world.probes(), []);
}

#[test]
fn a2_probes_of_a_replica_respect_the_interval_and_do_not_overlap() {
    let settings = PrequalSettings {
        probe_interval_min: MS,
        ..probing(2_000_000)
    };
    let mut world = World::new(2, settings);
    let _ = world.pick();
    let probes = world.probes();
    assert_eq!(probes.len(), 2);
    let start = world.now;

    world.answer(probes[0], &load(1, 1));
    world.now = start + Duration::from_nanos(999_999);
    let _ = world.pick();
    assert_eq!(world.probes(), []);
    let counters = world.policy.counters();
    assert_eq!(counters.probes_skipped_interval, 1, "a nanosecond too soon");
    assert_eq!(counters.probes_skipped_outstanding, 1, "still out");

    world.now = start + MS;
    let _ = world.pick();
    let again: Vec<_> = world.probes().iter().map(|probe| probe.replica).collect();
    assert_eq!(
        again,
        [probes[0].replica],
        "the interval is over; the other is still out"
    );
    assert_eq!(world.policy.counters().probes_skipped_outstanding, 2);
}

#[test]
fn a2_interval_of_zero_matches_the_paper() {
    let mut world = World::new(2, probing(2_000_000));
    for _ in 0..100 {
        let _ = world.pick();
        let probes = world.probes();
        assert_eq!(probes.len(), 2, "at the same instant");
        for probe in probes {
            world.answer(probe, &load(1, 1));
        }
    }
}

#[test]
fn a4_reply_counts_only_before_the_deadline() {
    let settings = PrequalSettings {
        probe_deadline: 50 * MS,
        ..quiet()
    };
    let mut world = World::new(2, settings);
    let [early, late] = [world.replicas[0], world.replicas[1]].map(|id| world.probe(id));
    assert_eq!(early.deadline, world.now + 50 * MS);

    world.now = Instant::from_nanos(early.deadline.as_nanos() - 1);
    world.answer(early, &load(9, 9));
    assert_eq!(world.pooled(), [0]);
    world.now = late.deadline;
    world.answer(late, &load(9, 9));
    assert_eq!(world.pooled(), [0], "at the deadline it is over");
    let counters = world.policy.counters();
    assert_eq!((counters.probes_answered, counters.probes_lost), (1, 1));
    assert_eq!(counters.reports_late, 1);
}

#[test]
fn a4_late_reply_enters_neither_pool_nor_distribution() {
    let settings = PrequalSettings {
        probe_deadline: MS,
        rif_limit_quantile: quantile(500_000),
        ..quiet()
    };
    let mut world = World::new(1, settings);
    let probe = world.probe(world.replicas[0]);
    world.now = probe.deadline;
    world.answer(probe, &load(77, 7));
    assert_eq!(world.pool(), []);
    assert_eq!(
        world.policy.snapshot(world.now).rif_limit,
        None,
        "nothing has been learnt"
    );
}

#[test]
fn a4_probe_ends_once_and_its_slot_is_reused_safely() {
    let settings = PrequalSettings {
        probes_outstanding_max: 1,
        probe_deadline: MS,
        ..quiet()
    };
    let mut world = World::new(1, settings);
    let first = world.probe(world.replicas[0]);
    world.handle(Event::ProbeLost(first.id));
    world.handle(Event::ProbeLost(first.id));
    assert_eq!(world.policy.counters().probes_lost, 1);

    world.answer(first, &load(1, 1));
    let second = world.probe(world.replicas[0]);
    assert_eq!(world.pool(), [], "it had been lost");
    world.handle(Event::Report(first.id, &load(5, 5)));
    assert_eq!(
        world.pool(),
        [],
        "the first probe's answer is not the second's"
    );
    world.answer(second, &load(6, 6));
    assert_eq!(world.rif_of(world.replicas[0]), Some(6));
    world.handle(Event::Report(second.id, &load(8, 8)));
    assert_eq!(world.rif_of(world.replicas[0]), Some(6), "one answer each");
    let counters = world.policy.counters();
    assert_eq!((counters.probes_sent, counters.reports_late), (2, 3));
    assert_eq!(counters.probes_answered + counters.probes_lost, 2);
}

#[test]
fn a4_outstanding_probes_are_capped_and_deadlines_free_slots() {
    let settings = PrequalSettings {
        probes_outstanding_max: 3,
        probe_deadline: 50 * MS,
        ..probing(2_000_000)
    };
    let mut world = World::new(10, settings);
    let start = world.now;
    let mut sent = 0;
    for _ in 0..4 {
        let _ = world.pick();
        sent += world.probes().len();
    }
    let counters = world.policy.counters();
    assert_eq!(sent, 3);
    assert_eq!(
        counters.probes_skipped_cap + counters.probes_skipped_outstanding,
        5
    );
    assert!(counters.probes_skipped_cap >= 1);

    assert_eq!(
        world
            .policy
            .poll_timeout()
            .map(|at| at.max(start + 50 * MS)),
        Some(start + 50 * MS)
    );
    world.now = start + 50 * MS;
    world.handle(Event::Timeout);
    assert_eq!(
        world.policy.counters().probes_lost,
        3,
        "lost, and no error for any query"
    );
    let _ = world.pick();
    assert_eq!(world.probes().len(), 2);
}

#[test]
fn a4_unpolled_batches_are_bounded() {
    let mut world = World::new(10, probing(3_000_000));
    for _ in 0..1_000 {
        let _ = world.pick();
    }
    let sent = world.probes().len() as u64;
    let counters = world.policy.counters();
    let skipped = counters.probes_skipped_cap + counters.probes_skipped_outstanding;
    assert_eq!(sent, 10, "each replica once: the others found it out");
    assert_eq!(
        sent + skipped,
        3_000,
        "every triggered probe was sent or counted"
    );
    assert!(counters.probes_skipped_cap > 2_500);
}

/// How many probes each of twelve replicas gets from `queries` queries, at three per query and ten
/// queries a second. All probes are answered before the next query.
fn probes_of(settings: PrequalSettings, queries: u32) -> Vec<i64> {
    let mut world = World::new(12, settings);
    let mut counts = vec![0; 12];
    for _ in 0..queries {
        world.now += 100 * MS;
        let _ = world.pick();
        for probe in world.probes() {
            let asked = world.replicas.iter().position(|&id| id == probe.replica);
            counts[asked.expect("one of the fleet")] += 1;
            world.answer(probe, &load(1, 1));
        }
    }
    counts
}

/// Every replica has its share of the probes, up to chance: within six standard deviations, a bound
/// that one in 500 million misses.
#[track_caller]
fn check_shares(counts: &[i64], probes: i64) {
    assert_eq!(counts.iter().sum::<i64>(), probes);
    let mean = probes / 12;
    let tolerance = 6 * mean.isqrt();
    let is_fair = |count: &i64| (count - mean).abs() <= tolerance;
    assert!(counts.iter().all(is_fair), "{mean}: {counts:?}");
}

#[test]
fn a4_targets_are_random_at_the_cap_of_outstanding_probes() {
    for (outstanding_max, probes) in [(1, 12_000), (2, 24_000), (3, 36_000)] {
        let settings = PrequalSettings {
            probes_outstanding_max: outstanding_max,
            ..probing(3_000_000)
        };
        check_shares(&probes_of(settings, 12_000), probes);
    }
}

#[test]
fn a4_targets_are_random_at_the_rate_cap() {
    // One or two are paid for by the time of the next query, and 16 at the start.
    for (per_second, probes) in [(10, 12_016), (20, 24_016)] {
        let settings = PrequalSettings {
            probes_per_second_max: per_second,
            ..probing(3_000_000)
        };
        let counts = probes_of(settings, 12_000);
        assert!(counts.iter().sum::<i64>().abs_diff(probes) <= 2);
        let sent = counts.iter().sum();
        check_shares(&counts, sent);
    }
}

#[test]
fn a2_every_order_of_targets_is_equally_likely() {
    let mut world = World::new(4, probing(3_000_000));
    let mut orders = BTreeMap::new();
    for _ in 0..24_000 {
        let _ = world.pick();
        let probes = world.probes();
        let order: Vec<_> = probes.iter().map(|probe| probe.replica).collect();
        *orders.entry(order).or_insert(0_i32) += 1;
        for probe in probes {
            world.answer(probe, &load(1, 1));
        }
    }
    assert_eq!(orders.len(), 24);
    // Binomial: mean 1,000, standard deviation 31; the limit is six of them.
    let is_fair = |count: &i32| (count - 1_000).abs() < 190;
    assert!(orders.values().all(is_fair), "{orders:?}");
}
