//! Replicas with caches by key.

use super::NETWORK;
use crate::Scenario;
use crate::scenario::{Cache, Change, Cost, Event, Group, Keys, Load, Service};
use core::time::Duration;

/// Replicas of the fleet of [`keyed`].
pub const KEYED_REPLICAS: usize = 16;

/// Returns 16 replicas of four workers each. A query takes 10 ms (exponential), and 20 ms more if
/// its key is not among the replica's last 1,000. There are 20,000 keys by Zipf's law with an
/// exponent of 0.9, so that all caches together hold four fifths of them.
///
/// At 3,200 queries a second and a hit rate of 0.8 workers are busy for 70 % of the time.
pub fn keyed(rate: f64, clients: usize) -> Scenario {
    let cache = Cache {
        entries: 1_000,
        miss_cost: Duration::from_millis(20),
    };
    let group = Group {
        cache: Some(cache),
        ..Group::healthy(KEYED_REPLICAS, Service::Fifo { workers: 4 })
    };
    let load = Load {
        keys: Some(Keys {
            count: 20_000,
            zipf: 0.9,
            hot_share: 0.0,
        }),
        ..Load::even(rate, clients)
    };
    let cost = Cost::Exponential(Duration::from_millis(10));
    Scenario {
        network: NETWORK,
        ..Scenario::plain(load, cost, vec![group])
    }
}

/// Gives one more key this share of all queries.
#[must_use]
pub fn hot(share: f64, mut scenario: Scenario) -> Scenario {
    if let Some(keys) = &mut scenario.load.keys {
        keys.hot_share = share;
    }
    scenario
}

/// Makes replica 0 restart with an empty cache when the measurement begins. It is down for 1 s, and
/// clients get no notice.
#[must_use]
pub fn restarting(scenario: Scenario) -> Scenario {
    let restart = Change::Restart {
        down_for: Duration::from_secs(1),
        cold_slowness: 1.0,
        warm_after: Duration::ZERO,
    };
    with_event(Duration::ZERO, restart, scenario)
}

/// Makes replica 0 join, with an empty cache, when the measurement begins.
#[must_use]
pub fn joining(scenario: Scenario) -> Scenario {
    let join = Change::Join {
        cold_slowness: 1.0,
        warm_after: Duration::ZERO,
    };
    with_event(Duration::ZERO, join, scenario)
}

/// Makes replica 0 crash this long after the measurement begins. Clients remove it a second later.
#[must_use]
pub fn crashing(after: Duration, scenario: Scenario) -> Scenario {
    let crash = Change::Crash {
        known_after: Duration::from_secs(1),
    };
    with_event(after, crash, scenario)
}

/// Lets this happen to replica 0 this long after the measurement begins.
fn with_event(after: Duration, change: Change, mut scenario: Scenario) -> Scenario {
    scenario.events.push(Event {
        at: scenario.warmup + after,
        replica: 0,
        change,
    });
    scenario
}
