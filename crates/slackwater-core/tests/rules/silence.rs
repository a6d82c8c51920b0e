//! A13: replicas that answer no probes, over several steps.

use crate::world::{MS, World, load, quiet};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Event, Outcome, Policy, Query};
use slackwater_core::{Quantile, Rif};

/// Loses every probe until the replica is silent.
pub(crate) fn fall_silent<P: Policy>(world: &mut World<P>, index: usize) {
    let replica = world.replicas[index];
    for _ in 0..100_000 {
        if world.policy.snapshot(world.now).replicas[index].unprobed {
            return;
        }
        let probe = world.probe(replica);
        world.lose(probe);
        world.now += 100 * MS;
    }
    panic!("{replica} is never silent");
}

#[test]
fn a13_open_stream_is_no_stall_of_an_unprobed_replica() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = World::new(1, settings);
    for stays_open in [false, true] {
        let mut pick = world.pick();
        world.now += 5 * MS;
        world
            .policy
            .handle_head(world.now, &mut pick.ticket, Outcome::Success);
        if stays_open {
            world.now += 2_000 * MS;
            world.refresh();
            assert_eq!(world.pool()[0].latency, Some(5 * MS));
            assert_eq!(world.pool()[0].rif.count(), 1, "it still counts");
        }
        // Its reader leaves, which does not indicate a stall either.
        world
            .policy
            .handle_query_done(world.now, pick.ticket, Outcome::Dropped);
    }
    world.refresh();
    assert_eq!(world.pool()[0].latency, Some(5 * MS));
    assert_eq!(world.pool()[0].rif.count(), 0);
}

#[test]
fn a13_unreached_query_is_no_latency_sample() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = World::new(1, settings);
    let served = world.pick().ticket;
    world.now += 5 * MS;
    world
        .policy
        .handle_query_done(world.now, served, Outcome::Success);
    // One waits for 1.2 s, and meanwhile another does not reach the replica.
    let waits = world.pick().ticket;
    let start = world.now;
    let lost = world.pick().ticket;
    world.now += 100 * MS;
    world
        .policy
        .handle_query_done(world.now, lost, Outcome::NoConnection);
    world.now += 1_099 * MS;
    world.refresh();
    assert_eq!(
        (world.pool()[0].latency, world.pool()[0].rif.count()),
        (Some(1_200 * MS), 1),
        "no progress"
    );
    assert_eq!(world.now, start + 1_200 * MS);
    world
        .policy
        .handle_query_done(world.now, waits, Outcome::Failed);
    // A query that fails after 100 ms on its way does not indicate a stall either.
    let lost = world.pick().ticket;
    world.now += 100 * MS;
    world
        .policy
        .handle_query_done(world.now, lost, Outcome::NoConnection);
    world.now += 1_000 * MS;
    world.refresh();
    assert_eq!(
        (world.pool()[0].latency, world.pool()[0].rif.count()),
        (Some(5 * MS), 0),
        "no stop"
    );
}

#[test]
fn a13_queries_sent_before_probes_were_lost_count() {
    let mut world = World::new(1, quiet());
    let mut out: Vec<_> = (0..5).map(|_| world.pick().ticket).collect();
    fall_silent(&mut world, 0);
    assert_eq!(rif_of_silent(&mut world, 0), Some(5));
    out.push(world.pick().ticket);
    assert_eq!(rif_of_silent(&mut world, 0), Some(6));
    for ticket in out {
        world
            .policy
            .handle_query_done(world.now, ticket, Outcome::Success);
    }
    assert_eq!(rif_of_silent(&mut world, 0), Some(0));
}

#[test]
fn a13_draining_replica_without_replies_is_available_again() {
    let mut world = World::new(1, quiet());
    let mut draining = load(0, 1);
    draining.draining = true;
    world.report(world.replicas[0], &draining);
    assert!(!world.policy.snapshot(world.now).replicas[0].available);
    fall_silent(&mut world, 0);
    let view = world.policy.snapshot(world.now).replicas[0];
    assert!(view.available && !view.draining);
}

#[test]
fn a13_limit_is_reset_when_no_replica_replies() {
    let mut world = World::new(2, quiet());
    world.reports(&[(500, 10), (500, 10)]);
    assert_eq!(
        world.policy.snapshot(world.now).rif_limit.map(Rif::count),
        Some(500)
    );
    fall_silent(&mut world, 0);
    fall_silent(&mut world, 1);
    world.now += Duration::from_secs(2);
    world.refresh();
    let pool = world.pool();
    assert!(!pool.is_empty() && pool.iter().all(|view| view.local && view.rif.count() == 0));
    assert_eq!(
        world.policy.snapshot(world.now).rif_limit.map(Rif::count),
        Some(0)
    );
}

