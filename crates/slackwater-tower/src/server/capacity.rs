//! Learned capacity and cost per query, and when they are learned.
//!
//! The core's estimator learns. This file decides when it takes a reading: on the thread that makes
//! a report, when a reading is due, without waiting for another thread's reading. The results are
//! stored beside the estimator, so reports take no lock.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use slackwater_core::tracker::{CapacityEstimator, CapacitySource, CpuTotals, LoadTracker};
use slackwater_core::{Instant, LoadReport, Rif};
use std::panic::catch_unwind;
use std::sync::{Mutex, TryLockError};

pub(super) type ReadCpu = dyn Fn() -> Option<CpuTotals> + Send + Sync;

/// Means "not known". The estimator never returns these values.
const NO_CAPACITY: u32 = 0;
const NO_COST: u64 = u64::MAX;
const NO_SOURCE: u8 = u8::MAX;
const NO_USE: u64 = u64::MAX;

/// Learned values, and the state that learns them.
pub(super) struct Learned {
    /// Reports try this lock when a reading is due. The first one gets it; the others continue
    /// without a reading.
    learning: Mutex<Learning>,
    cpu: Option<Box<ReadCpu>>,
    /// Only [`Load::learn`](super::Load::learn) takes readings.
    on_request: bool,
    due_at_ns: AtomicU64,
    capacity_millirif: AtomicU32,
    cost_ns: AtomicU64,
    /// Index in [`CapacitySource::ALL`] of the source of the capacity.
    source: AtomicU8,
    /// As in [`AllocationUse`].
    allocation_used_ns: AtomicU64,
}

/// State that only a reading needs.
#[derive(Debug, Default)]
struct Learning {
    estimator: CapacityEstimator,
    allocation: AllocationUse,
}

/// CPU time used, in units of the whole allocation: with a limit of two cores, a second of CPU time
/// counts as half a second. So its rate is the share in use, even if the limit changes.
#[derive(Debug, Default)]
struct AllocationUse {
    cpu_used: Option<Duration>,
    sum_ns: u64,
}

impl AllocationUse {
    /// Returns the sum after this reading; `None` if CPU time or limit is unknown.
    fn read(&mut self, cpu: Option<CpuTotals>) -> Option<u64> {
        let cpu = cpu?;
        let millicores = u128::from(cpu.limit_millicores.filter(|&limit| limit > 0)?);
        let before = self.cpu_used.replace(cpu.used).unwrap_or(cpu.used);
        let used_ns = cpu.used.saturating_sub(before).as_nanos();
        let of_all_ns = u64::try_from(used_ns * 1_000 / millicores).unwrap_or(u64::MAX);
        self.sum_ns = self.sum_ns.saturating_add(of_all_ns);
        Some(self.sum_ns)
    }
}

impl Learned {
    pub(super) fn new(cpu: Option<Box<ReadCpu>>, on_request: bool) -> Self {
        Self {
            learning: Mutex::default(),
            cpu,
            on_request,
            // With readings on request, reports never find one due.
            due_at_ns: AtomicU64::new(if on_request { u64::MAX } else { 0 }),
            capacity_millirif: AtomicU32::new(NO_CAPACITY),
            cost_ns: AtomicU64::new(NO_COST),
            source: AtomicU8::new(NO_SOURCE),
            allocation_used_ns: AtomicU64::new(NO_USE),
        }
    }

    /// Whether a reading has been due for `overdue` or longer.
    #[inline]
    pub(super) fn is_due(&self, now: Instant, overdue: Duration) -> bool {
        let due_at = Instant::from_nanos(self.due_at_ns.load(Relaxed));
        now >= due_at + overdue
    }

