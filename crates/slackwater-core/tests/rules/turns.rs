//! Turns: of replicas that look alike each gets its turn, and one that looks a little better does not get everything.
//! `[Decision 0014]`

use crate::world::{World, load, quiet};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Capacity, CapacityConfig, Outcome, Policy, ShortestExpectedDelay, ShortestExpectedDelayConfig,
};
use slackwater_core::{LoadReport, Rif};

fn world(latencies_ms: &[u64]) -> World<ShortestExpectedDelay> {
    let prequal = quiet().validate().expect("in range");
    let policy = ShortestExpectedDelay::new(prequal, &ShortestExpectedDelayConfig::default());
    let mut world = World::of(latencies_ms.len(), policy);
    let idle: Vec<_> = latencies_ms.iter().map(|&ms| (0, ms)).collect();
    // As often as it takes for latencies to count.
    for _ in 0..8 {
        world.reports(&idle);
    }
    world
}

/// Where the next query goes; it is over at once.
fn next<P: Policy>(world: &mut World<P>) -> usize {
    let pick = world.pick();
    let replica = pick.ticket.replica();
    let place = world.replicas.iter().position(|&other| other == replica);
    world
        .policy
        .handle_query_done(world.now, pick.ticket, Outcome::Success);
    place.expect("one of the fleet")
}

/// How many of 100 queries each gets.
fn shares<P: Policy>(world: &mut World<P>, mut before_each: impl FnMut(&mut World<P>)) -> Vec<u32> {
    let mut shares = vec![0; world.replicas.len()];
    for _ in 0..100 {
        before_each(world);
        shares[next(world)] += 1;
    }
    shares
}

#[test]
fn equal_replicas_that_are_idle_take_turns() {
    let mut world = world(&[10; 5]);
    let first: Vec<_> = (0..5).map(|_| next(&mut world)).collect();
    let mut all = first.clone();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4], "each once");
    for _ in 0..3 {
        let again: Vec<_> = (0..5).map(|_| next(&mut world)).collect();
        assert_eq!(again, first, "and again in the same order");
    }
}

#[test]
fn of_idle_replicas_a_faster_one_gets_more_and_not_all() {
    let mut world = world(&[7, 10, 10, 10]);
    let shares = shares(&mut world, |_| {});
    assert!((30..=60).contains(&shares[0]), "{shares:?}");
    assert!(shares[1..].iter().all(|&share| share >= 10), "{shares:?}");
}

#[test]
fn one_that_is_far_slower_has_no_turn_while_others_are_idle() {
    let mut world = world(&[10, 10, 10, 30]);
    let shares = shares(&mut world, |_| {});
    assert_eq!(shares[3], 0, "{shares:?}");
}

/// What reports say counts for more than whose turn it is.
#[test]
fn a_query_in_flight_outweighs_any_turn() {
    let mut world = world(&[10; 3]);
    let turn = next(&mut world);
    let loads = [0, 1, 2].map(|place| (u32::from(place != turn), 10));
    world.reports(&loads);
    assert_eq!(next(&mut world), turn, "it alone is idle");
}

fn room(capacity_millirif: u32) -> LoadReport {
    let mut report = load(0, 10);
    report.rif = Rif::new(0);
    report.capacity_millirif = Some(capacity_millirif);
    report.cost = Some(Duration::from_millis(10));
    report
}

#[test]
fn of_idle_replicas_the_one_with_the_largest_capacity_does_not_get_everything() {
    let prequal = PrequalSettings {
        pool_capacity: 16,
        ..quiet()
    };
    let prequal = prequal.validate().expect("in range");
    let policy = Capacity::new(prequal, &CapacityConfig::default());
    let mut world = World::of(4, policy);
    let shares = shares(&mut world, |world| {
        for (place, capacity) in [4_400, 4_000, 4_000, 4_000].into_iter().enumerate() {
            world.report(world.replicas[place], &room(capacity));
        }
    });
    assert!((25..=50).contains(&shares[0]), "{shares:?}");
    assert!(shares[1..].iter().all(|&share| share >= 10), "{shares:?}");
}
