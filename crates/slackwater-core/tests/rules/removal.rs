//! A10: removal by rate.

use crate::world::{World, load, quantile, quiet, rate};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Policy, Query};

fn removing(remove_rate_millionths: u32) -> PrequalSettings {
    PrequalSettings {
        remove_rate: rate(remove_rate_millionths),
        ..quiet()
    }
}

#[test]
fn a10_oldest_and_worst_are_removed_in_turn() {
    let mut world = World::new(8, removing(1_000_000));
    // Limit: the 7th of 8, 9. Hot: 2 and 7 (RIF 9, 12). Cold by latency: 5 < 3 < 1 < 4 < 0, 6.
    world.reports(&[
        (1, 60),
        (1, 30),
        (12, 1),
        (1, 20),
        (1, 50),
        (1, 10),
        (1, 60),
        (9, 1),
    ]);
    let mut left = Vec::new();
    for _ in 0..5 {
        let _ = world.pick();
        left.push(world.pooled());
    }
    assert_eq!(left[0], [1, 2, 3, 4, 5, 6, 7], "the oldest");
    assert_eq!(
        left[1],
        [1, 3, 4, 5, 6, 7],
        "the worst: of the hot the highest RIF, fast as it is"
    );
    assert_eq!(left[2], [3, 4, 5, 6, 7], "the oldest");
    assert_eq!(left[3], [3, 4, 5, 6], "the worst: the last hot one");
    assert_eq!(left[4], [3, 4, 5, 6], "four are left alone");
    let counters = world.policy.counters();
    assert_eq!((counters.removed_oldest, counters.removed_worst), (2, 2));
    assert_eq!(counters.removals_withheld, 1);
}

#[test]
fn a10_without_hot_reports_the_slowest_is_removed() {
    let mut settings = removing(1_000_000);
    settings.rif_limit_quantile = quantile(1_000_000);
    let mut world = World::new(6, settings);
    world.reports(&[(1, 1), (1, 30), (99, 10), (1, 90), (1, 50), (1, 20)]);
    let _ = world.pick();
    let _ = world.pick();
    assert_eq!(
        world.pooled(),
        [1, 2, 4, 5],
        "90 ms at RIF 1, not 10 ms at RIF 99"
    );
}

#[test]
fn a10_hot_report_with_highest_rif_is_removed() {
    let mut settings = removing(1_000_000);
    settings.rif_limit_quantile = quantile(200_000);
    let mut world = World::new(6, settings);
    // Limit: the second of 6, RIF 5: all but the first are hot.
    world.reports(&[(1, 1), (5, 90), (8, 10), (6, 20), (5, 5), (7, 1)]);
    let _ = world.pick();
    assert_eq!(world.pooled(), [1, 2, 3, 4, 5]);
    let _ = world.pick();
    assert_eq!(
        world.pooled(),
        [1, 3, 4, 5],
        "RIF 8 at 10 ms, not RIF 5 at 90 ms"
    );
}

#[test]
fn a10_withheld_removal_does_not_use_its_turn() {
    let mut world = World::new(5, removing(1_000_000));
    world.reports(&[(1, 1), (1, 2), (1, 3), (1, 4)]);
    let _ = world.pick();
    assert_eq!(world.policy.counters().removals_withheld, 1);
    world.report(world.replicas[4], &load(1, 90));
    let _ = world.pick();
    assert_eq!(
        world.pooled(),
        [1, 2, 3, 4],
        "it is still the oldest's turn"
    );
}

#[test]
fn a10_fractional_removals_accumulate() {
    let mut world = World::new(16, removing(250_000));
    let lengths = |world: &mut World, queries: usize| -> Vec<usize> {
        world.reports(&[(1, 5); 16]);
        let after = |_| {
            let _ = world.pick();
            world.pool().len()
        };
        (0..queries).map(after).collect()
    };
    assert_eq!(lengths(&mut world, 9), [16, 16, 16, 15, 15, 15, 15, 14, 14]);

    let mut world = World::new(16, removing(2_500_000));
    assert_eq!(
        lengths(&mut world, 6),
        [14, 11, 9, 6, 4, 4],
        "never below four"
    );
    let counters = world.policy.counters();
    assert_eq!(counters.removed_oldest + counters.removed_worst, 12);
    assert_eq!(
        counters.removals_withheld, 3,
        "15 were due after six queries"
    );
}

#[test]
fn a10_retries_and_hedges_remove_nothing() {
    let mut world = World::new(6, removing(1_000_000));
    world.reports(&[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]);
    let _ = world.pick_for(Query::retry(&[]));
    let _ = world.pick_for(Query::hedge(&[]));
    assert_eq!(world.pool().len(), 6);
}

#[test]
fn a10_spent_uses_may_shrink_the_pool_below_its_floor() {
    let mut settings = removing(1_000_000);
    settings.probe_rate = rate(4_000_000); // a rate at which no report is kept for a second use
    settings.reuse_max = 1;
    let mut world = World::new(4, settings);
    world.reports(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
    for left in [3, 2, 1] {
        let _ = world.pick();
        assert_eq!(world.pool().len(), left);
    }
    assert_eq!(world.policy.counters().removed_spent, 3);
}

#[test]
fn a10_small_pool_has_a_lower_floor() {
    for (pool_capacity, left) in [(2, 2), (3, 2), (4, 3), (5, 4), (6, 4)] {
        let settings = PrequalSettings {
            pool_capacity,
            ..removing(1_000_000)
        };
        let mut world = World::new(6, settings);
        world.reports(&[(1, 10), (1, 20), (1, 30), (1, 40), (1, 50), (1, 60)]);
        for _ in 0..6 {
            let _ = world.pick();
        }
        assert_eq!(world.pooled().len(), left, "capacity {pool_capacity}");
    }
}
