//! Single-threaded replicas, one of them four times as slow: the pods of the chapter on power of two choices, and the
//! small fleets in which a wrong choice costs most.

use super::{NETWORK, at_load, one_replica};
use crate::Scenario;
use crate::scenario::{Arrivals, Cost, Group, Load, Service};
use core::time::Duration;

/// Mean cost of a query, exponential.
const COST: Duration = Duration::from_millis(50);
/// How much slower the slow replica is.
const SLOWNESS: f64 = 4.0;
/// What 250 queries a second are of 16 pods, one of them slow.
const CHAPTER_LOAD: f64 = 250.0 / 305.0;

/// So many single-threaded replicas, the first of them four times as slow, and clients, at `load` times what all of them can
/// do together: a slow replica counts as a quarter.
pub fn one_slow_fifo(replicas: usize, clients: usize, load: f64) -> Scenario {
    let scenario = Scenario {
        load: Load::even(0.0, clients),
        cost: Cost::Exponential(COST),
        fleet: vec![Group::healthy(replicas, Service::Fifo { workers: 1 })],
        antagonists: None,
        network: NETWORK,
        events: Vec::new(),
        deadline: Duration::from_secs(5),
        cancel_expired: false,
        warmup: Duration::from_secs(10),
        span: Duration::from_secs(40),
    };
    let slow = one_replica(scenario, |replica| replica.slowness = SLOWNESS);
    at_load(load, slow)
}

/// The chapter's pods and balancers, from an empty start, at 82 % of what they can do: 250 queries a second for 16 pods. One
/// balancer sends its queries at equal gaps, as the chapter's simulator does; several know nothing of each other.
/// `[Power of two choices (P2C)]`
pub fn slow_pod(pods: usize, balancers: usize) -> Scenario {
    let mut scenario = one_slow_fifo(pods, balancers, CHAPTER_LOAD);
    if balancers == 1 {
        scenario.load.arrivals = Arrivals::Regular;
    }
    scenario.deadline = Duration::from_secs(1_000);
    scenario.warmup = Duration::ZERO;
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chapter's 16 pods can do 15 · 20 + 5 = 305 queries a second.
    #[test]
    fn the_slow_replica_counts_as_a_quarter() {
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
}