#[test]
fn a13_extreme_report_does_not_set_the_rif_of_others() {
    // For any limit: at 0 everything is hot, at 1 nothing.
    for rif_limit_quantile in [Quantile::ZERO, quiet().rif_limit_quantile, Quantile::ONE] {
        let mut world = World::new(
            8,
            PrequalSettings {
                rif_limit_quantile,
                ..quiet()
            },
        );
        for _ in 0..8 {
            world.reports(&[(2, 10), (2, 10), (2, 10), (2, 10), (2, 10), (2, 10)]);
            world.report(world.replicas[6], &load(u32::MAX, 10));
        }
        fall_silent(&mut world, 7);
        assert_eq!(rif_of_silent(&mut world, 7), Some(2));
    }
}

#[test]
fn a13_one_outlier_of_five_does_not_set_the_rif_of_others() {
    for (answering, expected) in [(5, 2), (4, 8)] {
        let mut world = World::new(answering + 1, quiet());
        for _ in 0..40 {
            world.reports(&[(2, 10), (2, 10), (2, 10), (2, 10)][..answering - 1]);
            world.report(world.replicas[answering - 1], &load(26, 10));
        }
        fall_silent(&mut world, answering);
        assert_eq!(rif_of_silent(&mut world, answering), Some(expected));
    }
}

/// The RIF that a silent replica counts with, once it is answered for again, for any age of its
/// probes.
fn rif_of_silent(world: &mut World, index: usize) -> Option<u32> {
    world.now += Duration::from_secs(2);
    world.refresh();
    world.rif_of(world.replicas[index])
}

#[test]
fn a13_rif_of_others_is_mean_of_64_reports_minus_own_rif() {
    let mut world = World::new(3, quiet());
    let [first, second, _] = world.replicas[..] else {
        panic!("three replicas")
    };
    for _ in 0..63 {
        world.report(first, &load(10, 10));
    }
    world.report(second, &load(9, 10));
    fall_silent(&mut world, 2);
    assert_eq!(rif_of_silent(&mut world, 2), Some(10), "639 / 64");
    for _ in 0..32 {
        world.report(second, &load(2, 10));
    }
    assert_eq!(rif_of_silent(&mut world, 2), Some(6), "383 / 64");
    // This client's own queries do not count as those of others.
    let avoid = [first, world.replicas[2]];
    let own: Vec<_> = (0..9)
        .map(|_| world.pick_for(Query::retry(&avoid)))
        .collect();
    for _ in 0..64 {
        world.report(second, &load(10, 10));
    }
    assert_eq!(rif_of_silent(&mut world, 2), Some(1), "64 / 64");
    drop(own);
}

#[test]
fn a13_reports_of_unavailable_replicas_do_not_estimate_others() {
    let mut world = World::new(4, quiet());
    let [first, second, ..] = world.replicas[..] else {
        panic!("four replicas")
    };
    let mut draining = load(0, 10);
    draining.draining = true;
    world.reports(&[(8, 10), (8, 10), (8, 10)]);
    fall_silent(&mut world, 3);
    world.handle(Event::Available(first, false));
    for _ in 0..10 {
        world.report(first, &load(0, 10));
        world.report(second, &draining);
    }
    assert_eq!(rif_of_silent(&mut world, 3), Some(8), "both run empty");
    world.handle(Event::Available(first, true));
    world.report(first, &load(0, 10));
    world.report(second, &load(0, 10));
    assert_eq!(
        rif_of_silent(&mut world, 3),
        Some(5),
        "both are back: 24 / 5"
    );
}

