//! The list of all policies, by name. A new policy is one file and one line here.

mod c3;
mod capacity;
mod els;
mod least_loaded;
mod linear;
mod peak_ewma;
mod polled_power_of_d;
mod power_of_d;
pub mod prequal;
mod random;
mod rif_then_latency;
mod round_robin;
mod shortest_expected_delay;
mod weighted_round_robin;

pub use c3::{C3, C3Config, C3Settings};
pub use capacity::{Capacity, CapacityConfig, CapacitySettings};
pub use els::{Els, ElsConfig, ElsSettings};
pub use least_loaded::LeastLoaded;
pub use linear::{Linear, LinearConfig, LinearSettings};
pub use peak_ewma::{PeakEwma, PeakEwmaConfig, PeakEwmaSettings};
pub use polled_power_of_d::{PolledPowerOfD, PolledPowerOfDConfig, PolledPowerOfDSettings};
pub use power_of_d::{PowerOfD, PowerOfDConfig, PowerOfDSettings};
pub use prequal::{Prequal, PrequalConfig, PrequalSync};
pub use random::Random;
pub use rif_then_latency::{RifThenLatency, RifThenLatencyConfig, RifThenLatencySettings};
pub use round_robin::RoundRobin;
pub use shortest_expected_delay::{
    ShortestExpectedDelay, ShortestExpectedDelayConfig, ShortestExpectedDelaySettings,
};
pub use weighted_round_robin::{
    WeightedRoundRobin, WeightedRoundRobinConfig, WeightedRoundRobinSettings,
};

use crate::policy::Policy;
use alloc::boxed::Box;

/// The settings that policies read; each takes what concerns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicySettings {
    /// For `prequal` and `prequal_sync`; probes and pool also for `linear`, `c3` and `capacity`, probes for
    /// `rif_then_latency` and `shortest_expected_delay`.
    pub prequal: PrequalConfig,
    /// For `linear`.
    pub linear: LinearConfig,
    /// For `c3`.
    pub c3: C3Config,
    /// For `rif_then_latency`.
    pub rif_then_latency: RifThenLatencyConfig,
    /// For `shortest_expected_delay`.
    pub shortest_expected_delay: ShortestExpectedDelayConfig,
    /// For `capacity`.
    pub capacity: CapacityConfig,
    /// For `power_of_d`.
    pub power_of_d: PowerOfDConfig,
    /// For `peak_ewma`.
    pub peak_ewma: PeakEwmaConfig,
    /// For `els`.
    pub els: ElsConfig,
    /// For `polled_power_of_d`.
    pub polled_power_of_d: PolledPowerOfDConfig,
    /// For `weighted_round_robin`.
    pub weighted_round_robin: WeightedRoundRobinConfig,
}

/// A policy that users can select.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// The name to select it by.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Makes one with an empty fleet.
    pub build: fn(&PolicySettings) -> Box<dyn Policy>,
}

/// By name, of which there is one each.
impl PartialEq for PolicyEntry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PolicyEntry {}

/// Who chooses where nobody names a policy: `shortest_expected_delay`. It asks for no knowledge of the fleet: near the best of
/// the others in small and large, equal and unequal ones. `[Decision 0013]`
///
/// ```
/// use slackwater_core::policy::{DEFAULT_POLICY, PolicySettings};
///
/// let policy = (DEFAULT_POLICY.build)(&PolicySettings::default());
/// assert_eq!(policy.name(), "shortest_expected_delay");
/// ```
pub const DEFAULT_POLICY: PolicyEntry = entry(
    "shortest_expected_delay",
    "probes, RIF times mean latency",
    |s| {
        Box::new(ShortestExpectedDelay::new(
            s.prequal.clone(),
            &s.shortest_expected_delay,
        ))
    },
);

/// Every policy.
pub const POLICIES: &[PolicyEntry] = &[
    entry("prequal", "probes for load, hot-cold rule", |s| {
        Box::new(Prequal::new(s.prequal.clone()))
    }),
    entry("prequal_sync", "asks a few replicas for each query", |s| {
        Box::new(PrequalSync::new(s.prequal.clone()))
    }),
    entry("linear", "probes, weighted sum of RIF and latency", |s| {
        Box::new(Linear::new(s.prequal.clone(), &s.linear))
    }),
    entry("c3", "probes, response time and queue cubed", |s| {
        Box::new(C3::new(s.prequal.clone(), &s.c3))
    }),
    entry(
        "rif_then_latency",
        "probes, latency among the lowest RIF",
        |s| Box::new(RifThenLatency::new(s.prequal.clone(), &s.rif_then_latency)),
    ),
    DEFAULT_POLICY,
    entry("capacity", "probes, least of its capacity in use", |s| {
        Box::new(Capacity::new(s.prequal.clone(), &s.capacity))
    }),
    entry("least_loaded", "fewest of its own in flight", |_| {
        Box::new(LeastLoaded::new())
    }),
    entry(
        "power_of_d",
        "fewest of its own in flight, of d drawn",
        |s| Box::new(PowerOfD::with(s.power_of_d.clone())),
    ),
    entry(
        "peak_ewma",
        "own latency times in flight, of d drawn",
        |s| Box::new(PeakEwma::with(s.peak_ewma.clone())),
    ),
    entry("els", "weights from own latencies and failures", |s| {
        Box::new(Els::with(s.els.clone()))
    }),
    entry("polled_power_of_d", "lowest polled RIF, of d drawn", |s| {
        Box::new(PolledPowerOfD::with(s.polled_power_of_d.clone()))
    }),
    entry(
        "weighted_round_robin",
        "in turn, by polled CPU for each query",
        |s| Box::new(WeightedRoundRobin::with(s.weighted_round_robin.clone())),
    ),
    entry("round_robin", "each in turn", |_| {
        Box::new(RoundRobin::new())
    }),
    entry("random", "uniformly at random", |_| Box::new(Random::new())),
];

const fn entry(
    name: &'static str,
    about: &'static str,
    build: fn(&PolicySettings) -> Box<dyn Policy>,
) -> PolicyEntry {
    PolicyEntry { name, about, build }
}

/// The policy of that name, if there is one.
pub fn policy_named(name: &str) -> Option<&'static PolicyEntry> {
    POLICIES.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_no_policy_gets_the_shortest_expected_delay() {
        let policy = (DEFAULT_POLICY.build)(&PolicySettings::default());
        assert_eq!(policy.name(), "shortest_expected_delay");
        assert_eq!(policy_named(policy.name()), Some(&DEFAULT_POLICY));
    }

    #[test]
    fn each_policy_goes_by_the_name_it_is_listed_under() {
        for entry in POLICIES {
            let policy = (entry.build)(&PolicySettings::default());
            assert_eq!(policy.name(), entry.name);
            assert_eq!(
                policy_named(entry.name).map(|found| found.about),
                Some(entry.about)
            );
        }
        assert!(policy_named("no such policy").is_none());
    }
}
