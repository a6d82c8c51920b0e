//! C3: the cubic score decides, over the pool and the probes of Prequal. `[Prequal §5.2]`

use crate::world::{MS, World, load, quiet, rate};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{C3, C3Config, Outcome, Pick, PickReason, Policy, Query, Ticket};

fn world(replicas: usize) -> World<C3> {
    let config = quiet().validate().expect("in range");
    World::of(replicas, C3::new(config, &C3Config::default()))
}

/// The next query's ticket. Fails unless it goes to the replica at `place`.
#[track_caller]
fn pick(world: &mut World<C3>, place: usize) -> Ticket {
    let pick = world.pick();
    assert_eq!(pick.reason, PickReason::LowestScore);
    assert_eq!(pick.ticket.replica(), world.replicas[place]);
    pick.ticket
}

#[test]
fn picks_match_a_hand_worked_trace() {
    let mut world = world(3);
    assert_eq!(
        world.pick().reason,
        PickReason::Fallback,
        "nothing is known"
    );
    let mut world = self::world(3);

    // Without response times, the score is the cube of 1 + own + reported RIF, times latency: 10,
    // 88, 20.
    world.reports(&[(0, 10), (1, 11), (0, 20)]);
    let first = pick(&mut world, 0);
    // 8 · 10, 88, 20
    let second = pick(&mut world, 2);
    // 80, 88, 8 · 20
    let third = pick(&mut world, 0);
    // 27 · 10, 88, 160
    let fourth = pick(&mut world, 1);
    // 270, 27 · 11, 160
    let fifth = pick(&mut world, 2);

    // 270, 297, 27 · 20. An answer after 30 ms adds 30 − 10 to the rest, 8 · 10.
    world.now += 30 * MS;
    world
        .policy
        .handle_query_done(world.now, first, Outcome::Success);
    let sixth = pick(&mut world, 0);

    // 290, 297, 540. A failure only takes its query out of the queue: 290, 8 · 11, 540.
    world
        .policy
        .handle_query_done(world.now, fourth, Outcome::Failed);
    let seventh = pick(&mut world, 1);

    // 290, 297, 540. RIF 2 is averaged with 0 to 0.6, and 20 ms with 10 to 13: 30 − 13 + 3.6³ · 13
    // = 624.
    let replica = world.replicas[0];
    world.report(replica, &load(2, 20));
    let eighth = pick(&mut world, 1);
    // 624, 64 · 11, 540
    let _ = pick(&mut world, 2);
    drop((second, third, fifth, sixth, seventh, eighth));
}

#[test]
fn latency_ends_at_the_head_and_counts_once() {
    let mut world = world(2);
    world.reports(&[(0, 10), (0, 12)]);
    let mut streams = pick(&mut world, 0);
    world.now += 11 * MS;
    world
        .policy
        .handle_head(world.now, &mut streams, Outcome::Success);
    world.now += 500 * MS;
    world
        .policy
        .handle_head(world.now, &mut streams, Outcome::Success);
    world
        .policy
        .handle_query_done(world.now, streams, Outcome::Success);
    // 11 − 10 + 10 is less than 12; half a second more would not be.
    let _ = pick(&mut world, 0);
}

#[test]
fn fast_failures_do_not_improve_the_score() {
    let mut world = world(2);
    world.reports(&[(0, 10), (0, 12)]);
    let slow = pick(&mut world, 0);
    world.now += 15 * MS;
    world
        .policy
        .handle_query_done(world.now, slow, Outcome::Success);
    // 15 − 10 + 10, and 12.
    let other = pick(&mut world, 1);
    for outcome in [Outcome::Failed, Outcome::Dropped] {
        let fast = pick(&mut world, 0);
        world.policy.handle_query_done(world.now, fast, outcome);
    }
    world.now += 13 * MS;
    world
        .policy
        .handle_query_done(world.now, other, Outcome::Success);
    // Still 15, and now 13 − 12 + 12. Failures of no time at all would have lowered the former to
    // 7.
    let _ = pick(&mut world, 1);
}

#[test]
fn retry_goes_to_lowest_score_of_untried_replicas() {
    let mut world = world(3);
    world.reports(&[(0, 10), (0, 20), (0, 30)]);
    let avoid = [world.replicas[0]];
    let retry: Pick = world.pick_for(Query::retry(&avoid));
    assert_eq!(retry.ticket.replica(), world.replicas[1]);
    assert_eq!(retry.candidates, 2);
    assert_eq!(retry.runner_up, Some(world.replicas[2]));
}

#[test]
fn once_slow_replica_is_retried_after_ten_seconds() {
    let mut world = world(2);
    world.reports(&[(0, 10), (0, 10)]);
    for place in [0, 1] {
        let avoid = [world.replicas[1 - place]];
        let ticket = world.pick_for(Query::retry(&avoid)).ticket;
        world.now += if place == 0 { 900 * MS } else { 10 * MS };
        world
            .policy
            .handle_query_done(world.now, ticket, Outcome::Success);
    }
    // It always reports the same latency as the other. Its response time of 900 ms stays, since
    // nothing moves it.
    let mut at_slow = Vec::new();
    let begin = world.now;
    while world.now < begin + 20_000 * MS {
        world.reports(&[(0, 10), (0, 10)]);
        let ticket = world.pick().ticket;
        let sent_at = world.now;
        world.now += 10 * MS;
        if ticket.replica() == world.replicas[0] {
            at_slow.push(sent_at.saturating_since(begin).as_secs());
        }
        world
            .policy
            .handle_query_done(world.now, ticket, Outcome::Success);
    }
    assert!(
        at_slow
            .first()
            .is_some_and(|second| (9..=10).contains(second))
    );
    // From then on both are equal.
    let queries = at_slow.iter().filter(|&&second| second >= 11).count();
    assert!(queries > 100, "{queries}");
}

#[test]
fn a10_worst_report_includes_the_query_just_sent() {
    let settings = PrequalSettings {
        remove_rate: rate(1_000_000),
        ..quiet()
    };
    let config = settings.validate().expect("in range");
    let mut world = World::of(7, C3::new(config, &C3Config::default()));
    world.reports(&[
        (0, 90),
        (0, 20),
        (0, 20),
        (0, 20),
        (0, 20),
        (0, 20),
        (0, 11),
    ]);
    let first = pick(&mut world, 6);
    assert_eq!(
        world.pooled(),
        [1, 2, 3, 4, 5, 6],
        "the oldest, 0, has gone"
    );
    world
        .policy
        .handle_query_done(world.now, first, Outcome::Success);
    let _second = pick(&mut world, 6);
    // 8 · 11 is more than 20; without this query, 11 would be the best of all.
    assert_eq!(world.pooled(), [1, 2, 3, 4, 5], "the worst, 6, has gone");
}
