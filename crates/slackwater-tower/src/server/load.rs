//! One replica's state, shared by its query path, its probe responders and its operator.
//!
//! A [`Load`] joins the core's tracker to a clock and adds state of the process: its incarnation,
//! whether it is draining, how busy it has been, and how its load is scaled for a query hint.

use super::QueryInFlight;
use super::capacity::{Learned, ReadCpu};
use super::counts::{Counts, LoadCounts};
use super::hints::{HintCache, HintCounts, HintHash};
use crate::clock::Clock;
use crate::wire::carried::CarriedLoad;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use slackwater_core::tracker::{
    CapacityEstimator, CapacitySource, CpuTotals, LoadTracker, RecentRates, Totals, TrackerConfig,
};
use slackwater_core::{Instant, LoadReport, LoadScale, Rif};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

/// A handle to one replica's state; clones share it. There is one for each target that clients can
/// pick: usually one per process.
#[derive(Clone)]
pub struct Load {
    shared: Arc<Shared>,
}

struct Shared {
    tracker: LoadTracker,
    clock: Clock,
    /// Absent only if the operating system provides no entropy.
    incarnation: Option<u64>,
    draining: AtomicBool,
    hint_scale: Option<Box<HintScale>>,
    /// `None`: hints of queries are not noted.
    hint_cache: Option<HintCache>,
    counts: Counts,
    /// Only reports take this lock, never a query.
    rates: Mutex<RecentRates>,
    cpu_used: Option<Box<CpuUsed>>,
    /// `None`: capacity and cost are not reported.
    learned: Option<Learned>,
}

type HintScale = dyn Fn(&[u8]) -> LoadScale + Send + Sync;
type CpuUsed = dyn Fn() -> Duration + Send + Sync;

impl Load {
    /// Creates a replica with nothing in flight, the default estimator, and hints ignored.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder, for other settings.
    pub fn builder() -> LoadBuilder {
        LoadBuilder::default()
    }

    /// Counts a query that starts. It is in flight until the guard ends.
    /// [`LoadLayer`](super::LoadLayer) calls this for HTTP services. `[T1]`
    ///
    /// ```
    /// use slackwater_tower::server::{End, Load};
    ///
    /// let load = Load::new();
    /// let mut query = load.arrive();
    /// assert_eq!(load.rif().count(), 1);
    /// query.head_ready(End::Success); // the first byte of the answer is there
    /// query.finish(End::Success); // and the last
    /// assert_eq!(load.rif().count(), 0);
    /// ```
    pub fn arrive(&self) -> QueryInFlight {
        let arrival = self.shared.tracker.arrive(self.now());
        QueryInFlight::new(self.clone(), arrival)
    }

    /// Returns the replica's report now. A hint that is not empty scales it. `[T3]` `[S3]`
    pub fn report(&self, hint: Option<&[u8]>) -> LoadReport {
        let now = self.now();
        let mut report = self.shared.tracker.report(now);
        // First, since the rates may depend on this reading.
        if let Some(learned) = &self.shared.learned {
            if learned.is_due(now, Duration::ZERO) {
                self.read(learned, now);
            }
            learned.fill(&mut report);
        }
        self.fill_rates(now, &mut report);
        report.draining = self.is_draining();
        report.incarnation = self.shared.incarnation;
        if let (Some(scale), Some(hint)) = (&self.shared.hint_scale, hint)
            && !hint.is_empty()
        {
            // A panic in the caller's function must not stop the probe responder.
            report.load_scale =
                catch_unwind(AssertUnwindSafe(|| scale(hint))).unwrap_or(LoadScale::ONE);
        }
        report
    }

    /// Fills in recent rates. Totals are read at intervals, when a report is made.
    fn fill_rates(&self, now: Instant, report: &mut LoadReport) {
        let mut rates = self
            .shared
            .rates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if rates.is_due(now) {
            let cpu = match &self.shared.cpu_used {
                // A panic in the caller's function must not stop the probe responder.
                Some(used) => catch_unwind(AssertUnwindSafe(used)).ok(),
                None => (self.shared.learned.as_ref()).and_then(Learned::allocation_used),
            };
            let totals = Totals {
                cpu,
                ..self.shared.counts.totals()
            };
            rates.read(now, totals);
        }
        rates.fill(report);
    }

    /// Returns the load for a response: RIF, capacity and cost. Takes no lock. Readings are left to
    /// probes, unless one was due a whole step before `at`, a recent time: then no probes come.
    #[inline]
    pub(super) fn carried_load(&self, at: Instant) -> CarriedLoad {
        let mut said = CarriedLoad {
            rif: self.shared.tracker.rif().count(),
            capacity_millirif: None,
            cost_ns: None,
        };
        if let Some(learned) = &self.shared.learned {
            if learned.is_due(at, CapacityEstimator::STEP) {
                self.read(learned, self.now());
            }
            said.capacity_millirif = learned.capacity_millirif();
            said.cost_ns = learned.cost_ns();
        }
        said
    }

