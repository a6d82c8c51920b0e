//! Replicas of known capacity, and what the estimator learns about them.

mod combined;
mod idle;

use super::*;
use crate::tracker::{Arrival, End};
use alloc::vec::Vec;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// How a replica serves queries.
#[derive(Clone, Copy)]
enum Service {
    /// They share this many cores, each using one at most.
    Shared { cores: u64 },
    /// They wait for a single thread in a queue of the application.
    OneThread,
}

/// A replica that always has a fixed number of queries in flight.
struct Replica {
    service: Service,
    /// CPU time of each query, in turn.
    costs_ns: Vec<u64>,
    /// Time that each waits without a CPU.
    idle_ns: u64,
    tells_waits: bool,
    /// CPU time used, in percent of a core, by threads that are not observed.
    unwatched_percent: u64,
    limit_millicores: Option<u32>,
    tracker: LoadTracker,
    estimator: CapacityEstimator,
    now_ns: u64,
    in_flight: Vec<(u64, Arrival)>,
    begun: usize,
    finished: u64,
    used_ns: u64,
    waited_ns: u64,
}

impl Replica {
    fn new(service: Service, cost_ns: u64) -> Self {
        Self {
            service,
            // Costs differ, or queries that start together would always end together.
            costs_ns: [7, 11, 8, 13, 10, 9, 12]
                .map(|tenths| cost_ns * tenths / 10)
                .to_vec(),
            idle_ns: 0,
            tells_waits: true,
            unwatched_percent: 0,
            limit_millicores: None,
            tracker: LoadTracker::default(),
            estimator: CapacityEstimator::default(),
            now_ns: SECOND,
            in_flight: Vec::new(),
            begun: 0,
            finished: 0,
            used_ns: 0,
            waited_ns: 0,
        }
    }

    /// Keeps `rif` queries in flight for `span_ns`, and reads as often as is due.
    fn carry(&mut self, rif: usize, span_ns: u64) {
        let until = self.now_ns + span_ns;
        while self.now_ns < until {
            self.end_some();
            while self.in_flight.len() < rif {
                self.begin(rif);
            }
            self.read();
            self.elapse(MS);
        }
    }

    fn begin(&mut self, rif: usize) {
        let cost_ns = self.costs_ns[self.begun % self.costs_ns.len()];
        let others = self.in_flight.len() as u64;
        let service_ns = match self.service {
            Service::Shared { cores } => cost_ns * (rif as u64).max(cores) / cores,
            Service::OneThread => cost_ns * (others + 1),
        };
        let arrival = self.tracker.arrive(self.now());
        self.begun += 1;
        let ends_ns = self.now_ns + self.idle_ns + service_ns;
        self.in_flight.push((ends_ns, arrival));
    }

    fn end_some(&mut self) {
        let (ended, left): (Vec<_>, Vec<_>) = core::mem::take(&mut self.in_flight)
            .into_iter()
            .partition(|(ends_ns, _)| *ends_ns <= self.now_ns);
        self.in_flight = left;
        for (_, arrival) in ended {
            self.tracker.finish(self.now(), arrival, End::Success);
            self.finished += 1;
        }
    }

    /// Queries in flight use the CPU or wait for it, except those that wait for something else.
    fn elapse(&mut self, span_ns: u64) {
        let cost_ns: u64 = self.costs_ns.iter().sum::<u64>() / self.costs_ns.len() as u64;
        let rif = self.in_flight.len() as u64;
        let wanting = rif * cost_ns / (cost_ns + self.idle_ns);
        let running = match self.service {
            Service::Shared { cores } => wanting.min(cores),
            Service::OneThread => wanting.min(1),
        };
        self.used_ns += running * span_ns;
        if matches!(self.service, Service::Shared { .. }) {
            self.waited_ns += (wanting - running) * span_ns;
        }
        self.now_ns += span_ns;
    }

    fn read(&mut self) {
        let used = Duration::from_nanos(self.used_ns);
        let waited = Duration::from_nanos(self.waited_ns);
        let unwatched = Duration::from_nanos(self.now_ns / 100 * self.unwatched_percent);
        let cpu = CpuTotals {
            used: used + unwatched,
            threads: (self.tells_waits).then_some(ThreadTotals { used, waited }),
            limit_millicores: self.limit_millicores,
            quota_period: None,
        };
        let now = self.now();
        self.estimator
            .read(now, &self.tracker, self.finished, Some(cpu));
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns)
    }

    fn report(&self) -> LoadReport {
        let mut report = self.tracker.report(self.now());
        self.estimator.fill(&mut report);
        report
    }

    #[track_caller]
    fn capacity_is(&self, about_millirif: u32) {
        let found = self.report().capacity_millirif.expect("it is known");
        let off = found.abs_diff(about_millirif);
        assert!(off <= about_millirif / 5, "{found}, not {about_millirif}");
    }

    #[track_caller]
    fn cost_is(&self, about_ns: u64) {
        let found_ns = span_ns(self.report().cost.expect("it is known"));
        assert!(
            found_ns.abs_diff(about_ns) <= about_ns / 10,
            "{found_ns} ns"
        );
    }
}

