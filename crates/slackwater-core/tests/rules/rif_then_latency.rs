//! RIF, then latency: the latest report of every replica, the load of others and the client's own,
//! near-ties, and stand-ins for reports.

use crate::silence::fall_silent;
use crate::world::{MS, World, load, quiet};
use core::time::Duration;
use slackwater_core::Rif;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Event, Outcome, Pick, PickReason, Policy, Query, RifThenLatency, RifThenLatencyConfig,
    RifThenLatencySettings, Settings, Ticket,
};
use std::collections::BTreeSet;

fn world_of(replicas: usize, settings: PrequalSettings) -> World<RifThenLatency> {
    let config = settings.validate().expect("in range");
    let policy = RifThenLatency::new(config, &RifThenLatencyConfig::default());
    World::of(replicas, policy)
}

fn world(replicas: usize) -> World<RifThenLatency> {
    world_of(replicas, quiet())
}

fn place(world: &World<RifThenLatency>, pick: &Pick) -> usize {
    let replica = pick.ticket.replica();
    let place = world.replicas.iter().position(|&other| other == replica);
    place.expect("one of the fleet")
}

/// The next query's ticket. Fails unless it goes to the replica at `expected`, by its report.
#[track_caller]
fn pick(world: &mut World<RifThenLatency>, expected: usize) -> Ticket {
    let pick = world.pick();
    assert_eq!(pick.reason, PickReason::Cold);
    assert_eq!(place(world, &pick), expected);
    pick.ticket
}

fn done(world: &mut World<RifThenLatency>, ticket: Ticket, outcome: Outcome) {
    world.policy.handle_query_done(world.now, ticket, outcome);
}

/// The RIF that each replica counts with.
fn rifs(world: &World<RifThenLatency>) -> Vec<Option<u32>> {
    let replicas = world.replicas.iter();
    replicas.map(|&replica| world.rif_of(replica)).collect()
}

#[test]
fn picks_match_a_hand_worked_trace() {
    let mut world = world(3);
    world.reports(&[(4, 30), (5, 10), (6, 1)]);
    // 5 is within a quarter of 4, 6 is not.
    let first = world.pick();
    assert_eq!((place(&world, &first), first.reason), (1, PickReason::Cold));
    assert_eq!(first.rif_limit, Some(Rif::new(6)));
    assert_eq!(first.runner_up, Some(world.replicas[0]));
    assert_eq!(first.candidates, 3);
    let report = first.chosen.expect("a report decided");
    assert_eq!((report.rif, report.hot), (Rif::new(5), false));

    // 4 (30 ms), 6, 6: only the first is near.
    let second = pick(&mut world, 0);
    // 5, 6 (10 ms), 6 (1 ms): all are near 5; the limit is 7.
    let third = pick(&mut world, 2);
    assert_eq!(rifs(&world), [Some(5), Some(6), Some(7)]);

    // A query that has ended no longer counts: 5 and 5, 10 ms against 30.
    done(&mut world, first.ticket, Outcome::Success);
    assert_eq!(rifs(&world), [Some(5), Some(5), Some(7)]);
    let fourth = pick(&mut world, 1);

    // Two of the 3 reported are the client's own: one of others, and two own.
    let fifth = pick(&mut world, 1);
    world.report(world.replicas[1], &load(3, 50));
    assert_eq!(rifs(&world), [Some(5), Some(3), Some(7)]);
    done(&mut world, fourth, Outcome::Dropped);
    done(&mut world, fifth, Outcome::Failed);
    assert_eq!(rifs(&world), [Some(5), Some(1), Some(7)]);

    // A report that is older than the client's own queries means that others have none there, not
    // fewer than none.
    world.now += MS;
    world.report(world.replicas[0], &load(0, 30));
    assert_eq!(rifs(&world), [Some(1), Some(1), Some(7)]);
    let sixth = pick(&mut world, 0);
    assert_eq!(world.pooled(), [2, 1, 0], "oldest first");
    assert_eq!(world.policy.counters().replaced, 2);
    drop((second, third, sixth));
}