    #[cold]
    fn read(&self, learned: &Learned, now: Instant) -> bool {
        let finished = || self.shared.counts.totals().finished;
        learned.read(now, &self.shared.tracker, finished)
    }

    /// Learns capacity and cost from what happened since the last reading, at most every 50 ms.
    /// With [`LoadBuilder::learn_on_request`] only this does. While nothing is in flight, it learns
    /// once a second. The same holds once 300 queries have ended, if requests were in flight for
    /// less than a tenth of the time and fewer than 128 queries ended since the last reading. Other
    /// calls do almost nothing. Returns whether the replica was quiet, so that there is no hurry to
    /// call again; `false` if nothing is learned at all.
    pub fn learn(&self) -> bool {
        (self.shared.learned.as_ref()).is_some_and(|learned| self.read(learned, self.now()))
    }

    /// The source of the capacity in the current reports; `None` while they have none.
    pub fn capacity_source(&self) -> Option<CapacitySource> {
        self.shared.learned.as_ref()?.source()
    }

    /// Requests in flight.
    pub fn rif(&self) -> Rif {
        self.shared.tracker.rif()
    }

    /// Makes reports ask clients to send no new queries (`true`), or to send them again (`false`).
    /// Queries that still arrive are served. Set it some probe intervals before the listener
    /// closes.
    pub fn set_draining(&self, draining: bool) {
        self.shared.draining.store(draining, Relaxed);
    }

    /// Whether hints of queries are noted; see [`LoadBuilder::hint_cache`].
    #[inline]
    pub fn notes_hints(&self) -> bool {
        self.shared.hint_cache.is_some()
    }

    /// Forgets the hints of the queries that were answered, as when the application behind this
    /// replica has restarted with empty caches.
    pub fn forget_hints(&self) {
        if let Some(cache) = &self.shared.hint_cache {
            cache.forget_all();
        }
    }

    /// Counts of hints; `None` if they are not noted.
    pub fn hint_counts(&self) -> Option<HintCounts> {
        self.shared.hint_cache.as_ref().map(HintCache::counts)
    }

    pub(super) fn hint_hash(&self, hint: &[u8]) -> Option<HintHash> {
        self.shared.hint_cache.as_ref()?.hash(hint)
    }

    pub(super) fn note_hint(&self, hint: HintHash) {
        if let Some(cache) = &self.shared.hint_cache {
            cache.answered_hash(hint);
        }
    }

