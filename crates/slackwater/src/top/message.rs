//! What the admin server says, as far as it is shown here: `docs/live.md`, read.
//!
//! Lenient: what is missing is empty, what is unknown is skipped, columns may be shorter than the fleet. The process on the
//! other side may be older or newer than this one.

use serde::Deserialize;
use slackwater_telemetry::policy::PolicyFacts;
use std::collections::BTreeMap;

/// Counts by name.
pub(super) type Counts = BTreeMap<String, u64>;

/// Their sum, as far as there are numbers for it: they come from elsewhere.
pub(super) fn sum<'a>(counts: impl IntoIterator<Item = &'a u64>) -> u64 {
    let counts = counts.into_iter();
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

/// Who is there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fleet {
    pub(super) revision: u64,
    pub(super) role: String,
    pub(super) version: String,
    pub(super) process: u64,
    pub(super) interval_ms: u64,
    /// The names of states, by their number.
    pub(super) states: Vec<String>,
    pub(super) policies: Vec<PolicyFacts>,
    pub(super) services: Vec<FleetService>,
    pub(super) demo: Option<FleetDemo>,
}

/// A service and its replicas.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct FleetService {
    pub(super) name: String,
    pub(super) policy: String,
    pub(super) replicas: Vec<FleetReplica>,
}

/// Who a replica is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct FleetReplica {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) tier: u64,
    pub(super) weight: u64,
}

/// What a demo's knobs have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct FleetDemo {
    /// The names of faults, by their number.
    pub(super) faults: Vec<String>,
}

/// How everybody is, and what happened in the interval.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tick {
    pub(super) revision: u64,
    pub(super) at_ms: u64,
    pub(super) uptime_ms: u64,
    pub(super) interval_ms: u64,
    pub(super) phase: String,
    pub(super) own_load: Option<OwnLoad>,
    pub(super) own_queue: Option<OwnQueue>,
    pub(super) services: Vec<ServiceTick>,
    pub(super) demo: Option<DemoTick>,
}

/// What an agent answers to probes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct OwnLoad {
    pub(super) rif: u64,
    pub(super) latency_us: Option<u64>,
    pub(super) draining: bool,
    pub(super) capacity_millirif: Option<u64>,
    pub(super) capacity_source: Option<String>,
    pub(super) cost_us: Option<u64>,
    pub(super) cpu_millionths: Option<u64>,
}

/// The queue before an agent's server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct OwnQueue {
    pub(super) limit: u64,
    pub(super) rif: u64,
    pub(super) waiting: Counts,
    pub(super) age_us: u64,
    pub(super) standing: bool,
    pub(super) queued: u64,
    pub(super) shed: Counts,
}

/// One service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServiceTick {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) rate: f64,
    pub(super) latency: Option<Latency>,
    pub(super) latency_10s: Option<Latency>,
    pub(super) picks: Counts,
    pub(super) no_replica: u64,
    pub(super) probes: Counts,
    pub(super) admission: Counts,
    pub(super) rif_limit: Option<RifLimit>,
    pub(super) pool: Vec<Report>,
    pub(super) replicas: Columns,
    /// Of replicas of whose state there is something to say.
    pub(super) standings: Vec<Standing>,
}

/// Since when a replica has been in its state, and why.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Standing {
    /// Its place in the fleet.
    pub(super) replica: usize,
    /// In ms since 1970.
    pub(super) since_ms: Option<u64>,
    pub(super) why: Option<String>,
}

/// Quantiles of latency.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those in JSON, where the unit is needed"
)]
pub(super) struct Latency {
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
    pub(super) p999_us: u64,
}

/// The RIF from which a report is hot, over the workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct RifLimit {
    pub(super) min: u64,
    pub(super) median: u64,
    pub(super) max: u64,
}

