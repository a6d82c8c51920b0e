//! What the admin server says, as far as it is shown here: `docs/reference/live.md`, read.
//!
//! The messages are the admin server's own, and here is what else it says. Lenient: what is missing
//! is empty, what is unknown is skipped, columns may be shorter than the fleet. The process on the
//! other side may be older or newer than this one.

use serde::Deserialize;
pub(super) use slackwater_admin::messages::{
    Columns, Compared, Counts, Fleet, Latency, LoadStatus, PooledReport, RifLimit, ServiceTick,
    Tick,
};

/// The sum, as far as there are numbers for it: they come from elsewhere.
pub(super) fn sum<'a, N: Copy + Into<u64> + 'a>(counts: impl IntoIterator<Item = &'a N>) -> u64 {
    let counts = counts.into_iter().map(|count| (*count).into());
    counts.fold(0, u64::saturating_add)
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
    pub(super) state: Vec<u8>,
    pub(super) rif: Vec<Option<u64>>,
    pub(super) latency_us: Vec<Option<u64>>,
    pub(super) sent: Vec<u64>,
}

/// Requests whose story was kept, newest first: `docs/reference/decisions.md`.
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
