//! The admin server's messages of `docs/reference/live.md`, as far as they are shown here.
//!
//! The types are the admin server's own; this module has the remaining ones. Decoding is lenient:
//! missing values are empty, unknown ones are skipped, columns may be shorter than the fleet. The
//! other process may be older or newer than this one.

use serde::Deserialize;
pub(super) use slackwater_admin::messages::{
    Columns, Compared, Counts, Fleet, Latency, LoadStatus, PooledReport, RifLimit, ServiceTick,
    Tick,
};

/// The sum, saturating, because the counts come from another process.
pub(super) fn sum<'a, N: Copy + Into<u64> + 'a>(counts: impl IntoIterator<Item = &'a N>) -> u64 {
    let counts = counts.into_iter().map(|count| (*count).into());
    counts.fold(0, u64::saturating_add)
}

/// A demo's faults, and the measurements of its load generators.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DemoTick {
    pub(super) elapsed_ms: u64,
    pub(super) length_ms: Option<u64>,
    pub(super) rate: f64,
    pub(super) weather: bool,
    /// The replica that a slow episode affects now.
    pub(super) slowed: Option<usize>,
    pub(super) verdict: String,
    pub(super) doubt: Option<String>,
    pub(super) replicas: DemoColumns,
    pub(super) sides: Vec<Side>,
}

/// The faults of the replicas, which are the same on both sides.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct DemoColumns {
    pub(super) taken_percent: Vec<u64>,
    pub(super) fault: Vec<usize>,
    pub(super) failing_percent: Vec<u64>,
}

/// One side, as its load generator measures it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Side {
    pub(super) recent: Seen,
    pub(super) overall: Seen,
}

/// The measurements of a load generator over a period.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) p999_us: Option<u64>,
}

/// The last minutes of a service or of a replica; columns of the other kind are empty.
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
    pub(super) state: Vec<u8>,
    pub(super) rif: Vec<Option<u64>>,
    pub(super) latency_us: Vec<Option<u64>>,
    pub(super) sent: Vec<u64>,
}

/// Requests whose decisions were kept, newest first: `docs/reference/decisions.md`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Decisions {
    pub(super) decisions: Vec<Decision>,
}

/// One request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Decision {
    /// Arrival time: RFC 3339, UTC.
    pub(super) time: String,
    /// The status that the client received; 0: none.
    pub(super) status: u64,
    pub(super) failed: bool,
    pub(super) total_us: u64,
    pub(super) attempts: Vec<Attempt>,
}

/// One attempt of the request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub(super) kind: String,
    pub(super) replica: String,
    /// Whether the client received this attempt's response.
    pub(super) answered: bool,
    pub(super) reason: String,
    pub(super) rif_limit: Option<u64>,
    pub(super) chosen: Option<Candidate>,
    pub(super) runner_up: Option<Candidate>,
    pub(super) outcome: Option<String>,
}

/// What was known of a replica at the pick.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Candidate {
    pub(super) replica: String,
    pub(super) rif: Option<u64>,
    pub(super) latency_us: Option<u64>,
    pub(super) age_us: Option<u64>,
}
