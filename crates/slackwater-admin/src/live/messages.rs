//! The messages to readers of live data. `docs/reference/live.md` documents each field; the files
//! in `samples` contain each field, and a test keeps both up to date. Fields are only ever added;
//! readers must ignore unknown ones.

#![expect(missing_docs, reason = "docs/reference/live.md documents each field")]

pub use crate::status::{LoadStatus, QueueStatus, ReloadStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slackwater_telemetry::comparison::ComparisonFacts;
use slackwater_telemetry::facts::{CertificateFacts, ListenerFacts, Phase, RouteFacts};
use slackwater_telemetry::policy::PolicyFacts;
use slackwater_telemetry::problems::Problem;
use slackwater_telemetry::replica_state::StateFacts;
use std::collections::BTreeMap;

/// Counts by name; counts of 0 are left out.
pub type Counts = BTreeMap<String, u64>;

/// The services and their replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct Fleet {
    pub revision: u64,
    pub role: String,
    pub version: String,
    pub process: u32,
    pub interval_ms: u64,
    pub states: Vec<String>,
    pub replica_states: Vec<StateFacts>,
    pub policies: Vec<PolicyFacts>,
    /// All comparisons of replicas that policies use.
    pub comparisons: Vec<ComparisonFacts>,
    pub listeners: Vec<ListenerFacts>,
    pub routes: Vec<RouteFacts>,
    pub certificates: Vec<CertificateFacts>,
    pub reloads: Option<ReloadStatus>,
    pub services: Vec<FleetService>,
    pub demo: Option<Value>,
}

/// Where a service's fleet comes from, and why the last list was not accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct FleetSource {
    pub source: String,
    pub failure: Option<String>,
}

/// A service of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct FleetService {
    pub name: String,
    pub policy: String,
    pub discovery: Option<FleetSource>,
    pub replicas: Vec<FleetReplica>,
}

/// A replica of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct FleetReplica {
    pub name: String,
    pub address: String,
    pub tier: u8,
    pub weight: u32,
    /// Left out if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// The current state, and the changes since the previous tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct Tick {
    pub revision: u64,
    pub at_ms: u64,
    pub uptime_ms: u64,
    pub interval_ms: u64,
    pub phase: Phase,
    pub own_load: Option<LoadStatus>,
    pub own_queue: Option<QueueStatus>,
    pub unrouted: Counts,
    pub services: Vec<ServiceTick>,
    /// The problems, the worst first; left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    pub demo: Option<Value>,
}

/// A service in a tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct ServiceTick {
    pub requests: u64,
    pub failed: u64,
    pub rate: f64,
    pub classes: Classes,
    pub latency: Option<Latency>,
    pub latency_10s: Option<Latency>,
    pub picks: Counts,
    pub no_replica: u64,
    pub probes: Counts,
    pub removals: Counts,
    pub admission: Counts,
    pub tier: Option<u8>,
    /// All replicas that should take requests fail.
    #[serde(default)]
    pub all_fail: bool,
    pub rif_limit: Option<RifLimit>,
    /// How the next pick of each worker compares replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Compared>,
    pub pool: Vec<PooledReport>,
    pub replicas: Columns,
    /// Replicas whose state has changed or needs an explanation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standings: Vec<StandingTick>,
}

/// When a replica's state began, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct StandingTick {
    pub replica: usize,
    pub since_ms: Option<u64>,
    pub why: Option<String>,
    /// How an operator can fix it; left out if there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Time of its last health check, or of the last attempt without a response; left out if there
    /// is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at_ms: Option<u64>,
    /// Its last attempts without a response; left out if the last attempt got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_in_a_row: Option<u64>,
}

/// Requests by the class of their response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct Classes {
    #[serde(rename = "1xx")]
    pub informational: u64,
    #[serde(rename = "2xx")]
    pub success: u64,
    #[serde(rename = "3xx")]
    pub redirect: u64,
    #[serde(rename = "4xx")]
    pub client: u64,
    #[serde(rename = "5xx")]
    pub server: u64,
    pub grpc_failed: u64,
    pub broken: u64,
    pub client_gone: u64,
}

impl Classes {
    /// The sum over all classes.
    pub(super) const fn sum(&self) -> u64 {
        let answered = self.informational + self.success + self.redirect + self.client;
        answered + self.failed() + self.client_gone
    }

    /// Requests that failed at the service.
    pub(super) const fn failed(&self) -> u64 {
        self.server + self.grpc_failed + self.broken
    }
}

/// Latencies of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct Latency {
    pub count: u64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
}

/// The RIF at which a report becomes hot, over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct RifLimit {
    pub min: u32,
    pub median: u32,
    pub max: u32,
}

/// How the next pick of a worker compares replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct Compared {
    pub worker: usize,
    /// The comparison's name.
    pub comparison: String,
    /// The values that replicas share, by key.
    pub shared: BTreeMap<String, f64>,
}

/// A report that a worker's next pick may choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct PooledReport {
    pub worker: usize,
    pub replica: usize,
    pub rif: u32,
    pub latency_us: Option<u64>,
    pub age_ms: u64,
    pub uses_left: Option<u32>,
    pub hot: bool,
    pub local: bool,
    /// Its rank in the order of choice, from 0; `None` if its report decides nothing.
    pub rank: Option<u32>,
    /// The compared values by key; left out if there are none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, f64>,
    /// Whether the next request goes there; left out for all others.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub next: bool,
}

/// Replicas, column by column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(test, serde(deny_unknown_fields))]
#[cfg_attr(not(test), serde(default), cfg_attr(feature = "schema", schemars(!default)))]
pub struct Columns {
    pub state: Vec<u8>,
    pub rif: Vec<Option<u32>>,
    pub latency_us: Vec<Option<u64>>,
    pub report_age_ms: Vec<Option<u64>>,
    /// This column and the next are empty if no replica reports it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity_millirif: Vec<Option<u32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cost_us: Vec<Option<u64>>,
    pub hot: Vec<Option<u8>>,
    pub in_flight: Vec<u64>,
    pub sent: Vec<u64>,
    pub failed: Vec<u64>,
    pub p50_us: Vec<Option<u64>>,
    pub p99_us: Vec<Option<u64>>,
    pub share: Vec<Option<u32>>,
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
