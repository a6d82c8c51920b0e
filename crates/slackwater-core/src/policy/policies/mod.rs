//! The list of all policies, by name. A new policy needs one file, and one line here.

mod c3;
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

use crate::policy::entry::{Carried, PolicyEntry};
use crate::policy::settings::SectionVisitor;

/// The settings of all policies. Each policy reads its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicySettings {
    /// For `prequal` and `prequal_sync`. All other policies that keep reports use its probe
    /// settings.
    pub prequal: PrequalConfig,
    /// For `linear`.
    pub linear: LinearConfig,
    /// For `c3`.
    pub c3: C3Config,
    /// For `rif_then_latency`.
    pub rif_then_latency: RifThenLatencyConfig,
    /// For `shortest_expected_delay`.
    pub shortest_expected_delay: ShortestExpectedDelayConfig,
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

impl PolicySettings {
    /// The most probes that a policy has in flight, without those of rounds.
    pub fn probes_outstanding_max(&self) -> u16 {
        self.prequal.probes_outstanding_max
    }

    /// Visits every section, in the order in which they are shown.
    pub fn visit(&mut self, visitor: &mut impl SectionVisitor) {
        visitor.visit(&mut self.prequal);
        visitor.visit(&mut self.linear);
        visitor.visit(&mut self.c3);
        visitor.visit(&mut self.rif_then_latency);
        visitor.visit(&mut self.shortest_expected_delay);
        visitor.visit(&mut self.power_of_d);
        visitor.visit(&mut self.peak_ewma);
        visitor.visit(&mut self.els);
        visitor.visit(&mut self.polled_power_of_d);
        visitor.visit(&mut self.weighted_round_robin);
    }
}

/// The default policy: `shortest_expected_delay`. It needs no knowledge of the fleet, and is near
/// the best in small and large, equal and unequal fleets. `[Decision 0013]`
///
/// ```
/// use slackwater_core::policy::{DEFAULT_POLICY, PolicySettings};
///
/// let policy = (DEFAULT_POLICY.build)(&PolicySettings::default());
/// assert_eq!(policy.name(), "shortest_expected_delay");
/// ```
pub const DEFAULT_POLICY: PolicyEntry = shortest_expected_delay::ENTRY;

/// Every policy.
pub const POLICIES: &[PolicyEntry] = &[
    prequal::ENTRY,
    prequal::SYNC_ENTRY,
    linear::ENTRY,
    c3::ENTRY,
    rif_then_latency::ENTRY,
    shortest_expected_delay::ENTRY,
    least_loaded::ENTRY,
    power_of_d::ENTRY,
    peak_ewma::ENTRY,
    els::ENTRY,
    polled_power_of_d::ENTRY,
    weighted_round_robin::ENTRY,
    round_robin::ENTRY,
    random::ENTRY,
];

/// The policy with this name, if there is one.
pub fn policy_named(name: &str) -> Option<&'static PolicyEntry> {
    POLICIES.iter().find(|entry| entry.name == name)
}

/// Whether the reports of responses for the policy with this name have RIF. Those for a policy that
/// learns rates have none.
pub fn learns_rif(name: &str) -> bool {
    policy_named(name).is_none_or(|entry| entry.carried != Carried::Rates)
}

#[cfg(test)]
mod tests;