#[test]
fn capacity_is_unknown_before_first_query() {
    let mut report = LoadReport::new(Rif::ZERO, None);
    CapacityEstimator::default().fill(&mut report);
    assert_eq!((report.capacity_millirif, report.cost), (None, None));
    let mut idle = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    idle.carry(0, SECOND);
    let report = idle.report();
    assert_eq!((report.capacity_millirif, report.cost), (None, None));
}

#[test]
fn cpu_share_determines_capacity() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.carry(12, SECOND);
    replica.capacity_is(4_000);
    replica.cost_is(10 * MS);
    replica.service = Service::Shared { cores: 2 };
    replica.carry(12, SECOND);
    replica.capacity_is(2_000);
}

#[test]
fn cpu_share_is_relative_to_demand_of_the_same_threads() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.unwatched_percent = 800;
    replica.carry(12, SECOND);
    replica.capacity_is(4_000);
    // Cost counts all CPU time: twelve cores for 400 queries a second.
    replica.cost_is(30 * MS);
}

#[test]
fn waiting_off_cpu_uses_no_capacity() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.idle_ns = 30 * MS;
    replica.carry(32, SECOND);
    replica.capacity_is(16_000);
}

#[test]
fn without_contention_capacity_rises_slowly_up_to_the_load() {
    let mut replica = Replica::new(Service::Shared { cores: 64 }, 10 * MS);
    replica.carry(10, SECOND);
    replica.capacity_is(10_000);
    let before = replica.report().capacity_millirif.expect("known");
    replica.carry(6, 10 * SECOND);
    let idle = replica.report().capacity_millirif.expect("known");
    assert!(
        idle.abs_diff(before) < before / 100,
        "of more than is in use nothing is known: {before}, {idle}"
    );
    replica.carry(10, 2 * SECOND);
    let after = replica.report().capacity_millirif.expect("known");
    let percent = u64::from(after) * 100 / u64::from(before);
    assert!(
        (123..=127).contains(&percent),
        "12 % a second, not {percent}"
    );
    replica.carry(40, SECOND / 8);
    let sooner = replica.report().capacity_millirif.expect("known");
    assert!(
        sooner < 22_000,
        "a burst is not what it can carry: {sooner}"
    );
    replica.carry(40, SECOND / 2);
    replica.capacity_is(40_000);
}

/// A fifth of a core, as the kernel gives it: 20 ms in each period of 100 ms. Waits for the next
/// period are reported when it begins. `rif` queries are in flight for the first 80 ms of every
/// other period.
fn with_a_quota(
    rif: usize,
    quota_period: Option<Duration>,
    limit_millicores: Option<u32>,
) -> (u32, u64) {
    const TICK_NS: u64 = 10 * MS;
    let tracker = LoadTracker::default();
    let mut estimator = CapacityEstimator::default();
    let (mut threads, mut untold) = (ThreadTotals::default(), Duration::ZERO);
    let mut in_flight = Vec::new();
    let mut finished = 0;
    // Readings begin in the middle of a period.
    for tick in 5..2_000 {
        let now = Instant::from_nanos(SECOND + tick * TICK_NS);
        let is_busy = tick % 20 < 8;
        while in_flight.len() < rif && is_busy {
            in_flight.push(tracker.arrive(now));
        }
        if !is_busy {
            for arrival in in_flight.drain(..) {
                tracker.finish(now, arrival, End::Success);
                finished += 1;
            }
        }
        if tick % 10 == 0 {
            threads.waited += core::mem::take(&mut untold);
        }
        estimator.read(
            now,
            &tracker,
            finished,
            Some(CpuTotals {
                used: threads.used,
                threads: Some(threads),
                limit_millicores,
                quota_period,
            }),
        );
        let wanting = u32::try_from(in_flight.len()).expect("few");
        let is_running = wanting > 0 && tick % 10 < 2;
        let tick_time = Duration::from_nanos(TICK_NS);
        if is_running {
            threads.used += tick_time;
        }
        untold += tick_time * (wanting - u32::from(is_running));
    }
    let mut report = LoadReport::new(Rif::ZERO, None);
    estimator.fill(&mut report);
    (
        report.capacity_millirif.expect("known"),
        span_ns(report.cost.expect("known")) / MS,
    )
}