#[test]
fn slack_bounds_the_near_candidates() {
    for (slack, limit) in [
        (1_000_000, 9),
        (1_124_999, 9),
        (1_125_000, 10),
        (2_000_000, 17),
    ] {
        let settings = RifThenLatencySettings {
            rif_slack_millionths: slack,
        };
        let config = quiet().validate().expect("in range");
        let policy = RifThenLatency::new(config, &settings.validate().expect("in range"));
        let mut world = World::of(3, policy);
        world.reports(&[(8, 9), (limit - 1, 8), (limit, 1)]);
        let pick = world.pick();
        assert_eq!(pick.rif_limit, Some(Rif::new(limit)));
        assert_eq!(place(&world, &pick), 1, "faster, and as good as the lowest");
        assert!(world.policy.snapshot(world.now).pool[2].hot);
    }
}

#[test]
fn busy_replica_is_never_near_an_idle_one() {
    let mut world = world(2);
    world.reports(&[(1, 1), (0, 500)]);
    let _ = pick(&mut world, 1);
}

#[test]
fn unknown_latency_is_the_median_of_known() {
    for (others, expected) in [([(8, 20), (9, 10)], 0), ([(8, 40), (9, 50)], 1)] {
        let mut world = world(4);
        let [third, fourth] = others;
        // 20 or 40 against the 30 of the other replica near the lowest RIF.
        world.reports(&[(4, 0), (4, 30), third, fourth]);
        let _ = pick(&mut world, expected);
    }
}

#[test]
fn lower_rif_breaks_latency_ties() {
    for (loads, expected) in [([(5, 10), (4, 10)], 1), ([(4, 10), (5, 10)], 0)] {
        let mut world = world(2);
        world.reports(&loads);
        let _ = pick(&mut world, expected);
    }
}

#[test]
fn full_ties_are_broken_by_a_draw() {
    let mut world = world(3);
    let mut counts = [0_i32; 3];
    for _ in 0..300 {
        world.reports(&[(1, 10), (1, 10), (1, 20)]);
        let pick = world.pick();
        counts[place(&world, &pick)] += 1;
        done(&mut world, pick.ticket, Outcome::Success);
    }
    // Binomial: mean 150, standard deviation 8.7; the limit is six of them.
    assert!(counts[2] == 0 && (counts[0] - 150).abs() < 53, "{counts:?}");
}

#[test]
fn without_reports_lowest_own_rif_wins() {
    let mut world = world(3);
    let picks: Vec<_> = (0..7).map(|_| world.pick()).collect();
    assert!(
        picks
            .iter()
            .all(|pick| pick.reason == PickReason::LeastLoaded)
    );
    let mut starts = BTreeSet::new();
    for three in picks.chunks_exact(3) {
        let places: BTreeSet<_> = three.iter().map(|pick| place(&world, pick)).collect();
        assert_eq!(places.len(), 3, "each once before any is chosen again");
        starts.insert(place(&world, &three[0]));
    }
    assert!(starts.len() > 1, "equals are drawn");
}

#[test]
fn one_fresh_report_is_enough_for_a_pick() {
    let mut world = world(3);
    world.report(world.replicas[1], &load(7, 100));
    let chosen = world.pick();
    assert_eq!((place(&world, &chosen), chosen.candidates), (1, 1));
    let avoid = [world.replicas[1]];
    let retry = world.pick_for(Query::retry(&avoid));
    assert_eq!(
        retry.reason,
        PickReason::LeastLoaded,
        "it has no other report"
    );
    assert_ne!(retry.ticket.replica(), world.replicas[1]);
}

#[test]
fn report_serves_any_number_of_queries_until_it_expires() {
    let mut world = world(2);
    world.reports(&[(0, 1), (9, 1)]);
    for _ in 0..500 {
        let ticket = pick(&mut world, 0);
        done(&mut world, ticket, Outcome::Success);
    }
    world.now += 999 * MS;
    world.report(world.replicas[1], &load(9, 1));
    assert_eq!(
        world.pooled(),
        [1],
        "a millisecond later the other is a second old"
    );
    let _ = pick(&mut world, 1);
    assert_eq!(world.policy.counters().removed_expired, 1);
    world.now += Duration::from_secs(1);
    assert_eq!(world.pick().reason, PickReason::LeastLoaded);
    assert_eq!(world.policy.counters().removed_expired, 2);
}

#[test]
fn reports_expire_one_by_one() {
    let mut world = world(3);
    for replica in world.replicas.clone() {
        world.report(replica, &load(1, 1));
        world.now += 400 * MS;
    }
    // The first is 1.2 s old, the others 0.8 s and 0.4 s, apart from the milliseconds that their
    // probes took.
    for (left, expired) in [(2, 1), (1, 2), (0, 3)] {
        assert_eq!(world.pick().candidates, left);
        assert_eq!(world.policy.counters().removed_expired, expired);
        world.now += 400 * MS;
    }
}

