//! A5, A6, A12: what is in the pool, the source of the limit, and what leaves.

use crate::world::{MS, World, load, quantile, quiet};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Event, Outcome, PickReason, Policy};
use slackwater_core::{Instant, Rif};

#[test]
fn a5_full_pool_evicts_its_oldest_report() {
    let mut world = World::new(
        5,
        PrequalSettings {
            pool_capacity: 3,
            ..quiet()
        },
    );
    world.reports(&[(1, 1), (1, 1), (1, 1), (1, 1)]);
    assert_eq!(world.pooled(), [1, 2, 3]);
    let last = world.replicas[4];
    world.report(last, &load(99, 99));
    assert_eq!(
        world.pooled(),
        [2, 3, 4],
        "the oldest goes, however good, and the newest stays"
    );
    assert_eq!(world.policy.counters().evicted, 2);
}

#[test]
fn a5_new_report_replaces_the_old_one_of_its_replica() {
    let mut world = World::new(
        3,
        PrequalSettings {
            pool_capacity: 3,
            ..quiet()
        },
    );
    world.reports(&[(1, 1), (5, 5), (6, 6)]);
    assert_eq!(world.pick().ticket.replica(), world.replicas[0]);
    let before = world.pool()[0];
    assert_eq!((before.rif, before.uses_left), (Rif::new(2), 15));
    world.report(world.replicas[0], &load(3, 7));
    assert_eq!(
        world.pooled(),
        [1, 2, 0],
        "one entry for each replica, now the newest"
    );
    let after = world.pool()[2];
    assert_eq!(
        (after.rif, after.latency),
        (Rif::new(3), Some(7 * MS)),
        "nothing of the old one"
    );
    assert_eq!((after.uses_left, after.age), (16, Duration::ZERO));
    let counters = world.policy.counters();
    assert_eq!((counters.replaced, counters.evicted), (1, 0));
}

#[test]
fn a5_report_expires_at_the_age_limit() {
    let mut world = World::new(
        2,
        PrequalSettings {
            report_age_max: 100 * MS,
            ..quiet()
        },
    );
    let probes = [world.replicas[0], world.replicas[1]].map(|id| world.probe(id));
    for probe in probes {
        world.answer(probe, &load(1, 1));
    }
    let received = world.now;
    world.now = Instant::from_nanos((received + 100 * MS).as_nanos() - 1);
    assert_eq!(world.pick().reason, PickReason::Hot, "a nanosecond left");
    assert_eq!(world.pool().len(), 2);
    world.now = received + 100 * MS;
    assert_eq!(world.pool(), [], "it is no longer visible");
    assert_eq!(world.policy.counters().removed_expired, 0);
    assert_eq!(world.pick().reason, PickReason::Fallback);
    assert_eq!(
        world.policy.counters().removed_expired,
        2,
        "removed, not hidden"
    );
}

#[test]
fn a5_age_counts_from_receipt_and_is_not_renewed_by_use() {
    let mut world = World::new(
        3,
        PrequalSettings {
            report_age_max: 100 * MS,
            ..quiet()
        },
    );
    let probes = [0, 1, 2].map(|index| world.probe(world.replicas[index]));
    let sent = world.now;
    for (delay_ms, probe) in [(10, probes[0]), (40, probes[1]), (50, probes[2])] {
        world.now = sent + delay_ms * MS;
        world.answer(probe, &load(1, delay_ms.into()));
    }
    assert_eq!(world.pick().ticket.replica(), world.replicas[0]);
    world.now = sent + 110 * MS;
    assert_eq!(world.pick().ticket.replica(), world.replicas[1]);
    assert_eq!(world.policy.counters().removed_expired, 1);
}

#[test]
fn a6_limit_comes_from_responses_not_from_the_pool() {
    let mut world = World::new(16, quiet());
    for _ in 0..7 {
        world.reports(&[(1, 1); 14]);
    }
    for index in 0..14 {
        world.handle(Event::Removed(world.replicas[index]));
    }
    world.report(world.replicas[14], &load(50, 9));
    world.report(world.replicas[15], &load(40, 70));
    let pick = world.pick();
    assert_eq!(
        pick.rif_limit,
        Some(Rif::new(1)),
        "98 of 100 responses had RIF 1"
    );
    assert_eq!(
        pick.reason,
        PickReason::Hot,
        "a limit from this pool would leave 40 cold"
    );
    assert_eq!(pick.ticket.replica(), world.replicas[15]);
    assert!(world.pool().iter().all(|view| view.hot));
}

