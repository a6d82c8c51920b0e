//! Replicas beside a batch job, and leaves that stop now and then: where a second copy of a query
//! helps, and where it does not. `[The Tail at Scale]`

use super::{NETWORK, at_load};
use crate::Scenario;
use crate::scenario::{Cost, Group, Load, Service, Sharing, Stall};
use core::time::Duration;

const REPLICAS: usize = 20;
const CLIENTS: usize = 10;
/// Median time of a read.
const READ: Duration = Duration::from_millis(15);
/// σ of the times of reads.
const SIGMA: f64 = 0.4;
/// Load of a cluster that is "mostly idle", as the share of time in use.
const IDLE: f64 = 0.3;
/// Twice the mean network delay.
const TIE: Duration = Duration::from_micros(400);

/// Time of a query at a leaf.
const LEAF: Duration = Duration::from_millis(10);
/// Queries that a leaf serves at a time.
const LEAF_WORKERS: usize = 8;

/// Returns replicas that serve one read after the other, mostly idle. `[The Tail at Scale, Table
/// 2]`
pub fn reads() -> Scenario {
    at_load(IDLE, of(Service::Fifo { workers: 1 }, CLIENTS))
}

/// Returns [`reads`] with a batch job on each machine: it takes the disk for 25 ms, eight times a
/// second on average. `[The Tail at Scale, Table 2]`
pub fn reads_beside_batch() -> Scenario {
    with_stalls(
        reads(),
        Duration::from_millis(100),
        Duration::from_millis(25),
    )
}

/// Returns replicas whose reads share the processor, under the same load. Nothing queues there.
pub fn shared_reads() -> Scenario {
    let sharing = Sharing {
        cores: 1.0,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    };
    at_load(IDLE, of(Service::Shared(sharing), CLIENTS))
}

/// Returns replicas with enough capacity, where a few requests take very long because they are
/// large. Nothing stops.
pub fn large_requests() -> Scenario {
    let mut scenario = of(
        Service::Fifo {
            workers: LEAF_WORKERS,
        },
        CLIENTS,
    );
    scenario.cost = Cost::Lognormal {
        median: LEAF,
        sigma: 1.2,
    };
    at_load(IDLE, scenario)
}

/// Returns leaves that take 10 ms, on replicas that each stop for a second, a hundredth of the
/// time. One client sends to all of them.
pub fn stopping_leaves() -> Scenario {
    let mut scenario = of(
        Service::Fifo {
            workers: LEAF_WORKERS,
        },
        1,
    );
    scenario.cost = Cost::Lognormal {
        median: LEAF,
        sigma: 0.2,
    };
    with_stalls(
        at_load(IDLE, scenario),
        Duration::from_secs(99),
        Duration::from_secs(1),
    )
}

/// Adds two tied copies of each query to a scenario. `[The Tail at Scale, "Tied requests"]`
#[must_use]
pub fn tied(mut scenario: Scenario) -> Scenario {
    scenario.load.tie = Some(TIE);
    scenario
}

fn of(service: Service, clients: usize) -> Scenario {
    Scenario {
        network: NETWORK,
        warmup: Duration::from_secs(10),
        span: Duration::from_secs(100),
        ..Scenario::plain(
            Load::even(0.0, clients),
            Cost::Lognormal {
                median: READ,
                sigma: SIGMA,
            },
            vec![Group::healthy(REPLICAS, service)],
        )
    }
}

fn with_stalls(mut scenario: Scenario, every: Duration, lasts: Duration) -> Scenario {
    for group in &mut scenario.fleet {
        group.stall = Some(Stall {
            every,
            regular: false,
            lasts,
        });
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_copy_is_sent_after_twice_the_mean_network_delay() {
        assert_eq!(TIE, NETWORK.delay.least + NETWORK.delay.most);
        let mut scenario = tied(reads_beside_batch());
        assert_eq!(scenario.load.tie, Some(TIE));
        scenario.load.tie = None;
        assert_eq!(scenario, reads_beside_batch());
    }

    #[test]
    fn stopping_leaves_stall_one_percent_of_the_time() {
        let stall = stopping_leaves().fleet[0].stall.expect("it does");
        assert_eq!((stall.every + stall.lasts) / 100, stall.lasts);
    }

    #[test]
    fn batch_presets_have_equal_load() {
        for scenario in [reads(), shared_reads(), large_requests(), stopping_leaves()] {
            let mean = scenario.cost.mean_ns() / 1e9;
            let cores = match scenario.fleet[0].service {
                Service::Fifo { workers } => workers as f64,
                _ => 1.0,
            };
            let load = scenario.load.rate * mean / (cores * REPLICAS as f64);
            assert!((load - IDLE).abs() < 1e-9, "{load}");
        }
    }
}
