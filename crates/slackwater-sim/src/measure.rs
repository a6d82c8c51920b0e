//! What one run showed: latencies, errors, requests in flight, utilization, probes.

use core::time::Duration;
use hdrhistogram::Histogram;

/// What was measured in one run, or in several runs of the same kind taken together.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Queries that arrived within the measured span.
    pub queries: u64,
    /// Of these: failed, refused, or not answered within the deadline.
    pub errors: u64,
    /// Of `errors`: not answered within the deadline.
    pub timeouts: u64,
    /// Latency as clients see it, of all `queries` but those that failed or were refused before the deadline; a query that
    /// ran into its deadline counts with it.
    pub latency: Latencies,
    /// Requests in flight at each replica, sampled every 10 ms over the measured span.
    pub rif: Histogram<u64>,
    /// CPU used, as a multiple of the allocation.
    pub utilization: Utilization,
    /// Probes sent within the measured span.
    pub probes: u64,
    /// Second copies sent within the measured span.
    pub hedges: u64,
    /// Measured queries by the replica that they were first sent to.
    pub queries_by_replica: Vec<u64>,
    /// Steps of the event loop in the whole run, the warm-up included.
    pub events: u64,
    /// How long the run took in real time, of one core. The only figure that a seed does not determine.
    pub wall: Duration,
    /// The measured span, summed over the runs.
    pub span: Duration,
}

/// Latencies in microseconds, 3 digits, up to 1,000 s.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Exact sum, for the mean.
    sum_ns: u128,
}

/// CPU used by each replica in each second of the measured span, as a multiple of its allocation.
#[derive(Clone, Debug, Default)]
pub struct Utilization {
    /// How many replicas there are.
    pub replicas: usize,
    /// Second by second, within it replica by replica; further runs follow.
    pub by_second: Vec<f32>,
}