/// A report in a worker's pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Report {
    pub(super) worker: u64,
    /// Its replica's place in the fleet.
    pub(super) replica: usize,
    pub(super) rif: u64,
    pub(super) latency_us: Option<u64>,
    pub(super) age_ms: u64,
    pub(super) uses_left: Option<u64>,
    pub(super) hot: bool,
    pub(super) local: bool,
    /// Its place in the order of choice; `None` where its report decides nothing.
    pub(super) rank: Option<u64>,
    /// What is compared, for policies that compare something of their own.
    pub(super) score_us: Option<i64>,
    /// The one that the policy takes next; none where chance decides between equals.
    pub(super) next: bool,
}

/// One value for each replica, in the order of the fleet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Columns {
    pub(super) state: Vec<usize>,
    pub(super) rif: Vec<Option<u64>>,
    pub(super) latency_us: Vec<Option<u64>>,
    pub(super) report_age_ms: Vec<Option<u64>>,
    /// This and the next are left out where nobody says it.
    pub(super) capacity_millirif: Vec<Option<u64>>,
    pub(super) cost_us: Vec<Option<u64>>,
    pub(super) hot: Vec<Option<u64>>,
    pub(super) in_flight: Vec<u64>,
    pub(super) sent: Vec<u64>,
    pub(super) failed: Vec<u64>,
    pub(super) p50_us: Vec<Option<u64>>,
    pub(super) p99_us: Vec<Option<u64>>,
    pub(super) share: Vec<Option<u64>>,
}

/// A demo's troubles and what its load generators saw.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DemoTick {
    pub(super) elapsed_ms: u64,
    pub(super) length_ms: Option<u64>,
    pub(super) rate: f64,
    pub(super) weather: bool,
    /// The replica that is slowed now.
    pub(super) slowed: Option<usize>,
    pub(super) verdict: String,
    pub(super) doubt: Option<String>,
    pub(super) replicas: DemoColumns,
    pub(super) sides: Vec<Side>,
}

/// The troubles of both twins.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DemoColumns {
    pub(super) taken_percent: Vec<u64>,
    pub(super) fault: Vec<usize>,
    pub(super) failing_percent: Vec<u64>,
}

/// One side, from its load generator's end.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Side {
    pub(super) recent: Seen,
    pub(super) overall: Seen,
}

/// What a load generator saw over some time.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) p999_us: Option<u64>,
}

/// A service's or a replica's last minutes; columns of the other kind are empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct History {
    pub(super) at_ms: Vec<u64>,
    pub(super) requests: Vec<u64>,
    pub(super) failed: Vec<u64>,
    pub(super) rate: Vec<f64>,
    pub(super) p50_us: Vec<Option<u64>>,
    pub(super) p99_us: Vec<Option<u64>>,
    pub(super) p999_us: Vec<Option<u64>>,
    pub(super) rif_limit: Vec<Option<u64>>,
    pub(super) state: Vec<usize>,
    pub(super) rif: Vec<Option<u64>>,
    pub(super) latency_us: Vec<Option<u64>>,
    pub(super) sent: Vec<u64>,
}

/// Requests whose story was kept, newest first: `docs/decisions.md`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Decisions {
    pub(super) decisions: Vec<Decision>,
}

/// One request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Decision {
    /// When it came: RFC 3339, UTC.
    pub(super) time: String,
    /// What the client got; 0: nothing.
    pub(super) status: u64,
    pub(super) failed: bool,
    pub(super) total_us: u64,
    pub(super) attempts: Vec<Attempt>,
}

/// One try of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub(super) kind: String,
    pub(super) replica: String,
    /// Its response is the one that the client got.
    pub(super) answered: bool,
    pub(super) reason: String,
    pub(super) rif_limit: Option<u64>,
    pub(super) chosen: Option<Candidate>,
    pub(super) runner_up: Option<Candidate>,
    pub(super) outcome: Option<String>,
}

/// What was known of a replica.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Candidate {
    pub(super) replica: String,
    pub(super) rif: Option<u64>,
    pub(super) latency_us: Option<u64>,
    pub(super) age_us: Option<u64>,
}
