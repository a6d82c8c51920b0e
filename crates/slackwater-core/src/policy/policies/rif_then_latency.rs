//! RIF, then latency: compares the latest reports of all replicas, and breaks near-ties in RIF by
//! latency. For small fleets.
//!
//! It uses the hot–cold rule `[A7]`. The limit follows the lowest reported RIF instead of a
//! quantile: a replica is cold if it is close to the lowest.

use crate::fixed::ONE;
use crate::policy::comparison::{Comparison, Values};
use crate::policy::entry::{PolicyEntry, Reports};
use crate::policy::latest::{FEWEST_IN_FLIGHT, LatestLoad, LatestReports, LatestRule, rounded};
use crate::policy::prequal::{PrequalConfig, hot_cold};
use crate::policy::probed::Probed;
use crate::policy::probed::rank::{Load, Place};
use crate::policy::query::PickReason;
use crate::policy::settings::{ConfigError, Settings, Valid, require, section};
use crate::replica::ReplicaId;
use crate::report::Rif;
use alloc::boxed::Box;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal", "rif_then_latency"],
    reports: Reports::Latest,
    comparisons: &[&hot_cold::COMPARISON, &FEWEST_IN_FLIGHT],
    ..PolicyEntry::new(
        "rif_then_latency",
        "probes, latency among the lowest RIF",
        "Probes replicas for their load and picks the lowest latency among those with the fewest requests in flight.",
        |s| Box::new(RifThenLatency::new(s.prequal.clone(), &s.rif_then_latency)),
    )
};

/// Picks by RIF, and by latency between replicas whose RIF is nearly equal.
pub type RifThenLatency = Probed<LatestReports<NearTies>>;

/// Settings of [`RifThenLatency`] besides those of its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RifThenLatencySettings {
    /// How far RIF may exceed the lowest one for latency to decide, as a factor in millionths:
    /// 1,000,000 to 1,000,000,000, default 1,250,000. At 1,000,000 latency only decides between
    /// equals. If the lowest is 0, it does so at any value.
    pub rif_slack_millionths: u32,
}

/// Valid settings of [`RifThenLatency`].
pub type RifThenLatencyConfig = Valid<RifThenLatencySettings>;

impl Default for RifThenLatencySettings {
    fn default() -> Self {
        Self {
            rif_slack_millionths: 1_250_000,
        }
    }
}

impl Settings for RifThenLatencySettings {
    fn check(&self) -> Result<(), ConfigError> {
        let valid = (ONE..=1_000 * ONE).contains(&self.rif_slack_millionths);
        require(
            valid,
            "rif_slack_millionths",
            "from 1,000,000 to 1,000,000,000",
        )
    }
}

section! { RifThenLatencySettings in "rif_then_latency" {
    /// Replicas with at most this many times the fewest requests in flight are compared by latency.
    /// 1: only equals.
    rif_slack in Factor: rif_slack_millionths;
} }

impl RifThenLatency {
    /// The policy with an empty fleet. The pool settings of `config` have no effect here.
    pub fn new(config: PrequalConfig, settings: &RifThenLatencyConfig) -> Self {
        let rule = NearTies {
            rif_slack_millionths: settings.rif_slack_millionths.into(),
        };
        Self::with(LatestReports::new(rule, &config), config)
    }
}

/// The rule of [`RifThenLatency`].
#[derive(Debug)]
pub struct NearTies {
    rif_slack_millionths: u64,
}

impl NearTies {
    /// The lowest RIF that is not near the lowest.
    fn first_not_near(&self, lowest: Rif) -> Rif {
        let near = u64::from(lowest.count()) * self.rif_slack_millionths / u64::from(ONE);
        u32::try_from(near).map_or(Rif::new(u32::MAX), |near| Rif::new(near).plus_one())
    }
}

impl LatestRule for NearTies {
    const NAME: &'static str = ENTRY.name;
    const RIF_LIMIT: Option<fn(&Self, lowest: Rif) -> Rif> = Some(Self::first_not_near);

    type Known = ();
    type Moment = ();

    fn known(&self, _replica: ReplicaId, _others: u32) {}

    fn moment(&self) {}

    fn comparison(&self) -> &'static Comparison {
        &hot_cold::COMPARISON
    }

    fn place(&self, load: LatestLoad, (): &(), (): &()) -> Place {
        hot_cold::place(compared(load), hot_cold::unscaled(load.rif_limit))
    }

    fn values(&self, load: LatestLoad, (): &(), (): &()) -> Values {
        hot_cold::values(compared(load), hot_cold::unscaled(load.rif_limit))
    }

    fn reason(first: u64) -> PickReason {
        hot_cold::reason(first)
    }
}

fn compared(load: LatestLoad) -> Load {
    Load {
        rif: rounded(load.in_flight).count().into(),
        latency_ns: load.latency_ns,
    }
}