#[test]
fn a6_unavailable_replica_does_not_move_the_limit() {
    let mut world = World::new(3, quiet());
    let [first, second, third] = world.replicas[..] else {
        panic!("three replicas")
    };
    let limit = |world: &World| world.policy.snapshot(world.now).rif_limit.map(Rif::count);
    world.reports(&[(8, 10), (8, 10)]);
    let mut draining = load(900, 10);
    draining.draining = true;
    world.handle(Event::Available(first, false));
    for _ in 0..200 {
        world.report(first, &load(0, 10));
        world.report(second, &draining);
    }
    assert_eq!(
        limit(&world),
        Some(8),
        "neither by an empty one nor by a full one"
    );

    // If no replica is available, everything known stays.
    world.handle(Event::Available(third, false));
    assert_eq!(world.policy.snapshot(world.now).pool.len(), 0);
    world.report(third, &load(100, 10));
    assert_eq!(limit(&world), Some(8));
    world.handle(Event::Available(third, true));
    world.report(third, &load(100, 10));
    assert_eq!(limit(&world), Some(100), "⌈0.84 · 3⌉ = 3rd");
}

#[test]
fn a13_limit_is_reset_when_no_available_replica_replies() {
    let mut world = World::new(3, quiet());
    let limit = |world: &World| world.policy.snapshot(world.now).rif_limit.map(Rif::count);
    let first = world.replicas[0];
    world.reports(&[(500, 10)]);
    fall_silent(&mut world, 1);
    fall_silent(&mut world, 2);
    assert_eq!(limit(&world), Some(500));
    world.handle(Event::Available(first, false));
    world.report(first, &load(700, 10));
    assert_eq!(rif_of_silent(&mut world, 1), Some(0));
    assert_eq!(
        limit(&world),
        Some(0),
        "by what the client has there itself"
    );
    world.handle(Event::Available(first, true));
    world.report(first, &load(30, 10));
    assert_eq!(limit(&world), Some(30));
}

#[test]
fn a13_local_reports_respect_the_probe_interval() {
    let settings = PrequalSettings {
        local_only: true,
        probe_interval_min: 100 * MS,
        ..quiet()
    };
    let mut world = World::new(1, settings);
    for answers in 1..=3 {
        for _ in 0..100 {
            world.refresh();
        }
        let counters = world.policy.counters();
        assert_eq!(counters.probes_local, answers);
        assert_eq!(counters.probes_skipped_interval, 99 * answers);
    }
}

#[test]
fn a13_local_reports_are_paced_by_round_trip_time() {
    let mut world = World::new(2, quiet());
    let replica = world.replicas[0];
    fall_silent(&mut world, 1);
    for round_trip_ms in [30, 10] {
        for _ in 0..=64 {
            let probe = world.probe(replica);
            world.now += round_trip_ms * MS;
            world.answer(probe, &load(1, 1));
        }
        let answers = |world: &World| world.policy.counters().probes_local;
        world.now += Duration::from_secs(1);
        world.refresh();
        let before = answers(&world);
        for ms in 1..=100 {
            world.refresh();
            let expected = before + ms / u64::from(round_trip_ms);
            assert_eq!(answers(&world), expected, "after {ms} ms");
        }
    }
}

#[test]
fn a13_random_pick_takes_unreached_replicas_last() {
    let settings = PrequalSettings {
        local_only: true,
        ..quiet()
    };
    let mut world = World::new(3, settings);
    let [first, second, third] = world.replicas[..] else {
        panic!("three replicas")
    };
    let lost = world.pick_for(Query::retry(&[first, third]));
    assert_eq!(lost.ticket.replica(), second);
    world
        .policy
        .handle_query_done(world.now, lost.ticket, Outcome::NoConnection);
    let to_second = |world: &mut World, avoid: &[_]| {
        let picks = (0..200).filter(|_| {
            let ticket = world.pick_for(Query::retry(avoid)).ticket;
            let replica = ticket.replica();
            world
                .policy
                .handle_query_done(world.now, ticket, Outcome::Success);
            replica == second
        });
        picks.count()
    };
    assert_eq!(to_second(&mut world, &[]), 0);
    assert_eq!(
        to_second(&mut world, &[first, third]),
        200,
        "the last to try"
    );
    world.now += 999 * MS;
    assert_eq!(to_second(&mut world, &[first]), 0);
    world.now += MS;
    // Binomial: mean 100, standard deviation 7; the limit is six of them.
    let count = to_second(&mut world, &[first]);
    assert!((58..142).contains(&count), "{count}");
}

#[test]
fn a4_unsent_probe_does_not_count_as_lost() {
    let mut world = World::new(1, quiet());
    for _ in 0..10 {
        let probe = world.probe(world.replicas[0]);
        world.unsend(probe);
    }
    assert!(!world.policy.snapshot(world.now).replicas[0].unprobed);
    let counters = world.policy.counters();
    assert_eq!((counters.probes_unsent, counters.probes_lost), (10, 0));
}