#[test]
fn quota_below_one_core_limits_rate_and_cost() {
    let period = Some(Duration::from_millis(100));
    let is_about = |found: u32, about: u32| found.abs_diff(about) <= about / 10;
    // 20 ms of the 80 ms for which it is busy, for one query or for four. That is how long they
    // take, so it is their cost.
    let (capacity, cost_ms) = with_a_quota(1, period, None);
    assert!(
        is_about(capacity, 1_000) && (78..=82).contains(&cost_ms),
        "{capacity}"
    );
    let (capacity, cost_ms) = with_a_quota(4, period, None);
    assert!(
        is_about(capacity, 1_000) && (18..=22).contains(&cost_ms),
        "{capacity} {cost_ms}"
    );
    // With a fifth of a core, the cores that it may use are less.
    let (capacity, cost_ms) = with_a_quota(4, period, Some(200));
    assert!(
        is_about(capacity, 1_000) && (24..=26).contains(&cost_ms),
        "{capacity} {cost_ms}"
    );
    let (capacity, cost_ms) = with_a_quota(4, None, None);
    assert!(
        !(40..=60).contains(&(u64::from(capacity) / cost_ms)),
        "readings of half a period show nothing: {capacity} {cost_ms}"
    );
}

#[test]
fn quota_without_throttling_is_capacity_below_one_query() {
    let mut replica = Replica::new(Service::Shared { cores: 1 }, 10 * MS);
    replica.limit_millicores = Some(200);
    replica.carry(1, 5 * SECOND);
    replica.capacity_is(200);
    replica.cost_is(10 * MS);
}

#[test]
fn without_cpu_data_latency_determines_capacity() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.tells_waits = false;
    replica.carry(1, 2 * SECOND);
    replica.carry(12, 2 * SECOND);
    replica.capacity_is(4_000);
    replica.service = Service::Shared { cores: 2 };
    replica.carry(12, 2 * SECOND);
    replica.capacity_is(2_000);
    replica.cost_is(10 * MS);
}

#[test]
fn application_queue_is_detected_by_latency() {
    let mut replica = Replica::new(Service::OneThread, 10 * MS);
    replica.carry(1, SECOND);
    replica.carry(6, 3 * SECOND);
    assert_eq!(replica.waited_ns, 0, "no thread waits for a CPU");
    let found = replica.report().capacity_millirif.expect("known");
    assert!((950..2_500).contains(&found), "{found}");
}

#[test]
fn equal_latency_at_twice_the_rif_means_no_slowdown() {
    let known_after = |rifs: &[usize]| {
        let mut replica = Replica::new(Service::Shared { cores: 8 }, 10 * MS);
        replica.tells_waits = false;
        for &rif in rifs {
            replica.carry(rif, 2 * SECOND);
        }
        replica.report().capacity_millirif
    };
    let found = known_after(&[3, 6, 24]).expect("known");
    assert!((6_400..=9_600).contains(&found), "{found}");
    // There are never fewer than it can carry: all wait for others.
    assert_eq!(known_after(&[16, 32, 48]), None);
}

#[test]
fn capacity_from_latency_expires() {
    let mut replica = Replica::new(Service::OneThread, 10 * MS);
    replica.carry(1, 2 * SECOND);
    replica.carry(8, 10 * SECOND);
    replica.capacity_is(1_000);
    let told = |replica: &Replica| replica.estimator.source();
    assert_eq!(told(&replica), Some(CapacitySource::Latency));
    replica.service = Service::Shared { cores: 64 };
    replica.carry(8, 25 * SECOND);
    assert!(replica.estimator.inflation.is_recent());
    replica.carry(8, 10 * SECOND);
    assert!(!replica.estimator.inflation.is_recent());
    assert_eq!(told(&replica), Some(CapacitySource::Waits));
}

#[test]
fn overload_is_not_mistaken_for_low_load_after_higher_load() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.tells_waits = false;
    for (rif, seconds) in [(1, 2), (32, 20), (14, 20)] {
        replica.carry(rif, seconds * SECOND);
    }
    replica.capacity_is(4_000);
}