    /// Whether the replica is draining.
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Relaxed)
    }

    /// Counts since the start.
    pub fn counts(&self) -> LoadCounts {
        self.shared.counts.read()
    }

    pub(super) fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    pub(super) fn tracker(&self) -> &LoadTracker {
        &self.shared.tracker
    }

    pub(super) fn live_counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl Default for Load {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load")
            .field("rif", &self.rif())
            .field("draining", &self.is_draining())
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// Settings of a [`Load`].
pub struct LoadBuilder {
    tracker: TrackerConfig,
    hint_scale: Option<Box<HintScale>>,
    hint_cache: Option<HintCache>,
    cpu: Option<(u32, Box<CpuUsed>)>,
    learns_capacity: bool,
    learns_on_request: bool,
    cpu_totals: Option<Box<ReadCpu>>,
}

impl Default for LoadBuilder {
    fn default() -> Self {
        Self {
            tracker: TrackerConfig::default(),
            hint_scale: None,
            hint_cache: None,
            cpu: None,
            learns_capacity: true,
            learns_on_request: false,
            cpu_totals: None,
        }
    }
}

impl LoadBuilder {
    /// Sets how latency is estimated. Default: [`TrackerConfig::default`].
    #[must_use]
    pub fn tracker(mut self, config: TrackerConfig) -> Self {
        self.tracker = config;
        self
    }

    /// Scales the reported load by the probe's hint, so that a replica with the query's data at
    /// hand attracts it. `scale` runs for each probe with a hint, on the thread that answers
    /// probes: it should take microseconds at most. If it panics, the load is not scaled. Default:
    /// hints are ignored. `[S3]` `[Prequal §4 "Synchronous mode"]`
    ///
    /// ```
    /// use slackwater_tower::server::Load;
    /// use slackwater_tower::LoadScale;
    ///
    /// let load = Load::builder()
    ///     .hint_scale(|hint| match hint {
    ///         b"user-17" => LoadScale::from_1024ths(102), // in the cache: ten times less loaded
    ///         _ => LoadScale::ONE,
    ///     })
    ///     .build();
    /// assert_eq!(load.report(Some(b"user-17")).load_scale.in_1024ths(), 102);
    /// ```
    #[must_use]
    pub fn hint_scale(
        mut self,
        scale: impl Fn(&[u8]) -> LoadScale + Send + Sync + 'static,
    ) -> Self {
        self.hint_scale = Some(Box::new(scale));
        self
    }

    /// Scales the reported load by the hints of queries that were answered lately: see
    /// [`HintCache`]. Replaces [`Self::hint_scale`]. [`LoadLayer`](super::LoadLayer) notes the
    /// hints of its queries; other servers call [`QueryInFlight::set_hint`]. `[S3]`
    ///
    /// ```
    /// use slackwater_tower::server::{End, HintCache, Load};
    ///
    /// let load = Load::builder().hint_cache(HintCache::default()).build();
    /// assert_eq!(load.report(Some(b"user-17")).load_scale.in_1024ths(), 1024);
    /// let mut query = load.arrive();
    /// query.set_hint(b"user-17");
    /// query.head_ready(End::Success);
    /// assert_eq!(load.report(Some(b"user-17")).load_scale.in_1024ths(), 340);
    /// ```
    #[must_use]
    pub fn hint_cache(self, cache: HintCache) -> Self {
        let known = cache.clone();
        Self {
            hint_cache: Some(cache),
            ..self.hint_scale(move |hint| known.scale(hint))
        }
    }

    /// Reports CPU in use, as weighted round robin needs it. `used` returns the CPU time used since
    /// the start, and `cores` is the replica's allocation. `used` runs at most once a second, on a
    /// thread that answers probes. `cores` is clamped to the range from a thousandth to four
    /// million. Default: CPU is reported from [`Self::cpu_totals`], or not at all without it.
    /// `[T6]`
    ///
    /// ```
    /// use slackwater_tower::server::Load;
    /// use core::time::Duration;
    ///
    /// // On Linux: user and system time of this process, after its name. A tick is usually 10 ms.
    /// let used = || {
    ///     let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ///     let ticks = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    ///     let ticks = ticks.skip(11).take(2);
    ///     let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    ///     Duration::from_millis(10 * ticks)
    /// };
    /// let load = Load::builder().cpu(4.0, used).build();
    /// assert_eq!(load.report(None).cpu_millionths, None, "a rate takes two readings");
    /// ```
    #[must_use]
    pub fn cpu(mut self, cores: f64, used: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's `as` saturates, which is what is documented"
        )]
        let millicores = (cores * 1_000.0).round() as u32;
        self.cpu = Some((millicores, Box::new(used)));
        self
    }

    /// Whether capacity and the cost of a query are learned and reported, for policies that use
    /// them. Default: on, from RIF and latency, and with [`Self::cpu_totals`] also from the CPU. A
    /// reading takes microseconds. It happens at most every 50 ms, less often while hardly anything
    /// is in flight (see [`Load::learn`]), on a thread that makes a report, unless
    /// [`Self::learn_on_request`] is set. If off, reports have neither value, and policies that use
    /// capacity fall back to latency and RIF.
    #[must_use]
    pub fn learn_capacity(mut self, learns: bool) -> Self {
        self.learns_capacity = learns;
        self
    }

    /// Provides the replica's CPU totals, so that capacity and cost are learned from them. They are
    /// better evidence than latency, which also grows when no thread waits for a CPU. `read`
    /// returns totals since any fixed point in time:
    ///
    /// - `used`: the CPU time used, summed over threads;
    /// - `threads`: how long threads were ready and waited for a CPU, and the CPU time that the
    ///   same threads used, both summed; or `None` if unknown;
    /// - `limit_millicores`: the most that it may use, in thousandths of a core, 1 or more; or
    ///   `None`;
    /// - `quota_period`: the period of that limit, if it is a quota.
    ///
    /// Without `threads` the cost is known, but capacity is learned from latency alone. Without the
    /// limit, capacity has no upper bound. If `read` returns `None` or panics, latency is used
    /// until two readings in a row succeed. Totals that step back count as unchanged.
    ///
    /// `read` runs at most once in 50 ms, less often while hardly anything is in flight (see
    /// [`Load::learn`]). It runs on a thread that makes a report, such as the one that answers
    /// probes, unless [`Self::learn_on_request`] is set, so it should take microseconds. Unless
    /// [`Self::cpu`] is set, CPU in use is also reported from these totals, as a share of the
    /// limit, while there is one. Default: no CPU totals. On Linux, the crate `slackwater-signals`
    /// reads all four.
    ///
    /// ```
    /// use slackwater_tower::server::{CpuTotals, ThreadTotals};
    /// use slackwater_tower::server::Load;
    /// use core::time::Duration;
    ///
    /// let read = || {
    ///     // On Linux, of a replica of one thread: nanoseconds on a CPU, and in line for one.
    ///     let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    ///     let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    ///     let used = Duration::from_nanos(fields.next()?);
    ///     let waited = Duration::from_nanos(fields.next()?);
    ///     Some(CpuTotals {
    ///         used,
    ///         threads: Some(ThreadTotals { used, waited }),
    ///         limit_millicores: Some(1_000),
    ///         quota_period: None,
    ///     })
    /// };
    /// let load = Load::builder().cpu_totals(read).build();
    /// assert_eq!(load.report(None).cost, None, "it takes some queries to know");
    /// ```
    #[must_use]
    pub fn cpu_totals(
        mut self,
        read: impl Fn() -> Option<CpuTotals> + Send + Sync + 'static,
    ) -> Self {
        self.cpu_totals = Some(Box::new(read));
        self
    }

    /// Learns capacity and cost only when [`Load::learn`] is called, on the thread that calls it.
    /// For replicas whose [`Self::cpu_totals`] should not run on threads that answer probes.
    /// Default: the thread that makes a report learns when it is time.
    #[must_use]
    pub const fn learn_on_request(mut self) -> Self {
        self.learns_on_request = true;
        self
    }

    /// Builds the replica, with a clock that starts now and a new incarnation.
    pub fn build(self) -> Load {
        let (millicores, cpu_used) = self.cpu.unzip();
        let cpu_totals = self.cpu_totals;
        Load {
            shared: Arc::new(Shared {
                tracker: LoadTracker::new(&self.tracker),
                clock: Clock::new(),
                incarnation: getrandom::u64().ok(),
                draining: AtomicBool::new(false),
                hint_scale: self.hint_scale,
                hint_cache: self.hint_cache,
                counts: Counts::default(),
                // Learned use is a share of the whole allocation already.
                rates: Mutex::new(RecentRates::new(millicores.unwrap_or(1_000))),
                cpu_used,
                learned: (self.learns_capacity)
                    .then(|| Learned::new(cpu_totals, self.learns_on_request)),
            }),
        }
    }
}

