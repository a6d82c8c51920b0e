//! What is said to readers of live data, field by field. `docs/live.md` documents each; the files in `samples` have each, and
//! a test keeps the two in step. Fields are only ever added; unknown ones are to be ignored by readers.

use crate::status::{LoadStatus, QueueStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slackwater_telemetry::facts::Phase;
use slackwater_telemetry::policy::PolicyFacts;
use slackwater_telemetry::replica_state::StateFacts;
use std::collections::BTreeMap;

/// Counts by name; what did not occur is left out.
pub type Counts = BTreeMap<String, u64>;

/// Who is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct Fleet {
    pub(super) revision: u64,
    pub(super) role: String,
    pub(super) version: String,
    pub(super) process: u32,
    pub(super) interval_ms: u64,
    pub(super) states: Vec<String>,
    pub(super) replica_states: Vec<StateFacts>,
    pub(super) policies: Vec<PolicyFacts>,
    pub(super) services: Vec<FleetService>,
    pub(super) demo: Option<Value>,
}

/// One service of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct FleetService {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) replicas: Vec<FleetReplica>,
}

/// One replica of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct FleetReplica {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) tier: u8,
    pub(super) weight: u32,
}

/// How they are, and what happened since the tick before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct Tick {
    pub(super) revision: u64,
    pub(super) at_ms: u64,
    pub(super) uptime_ms: u64,
    pub(super) interval_ms: u64,
    pub(super) phase: Phase,
    pub(super) own_load: Option<LoadStatus>,
    pub(super) own_queue: Option<QueueStatus>,
    pub(super) unrouted: Counts,
    pub(super) services: Vec<ServiceTick>,
    pub(super) demo: Option<Value>,
}

/// One service of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct ServiceTick {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) rate: f64,
    pub(super) classes: Classes,
    pub(super) latency: Option<Latency>,
    pub(super) latency_10s: Option<Latency>,
    pub(super) picks: Counts,
    pub(super) no_replica: u64,
    pub(super) probes: Counts,
    pub(super) removals: Counts,
    pub(super) admission: Counts,
    pub(super) tier: Option<u8>,
    pub(super) rif_limit: Option<RifLimit>,
    pub(super) pool: Vec<PooledReport>,
    pub(super) replicas: Columns,
    /// Of those that have changed their state, or of whose state there is something to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) standings: Vec<StandingTick>,
}

/// Since when a replica has been in its state, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct StandingTick {
    pub(super) replica: usize,
    pub(super) since_ms: Option<u64>,
    pub(super) why: Option<String>,
}

/// Requests by what was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct Classes {
    #[serde(rename = "1xx")]
    pub(super) informational: u64,
    #[serde(rename = "2xx")]
    pub(super) success: u64,
    #[serde(rename = "3xx")]
    pub(super) redirect: u64,
    #[serde(rename = "4xx")]
    pub(super) client: u64,
    #[serde(rename = "5xx")]
    pub(super) server: u64,
    pub(super) grpc_failed: u64,
    pub(super) broken: u64,
    pub(super) client_gone: u64,
}

impl Classes {
    /// All of them.
    pub(super) const fn sum(&self) -> u64 {
        let answered = self.informational + self.success + self.redirect + self.client;
        answered + self.failed() + self.client_gone
    }

    /// Those that the service is to blame for.
    pub(super) const fn failed(&self) -> u64 {
        self.server + self.grpc_failed + self.broken
    }
}

/// How long requests took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct Latency {
    pub(super) count: u64,
    pub(super) p50_us: u64,
    pub(super) p90_us: u64,
    pub(super) p99_us: u64,
    pub(super) p999_us: u64,
}

/// The RIF from which on a report is hot, over the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct RifLimit {
    pub(super) min: u32,
    pub(super) median: u32,
    pub(super) max: u32,
}

/// A report that the next pick of a worker chooses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct PooledReport {
    pub(super) worker: usize,
    pub(super) replica: usize,
    pub(super) rif: u32,
    pub(super) latency_us: Option<u64>,
    pub(super) age_ms: u64,
    pub(super) uses_left: Option<u32>,
    pub(super) hot: bool,
    pub(super) local: bool,
    /// Its place in the order of choice, from 0; `None` where its report decides nothing.
    pub(super) rank: Option<u32>,
    pub(super) score_us: Option<i64>,
    /// The next request goes there; left out of all others.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub(super) next: bool,
}

/// Replicas, column by column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct Columns {
    pub(super) state: Vec<u8>,
    pub(super) rif: Vec<Option<u32>>,
    pub(super) latency_us: Vec<Option<u64>>,
    pub(super) report_age_ms: Vec<Option<u64>>,
    /// This and the next: empty where nobody says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) capacity_millirif: Vec<Option<u32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cost_us: Vec<Option<u64>>,
    pub(super) hot: Vec<Option<u8>>,
    pub(super) in_flight: Vec<u64>,
    pub(super) sent: Vec<u64>,
    pub(super) failed: Vec<u64>,
    pub(super) p50_us: Vec<Option<u64>>,
    pub(super) p99_us: Vec<Option<u64>>,
    pub(super) share: Vec<Option<u32>>,
}

/// A service over the last minutes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct ServiceHistory {
    pub(super) revision: u64,
    pub(super) service: String,
    pub(super) replica: Option<String>,
    pub(super) interval_ms: u64,
    pub(super) at_ms: Vec<u64>,
    pub(super) requests: Vec<u64>,
    pub(super) failed: Vec<u64>,
    pub(super) rate: Vec<f64>,
    pub(super) p50_us: Vec<Option<u64>>,
    pub(super) p99_us: Vec<Option<u64>>,
    pub(super) p999_us: Vec<Option<u64>>,
    pub(super) rif_limit: Vec<Option<u32>>,
    pub(super) hedges: Vec<u64>,
    pub(super) retries: Vec<u64>,
    pub(super) shed: Vec<u64>,
    pub(super) queued: Vec<u64>,
    pub(super) picks: BTreeMap<String, Vec<u64>>,
    pub(super) probes: BTreeMap<String, Vec<u64>>,
}

/// A replica over the last minutes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
pub struct ReplicaHistory {
    pub(super) revision: u64,
    pub(super) service: String,
    pub(super) replica: String,
    pub(super) interval_ms: u64,
    pub(super) at_ms: Vec<u64>,
    pub(super) state: Vec<u8>,
    pub(super) rif: Vec<Option<u32>>,
    pub(super) latency_us: Vec<Option<u64>>,
    pub(super) capacity_millirif: Vec<Option<u32>>,
    pub(super) cost_us: Vec<Option<u64>>,
    pub(super) in_flight: Vec<u64>,
    pub(super) sent: Vec<u64>,
    pub(super) failed: Vec<u64>,
    pub(super) p50_us: Vec<Option<u64>>,
    pub(super) p99_us: Vec<Option<u64>>,
}