/// If all queries meet the same number of others, either all of them are slowed down or none.
#[test]
fn latency_at_constant_rif_does_not_determine_capacity() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.tells_waits = false;
    replica.carry(12, 60 * SECOND);
    assert_eq!(replica.report().capacity_millirif, None);
    replica.tells_waits = true;
    replica.carry(12, SECOND);
    replica.capacity_is(4_000);
}

#[test]
fn capacity_is_at_most_its_cores() {
    let mut replica = Replica::new(Service::Shared { cores: 64 }, 10 * MS);
    replica.limit_millicores = Some(8_000);
    replica.carry(6, 60 * SECOND);
    replica.capacity_is(8_000);
}

#[test]
fn capacity_counts_queries_that_wait_off_cpu() {
    let mut replica = Replica::new(Service::Shared { cores: 64 }, 10 * MS);
    replica.idle_ns = 30 * MS;
    replica.limit_millicores = Some(1_000);
    replica.carry(1, 2 * SECOND);
    replica.carry(8, 5 * SECOND);
    replica.capacity_is(4_000);
    replica.cost_is(10 * MS);
}

#[test]
fn cost_memory_is_short_if_costs_are_equal() {
    let costs_after = |costs_ns: &[u64], later_ns: u64| {
        let mut replica = Replica::new(Service::Shared { cores: 64 }, 0);
        replica.costs_ns = costs_ns.to_vec();
        replica.carry(8, 20 * SECOND);
        replica.costs_ns = alloc::vec![later_ns];
        replica.carry(8, 2 * SECOND);
        replica.report().cost.expect("known").as_nanos()
    };
    let alike = costs_after(&[10 * MS], 20 * MS);
    assert!(alike > 18 * u128::from(MS), "{alike}");
}

#[test]
fn cost_memory_is_long_if_costs_vary_widely() {
    let mut cost = MeanCost::default();
    for reading in 0..2_000_u64 {
        // One reading in fifty has a query of two hundred times the usual cost.
        let used_ns = if reading % 50 == 0 {
            1_009 * MS
        } else {
            10 * MS
        };
        cost.read(used_ns, 0, 10);
    }
    let known_ns = cost.mean_ns().expect("known");
    assert!(known_ns.abs_diff(2_998 * MS / 1_000) < MS / 3, "{known_ns}");
    for _ in 0..45 {
        cost.read(10 * MS, 0, 10);
    }
    let later_ns = cost.mean_ns().expect("known");
    assert!(
        later_ns > 2 * MS,
        "of 300 queries it would be 1 ms: {later_ns}"
    );
}

#[test]
fn clock_and_totals_may_step_back() {
    let tracker = LoadTracker::default();
    let mut estimator = CapacityEstimator::default();
    let totals = |ns| {
        Some(CpuTotals {
            used: Duration::from_nanos(ns),
            threads: Some(ThreadTotals {
                used: Duration::from_nanos(ns),
                waited: Duration::from_nanos(ns),
            }),
            limit_millicores: Some(0),
            quota_period: Some(Duration::from_nanos(ns)),
        })
    };
    for (at_ns, finished, cpu) in [
        (SECOND, 9, totals(u64::MAX)),
        (5, 3, totals(0)),
        (2 * SECOND, 0, None),
        (3 * SECOND, u64::MAX, totals(7)),
        (u64::MAX, 0, totals(u64::MAX)),
    ] {
        estimator.read(Instant::from_nanos(at_ns), &tracker, finished, cpu);
        let mut report = tracker.report(Instant::from_nanos(at_ns));
        estimator.fill(&mut report);
        assert!(report.capacity_millirif.is_none_or(|it| it >= 1_000));
    }
}

#[test]
fn capacity_source_is_reported() {
    assert_eq!(CapacityEstimator::default().source(), None);
    let source = |replica: &Replica| replica.estimator.source().map(CapacitySource::as_str);
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.carry(12, SECOND);
    assert_eq!(source(&replica), Some("waits"));
    replica.limit_millicores = Some(500);
    replica.carry(12, SECOND);
    assert_eq!(source(&replica), Some("cores"));
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
    replica.tells_waits = false;
    replica.carry(2, 2 * SECOND);
    replica.carry(12, 2 * SECOND);
    assert_eq!(source(&replica), Some("latency"));
    let mut replica = Replica::new(Service::OneThread, 10 * MS);
    replica.carry(1, SECOND);
    replica.carry(6, 3 * SECOND);
    assert_eq!(
        source(&replica),
        Some("latency"),
        "no thread waits for a CPU"
    );
}
