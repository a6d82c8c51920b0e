//! Passive health of replicas, over all workers. Each worker judges replicas by the requests that
//! it sent itself.

use super::reported_status::whole;
use core::ops::AddAssign;
use serde::{Deserialize, Serialize};
use slackwater_core::health::HealthCounters;
use slackwater_telemetry::date::since_epoch_ms;
use slackwater_telemetry::replica_state::{HealthSigns, ServiceStanding};

/// Results of requests to a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct StandingStatus {
    pub(crate) share_millionths: u32,
    pub(crate) success_millionths: u32,
    pub(crate) latency_us: Option<u64>,
}

/// Whether a service has a replica that takes requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct ServiceStandingStatus {
    pub(crate) all_fail: bool,
    pub(crate) since_ms: Option<u64>,
    pub(crate) why: Option<String>,
    pub(crate) wanted: u64,
    pub(crate) taking: u64,
    pub(crate) evidence_age_ms: Option<u64>,
}

impl From<&ServiceStanding> for ServiceStandingStatus {
    fn from(standing: &ServiceStanding) -> Self {
        Self {
            all_fail: standing.all_fail,
            since_ms: standing.since.map(since_epoch_ms),
            why: (!standing.why.is_empty()).then(|| standing.why.clone()),
            wanted: standing.wanted as u64,
            taking: standing.taking as u64,
            evidence_age_ms: standing.evidence_age.map(|age| whole(age.as_millis())),
        }
    }
}

/// Counts of passive health, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct StandingCounts {
    pub(crate) ejections: u64,
    pub(crate) probations: u64,
    pub(crate) spared: u64,
    pub(crate) readmissions: u64,
    pub(crate) trials: u64,
    pub(crate) trials_passed: u64,
    pub(crate) warm_ups: u64,
}

impl From<&HealthCounters> for StandingCounts {
    fn from(counters: &HealthCounters) -> Self {
        Self {
            ejections: counters.ejections,
            probations: counters.probations,
            spared: counters.spared,
            readmissions: counters.readmissions,
            trials: counters.trials,
            trials_passed: counters.trials_passed,
            warm_ups: counters.warm_ups,
        }
    }
}

impl AddAssign for StandingCounts {
    fn add_assign(&mut self, other: Self) {
        self.ejections += other.ejections;
        self.probations += other.probations;
        self.spared += other.spared;
        self.readmissions += other.readmissions;
        self.trials += other.trials;
        self.trials_passed += other.trials_passed;
        self.warm_ups += other.warm_ups;
    }
}

impl From<&HealthSigns> for StandingStatus {
    fn from(signs: &HealthSigns) -> Self {
        Self {
            share_millionths: signs.share_millionths,
            success_millionths: signs.success_millionths,
            latency_us: signs.latency.map(|latency| whole(latency.as_micros())),
        }
    }
}
