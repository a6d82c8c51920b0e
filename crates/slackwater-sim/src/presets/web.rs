//! Small web replicas: four dedicated cores each and queries of 5 ms, as in most fleets of a few
//! replicas.
//!
//! There are no neighbours and no spare capacity, so a replica's capacity is constant. It is the
//! simplest fleet, in which a policy gains only by its choices.

use super::{NETWORK, at_load, middle, one_replica};
use crate::Scenario;
use crate::scenario::{Cost, Group, Hobble, Load, Service, Sharing};
use core::time::Duration;

/// Cores of a small web replica.
const CORES: f64 = 4.0;
/// Mean cost of its queries, exponential.
const COST: Duration = Duration::from_millis(5);
/// The share of its capacity that a hobbled replica has left.
const HOBBLED_CAPACITY: f64 = 0.25;

/// Returns small web replicas and clients at `load` times the capacity of the replicas.
pub fn web(replicas: usize, clients: usize, load: f64) -> Scenario {
    let service = Service::Shared(Sharing {
        cores: CORES,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    });
    let scenario = Scenario {
        network: NETWORK,
        warmup: Duration::from_secs(2),
        span: Duration::from_secs(6),
        ..Scenario::plain(
            Load::even(0.0, clients),
            Cost::Exponential(COST),
            vec![Group::healthy(replicas, service)],
        )
    };
    at_load(load, scenario)
}

/// Leaves one replica a quarter of its capacity in the middle third of the measured span.
#[must_use]
pub fn hobbled(scenario: Scenario) -> Scenario {
    let (from, until) = middle(&scenario, 3);
    one_replica(scenario, |replica| {
        replica.hobble = Some(Hobble {
            from,
            until,
            capacity: HOBBLED_CAPACITY,
            latency: None,
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_relative_to_all_cores() {
        // 0.85 of 8 times 4 cores, 5 ms a query.
        assert!((web(8, 4, 0.85).load.rate - 5_440.0).abs() < 1e-6);
        assert_eq!(web(8, 4, 0.85).load.clients.len(), 4);
    }

    #[test]
    fn one_replica_is_hobbled_in_the_middle_third_of_the_run() {
        let healthy = web(8, 4, 0.6);
        let hobbled = hobbled(healthy.clone());
        let spell = hobbled.fleet[0].hobble.expect("the first is hobbled");
        assert_eq!(
            (spell.from, spell.until),
            (Duration::from_secs(4), Duration::from_secs(6))
        );
        let counts: Vec<_> = hobbled.fleet.iter().map(|group| group.count).collect();
        assert_eq!(counts, [1, 7]);
        assert_eq!(hobbled.fleet[1].hobble, None);
        assert!((hobbled.load.rate - healthy.load.rate).abs() < 1e-9);
    }
}
