//! What a replica learns of its capacity and of what a query costs it, between one reading and the next.
//!
//! The core's estimator learns; here is when it is read, and who pays for that: whoever asks for a report when a reading is due,
//! and never waits for another one that is at it. What has been learned is kept beside it, so that reports take no lock.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use slackwater_core::tracker::{CapacityEstimator, CpuTotals, LoadTracker};
use slackwater_core::{Instant, LoadReport, Rif};
use std::panic::catch_unwind;
use std::sync::{Mutex, TryLockError};

pub(super) type ReadCpu = dyn Fn() -> Option<CpuTotals> + Send + Sync;

/// Not known; the estimator never tells this.
const NO_CAPACITY: u32 = 0;
const NO_COST: u64 = u64::MAX;

/// What is known by now, and how it is learned.
pub(super) struct Learned {
    /// Reports try this lock when a reading is due; the first has it, and the others go on without.
    estimator: Mutex<CapacityEstimator>,
    cpu: Option<Box<ReadCpu>>,
    due_at_ns: AtomicU64,
    capacity_millirif: AtomicU32,
    cost_ns: AtomicU64,
}

impl Learned {
    pub(super) fn new(cpu: Option<Box<ReadCpu>>) -> Self {
        Self {
            estimator: Mutex::default(),
            cpu,
            due_at_ns: AtomicU64::new(0),
            capacity_millirif: AtomicU32::new(NO_CAPACITY),
            cost_ns: AtomicU64::new(NO_COST),
        }
    }

    /// Takes a reading that has been due for `overdue` or longer; others are left for later.
    pub(super) fn read(
        &self,
        now: Instant,
        overdue: Duration,
        tracker: &LoadTracker,
        finished: impl FnOnce() -> u64,
    ) {
        let due_at = Instant::from_nanos(self.due_at_ns.load(Relaxed));
        if now < due_at + overdue {
            return;
        }
        let mut estimator = match self.estimator.try_lock() {
            Ok(estimator) => estimator,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        // Somebody else may have been here since the time was looked at.
        if !estimator.is_due(now) {
            return;
        }
        let next = now + CapacityEstimator::STEP;
        self.due_at_ns.store(next.as_nanos(), Relaxed);
        let cpu = self.cpu.as_ref();
        // A probe responder must outlive a mistake in it.
        let cpu = cpu.and_then(|read| catch_unwind(AssertUnwindSafe(read)).ok().flatten());
        estimator.read(now, tracker, finished(), cpu);
        let mut report = LoadReport::new(Rif::ZERO, None);
        estimator.fill(&mut report);
        let capacity = report.capacity_millirif.unwrap_or(NO_CAPACITY);
        self.capacity_millirif.store(capacity, Relaxed);
        let cost = report.cost.map(|cost| u64::try_from(cost.as_nanos()));
        let cost_ns = cost.and_then(Result::ok).unwrap_or(NO_COST);
        self.cost_ns.store(cost_ns, Relaxed);
    }

    /// Fills in what is known; what is not is absent.
    pub(super) fn fill(&self, report: &mut LoadReport) {
        let capacity = self.capacity_millirif.load(Relaxed);
        report.capacity_millirif = (capacity != NO_CAPACITY).then_some(capacity);
        let cost_ns = self.cost_ns.load(Relaxed);
        report.cost = (cost_ns != NO_COST).then(|| Duration::from_nanos(cost_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{End, Load, ThreadTotals};
    use super::*;
    use core::sync::atomic::AtomicUsize;
    use std::sync::Arc;
    use tokio::time::advance;

    const STEP: Duration = CapacityEstimator::STEP;
    const MS: Duration = Duration::from_millis(1);

    /// So many queries, one after the other, of 10 ms each, with a report after each.
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
    async fn latency_alone_tells_unless_it_is_switched_off() {
        let load = Load::new();
        assert_eq!(known(&load), (None, None), "nothing has been seen");
        carry(&load, 60).await;
        let (capacity, cost) = known(&load);
        assert!((1_000..1_500).contains(&capacity.expect("known")));
        assert_eq!(cost.expect("known").as_millis(), 9, "rounded down");
        let silent = Load::builder().learn_capacity(false).build();
        carry(&silent, 60).await;
        assert_eq!(known(&silent), (None, None));
    }

    /// A replica whose threads get half of the CPU that they want, and which uses 2 ms for each query.
    #[tokio::test(start_paused = true)]
    async fn the_system_tells_more() {
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
    }

    #[tokio::test(start_paused = true)]
    async fn the_system_is_asked_once_a_step_by_whoever_asks_for_a_report() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let cpu = move || {
            counted.fetch_add(1, Relaxed);
            None
        };
        let load = Load::builder().cpu_totals(cpu).build();
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
        assert_eq!(carried(), 2, "left to those who probe");
        advance(MS).await;
        assert_eq!(carried(), 3, "nobody does");
    }

    #[tokio::test(start_paused = true)]
    async fn a_mistake_in_the_users_function_leaves_latency() {
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
    fn a_query_does_not_count_in_what_is_said_with_its_own_response() {
        let load = Load::new();
        let (first, _second) = (load.arrive(), load.arrive());
        assert_eq!(load.report(None).rif.count(), 2);
        assert_eq!(first.carried_report().rif.count(), 1);
    }
}
