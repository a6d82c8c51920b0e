//! Single-threaded replicas, one of them four times as slow: the pods of the chapter on power of
//! two choices, and the small fleets in which a wrong choice costs most.

use super::{NETWORK, at_load, one_replica};
use crate::Scenario;
use crate::scenario::{Arrivals, Cost, Group, Load, Service};
use core::time::Duration;

/// Mean cost of a query, exponential.
const COST: Duration = Duration::from_millis(50);
/// Factor by which the slow replica is slower.
const SLOWNESS: f64 = 4.0;
/// The chapter's load: 250 queries a second for 16 pods, one of them slow.
const CHAPTER_LOAD: f64 = 250.0 / 305.0;
/// One pod in this many is slow.
const PODS_TO_ONE_SLOW: usize = 16;

/// Returns single-threaded replicas, the first of them four times as slow, and clients, at `load`
/// times the capacity of all replicas together. The slow replica counts as a quarter.
pub fn one_slow_fifo(replicas: usize, clients: usize, load: f64) -> Scenario {
    let slow = one_replica(fifo(replicas, clients), |replica| {
        replica.slowness = SLOWNESS;
    });
    at_load(load, slow)
}

/// Returns the chapter's pods and balancers, from an empty start, at 82 % of their capacity. One
/// pod in sixteen is slow. One balancer of 16 pods sends its 250 queries a second at equal gaps, as
/// the chapter's simulator does. Several balancers share nothing. `[Power of two choices (P2C)]`
pub fn slow_pod(pods: usize, balancers: usize) -> Scenario {
    let mut scenario = one_replica(fifo(pods, balancers), |pod| {
        pod.slowness = SLOWNESS;
    });
    let slow = pods.div_ceil(PODS_TO_ONE_SLOW);
    for (group, count) in scenario.fleet.iter_mut().zip([slow, pods - slow]) {
        group.count = count;
    }
    if balancers == 1 {
        scenario.load.arrivals = Arrivals::Regular;
    }
    scenario.deadline = Duration::from_secs(1_000);
    scenario.warmup = Duration::ZERO;
    at_load(CHAPTER_LOAD, scenario)
}

fn fifo(replicas: usize, clients: usize) -> Scenario {
    Scenario {
        network: NETWORK,
        warmup: Duration::from_secs(10),
        span: Duration::from_secs(40),
        ..Scenario::plain(
            Load::even(0.0, clients),
            Cost::Exponential(COST),
            vec![Group::healthy(replicas, Service::Fifo { workers: 1 })],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chapter's 16 pods can serve 15 · 20 + 5 = 305 queries a second.
    #[test]
    fn slow_replica_counts_as_a_quarter() {
        let scenario = one_slow_fifo(16, 1, 1.0);
        assert!(
            (scenario.load.rate - 305.0).abs() < 1e-6,
            "{}",
            scenario.load.rate
        );
        let slow: Vec<_> = scenario
            .fleet
            .iter()
            .map(|group| (group.count, group.slowness))
            .collect();
        assert_eq!(slow, [(1, 4.0), (15, 1.0)]);
        assert!(
            (one_slow_fifo(1, 1, 1.0).load.rate - 5.0).abs() < 1e-9,
            "none but the slow one"
        );
    }

    #[test]
    fn one_pod_in_sixteen_is_slow() {
        let slow = |pods, balancers| {
            let scenario = slow_pod(pods, balancers);
            let counts: Vec<_> = scenario
                .fleet
                .iter()
                .map(|group| (group.count, group.slowness))
                .collect();
            (counts, scenario.load.rate.round())
        };
        assert_eq!(slow(16, 1), (vec![(1, 4.0), (15, 1.0)], 250.0));
        assert_eq!(slow(64, 6), (vec![(4, 4.0), (60, 1.0)], 1_000.0));
    }
}