#[test]
fn report_of_unavailable_or_unreachable_replica_is_removed() {
    let mut world = world(4);
    let [first, second, third, _] = world.replicas[..] else {
        panic!("four replicas")
    };
    world.reports(&[(0, 1), (1, 1), (2, 1), (9, 1)]);
    world.handle(Event::Available(first, false));
    let ticket = pick(&mut world, 1);
    done(&mut world, ticket, Outcome::NoConnection);
    let mut draining = load(0, 1);
    draining.draining = true;
    world.report(third, &draining);
    assert_eq!(world.pooled(), [3]);
    let _ = pick(&mut world, 3);

    world.handle(Event::Available(first, true));
    world.handle(Event::Removed(second));
    assert_eq!(world.pooled(), [3], "its earlier report does not come back");
    world.report(first, &load(3, 1));
    let _ = pick(&mut world, 0);
}

#[test]
fn lowest_rif_wins_in_panic() {
    let mut world = world(2);
    world.reports(&[(0, 1), (0, 1)]);
    for replica in world.replicas.clone() {
        world.handle(Event::Available(replica, false));
    }
    let (first, second) = (world.pick(), world.pick());
    assert_eq!(first.reason, PickReason::Panic);
    assert_ne!(first.ticket.replica(), second.ticket.replica());
}

#[test]
fn local_only_uses_own_rif_and_round_trips() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = world_of(2, settings);
    // One answer of each is known: 40 ms from one, 5 ms from the other.
    let (first, second) = (world.pick(), world.pick());
    let (slow, fast) = (place(&world, &first), place(&world, &second));
    assert_ne!(slow, fast);
    world.now += 5 * MS;
    done(&mut world, second.ticket, Outcome::Success);
    world.now += 35 * MS;
    done(&mut world, first.ticket, Outcome::Success);
    world.refresh();
    let third = pick(&mut world, fast);
    let fourth = pick(&mut world, slow);
    assert_eq!(rifs(&world), [Some(1), Some(1)], "its own, at once");
    let fifth = pick(&mut world, fast);
    let pool = world.pool();
    assert!(
        pool.iter()
            .all(|view| view.local && view.uses_left == u32::MAX)
    );
    assert_eq!(world.policy.counters().probes_sent, 0);
    drop((third, fourth, fifth));
}

#[test]
fn a13_unreached_unprobed_replica_is_the_last_of_lowest_rif() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = world_of(3, settings);
    let [first, second, third] = world.replicas[..] else {
        panic!("three replicas")
    };
    let unreached = world.pick_for(Query::retry(&[first, third])).ticket;
    done(&mut world, unreached, Outcome::NoConnection);
    let out: Vec<_> = (0..4).map(|_| world.pick()).collect();
    assert!(
        out.iter().all(|pick| place(&world, pick) != 1),
        "though it has none in flight"
    );
    let last = world.pick_for(Query::retry(&[first, third]));
    assert_eq!(last.ticket.replica(), second);
    world.now += 1_000 * MS;
    assert_eq!(
        world.pick().ticket.replica(),
        second,
        "it has had its second"
    );
}

#[test]
fn a13_unprobed_replica_counts_with_a_load_that_another_reported() {
    let mut world = world(3);
    world.reports(&[(9, 10), (3, 5)]);
    assert_eq!(rifs(&world), [Some(9), Some(3), None]);
    fall_silent(&mut world, 2);
    for _ in 0..200 {
        world.reports(&[(4, 10), (4, 5)]);
    }
    world.refresh();
    // This client has nothing in flight, here and usually. The next query is charged.
    let _ = world.policy.snapshot(world.now);
    assert_eq!(rifs(&world), [Some(4); 3]);
    let avoid = [world.replicas[0], world.replicas[2]];
    let first = world.pick_for(Query::retry(&avoid)).ticket;
    assert_eq!(rifs(&world), [Some(4), Some(5), Some(4)]);
    // With one of its own where it usually has none, others have twice as many, too.
    let avoid = [world.replicas[0], world.replicas[1]];
    let second = world.pick_for(Query::retry(&avoid)).ticket;
    assert_eq!(rifs(&world), [Some(4), Some(5), Some(9)]);
    assert_eq!(world.pool().iter().filter(|view| view.local).count(), 1);
    drop((first, second));
}
