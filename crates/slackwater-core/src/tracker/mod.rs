//! The load of a replica, measured by itself: its requests in flight, and how long the next query
//! would take. `[T1]`–`[T5]`
//!
//! All threads of a server share a [`LoadTracker`], which takes no lock: counts are atomic, and
//! latencies go into a ring of slots, each written by at most one thread at a time. It reads no
//! clock; `now` comes with each call. It counts the queries that the application has, and makes the
//! [`LoadReport`].

mod capacity;
mod rates;
mod samples;
#[cfg(test)]
mod tests;

pub use capacity::{CapacityEstimator, CapacitySource, CpuTotals, Look, ThreadTotals};
pub use rates::{RecentRates, Totals};

use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use core::time::Duration;
use samples::Samples;

/// Settings of a [`LoadTracker`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackerConfig {
    /// Completions up to this age make up the estimate alone if there are enough of them. Default
    /// 20 ms, the paper's "O(1–10) milliseconds" with a margin for slower services. At 0 only those
    /// of this very instant count. `[T3]` `[Decision 0004]`
    pub sample_window: Duration,
    /// Completions within the window that are enough. Default 5. At 0, as at 1, a single one is
    /// enough. `[T3]` `[Decision 0004]`
    pub window_samples_min: usize,
    /// If the window has fewer, this many of the newest completions are used, up to an age of
    /// `sample_age_max`. Default 16. At 0 the latency is unknown then. `[T3]` `[Decision 0004]`
    pub remembered_samples_max: usize,
    /// Age at which a sample is no longer used. A replica that gets no queries becomes unknown,
    /// which ranks as the median of the others, so that it is tried again. Older samples only show
    /// which wait is longer than usual. Default 3 s. At 0 the latency is always unknown. `[T3]`
    /// `[Decision 0004]`
    pub sample_age_max: Duration,
    /// How many of the newest latencies are kept: 2 to 4,096, default 256. A busier replica bases
    /// its estimate on fewer milliseconds.
    pub sample_capacity: usize,
}

impl Default for TrackerConfig {
    fn default() -> Self {
        Self {
            sample_window: Duration::from_millis(20),
            window_samples_min: 5,
            remembered_samples_max: 16,
            sample_age_max: Duration::from_secs(3),
            sample_capacity: 256,
        }
    }
}

/// How a query ended, as the replica sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was answered. Its latency is a sample.
    Success,
    /// It was answered with an error, or the application panicked. It is not a sample, but a sign
    /// of life.
    Failed,
    /// The client gave it up before it had an answer. It is neither a sample nor a sign of life.
    Cancelled,
}

/// A query in flight. [`LoadTracker::finish`] of the same tracker takes it back.
#[derive(Debug)]
#[must_use = "a query that never finishes stays in flight forever"]
pub struct Arrival {
    at: Instant,
    /// The *other* queries in flight at arrival: the tag that predicts what the next one meets.
    /// `[T2]`
    others: Rif,
    head_ready: bool,
}

impl Arrival {
    /// When the query arrived.
    pub const fn at(&self) -> Instant {
        self.at
    }
}

/// A query that ends counts with at most this of its time in flight: 8 s. Beyond that it was rather
/// long-running.
const LONG_NS: u64 = 8_000_000_000;

/// Counts a replica's queries and estimates its latency.
#[derive(Debug)]
pub struct LoadTracker {
    rif: AtomicU32,
    /// Ends of queries minus their beginnings, wrapping. The source of
    /// [`LoadTracker::rif_time_ns`].
    spent_ns: AtomicU64,
    /// How long queries that have ended were in flight, summed, wrapping. Each counts with at most
    /// [`LONG_NS`].
    ended_ns: AtomicU64,
    /// Ends of busy times minus their beginnings, wrapping. The source of [`LoadTracker::busy_ns`].
    busy_ns: AtomicU64,
    /// Queries whose response head is not ready yet.
    waiting: AtomicU32,
    /// When a query was last answered, or the replica last began to wait for one, in nanoseconds.
    progress_at_ns: AtomicU64,
    /// How long a query had seen no progress when its client gave it up. 0 once a query succeeds.
    stalled_ns: AtomicU64,
    /// When `stalled_ns` was measured.
    stalled_at_ns: AtomicU64,
    samples: Samples,
    sample_age_max_ns: u64,
}

