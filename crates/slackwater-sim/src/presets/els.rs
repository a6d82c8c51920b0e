//! Spotify's experiment: four machines behind one router. One of them may answer half of its
//! queries with an error at once. `[ELS: latency based load balancer, part 1]`

use super::{NETWORK, at_load, one_replica};
use crate::Scenario;
use crate::scenario::{Cost, Failure, FailureCost, Group, Load, Service};
use core::time::Duration;

/// Capacity of the article's four machines together, in queries a second.
pub const ELS_CAPACITY: f64 = 1_030.0;
/// Queries that a machine works on at a time; other queries wait in order. The article does not say
/// how its "simple CPU-bound service" serves. With one, round robin falls behind the shortest queue
/// as early and as far as in the article. With more, or where queries share the CPU, it falls
/// behind later.
const WORKERS: usize = 1;
/// σ of the logarithm of a query's cost. The article says only that it is log-normal.
const SIGMA: f64 = 1.0;
const MACHINES: usize = 4;

/// Returns four CPU-bound machines with log-normal costs and one client, at `load` times the 1,030
/// queries a second that all four can serve.
pub fn els(load: f64) -> Scenario {
    let service = Service::Fifo { workers: WORKERS };
    let mean_seconds = (MACHINES * WORKERS) as f64 / ELS_CAPACITY;
    let scenario = Scenario {
        network: NETWORK,
        warmup: Duration::from_secs(10),
        ..Scenario::plain(
            Load::even(0.0, 1),
            Cost::Lognormal {
                // A log-normal's mean is e^(σ²/2) times its median.
                median: Duration::from_secs_f64(mean_seconds / (SIGMA * SIGMA / 2.0).exp()),
                sigma: SIGMA,
            },
            vec![Group::healthy(MACHINES, service)],
        )
    };
    at_load(load, scenario)
}

/// Makes one machine fail half of its queries at once, and at no cost.
#[must_use]
pub fn failing_fast(scenario: Scenario) -> Scenario {
    one_replica(scenario, |replica| {
        replica.failure = Some(Failure {
            share: 0.5,
            cost: FailureCost::Share(0.0),
            from: Duration::ZERO,
            until: Duration::from_hours(240),
            reported_until: Duration::MAX,
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_matches_the_article() {
        // A duration is whole nanoseconds: within a millionth of 2.35 ms.
        assert!(
            (els(1.0).load.rate - ELS_CAPACITY).abs() < 0.01,
            "{}",
            els(1.0).load.rate
        );
        assert!((els(0.5).load.rate - 515.0).abs() < 0.01);
    }

    #[test]
    fn one_of_four_replicas_fails() {
        let scenario = failing_fast(els(0.5));
        let failing: Vec<_> = scenario
            .fleet
            .iter()
            .map(|group| (group.count, group.failure.is_some()))
            .collect();
        assert_eq!(failing, [(1, true), (3, false)]);
        assert_eq!(scenario.mistakes(), []);
    }
}