#[test]
fn a6_own_queries_heat_reports_but_do_not_move_the_limit() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(999_999),
        ..quiet()
    };
    let mut world = World::new(2, settings);
    world.reports(&[(3, 1), (4, 2)]);
    for expected in [PickReason::Cold, PickReason::Hot] {
        let pick = world.pick();
        assert_eq!((pick.reason, pick.rif_limit), (expected, Some(Rif::new(4))));
    }
}

#[test]
fn a6_last_128_responses_count() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(1),
        ..quiet()
    };
    let mut world = World::new(1, settings);
    let only = world.replicas[0];
    let limit = |world: &World| world.policy.snapshot(world.now).rif_limit;
    world.report(only, &load(5, 1));
    for _ in 0..127 {
        world.report(only, &load(9, 1));
    }
    assert_eq!(limit(&world), Some(Rif::new(5)), "the lowest of 128");
    world.report(only, &load(9, 1));
    assert_eq!(limit(&world), Some(Rif::new(9)), "forgotten");
}

#[test]
fn a12_departed_or_unavailable_replica_leaves_the_pool_at_once() {
    let mut world = World::new(4, quiet());
    world.reports(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
    world.handle(Event::Removed(world.replicas[1]));
    assert_eq!(world.pooled(), [0, 2, 3]);
    world.handle(Event::Available(world.replicas[0], false));
    assert_eq!(world.pooled(), [2, 3]);
    assert_eq!(world.pick().ticket.replica(), world.replicas[2]);

    world.report(world.replicas[0], &load(0, 1));
    assert_eq!(
        world.pooled(),
        [2, 3],
        "ejected: its reports are not pooled"
    );
    world.handle(Event::Available(world.replicas[0], true));
    assert_eq!(
        world.pooled(),
        [2, 3],
        "readmitted: its earlier report does not count"
    );
    world.report(world.replicas[0], &load(0, 1));
    assert_eq!(world.pooled(), [2, 3, 0]);
}

#[test]
fn a12_replica_reports_start_and_end_of_draining() {
    let mut world = World::new(3, quiet());
    world.reports(&[(1, 1), (2, 2), (3, 3)]);
    let leaver = world.replicas[0];
    let mut report = load(0, 1);
    report.draining = true;
    world.report(leaver, &report);
    assert_eq!(world.pooled(), [1, 2]);
    let view = world.policy.snapshot(world.now).replicas[0];
    assert!(view.draining && !view.available);

    world.handle(Event::Available(leaver, false));
    world.report(leaver, &load(0, 1));
    assert_eq!(
        world.pooled(),
        [1, 2],
        "no longer draining, but ejected now"
    );
    world.handle(Event::Available(leaver, true));
    world.report(leaver, &load(0, 1));
    assert_eq!(world.pooled(), [1, 2, 0]);
}

#[test]
fn a12_report_from_a_departed_replica_is_counted_and_ignored() {
    let settings = PrequalSettings {
        rif_limit_quantile: quantile(500_000),
        ..quiet()
    };
    let mut world = World::new(2, settings);
    let probe = world.probe(world.replicas[0]);
    world.handle(Event::Removed(world.replicas[0]));
    world.answer(probe, &load(9, 9));
    assert_eq!(world.pool(), []);
    assert_eq!(world.policy.snapshot(world.now).rif_limit, None);
    let counters = world.policy.counters();
    assert_eq!((counters.probes_answered, counters.reports_unknown), (1, 1));
}

#[test]
fn unreachable_replica_leaves_the_pool() {
    let mut world = World::new(3, quiet());
    world.reports(&[(1, 1), (2, 2), (3, 3)]);
    let pick = world.pick();
    assert_eq!(pick.ticket.replica(), world.replicas[0]);
    world
        .policy
        .handle_query_done(world.now, pick.ticket, Outcome::Failed);
    assert_eq!(world.pooled(), [0, 1, 2], "an error is an answer");
    let pick = world.pick();
    world
        .policy
        .handle_query_done(world.now, pick.ticket, Outcome::NoConnection);
    assert_eq!(world.pooled(), [1, 2]);
}