impl Default for LoadTracker {
    fn default() -> Self {
        Self::new(&TrackerConfig::default())
    }
}

impl LoadTracker {
    /// A tracker with nothing in flight and nothing known. Values out of range are clamped.
    pub fn new(config: &TrackerConfig) -> Self {
        let sample_age_max_ns = span_ns(config.sample_age_max);
        Self {
            rif: AtomicU32::new(0),
            spent_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            progress_at_ns: AtomicU64::new(0),
            stalled_ns: AtomicU64::new(0),
            stalled_at_ns: AtomicU64::new(0),
            samples: Samples::new(config),
            sample_age_max_ns,
        }
    }

    /// Notes that the application receives a query. `[T1]`
    pub fn arrive(&self, now: Instant) -> Arrival {
        let others = self.rif.fetch_add(1, Relaxed);
        self.spent_ns.fetch_sub(now.as_nanos(), Relaxed);
        if others == 0 {
            self.busy_ns.fetch_sub(now.as_nanos(), Relaxed);
        }
        if self.waiting.load(Relaxed) == 0 {
            // An idle replica makes no progress but is not stalled. This comes before the query
            // counts as waiting: a probe in between would take the pause for a stall.
            self.progress_at_ns.fetch_max(now.as_nanos(), Relaxed);
        }
        self.waiting.fetch_add(1, Release);
        Arrival {
            at: now,
            others: Rif::new(others),
            head_ready: false,
        }
    }

    /// Notes that the response head is ready. Latency ends here, though the query stays in flight
    /// to the last byte. Only the first call counts. `[T1]`
    pub fn head_ready(&self, now: Instant, arrival: &mut Arrival, end: End) {
        if !core::mem::replace(&mut arrival.head_ready, true) {
            self.answered(now, arrival, end);
        }
    }