    /// Takes a reading if one is due and no other thread is taking it. While the replica is quiet,
    /// readings are rarer. Returns whether it is quiet.
    pub(super) fn read(
        &self,
        now: Instant,
        tracker: &LoadTracker,
        finished: impl FnOnce() -> u64,
    ) -> bool {
        let mut learning = match self.learning.try_lock() {
            Ok(learning) => learning,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let Learning {
            estimator,
            allocation,
        } = &mut *learning;
        // Another thread may have taken the reading since the time was checked.
        if !self.on_request && estimator.is_due(now) {
            let next = now + CapacityEstimator::STEP;
            self.due_at_ns.store(next.as_nanos(), Relaxed);
        }
        let look = estimator.look(now, tracker);
        if !look.reads {
            return look.is_quiet;
        }
        let cpu = self.cpu.as_ref();
        // A panic in the caller's function must not stop the probe responder.
        let cpu = cpu.and_then(|read| catch_unwind(AssertUnwindSafe(read)).ok().flatten());
        estimator.read(now, tracker, finished(), cpu);
        let mut report = LoadReport::new(Rif::ZERO, None);
        let source = estimator.fill_and_source(&mut report);
        let capacity = report.capacity_millirif.unwrap_or(NO_CAPACITY);
        self.capacity_millirif.store(capacity, Relaxed);
        let cost = report.cost.map(|cost| u64::try_from(cost.as_nanos()));
        let cost_ns = cost.and_then(Result::ok).unwrap_or(NO_COST);
        self.cost_ns.store(cost_ns, Relaxed);
        let source = source.and_then(|source| {
            let place = CapacitySource::ALL.iter().position(|it| *it == source)?;
            u8::try_from(place).ok()
        });
        self.source.store(source.unwrap_or(NO_SOURCE), Relaxed);
        let used_ns = allocation.read(cpu).unwrap_or(NO_USE);
        self.allocation_used_ns.store(used_ns, Relaxed);
        look.is_quiet
    }

    /// The source of the capacity, if one is known.
    pub(super) fn source(&self) -> Option<CapacitySource> {
        let place = usize::from(self.source.load(Relaxed));
        CapacitySource::ALL.get(place).copied()
    }

    /// The part of the allocation that was used since the first reading; `None` if it is not known
    /// now.
    pub(super) fn allocation_used(&self) -> Option<Duration> {
        let used_ns = self.allocation_used_ns.load(Relaxed);
        (used_ns != NO_USE).then(|| Duration::from_nanos(used_ns))
    }

    /// Fills in what is known; unknown values are absent.
    pub(super) fn fill(&self, report: &mut LoadReport) {
        report.capacity_millirif = self.capacity_millirif();
        report.cost = self.cost_ns().map(Duration::from_nanos);
    }

    #[inline]
    pub(super) fn capacity_millirif(&self) -> Option<u32> {
        let capacity = self.capacity_millirif.load(Relaxed);
        (capacity != NO_CAPACITY).then_some(capacity)
    }

    #[inline]
    pub(super) fn cost_ns(&self) -> Option<u64> {
        let cost_ns = self.cost_ns.load(Relaxed);
        (cost_ns != NO_COST).then_some(cost_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{End, Load, LoadBuilder, ThreadTotals};
    use super::*;
    use core::sync::atomic::AtomicUsize;
    use std::sync::Arc;
    use tokio::time::advance;

    const STEP: Duration = CapacityEstimator::STEP;
    const MS: Duration = Duration::from_millis(1);

    /// Carries `queries` queries of 10 ms each, one after the other, with a report after each.
    async fn carry(load: &Load, queries: usize) {
        for _ in 0..queries {
            let query = load.arrive();
            advance(Duration::from_millis(10)).await;
            query.finish(End::Success);
            load.report(None);
        }
    }

    fn known(load: &Load) -> (Option<u32>, Option<Duration>) {
        let report = load.report(None);
        (report.capacity_millirif, report.cost)
    }

    #[tokio::test(start_paused = true)]
    async fn capacity_is_learned_from_latency_unless_disabled() {
        let load = Load::new();
        assert_eq!(known(&load), (None, None), "nothing has been seen");
        assert_eq!(load.capacity_source(), None);
        carry(&load, 60).await;
        let (capacity, cost) = known(&load);
        assert!((1_000..1_500).contains(&capacity.expect("known")));
        assert_eq!(load.capacity_source(), Some(CapacitySource::Latency));
        assert_eq!(cost.expect("known").as_millis(), 9, "rounded down");
        let silent = Load::builder().learn_capacity(false).build();
        carry(&silent, 60).await;
        assert_eq!(known(&silent), (None, None));
    }

    /// A replica whose threads get half of the CPU that they want, and which uses 2 ms for each
    /// query.
    #[tokio::test(start_paused = true)]
    async fn capacity_and_cost_are_learned_from_cpu_totals() {
        let finished = Arc::new(AtomicU64::new(0));
        let counted = finished.clone();
        let cpu = move || {
            let used = Duration::from_millis(2) * u32::try_from(counted.load(Relaxed)).ok()?;
            Some(CpuTotals {
                used,
                threads: Some(ThreadTotals { used, waited: used }),
                limit_millicores: Some(4_000),
                quota_period: None,
            })
        };
        let load = Load::builder().cpu_totals(cpu).build();
        for _ in 0..100 {
            let queries: Vec<_> = (0..8).map(|_| load.arrive()).collect();
            advance(Duration::from_millis(10)).await;
            for query in queries {
                query.finish(End::Success);
            }
            finished.fetch_add(8, Relaxed);
            load.report(None);
        }
        let (capacity, cost) = known(&load);
        let capacity = capacity.expect("known");
        assert!((3_700..4_300).contains(&capacity), "half of 8: {capacity}");
        assert_eq!(cost.expect("known").as_micros(), 2_000);
        assert_eq!(load.capacity_source(), Some(CapacitySource::Waits));
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_in_use_is_a_share_of_the_current_limit() {
        let (used_ms, millicores) = (AtomicU64::new(0), AtomicU32::new(0));
        let shared = Arc::new((used_ms, millicores));
        let read = shared.clone();
        let cpu = move || {
            let limit = read.1.load(Relaxed);
            Some(CpuTotals {
                used: Duration::from_millis(read.0.load(Relaxed)),
                threads: None,
                quota_period: None,
                limit_millicores: (limit > 0).then_some(limit),
            })
        };
        let load = Load::builder().cpu_totals(cpu).build();
        let after_a_second = async |used_ms: u64, limit: u32| {
            advance(Duration::from_secs(1)).await;
            shared.0.fetch_add(used_ms, Relaxed);
            shared.1.store(limit, Relaxed);
            load.report(None).cpu_millionths
        };
        assert_eq!(after_a_second(500, 0).await, None, "of what is not known");
        assert_eq!(after_a_second(500, 2_000).await, None, "a first reading");
        assert_eq!(after_a_second(500, 2_000).await, Some(250_000));
        // A quarter of two cores, then 1.2 of half a core: the excess was saved up as quota.
        assert_eq!(after_a_second(600, 500).await, Some(725_000));
        assert_eq!(after_a_second(0, 0).await, None);
        let own = Load::builder().cpu_totals(|| None).cpu(1.0, || MS).build();
        own.report(None);
        advance(Duration::from_secs(1)).await;
        assert_eq!(own.report(None).cpu_millionths, Some(0), "its own word");
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_takes_one_reading_per_step() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let cpu = move || {
            counted.fetch_add(1, Relaxed);
            None
        };
        let load = Load::builder().cpu_totals(cpu).build();
        let _busy = load.arrive();
        let asks = || {
            load.report(None);
            asked.load(Relaxed)
        };
        assert_eq!((asks(), asks()), (1, 1));
        advance(STEP.saturating_sub(MS)).await;
        assert_eq!(asks(), 1);
        advance(MS).await;
        assert_eq!((asks(), asks()), (2, 2));
        let carried = || {
            load.arrive().carried_report();
            asked.load(Relaxed)
        };
        advance((STEP * 2).saturating_sub(MS)).await;
        assert_eq!(carried(), 2, "left to probes");
        advance(MS).await;
        assert_eq!(carried(), 3, "no probe comes");
        // A head that was ready long ago does not show whether a reading is due now.
        let mut query = load.arrive();
        query.head_ready(End::Success);
        advance(STEP * 2).await;
        query.carried_report();
        assert_eq!(asked.load(Relaxed), 3);
        let mut query = load.arrive();
        query.head_ready(End::Success);
        query.carried_report();
        assert_eq!(asked.load(Relaxed), 4);
    }

    /// A load, and a counter of how often its CPU totals are read.
    fn counted(builder: LoadBuilder) -> (Load, impl Fn() -> usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let cpu = move || {
            counted.fetch_add(1, Relaxed);
            None
        };
        (builder.cpu_totals(cpu).build(), move || asked.load(Relaxed))
    }

    /// Runs enough queries that capacity and cost are known.
    async fn settle(load: &Load) {
        load.learn();
        for _ in 0..300 {
            load.arrive().finish(End::Success);
        }
        advance(STEP).await;
        load.learn();
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_is_read_less_often_at_low_load() {
        let (load, asked) = counted(Load::builder());
        let asked_in_steps = async |steps: u32, busy: Duration| {
            let before = asked();
            for _ in 0..steps {
                let query = load.arrive();
                advance(busy).await;
                query.finish(End::Success);
                advance(STEP.saturating_sub(busy)).await;
                load.report(None);
            }
            asked() - before
        };
        load.report(None);
        assert_eq!(asked_in_steps(4, MS).await, 4, "hardly anything is known");
        settle(&load).await;
        assert_eq!(asked_in_steps(20, MS * 4).await, 1, "one in twenty steps");
        assert_eq!(asked_in_steps(4, MS * 5).await, 4, "a tenth is not quiet");
        let before = asked();
        advance(STEP * 19).await;
        load.report(None);
        assert_eq!(asked() - before, 0, "nothing has happened");
        advance(STEP).await;
        load.report(None);
        assert_eq!(asked() - before, 1, "for a second");
    }

    #[tokio::test(start_paused = true)]
    async fn learn_on_request_reads_cpu_only_in_learn() {
        let (load, asked) = counted(Load::builder().learn_on_request());
        settle(&load).await;
        let before = asked();
        let asked = || asked() - before;
        let query = load.arrive();
        for _ in 0..4 {
            advance(STEP * 3).await;
            load.report(None);
            query.carried_report();
        }
        assert_eq!(asked(), 0);
        assert!(!load.learn(), "it is busy");
        advance(STEP.saturating_sub(MS)).await;
        load.learn();
        assert_eq!(asked(), 1, "too soon");
        advance(MS).await;
        load.learn();
        assert_eq!(asked(), 2);
        query.finish(End::Success);
        advance(STEP).await;
        assert!(load.learn(), "it is quiet");
        assert_eq!(asked(), 2);
        advance((STEP * 19).saturating_sub(MS)).await;
        assert!(load.learn());
        assert_eq!(asked(), 2);
        advance(MS).await;
        assert!(load.learn());
        assert_eq!(asked(), 3, "a second after the last");
        advance(STEP * 5).await;
        load.report(None);
        load.arrive().carried_report();
        assert_eq!(
            asked(),
            3,
            "no report takes a reading, not even after calls of `learn`"
        );
        assert!(!Load::builder().learn_capacity(false).build().learn());
    }

    #[tokio::test(start_paused = true)]
    async fn panic_in_cpu_totals_leaves_capacity_learned_from_latency() {
        let load = Load::builder().cpu_totals(|| panic!("a mistake")).build();
        carry(&load, 60).await;
        assert!(known(&load).0.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_is_in_flight_to_the_end_of_its_body() {
        let load = Load::new();
        let mut query = load.arrive();
        query.head_ready(End::Success);
        let before = load.tracker().rif_time_ns(load.now());
        advance(Duration::from_secs(9)).await;
        query.finish(End::Success);
        let spent_ns = load.tracker().rif_time_ns(load.now()) - before;
        assert_eq!(spent_ns, 9_000_000_000);
    }

    #[test]
    fn report_in_a_response_excludes_its_own_query() {
        let load = Load::new();
        let (first, _second) = (load.arrive(), load.arrive());
        assert_eq!(load.report(None).rif.count(), 2);
        assert_eq!(first.carried_report().rif.count(), 1);
    }
}
