//! The paper's testbed as a model, and its variants: 100 clients and 100 replicas. Each replica is
//! allocated a tenth of a 64-thread machine, among neighbours with varying load. `[Prequal §5]`
//!
//! The paper's numbers determine the cost of a query: max(0, N(m, m)) with m = 79.7 ms. Its
//! quantiles, 80, 182, 265 and 325 ms, are the run times below allocation, on one core without any
//! queue. So 5,600 queries a second at 0.75 mean 6.4 cores a replica. The numbers do not determine
//! the neighbours' behaviour, which is fitted to Fig. 6.

use super::{NETWORK, at_load};
use crate::Scenario;
use crate::scenario::{Antagonists, Cost, Group, Load, Service, Sharing};
use core::time::Duration;

/// Replicas of the testbed.
pub const REPLICAS: usize = 100;
/// Clients of the testbed.
pub const CLIENTS: usize = 100;
/// Allocation of each replica: a tenth of a machine of 64 threads.
pub const ALLOCATION_CORES: f64 = 6.4;
/// Mean and standard deviation of a query's cost before it is clipped at zero: m.
pub const COST: Duration = Duration::from_micros(79_700);
/// The paper's first load, as a multiple of the allocation.
pub const LOAD: f64 = 0.75;

/// The neighbours of §5.1: one machine is always full, and most have spare capacity.
const NEIGHBOURS: Antagonists = Antagonists {
    headroom_median: 0.8,
    sigma_below: 0.68,
    sigma_above: 1.2,
    headroom_max: 64.0,
    slow: Duration::from_secs(10),
    slow_share: 0.2,
    fast: Duration::from_millis(300),
    fast_share: 0.1,
    full_machines: 1,
    full_for: Duration::from_secs(80),
    machines: REPLICAS,
};

/// A replica of §5.1. It may use a second's worth of its allocation above its capacity before it is
/// held to it.
const ALLOCATION: Sharing = Sharing {
    cores: ALLOCATION_CORES,
    bucket: ALLOCATION_CORES,
    burst: 3.0,
    contention_loss: 0.1,
};

/// The neighbours of §5.2 and §5.3. The paper suspects that there was more antagonist load at that
/// time.
const TIGHT_NEIGHBOURS: Antagonists = Antagonists {
    headroom_median: 0.35,
    sigma_below: 0.9,
    sigma_above: 1.1,
    full_machines: 6,
    ..NEIGHBOURS
};

/// A replica among them. It is held sooner, and loses more when it is.
const TIGHT_ALLOCATION: Sharing = Sharing {
    bucket: 0.5,
    contention_loss: 0.18,
    ..ALLOCATION
};

/// Returns the testbed of §5.1 at load 0.75, with 60 s measured after 60 s of warm-up.
///
/// A replica's median spare capacity is 0.8 of its allocation, skewed to the right. One machine at
/// a time, for 80 s, has none at all. A replica may use 6.4 core-seconds above its capacity before
/// it is held to it. While it is held, a tenth of its work is lost.
pub fn testbed() -> Scenario {
    among(NEIGHBOURS, ALLOCATION)
}

/// Returns the testbed among busier neighbours, for §5.2 and §5.3: a median of 0.35 of the
/// allocation is spare, six machines are full, and a replica is held after half a core-second, at a
/// loss of 18 %.
pub fn tight() -> Scenario {
    among(TIGHT_NEIGHBOURS, TIGHT_ALLOCATION)
}

/// Returns the testbed with hardly any spare capacity: a median of 0.1 of the allocation, and 60 of
/// the 100 machines are full.
pub fn packed() -> Scenario {
    let neighbours = Antagonists {
        headroom_median: 0.1,
        full_machines: 60,
        ..TIGHT_NEIGHBOURS
    };
    among(neighbours, TIGHT_ALLOCATION)
}

/// Makes the second half of the fleet half as fast: queries burn twice the CPU there. A single
/// replica stays as it is. The load stays the same multiple of the allocation only after
/// [`at_load`]. `[Prequal §5.3 "RIF Quantile"]`
#[must_use]
pub fn unequal_halves(mut scenario: Scenario) -> Scenario {
    scenario.fleet = scenario.fleet.into_iter().flat_map(halves).collect();
    scenario.fleet.retain(|group| group.count > 0);
    scenario
}