    /// Notes that the application has returned the response, or that the query is over for another
    /// reason. `[T1]`
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taking it makes a second end impossible"
    )]
    pub fn finish(&self, now: Instant, arrival: Arrival, end: End) {
        if !arrival.head_ready {
            self.answered(now, &arrival, end);
        }
        self.left(now, arrival.at);
    }

    /// Removes a query that never reached the replica, which only its client knows. It is neither a
    /// sample, nor a sign of life, nor a sign of a stop. For a tracker that a client keeps of its
    /// own queries. `[A13]`
    #[expect(
        clippy::needless_pass_by_value,
        reason = "taking it makes a second end impossible"
    )]
    pub fn withdraw(&self, arrival: Arrival) {
        if !arrival.head_ready {
            self.waiting.fetch_sub(1, Release);
        }
        self.left(arrival.at, arrival.at);
    }

    /// Notes that a query which arrived then is no longer in flight.
    fn left(&self, now: Instant, arrived: Instant) {
        let counted_ns = now.ns_since(arrived).min(LONG_NS);
        self.ended_ns.fetch_add(counted_ns, Relaxed);
        self.spent_ns.fetch_add(now.as_nanos(), Relaxed);
        if self.rif.fetch_sub(1, Relaxed) == 1 {
            self.busy_ns.fetch_add(now.as_nanos(), Relaxed);
        }
    }

    /// Requests in flight, integrated over time until now, in nanoseconds. The difference of two
    /// values over the time between them is the mean RIF. If queries come or go at this very
    /// moment, it may be off by `now` for each, wrapping.
    pub fn rif_time_ns(&self, now: Instant) -> u64 {
        let in_flight = u64::from(self.rif.load(Relaxed));
        let until_now = in_flight.wrapping_mul(now.as_nanos());
        self.spent_ns.load(Relaxed).wrapping_add(until_now)
    }

    /// The time with something in flight until now, in nanoseconds. The difference of two values
    /// over the time between them is the share in which the replica was not idle. If a query makes
    /// the replica busy or idle at this very moment, the value may be off by anything, wrapping,
    /// and the difference is then not a share.
    pub fn busy_ns(&self, now: Instant) -> u64 {
        let until_now = match self.rif.load(Relaxed) {
            0 => 0,
            _ => now.as_nanos(),
        };
        self.busy_ns.load(Relaxed).wrapping_add(until_now)
    }

    fn answered(&self, now: Instant, arrival: &Arrival, end: End) {
        match end {
            End::Success => {
                // A clock that has stepped back has measured nothing.
                if now >= arrival.at {
                    let latency = now.saturating_since(arrival.at);
                    self.samples.record(now, arrival.others, latency);
                }
                self.progress_at_ns.fetch_max(now.as_nanos(), Relaxed);
                self.stalled_ns.store(0, Relaxed);
            }
            End::Failed => {
                self.progress_at_ns.fetch_max(now.as_nanos(), Relaxed);
            }
            End::Cancelled => {
                // A query that was given up takes at least this long. Without this, a stopped
                // replica would look fast again as soon as its clients' deadlines have emptied it.
                // `[T4]`
                let stalled_ns = self
                    .without_progress_ns(now)
                    .min(span_ns(now.saturating_since(arrival.at)));
                if self.recently_stalled(now) {
                    self.stalled_ns.fetch_max(stalled_ns, Relaxed);
                } else {
                    self.stalled_ns.store(stalled_ns, Relaxed);
                }
                self.stalled_at_ns.store(now.as_nanos(), Relaxed);
            }
        }
        // This comes last, so that a reader that sees the next query waiting also sees this one's
        // progress.
        self.waiting.fetch_sub(1, Release);
    }

    /// Requests in flight.
    #[inline]
    pub fn rif(&self) -> Rif {
        Rif::new(self.rif.load(Relaxed))
    }

    /// The answer to a probe: RIF, and the median of recent latencies at or near it. `[T3]` A
    /// median of zero, from a clock too coarse for the queries, counts as unknown.
    pub fn report(&self, now: Instant) -> LoadReport {
        let rif = self.rif();
        let floor_ns = self.stall_floor_ns(now);
        let latency_ns = match self.samples.median_near_ns(now, rif) {
            Some(median_ns) => Some(median_ns.max(floor_ns)),
            None => self
                .outlasts_the_usual(now, rif, floor_ns)
                .then_some(floor_ns),
        };
        LoadReport::new(rif, latency_ns.map(Duration::from_nanos))
    }

    /// Whether a lower bound without any sample is more informative than an unknown latency. `[T4]`
    /// `[Decision 0003]`
    fn outlasts_the_usual(&self, now: Instant, rif: Rif, floor_ns: u64) -> bool {
        if self.sample_age_max_ns == 0 {
            return false;
        }
        match self.samples.last_known_ns(now, rif) {
            // Too old for an estimate, but a wait longer than that is a problem of the replica and
            // not of the query.
            Some(usual_ns) => floor_ns > usual_ns,
            // A new replica: a query that has just started would make it look fast, and a long one
            // slow.
            None => floor_ns >= self.sample_age_max_ns,
        }
    }

    /// Lower bound of the estimate while the replica seems to have stopped. 0 if it does not.
    /// `[T4]`
    fn stall_floor_ns(&self, now: Instant) -> u64 {
        let waiting = self.waiting.load(Acquire) > 0;
        let current_ns = if waiting {
            self.without_progress_ns(now)
        } else {
            0
        };
        let past_ns = if self.recently_stalled(now) {
            self.stalled_ns.load(Relaxed)
        } else {
            0
        };
        current_ns.max(past_ns)
    }

    /// Whether the last query that was given up still counts.
    fn recently_stalled(&self, now: Instant) -> bool {
        let stalled_at_ns = self.stalled_at_ns.load(Relaxed);
        now.as_nanos().saturating_sub(stalled_at_ns) < self.sample_age_max_ns
    }

    fn without_progress_ns(&self, now: Instant) -> u64 {
        now.as_nanos()
            .saturating_sub(self.progress_at_ns.load(Relaxed))
    }
}
