//! Leaf servers of a fan-out, by the latencies of a single one, and replicas that stall. `[The Tail
//! at Scale]`

use super::{at_load, sized, testbed};
use crate::Scenario;
use crate::scenario::{Cost, Group, Hedge, Load, Service, Stall};
use core::time::Duration;
use std::sync::Arc;

/// Number of leaf servers. One query goes to one of them, whose latency does not depend on the
/// others.
const LEAVES: usize = 100;
/// High enough to count outliers of one in 10,000 in hundreds.
const LEAF_QUERIES_PER_SECOND: f64 = 20_000.0;
/// The usual time of a leaf.
const USUAL: Duration = Duration::from_millis(10);
/// The time of an outlier: more than a second.
const OUTLIER: Duration = Duration::from_millis(1_100);

/// Delay of an answer that is stuck, one in a hundred; `STUCK_OF` answers make a trace.
const STUCK: Duration = Duration::from_secs(1);
const STUCK_OF: u32 = 1_000;

/// Median of a leaf's latency in Table 1.
const TABLE_MEDIAN: Duration = Duration::from_millis(1);
/// With this σ the other two quantiles of Table 1's first line follow: 5 ms at p95 and 10 ms at
/// p99, both within 2 %.
const TABLE_SIGMA: f64 = 0.984;

/// Returns leaves that take 10 ms, except once in `one_in` queries, when they take more than a
/// second. `[The Tail at Scale, "Component-Level Variability Amplified By Scale"]`
pub fn outlier_leaves(one_in: usize) -> Scenario {
    let mut costs = vec![USUAL; one_in.max(1)];
    if let Some(first) = costs.first_mut() {
        *first = OUTLIER;
    }
    leaves(Cost::Trace(Arc::from(costs)))
}

/// Returns leaves that take 10 ms, more or less. One answer in a hundred is a second late, from any
/// replica: a further copy is as likely to be late as the first. `[The Tail at Scale,
/// "Component-Level Variability Amplified By Scale"]`
pub fn stuck_leaves() -> Scenario {
    let usual = (0..STUCK_OF).map(|number| {
        let is_stuck = number % 100 == 0;
        let stuck = if is_stuck { STUCK } else { Duration::ZERO };
        // Uniform from half of the usual time to half more.
        USUAL / 2 + USUAL * number / STUCK_OF + stuck
    });
    leaves(Cost::Trace(usual.collect()))
}

/// Returns leaves with the latencies of Table 1's first line: 1 ms at p50, 5 ms at p95, 10 ms at
/// p99. These are nearly those of a log-normal, so they are drawn from one.
pub fn table_leaves() -> Scenario {
    let cost = Cost::Lognormal {
        median: TABLE_MEDIAN,
        sigma: TABLE_SIGMA,
    };
    leaves(cost)
}

/// Returns twenty replicas and clients of the testbed at half of their allocation, without
/// neighbours. Each replica stalls for 1.8 s every three minutes: a hundredth of the time.
pub fn stalling() -> Scenario {
    let mut scenario = at_load(0.5, sized(20, 20, testbed()));
    scenario.antagonists = None;
    for group in &mut scenario.fleet {
        group.stall = Some(Stall {
            every: Duration::from_mins(3),
            regular: false,
            lasts: Duration::from_millis(1_800),
        });
    }
    scenario
}

/// Adds a second copy of each query that has been in flight for longer than this quantile of recent
/// latencies. The budget is twice what the quantile leaves, so that the quantile decides how many
/// copies there are. `[The Tail at Scale, "Hedged requests"]`
#[must_use]
pub fn hedged(after_quantile: f64, scenario: Scenario) -> Scenario {
    copied(after_quantile, 2.0 * (1.0 - after_quantile), 2, scenario)
}

/// Adds second copies as [`hedged`] does, but a replica drops a second copy that arrives while it
/// has no core or worker free for it.
#[must_use]
pub fn hedged_with_room(after_quantile: f64, scenario: Scenario) -> Scenario {
    let mut scenario = hedged(after_quantile, scenario);
    if let Some(hedge) = &mut scenario.load.hedge {
        hedge.needs_room = true;
    }
    scenario
}

/// Adds up to `copies_max` copies of a query, the second after this quantile of recent latencies,
/// and at most `budget` further ones for each query. `[The Tail at Scale, "Hedged requests"]`
#[must_use]
pub fn copied(
    after_quantile: f64,
    budget: f64,
    copies_max: usize,
    mut scenario: Scenario,
) -> Scenario {
    scenario.load.hedge = Some(Hedge {
        after_quantile,
        budget,
        delay_min: Duration::ZERO,
        copies_max,
        needs_room: false,
    });
    scenario
}

fn leaves(cost: Cost) -> Scenario {
    Scenario {
        span: Duration::from_secs(100),
        ..Scenario::plain(
            Load::even(LEAF_QUERIES_PER_SECOND, 1),
            cost,
            vec![Group::healthy(LEAVES, Service::Latency)],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaf_per_given_number_is_an_outlier() {
        let Cost::Trace(costs) = outlier_leaves(1_000).cost else {
            panic!("a trace");
        };
        let slow = costs
            .iter()
            .filter(|&&cost| cost > Duration::from_secs(1))
            .count();
        assert_eq!((slow, costs.len()), (1, 1_000));
    }

    #[test]
    fn leaf_takes_10_ms_and_one_percent_take_a_second() {
        let Cost::Trace(costs) = stuck_leaves().cost else {
            panic!("a trace");
        };
        let (stuck, usual): (Vec<Duration>, Vec<Duration>) =
            costs.iter().copied().partition(|cost| *cost > STUCK);
        assert_eq!((stuck.len() * 100, costs.len()), (costs.len(), 1_000));
        let sum: Duration = usual.iter().sum();
        let mean = sum / u32::try_from(usual.len()).expect("990");
        assert!(mean.abs_diff(USUAL) < Duration::from_micros(50), "{mean:?}");
    }

    /// exp(σ z) at the standard normal's quantiles 0.95 and 0.99.
    #[test]
    fn leaf_latency_has_the_quantiles_of_table_1() {
        let quantile_ms = |z: f64| (TABLE_SIGMA * z).exp();
        assert!((quantile_ms(1.644_854) / 5.0 - 1.0).abs() < 0.02);
        assert!((quantile_ms(2.326_348) / 10.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn hedged_preset_differs_only_in_hedging() {
        let mut scenario = hedged(0.95, stalling());
        assert_eq!(
            scenario.load.hedge.map(|hedge| hedge.after_quantile),
            Some(0.95)
        );
        scenario.load.hedge = None;
        assert_eq!(scenario, stalling());
    }
}
