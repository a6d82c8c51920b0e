//! Fleets in several zones: even load, one zone's clients that ask for more than it can carry, one
//! zone lost, one slow, one with a slow replica.

use super::{NETWORK, rate_at, reporting_capacity};
use crate::Scenario;
use crate::scenario::{Change, Cost, Event, Group, Load, Service, Sharing, Zones};
use core::time::Duration;

/// Replicas of each zone of [`zoned`].
pub const ZONE_REPLICAS: usize = 8;
/// Clients of each zone of [`zoned`].
pub const ZONE_CLIENTS: usize = 4;
/// What the clients of the first zone ask for with [`ZoneCase::Overloaded`], as a multiple of the
/// capacity of the zone.
pub const OVERLOAD: f64 = 1.3;
/// How much slower the first zone is with [`ZoneCase::Slow`].
pub const ZONE_SLOWNESS: f64 = 1.6;
/// How much slower one of its replicas is with [`ZoneCase::OneSlow`].
const REPLICA_SLOWNESS: f64 = 5.0;
/// When the first zone is lost with [`ZoneCase::Lost`]: within the warm-up.
const LOST_AT: Duration = Duration::from_secs(1);

/// What happens to the first zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCase {
    /// Nothing: each zone has room for its clients.
    Even,
    /// Its clients ask for [`OVERLOAD`] times its capacity, and the others for less.
    Overloaded,
    /// All of its replicas crash.
    Lost,
    /// All of its replicas are slower.
    Slow,
    /// One of its replicas is much slower.
    OneSlow,
}

/// Returns zones of eight replicas with four cores and four clients each, this round trip apart. A
/// query takes 10 ms (exponential). `load` is that of all replicas together that are left.
pub fn zoned(zones: usize, round_trip: Duration, case: ZoneCase, load: f64) -> Scenario {
    let service = Service::Shared(Sharing {
        cores: 4.0,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    });
    let (slow, slowness) = match case {
        ZoneCase::Slow => (ZONE_REPLICAS, ZONE_SLOWNESS),
        ZoneCase::OneSlow => (1, REPLICA_SLOWNESS),
        _ => (ZONE_REPLICAS, 1.0),
    };
    let group = |count| Group::healthy(count, service.clone());
    let first = Group {
        slowness,
        ..group(slow)
    };
    let fleet = vec![first, group(zones * ZONE_REPLICAS - slow)];
    let cost = Cost::Exponential(Duration::from_millis(10));
    let left = if case == ZoneCase::Lost { 1.. } else { 0.. };
    let rate = rate_at(load, fleet.get(left).unwrap_or_default(), &cost);
    let mut clients = vec![1.0; zones * ZONE_CLIENTS];
    if case == ZoneCase::Overloaded {
        let share = OVERLOAD / (load * zones as f64);
        let others = (1.0 - share) / zones.saturating_sub(1) as f64;
        for (number, client) in clients.iter_mut().enumerate() {
            *client = if number < ZONE_CLIENTS { share } else { others };
        }
    }
    let events = (0..ZONE_REPLICAS).map(|replica| Event {
        at: LOST_AT,
        replica,
        change: Change::Crash {
            known_after: Duration::ZERO,
        },
    });
    let in_zones = |each: usize| (0..zones * each).map(|number| number / each).collect();
    let load = Load {
        clients,
        ..Load::even(rate, 1)
    };
    reporting_capacity(Scenario {
        network: NETWORK,
        zones: Some(Zones {
            clients: in_zones(ZONE_CLIENTS),
            replicas: in_zones(ZONE_REPLICAS),
            delay: round_trip / 2,
        }),
        events: if case == ZoneCase::Lost {
            events.collect()
        } else {
            Vec::new()
        },
        ..Scenario::plain(load, cost, fleet)
    })
}
