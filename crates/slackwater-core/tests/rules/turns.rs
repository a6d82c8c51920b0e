//! Turns: replicas that look equal each get their turn, and one that looks a little better does not
//! get everything. `[Decision 0014]`

use crate::world::{World, load, quiet};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::{
    Event, Outcome, Policy, Query, ShortestExpectedDelay, ShortestExpectedDelayConfig,
};
use slackwater_core::{LoadReport, Rif, SplitMix64};

fn world(latencies_ms: &[u64]) -> World<ShortestExpectedDelay> {
    let prequal = quiet().validate().expect("in range");
    let policy = ShortestExpectedDelay::new(prequal, &ShortestExpectedDelayConfig::default());
    let mut world = World::of(latencies_ms.len(), policy);
    let idle: Vec<_> = latencies_ms.iter().map(|&ms| (0, ms)).collect();
    // This many reports are needed for latencies to count.
    for _ in 0..8 {
        world.reports(&idle);
    }
    world
}

/// The place of the replica that gets the next query, which ends at once.
fn next<P: Policy>(world: &mut World<P>) -> usize {
    let pick = world.pick();
    let replica = pick.ticket.replica();
    let place = world.replicas.iter().position(|&other| other == replica);
    world
        .policy
        .handle_query_done(world.now, pick.ticket, Outcome::Success);
    place.expect("one of the fleet")
}

/// How many of 100 queries each replica gets.
fn shares<P: Policy>(world: &mut World<P>, mut before_each: impl FnMut(&mut World<P>)) -> Vec<u32> {
    let mut shares = vec![0; world.replicas.len()];
    for _ in 0..100 {
        before_each(world);
        shares[next(world)] += 1;
    }
    shares
}

#[test]
fn equal_idle_replicas_take_turns() {
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
fn faster_idle_replica_gets_more_but_not_all() {
    let mut world = world(&[7, 10, 10, 10]);
    let shares = shares(&mut world, |_| {});
    assert!((30..=60).contains(&shares[0]), "{shares:?}");
    assert!(shares[1..].iter().all(|&share| share >= 10), "{shares:?}");
}

#[test]
fn much_slower_replica_gets_no_turn_while_others_are_idle() {
    let mut world = world(&[10, 10, 10, 30]);
    let shares = shares(&mut world, |_| {});
    assert_eq!(shares[3], 0, "{shares:?}");
}

/// Reports count for more than turns.
#[test]
fn rif_of_three_outweighs_any_turn() {
    let mut world = world(&[10; 16]);
    let others = &world.replicas.clone()[1..];
    for _ in 0..1_000 {
        let pick = world.pick_for(Query::retry(others));
        world
            .policy
            .handle_query_done(world.now, pick.ticket, Outcome::Success);
    }
    let loads: Vec<_> = (0..16)
        .map(|place| (if place == 0 { 0 } else { 3 }, 10))
        .collect();
    world.reports(&loads);
    assert_eq!(next(&mut world), 0, "it had all of them, and is idle");
    let loads: Vec<_> = (0..16).map(|place| (u32::from(place != 0), 10)).collect();
    world.reports(&loads);
    assert_ne!(next(&mut world), 0);
}

/// How many of 2,000 queries the first replica gets if nine in ten avoid it, as for one that warms
/// up, or fails now and then.
fn had_by_one_that_is_spared<P: Policy>(
    world: &mut World<P>,
    mut before_each: impl FnMut(&mut World<P>),
) -> u32 {
    let spared = world.replicas[0];
    let mut draw = SplitMix64::new(7);
    let mut had = 0;
    for _ in 0..2_000 {
        before_each(world);
        let query = Query {
            avoid: if below(&mut draw, 10) == 0 {
                &[]
            } else {
                &[spared]
            },
            ..Query::first()
        };
        let pick = world.pick_for(query);
        had += u32::from(pick.ticket.replica() == spared);
        world
            .policy
            .handle_query_done(world.now, pick.ticket, Outcome::Success);
    }
    had
}

#[test]
fn limited_replica_does_not_catch_up() {
    // A tenth of a turn is 20 queries, a whole one is 200.
    let had = had_by_one_that_is_spared(&mut world(&[10; 10]), |_| {});
    assert!((5..=40).contains(&had), "{had}");
    let had = had_by_one_that_is_spared(&mut world_with_room(10), |world| {
        for place in 0..10 {
            world.report(world.replicas[place], &room(4_000));
        }
    });
    assert!((5..=40).contains(&had), "{had} with capacities");
}

#[test]
fn joining_or_returning_replica_waits_for_its_turn() {
    let mut world = world(&[10; 5]);
    let comes_last = |world: &mut World<_>, newcomer: usize| {
        for _ in 0..8 {
            let idle = vec![(0, 10); world.replicas.len()];
            world.reports(&idle);
        }
        let turns: Vec<_> = (0..world.replicas.len()).map(|_| next(world)).collect();
        let when = turns.iter().position(|&turn| turn == newcomer);
        // It comes last, or before the replica that had the query before it joined.
        assert!(
            when.is_some_and(|when| when + 2 >= turns.len()),
            "{turns:?}"
        );
    };
    for _ in 0..7 {
        next(&mut world);
    }
    let back = world.replicas[2];
    world.handle(Event::Available(back, false));
    for _ in 0..7 {
        next(&mut world);
    }
    world.handle(Event::Available(back, true));
    comes_last(&mut world, 2);
    world.join();
    comes_last(&mut world, 5);
}

fn room(capacity_millirif: u32) -> LoadReport {
    let mut report = load(0, 10);
    report.rif = Rif::new(0);
    report.capacity_millirif = Some(capacity_millirif);
    report.cost = Some(Duration::from_millis(10));
    report
}

fn world_with_room(replicas: usize) -> World<ShortestExpectedDelay> {
    let prequal = quiet().validate().expect("in range");
    let policy = ShortestExpectedDelay::new(prequal, &ShortestExpectedDelayConfig::default());
    World::of(replicas, policy)
}

#[test]
fn largest_idle_replica_does_not_get_everything() {
    let mut world = world_with_room(4);
    let shares = shares(&mut world, |world| {
        for (place, capacity) in [4_400, 4_000, 4_000, 4_000].into_iter().enumerate() {
            world.report(world.replicas[place], &room(capacity));
        }
    });
    assert!((25..=50).contains(&shares[0]), "{shares:?}");
    assert!(shares[1..].iter().all(|&share| share >= 10), "{shares:?}");
}
