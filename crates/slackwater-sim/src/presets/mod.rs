//! The fleets of the papers and of the small-fleets study, ready to play, with their numbers and
//! sources.
//!
//! There is one file for each kind of fleet. A preset is a [`Scenario`] at some load; [`at_load`]
//! changes the load.

mod batch;
mod drawn;
mod els;
mod fifo;
mod health;
mod keyed;
mod leaves;
mod linkerd;
mod testbed;
mod web;
mod worlds;
mod zones;

pub use batch::{large_requests, reads, reads_beside_batch, shared_reads, stopping_leaves, tied};
pub use drawn::{Drawn, drawn};
pub use els::{ELS_CAPACITY, els, failing_fast};
pub use fifo::{one_slow_fifo, slow_pod};
pub use health::{
    failing_everywhere, healing, joining_cold, lying, machines, pausing, rolling_kill,
    rolling_restart, rolling_takes, services, sinkhole, suspended,
};
pub use keyed::{KEYED_REPLICAS, crashing, hot, joining, keyed, restarting};
pub use leaves::{
    copied, hedged, hedged_with_room, outlier_leaves, stalling, stuck_leaves, table_leaves,
};
pub use linkerd::{frozen, linkerd};
pub use testbed::{
    ALLOCATION_CORES, CLIENTS, COST, LOAD, REPLICAS, costing, packed, testbed, tight,
    unequal_halves,
};
pub use web::{hobbled, web};
pub(crate) use worlds::cores;
pub use worlds::{WORLDS, World};
pub use zones::{OVERLOAD, ZONE_CLIENTS, ZONE_REPLICAS, ZONE_SLOWNESS, ZoneCase, zoned};

use crate::Scenario;
use crate::scenario::{Cost, Delay, Group, Load, Network, Service};
use core::time::Duration;

/// The network between clients and replicas within one place: 0.1 to 0.3 ms each way.
pub const NETWORK: Network = Network {
    delay: Delay {
        least: Duration::from_micros(100),
        most: Duration::from_micros(300),
    },
    probe_loss: 0.0,
};

/// Returns the rate, in queries a second, at which `fleet` uses `load` times its allocation if
/// every replica uses the same share of its own. A replica of slowness 2 then gets half the
/// queries. 0 where queries cost nothing or latencies are replayed, as there is no allocation.
pub fn rate_at(load: f64, fleet: &[Group], cost: &Cost) -> f64 {
    let cost_seconds = cost.mean_ns() / 1e9;
    if cost_seconds <= 0.0 {
        return 0.0;
    }
    let cores: f64 = fleet.iter().map(normal_cores).sum();
    load * cores / cost_seconds
}

/// Sets the load to `load` times the fleet's allocation, as computed by [`rate_at`]. For a mix, it
/// is the mean over its turns.
#[must_use]
pub fn at_load(load: f64, scenario: Scenario) -> Scenario {
    let mut scenario = scenario;
    let usual = rate_at(load, &scenario.fleet, &scenario.cost);
    scenario.load.rate = usual / scenario.load.mean_cost();
    scenario
}

/// Makes all replicas learn their capacity and the cost of a query, and report them with each
/// response, too.
#[must_use]
pub fn reporting_capacity(mut scenario: Scenario) -> Scenario {
    for group in &mut scenario.fleet {
        group.learns_capacity = true;
        group.carries_reports = true;
    }
    scenario
}

/// Sets the number of replicas, all of the first kind, and of equal clients. The load stays the
/// same multiple of the allocation only after [`at_load`].
#[must_use]
pub fn sized(replicas: usize, clients: usize, scenario: Scenario) -> Scenario {
    let mut scenario = scenario;
    scenario.load = Load {
        clients: vec![1.0; clients],
        ..scenario.load
    };
    scenario.fleet.truncate(1);
    for group in &mut scenario.fleet {
        group.count = replicas;
    }
    scenario
}

/// Changes replica 0 with `change`, and leaves the others.
#[must_use]
pub fn one_replica(mut scenario: Scenario, change: impl FnOnce(&mut Group)) -> Scenario {
    let Some(first) = scenario.fleet.first_mut() else {
        return scenario;
    };
    let mut one = Group {
        count: 1,
        ..first.clone()
    };
    change(&mut one);
    first.count = first.count.saturating_sub(1);
    scenario.fleet.retain(|group| group.count > 0);
    scenario.fleet.insert(0, one);
    scenario
}

/// Puts consecutive replicas that are the same into one group. Each replica keeps its number, and
/// with it its random draws.
pub(crate) fn grouped(replicas: impl IntoIterator<Item = Group>) -> Vec<Group> {
    let mut fleet: Vec<Group> = Vec::new();
    for one in replicas {
        match fleet.last_mut() {
            Some(last)
                if (Group {
                    count: one.count,
                    ..last.clone()
                }) == one =>
            {
                last.count += one.count;
            }
            _ => fleet.push(one),
        }
    }
    fleet
}

/// Returns the beginning and end of the middle `1 / parts` of the measured span, from the start of
/// the run.
fn middle(scenario: &Scenario, parts: u32) -> (Duration, Duration) {
    let part = scenario.span / parts;
    let from = scenario.warmup + scenario.span.saturating_sub(part) / 2;
    (from, from + part)
}

/// Returns a group's allocation in cores of a replica of normal speed.
fn normal_cores(group: &Group) -> f64 {
    let cores = match &group.service {
        Service::Shared(sharing) => sharing.cores,
        Service::Quota(quota) => quota.allocation(),
        Service::Fifo { workers } => *workers as f64,
        Service::Batch(batching) => batching.capacity(),
        Service::Latency | Service::LatencyTrace(_) => 0.0,
    };
    group.count as f64 * cores / group.slowness
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_replica_changes_the_only_replica() {
        let scenario = one_replica(web(1, 1, 0.5), |replica| replica.slowness = 3.0);
        let fleet: Vec<_> = scenario
            .fleet
            .iter()
            .map(|group| (group.count, group.slowness))
            .collect();
        assert_eq!(fleet, [(1, 3.0)]);
    }

    #[test]
    fn resized_fleet_keeps_its_kind_and_neighbours() {
        let small = at_load(LOAD, sized(8, 4, testbed()));
        assert_eq!((small.replicas(), small.load.clients.len()), (8, 4));
        assert_eq!(small.antagonists, testbed().antagonists);
        assert!((small.load.rate * 12.5 - testbed().load.rate).abs() < 1e-6);
    }
}