impl fmt::Debug for LoadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadBuilder")
            .field("tracker", &self.tracker)
            .field("scales_by_hint", &self.hint_scale.is_some())
            .field("notes_hints", &self.hint_cache.is_some())
            .field("reports_cpu", &self.cpu.is_some())
            .field("learns_capacity", &self.learns_capacity)
            .field("learns_on_request", &self.learns_on_request)
            .field("learns_from_cpu", &self.cpu_totals.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;
    use slackwater_core::tracker::End;

    #[test]
    fn a_report_contains_state_of_the_process() {
        let load = Load::new();
        let report = load.report(None);
        assert_eq!(report.rif, Rif::ZERO);
        assert_eq!(report.latency, None, "unknown, not zero");
        assert_eq!(report.incarnation, load.clone().report(None).incarnation);
        assert_ne!(report.incarnation, Load::new().report(None).incarnation);
        assert!(!report.draining);
        load.set_draining(true);
        assert!(load.report(None).draining);
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_contains_recent_rates() {
        let cpu_ms = Arc::new(AtomicU64::new(0));
        let used = cpu_ms.clone();
        let load = Load::builder()
            .cpu(0.5, move || Duration::from_millis(used.load(Relaxed)))
            .build();
        let rates = || {
            let report = load.report(None);
            (
                report.query_rate_millis,
                report.error_millionths,
                report.cpu_millionths,
            )
        };
        assert_eq!(rates(), (None, None, None), "a rate takes two readings");
        for end in [
            End::Success,
            End::Success,
            End::Success,
            End::Failed,
            End::Cancelled,
        ] {
            load.arrive().finish(end);
        }
        cpu_ms.store(200, Relaxed);
        tokio::time::advance(Duration::from_secs(2)).await;
        // Four were answered in 2 s, one of them with an error; 0.1 of a core out of 0.5.
        assert_eq!(rates(), (Some(2_000), Some(250_000), Some(200_000)));
        cpu_ms.store(900, Relaxed);
        assert_eq!(rates().2, Some(200_000), "not read twice in a second");
    }

    #[test]
    fn load_is_scaled_only_by_a_hint_and_not_if_the_scaler_panics() {
        let load = Load::builder()
            .hint_scale(|hint| match hint {
                b"warm" => LoadScale::from_1024ths(102),
                _ => panic!("no such hint"),
            })
            .build();
        let scale = |hint| load.report(hint).load_scale.in_1024ths();
        assert_eq!(scale(Some(b"warm".as_slice())), 102);
        assert_eq!(scale(Some(b"cold".as_slice())), 1024);
        assert_eq!((scale(Some(b"".as_slice())), scale(None)), (1024, 1024));
    }
}
