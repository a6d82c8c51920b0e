//! A10: removal by rate.

use crate::world::{World, quiet, rate};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Policy, Query};

fn removing(remove_rate_millionths: u32) -> PrequalSettings {
    PrequalSettings {
        remove_rate: rate(remove_rate_millionths),
        ..quiet()
    }
}

#[test]
fn a10_the_oldest_and_the_worst_go_in_turn() {
    let mut world = World::new(6, removing(1_000_000));
    // Limit: the 6th of 6, 9. Hot: 2 (RIF 9). Cold by latency: 5 < 3 < 1 < 4 < 0.
    world.reports(&[(1, 60), (1, 30), (9, 1), (1, 20), (1, 50), (1, 10)]);
    let mut left = Vec::new();
    for _ in 0..5 {
        let _ = world.pick();
        left.push(world.pooled());
    }
    assert_eq!(left[0], [1, 2, 3, 4, 5], "the oldest");
    assert_eq!(
        left[1],
        [1, 3, 4, 5],
        "the worst: the only hot one, fast as it is"
    );
    assert_eq!(left[2], [3, 4, 5], "the oldest");
    assert_eq!(left[3], [3, 5], "the worst: the slowest of the cold");
    assert_eq!(left[4], [3, 5], "two are left alone");
    let counters = world.policy.counters();
    assert_eq!((counters.removed_oldest, counters.removed_worst), (2, 2));
    assert_eq!(counters.removals_withheld, 1);
}

#[test]
fn a10_of_the_hot_the_one_with_the_highest_rif_goes() {
    let mut settings = removing(1_000_000);
    settings.rif_limit_quantile = crate::world::quantile(200_000);
    let mut world = World::new(5, settings);
    // Limit: the first of 5, RIF 1: all are hot.
    world.reports(&[(1, 1), (5, 90), (8, 10), (6, 20), (5, 5)]);
    let _ = world.pick();
    assert_eq!(world.pooled(), [1, 2, 3, 4]);
    let _ = world.pick();
    assert_eq!(
        world.pooled(),
        [1, 3, 4],
        "RIF 8 at 10 ms, not RIF 5 at 90 ms"
    );
}

#[test]
fn a10_a_withheld_removal_does_not_take_its_turn() {
    let mut world = World::new(4, removing(1_000_000));
    world.reports(&[(1, 1), (1, 2)]);
    let _ = world.pick();
    assert_eq!(world.policy.counters().removals_withheld, 1);
    world.report(world.replicas[2], &crate::world::load(1, 90));
    let _ = world.pick();
    assert_eq!(world.pooled(), [1, 2], "it is still the oldest's turn");
}

#[test]
fn a10_fractions_add_up_and_several_may_go_at_once() {
    let mut world = World::new(16, removing(250_000));
    world.reports(&[(1, 5); 16]);
    let lengths: Vec<_> = (0..9)
        .map(|_| {
            let _ = world.pick();
            world.pool().len()
        })
        .collect();
    assert_eq!(lengths, [16, 16, 16, 15, 15, 15, 15, 14, 14]);

    let mut world = World::new(16, removing(2_500_000));
    world.reports(&[(1, 5); 16]);
    let lengths: Vec<_> = (0..7)
        .map(|_| {
            let _ = world.pick();
            world.pool().len()
        })
        .collect();
    assert_eq!(lengths, [14, 11, 9, 6, 4, 2, 2], "never below two");
    let counters = world.policy.counters();
    assert_eq!(counters.removed_oldest + counters.removed_worst, 14);
    assert_eq!(
        counters.removals_withheld, 3,
        "17 were due after seven queries"
    );
}

#[test]
fn a10_retries_and_hedges_remove_nothing() {
    let mut world = World::new(4, removing(1_000_000));
    world.reports(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
    let _ = world.pick_for(Query::retry(&[]));
    let _ = world.pick_for(Query::hedge(&[]));
    assert_eq!(world.pool().len(), 4);
}

#[test]
fn a10_spent_uses_may_take_the_pool_below_two() {
    let mut settings = removing(1_000_000);
    settings.reuse_max = 1;
    let mut world = World::new(2, settings);
    world.reports(&[(1, 1), (2, 2)]);
    let _ = world.pick();
    assert_eq!(world.pooled(), [1]);
    assert_eq!(world.policy.counters().removed_spent, 1);
}
