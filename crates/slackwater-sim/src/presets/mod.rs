//! The fleets of the papers and of the small-fleets study, ready to play: numbers and where they come from.
//!
//! One file for each kind of fleet. A preset is a [`Scenario`] at some load; [`at_load`] gives it another one.

mod testbed;

pub use testbed::{
    ALLOCATION_CORES, CLIENTS, COST, LOAD, REPLICAS, costing, packed, testbed, tight,
    unequal_halves,
};

use crate::Scenario;
use crate::scenario::{Cost, Group, Service};

/// The rate, in queries a second, at which `fleet` uses `load` times its allocation if every replica uses the same share of
/// its own: a replica of slowness 2 then gets half the queries. 0 where queries cost nothing or latencies are replayed, as
/// there is no allocation.
pub fn rate_at(load: f64, fleet: &[Group], cost: &Cost) -> f64 {
    let cost_seconds = cost.mean_ns() / 1e9;
    if cost_seconds <= 0.0 {
        return 0.0;
    }
    let cores: f64 = fleet.iter().map(normal_cores).sum();
    load * cores / cost_seconds
}

/// The same scenario at `load` times its fleet's allocation, as [`rate_at`] reckons it.
#[must_use]
pub fn at_load(load: f64, scenario: Scenario) -> Scenario {
    let mut scenario = scenario;
    scenario.load.rate = rate_at(load, &scenario.fleet, &scenario.cost);
    scenario
}

/// What a group's allocation is worth in cores of a replica of normal speed.
fn normal_cores(group: &Group) -> f64 {
    let cores = match &group.service {
        Service::Shared(sharing) => sharing.cores,
        Service::Fifo { workers } => *workers as f64,
        Service::Latency | Service::LatencyTrace(_) => 0.0,
    };
    group.count as f64 * cores / group.slowness
}