/// Sets the cost of queries to max(0, N(m, m)). The load stays the same multiple of the allocation
/// only after [`at_load`].
#[must_use]
pub fn costing(m: Duration, mut scenario: Scenario) -> Scenario {
    scenario.cost = Cost::ClippedNormal {
        mean: m,
        deviation: m,
    };
    scenario
}

fn halves(group: Group) -> [Group; 2] {
    let slow = Group {
        count: group.count / 2,
        slowness: 2.0 * group.slowness,
        ..group.clone()
    };
    let fast = Group {
        count: group.count - slow.count,
        ..group
    };
    [fast, slow]
}

fn among(neighbours: Antagonists, allocation: Sharing) -> Scenario {
    let scenario = Scenario {
        antagonists: Some(neighbours),
        network: NETWORK,
        warmup: Duration::from_mins(1),
        ..Scenario::plain(
            Load::even(0.0, CLIENTS),
            Cost::Fixed(Duration::ZERO),
            vec![Group::healthy(REPLICAS, Service::Shared(allocation))],
        )
    };
    at_load(LOAD, costing(COST, scenario))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::rate_at;
    use crate::random::{Purpose, Stream};

    /// The paper's query rates follow from 6.4 cores a replica and the cost: 5.6k at 0.75, 13k at
    /// 1.74.
    #[test]
    fn query_rates_match_loads_of_the_paper() {
        let rate = |load| at_load(load, testbed()).load.rate;
        assert!((rate(0.75) - 5_560.0).abs() < 40.0, "{}", rate(0.75));
        assert!((rate(1.74) - 12_900.0).abs() < 100.0, "{}", rate(1.74));
        assert!((testbed().load.rate - rate(LOAD)).abs() < 1e-9);
    }

    /// The quantiles of the cost are the latencies of Fig. 6 below allocation: only run time.
    #[test]
    fn cost_has_the_quantiles_of_the_paper() {
        const DRAWS: usize = 200_000;
        let cost = testbed().cost;
        let mut stream = Stream::new(1, Purpose::Cost, 0);
        let mut costs: Vec<f64> = (0..DRAWS).map(|_| cost.sample(&mut stream) / 1e6).collect();
        costs.sort_by(f64::total_cmp);
        // The tolerances are four standard errors of a quantile among 200,000 draws, √(q (1 − q) /
        // n) / density, rounded up.
        for (per_mille, paper_ms, tolerance_ms) in [
            (500, 80.0, 2.0),
            (900, 182.0, 2.0),
            (990, 265.0, 3.0),
            (999, 325.0, 7.0),
        ] {
            let found = costs[DRAWS * per_mille / 1_000];
            assert!(
                (found - paper_ms).abs() <= tolerance_ms,
                "{per_mille} ‰: {found} ms"
            );
        }
        let free = costs.iter().filter(|&&cost| cost == 0.0).count();
        assert!(
            (free as f64 / DRAWS as f64 - 0.1587).abs() < 0.004,
            "clipped, not drawn again: {free} cost nothing"
        );
    }

    /// With equal shares of CPU, a fast replica gets two queries for each one of a slow replica:
    /// three quarters of the rate of an all-fast fleet.
    #[test]
    fn slow_half_reduces_the_rate_by_a_quarter() {
        let even = tight();
        let halves = unequal_halves(tight());
        let counts: Vec<_> = halves
            .fleet
            .iter()
            .map(|group| (group.count, group.slowness))
            .collect();
        assert_eq!(counts, [(50, 1.0), (50, 2.0)]);
        let rate = |scenario: &Scenario| rate_at(0.9, &scenario.fleet, &scenario.cost);
        assert!((rate(&halves) / rate(&even) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn variants_have_decreasing_spare_capacity() {
        let room = |scenario: Scenario| {
            scenario
                .antagonists
                .map(|neighbours| (neighbours.headroom_median, neighbours.full_machines))
        };
        assert_eq!(room(testbed()), Some((0.8, 1)));
        assert_eq!(room(tight()), Some((0.35, 6)));
        assert_eq!(room(packed()), Some((0.1, 60)));
    }
}
