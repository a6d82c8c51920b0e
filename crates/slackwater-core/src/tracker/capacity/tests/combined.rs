//! How estimates become one capacity: which of two sources counts, growth, bounds, and what a query
//! takes alone.

use super::*;

/// An estimator whose two sources show these capacities, in thousandths, and whether each was short
/// just now.
fn estimator(by_waits: (u64, bool), by_latency: (u64, bool)) -> CapacityEstimator {
    let mut estimator = CapacityEstimator::default();
    let (millirif, is_short) = by_waits;
    // Half of twice as many, or all of them.
    estimator.contention.read(
        Span {
            ns: 0,
            passed_ns: 0,
            busy_ns: MS,
            rif_time_ns: millirif * MS / 1_000 * if is_short { 2 } else { 1 },
            used_ns: MS,
            waited_ns: if is_short { MS } else { 0 },
        },
        0,
    );
    let (millirif, is_short) = by_latency;
    with_unloaded(&mut estimator, 4 * MS);
    let others = u32::try_from(millirif / 250).expect("few") - 1;
    let quarter = |inflation: &mut Inflation| {
        (0..2_000).for_each(|_| inflation.learn(others, 16 * MS));
    };
    estimator.inflation.read(0, 0, true, quarter);
    if !is_short {
        let enough = |inflation: &mut Inflation| {
            (0..2_000).for_each(|_| inflation.learn(1, 4 * MS));
        };
        estimator.inflation.read(0, 30 * SECOND, true, enough);
    }
    estimator
}

/// Adds queries that were alone and took as long as this.
fn with_unloaded(estimator: &mut CapacityEstimator, latency_ns: u64) {
    estimator.inflation.read(0, 0, true, |inflation| {
        (0..100).for_each(|_| inflation.learn(0, latency_ns));
    });
}

#[test]
fn latency_counts_below_half_of_waits_or_if_waits_show_no_shortage() {
    use CapacitySource::{Latency, Waits};
    for (by_waits, by_latency, expected) in [
        ((8_000, true), (4_000, true), (8_000, Waits)),
        ((8_001, true), (4_000, true), (4_000, Latency)),
        ((8_001, true), (4_000, false), (8_001, Waits)),
        ((4_001, false), (4_000, true), (4_000, Latency)),
        ((4_000, false), (4_000, true), (4_000, Waits)),
        ((9_000, false), (4_000, false), (9_000, Waits)),
    ] {
        let (capacity, source) = estimator(by_waits, by_latency).capacity().expect("known");
        assert_eq!(
            (capacity / FINE, source),
            expected,
            "{by_waits:?} {by_latency:?}"
        );
    }
}

#[test]
fn single_thread_is_detected_soon_after_a_shortage_of_cpu() {
    let mut replica = Replica::new(Service::Shared { cores: 8 }, 10 * MS);
    replica.carry(1, SECOND);
    replica.carry(16, 2 * SECOND);
    replica.capacity_is(8_000);
    assert_eq!(replica.estimator.source(), Some(CapacitySource::Waits));
    // From now on all queries need one lock. No thread waits for a CPU any more.
    replica.service = Service::OneThread;
    replica.carry(16, 5 * SECOND);
    assert!(replica.estimator.contention.is_recent());
    assert_eq!(replica.estimator.source(), Some(CapacitySource::Latency));
    replica.capacity_is(1_000);
}

#[test]
fn capacity_grows_if_seventy_percent_is_in_use() {
    let ten = 10 * ONE_RIF;
    assert_eq!(grow(ten, 7 * ONE_RIF - 1, 0, SECOND), ten);
    assert_eq!(grow(ten, 7 * ONE_RIF, 0, SECOND), ONE_RIF * 112 / 10);
    assert_eq!(
        grow(ten, 7 * ONE_RIF, 0, SECOND / 10),
        ONE_RIF * 1_012 / 100
    );
}

#[test]
fn capacity_takes_a_quarter_of_a_second_to_double() {
    let ten = 10 * ONE_RIF;
    for (carried, span_ns, grown) in [
        (15, SECOND / 4, 15),
        (40, SECOND / 8, 15),
        (40, SECOND / 4, 20),
        (90, 60 * SECOND, 50),
    ] {
        let found = grow(ten, 0, carried * ONE_RIF, span_ns);
        assert_eq!(found, grown * ONE_RIF, "{carried} {span_ns}");
    }
    assert_eq!(grow(CAPACITY_MAX, 0, CAPACITY_MAX, SECOND), CAPACITY_MAX);
}

#[test]
fn capacity_is_from_a_hundredth_to_a_million() {
    let millirif = |rif_time_ns, waited_ns| {
        let mut estimator = CapacityEstimator::default();
        let span = Span {
            ns: MS,
            passed_ns: MS,
            busy_ns: MS,
            rif_time_ns,
            used_ns: MS,
            waited_ns,
        };
        estimator.contention.read(span, 0);
        let mut report = LoadReport::new(Rif::ZERO, None);
        estimator.fill(&mut report);
        report.capacity_millirif.expect("known")
    };
    assert_eq!(millirif(MS, 499 * MS), 10);
    assert_eq!(millirif(2_000_000 * MS, MS), 1_000_000_000);
    assert_eq!(millirif(3_000_000 * MS, MS), 1_000_000_000);
}

/// Capacity of two cores for queries that use 10 ms of CPU time, in thousandths.
fn most(elsewhere_ms: Option<i64>, unloaded_ms: Option<u64>) -> Option<u64> {
    let mut estimator = CapacityEstimator {
        limit_millicores: Some(2_000),
        tells_waits: elsewhere_ms.is_some(),
        ..CapacityEstimator::default()
    };
    let off_cpu_ns = elsewhere_ms.unwrap_or(0) * 10 * MS.cast_signed();
    estimator.cost.read(100 * MS, off_cpu_ns, 10);
    if let Some(unloaded_ms) = unloaded_ms {
        with_unloaded(&mut estimator, unloaded_ms * MS);
    }
    // Roots of latencies round off a little.
    (estimator.most()).map(|most| (most / FINE).next_multiple_of(10))
}

#[test]
fn cores_carry_what_a_query_takes_alone_over_its_cost() {
    assert_eq!(most(None, None), None);
    assert_eq!(most(Some(30), None), Some(8_000));
    assert_eq!(most(None, Some(16)), Some(3_200));
    assert_eq!(most(None, Some(4)), Some(2_000), "no less than its cost");
    assert_eq!(most(Some(30), Some(16)), Some(3_200), "the shorter");
    assert_eq!(most(Some(5), Some(16)), Some(3_000), "the shorter");
    let mut estimator = estimator((2_000, true), (2_000, true));
    estimator.limit_millicores = Some(2_000);
    estimator.cost.read(40 * MS, 0, 10);
    assert_eq!(estimator.source(), Some(CapacitySource::Cores), "as many");
}

#[test]
fn capacity_below_one_counts_by_the_time_of_a_query_alone() {
    let alone = |capacity, unloaded_ms| {
        let mut estimator = CapacityEstimator::default();
        with_unloaded(&mut estimator, unloaded_ms * MS);
        let cost_ns = 16 * MS;
        let (capacity, cost_ns) = estimator.alone(Some(capacity), Some(cost_ns));
        (capacity.expect("known"), cost_ns.expect("known") / MS)
    };
    let half = ONE_RIF / 2;
    assert_eq!(alone(half, 9), (half, 16), "no less than its cost");
    assert_eq!(alone(half, 25), (half * 25 / 16, 25));
    assert_eq!(alone(half, 36), (ONE_RIF, 32), "no more than one query");
    let two = 2 * ONE_RIF;
    assert_eq!(alone(two, 36), (two, 16), "latency shows other waits, too");
}

#[test]
fn latency_stands_for_the_cost_until_cpu_time_is_known() {
    let mut estimator = CapacityEstimator::default();
    let cost = |estimator: &CapacityEstimator| {
        let mut report = LoadReport::new(Rif::ZERO, None);
        estimator.fill(&mut report);
        report.cost
    };
    with_unloaded(&mut estimator, 4 * MS);
    assert_eq!(cost(&estimator), Some(Duration::from_millis(4)));
    estimator.cost.read(10 * MS, 0, 10);
    assert_eq!(cost(&estimator), None, "nothing shows how accurate it is");
    for _ in 0..4 {
        estimator.cost.read(10 * MS, 0, 10);
    }
    let after = cost(&estimator).expect("known");
    assert!(after.abs_diff(Duration::from_millis(1)) < Duration::from_micros(1));
}

/// What is reported of queries that were alone and began and ended at the same tick of the clock,
/// each with this CPU time.
fn report_of_ticks(cost_ns: Option<u64>) -> LoadReport {
    let mut estimator = CapacityEstimator::default();
    let tracker = LoadTracker::default();
    let mut finished = 0;
    for reading in 0..20 {
        let now = Instant::from_nanos(SECOND + reading * 50 * MS);
        for _ in 0..10 {
            tracker.finish(now, tracker.arrive(now), End::Success);
            finished += 1;
        }
        let cpu = cost_ns.map(|cost_ns| CpuTotals {
            used: Duration::from_nanos(finished * cost_ns),
            limit_millicores: Some(8_000),
            ..CpuTotals::default()
        });
        estimator.read(now, &tracker, finished, cpu);
    }
    let mut report = tracker.report(Instant::from_nanos(2 * SECOND));
    estimator.fill(&mut report);
    report
}

#[test]
fn queries_too_short_for_the_clock_show_neither_capacity_nor_cost() {
    let report = report_of_ticks(None);
    assert_eq!((report.capacity_millirif, report.cost), (None, None));
    let report = report_of_ticks(Some(MS / 5));
    assert_eq!(report.capacity_millirif, None);
    assert_eq!(
        report.cost.map(|cost| cost.as_micros()),
        Some(200),
        "CPU time"
    );
}

#[test]
fn queries_too_short_for_the_clock_are_no_shortage_of_longer_ones() {
    let mut estimator = CapacityEstimator::default();
    with_unloaded(&mut estimator, 0);
    estimator.inflation.read(0, 0, true, |inflation| {
        (0..100).for_each(|_| inflation.learn(9, MS));
    });
    assert!(!estimator.inflation.is_recent());
    assert_eq!(estimator.capacity(), None);
}

#[test]
fn shortage_is_forgotten_while_queries_are_too_short_for_the_clock() {
    let mut estimator = estimator((8_001, true), (4_000, true));
    assert_eq!(estimator.source(), Some(CapacitySource::Latency));
    for _ in 0..2 {
        let alone = |inflation: &mut Inflation| {
            (0..2_000).for_each(|_| inflation.learn(0, 0));
        };
        estimator.inflation.read(0, 15 * SECOND, true, alone);
    }
    assert_eq!(estimator.inflation.unloaded_ns(), None);
    assert_eq!(estimator.source(), Some(CapacitySource::Waits));
}

#[test]
fn reading_is_due_after_fifty_milliseconds() {
    let mut estimator = CapacityEstimator::default();
    let tracker = LoadTracker::default();
    let at = Instant::from_nanos;
    assert!(estimator.is_due(at(SECOND)), "the first one");
    estimator.read(at(SECOND), &tracker, 0, None);
    assert!(!estimator.is_due(at(SECOND + 50 * MS - 1)));
    assert!(estimator.is_due(at(SECOND + 50 * MS)));
}

#[test]
fn reading_under_a_quota_covers_two_periods() {
    let mut estimator = CapacityEstimator::default();
    let tracker = LoadTracker::default();
    let arrival = tracker.arrive(Instant::from_nanos(SECOND));
    for step in 0..=8 {
        let threads = ThreadTotals {
            used: Duration::from_millis(50 * step),
            waited: Duration::ZERO,
        };
        let cpu = CpuTotals {
            used: threads.used,
            threads: Some(threads),
            limit_millicores: None,
            quota_period: Some(Duration::from_millis(200)),
        };
        let now = Instant::from_nanos(SECOND + step * 50 * MS);
        estimator.read(now, &tracker, 0, Some(cpu));
        assert_eq!(estimator.capacity().is_some(), step == 8, "{step}");
    }
    tracker.finish(Instant::from_nanos(2 * SECOND), arrival, End::Success);
}

#[test]
fn queries_that_end_within_one_tick_of_the_clock_have_a_cost() {
    let mut estimator = CapacityEstimator::default();
    let tracker = LoadTracker::default();
    let totals = |used| CpuTotals {
        used,
        ..CpuTotals::default()
    };
    let (before, now) = (Instant::from_nanos(SECOND), Instant::from_nanos(2 * SECOND));
    estimator.read(before, &tracker, 0, Some(totals(Duration::ZERO)));
    for _ in 0..10 {
        let arrival = tracker.arrive(now);
        tracker.finish(now, arrival, End::Success);
    }
    estimator.read(now, &tracker, 10, Some(totals(Duration::from_millis(50))));
    assert_eq!(estimator.cost.mean_ns(), Some(5 * MS));
}

#[test]
fn torn_busy_time_counts_as_the_whole_span() {
    let reading = |at_ns, rif_time_ns, busy_ns, used_ns| Reading {
        at: Instant::from_nanos(at_ns),
        taken_at: Instant::from_nanos(at_ns),
        rif: Rif::new(10),
        rif_time_ns,
        ended_ns: 0,
        busy_ns,
        finished: 0,
        recorded: 0,
        cpu: Some(CpuTotals {
            threads: Some(ThreadTotals {
                used: Duration::from_nanos(used_ns),
                waited: Duration::from_nanos(used_ns),
            }),
            ..CpuTotals::default()
        }),
    };
    let mut estimator = CapacityEstimator::default();
    // A query that begins at the moment of a reading may make busy time step back.
    let (before, after) = (reading(0, 0, 5, 0), reading(50 * MS, 500 * MS, 4, MS));
    estimator.read_cpu(after.span_since(&before), &before, &after);
    assert_eq!(estimator.contention.capacity(), Some(5 * ONE_RIF));
}

#[test]
fn cancelled_queries_count_up_to_their_end() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, SECOND);
    replica.carry(12, 10 * SECOND);
    for _ in 0..20 {
        replica.capacity_is(4_000);
        replica.carry(12, 49 * MS);
        for (_, arrival) in core::mem::take(&mut replica.in_flight) {
            replica
                .tracker
                .finish(replica.now(), arrival, End::Cancelled);
        }
        replica.carry(0, 100 * MS);
    }
}

#[test]
fn latencies_from_before_the_last_reading_are_left_out() {
    // A thread that was delayed may leave a slot of the ring as it was a whole ring ago.
    let known_after = |ended_ms| {
        let mut estimator = CapacityEstimator::default();
        let tracker = LoadTracker::default();
        let at_ms = |ms: u64| Instant::from_nanos(ms * MS);
        estimator.read(at_ms(1_000), &tracker, 0, None);
        for _ in 0..100 {
            let arrival = tracker.arrive(at_ms(ended_ms - 4));
            tracker.finish(at_ms(ended_ms), arrival, End::Success);
        }
        estimator.read(at_ms(2_000), &tracker, 100, None);
        estimator.cost_ns()
    };
    assert_eq!(known_after(1_500), Some(4 * MS));
    assert_eq!(known_after(900), None);
}

#[test]
fn streams_are_added_to_what_is_carried_of_other_requests() {
    for tells_waits in [true, false] {
        let mut replica = Replica::new(Service::Shared { cores: 4 }, 10 * MS);
        replica.tells_waits = tells_waits;
        let streams = (0..40).map(|_| replica.tracker.arrive(replica.now()));
        let streams: Vec<_> = streams.collect();
        replica.carry(1, 30 * SECOND);
        replica.carry(8, 2 * SECOND);
        replica.capacity_is(44_000);
        replica.cost_is(10 * MS);
        for stream in streams {
            (replica.tracker).finish(replica.now(), stream, End::Success);
        }
        replica.carry(8, SECOND / 5);
        let found = replica.report().capacity_millirif.expect("known");
        assert!(
            found < 13_000,
            "as many as are in flight, and the others: {found}"
        );
        replica.carry(8, 2 * SECOND);
        replica.capacity_is(4_000);
    }
}

#[test]
fn torn_time_in_flight_makes_no_request_long_running() {
    let mut replica = Replica::new(Service::OneThread, 10 * MS);
    replica.carry(1, 5 * SECOND);
    replica.carry(6, 15 * SECOND);
    let before = replica.report().capacity_millirif.expect("known");
    for ns in [3_600 * SECOND, u64::MAX - 3_600 * SECOND] {
        let last = replica.estimator.last.as_mut().expect("read before");
        last.rif_time_ns = last.rif_time_ns.wrapping_add(ns);
        replica.carry(6, SECOND / 5);
        let after = replica.report().capacity_millirif.expect("known");
        assert!(after.abs_diff(before) < before / 10, "{before} {after}");
    }
}

#[test]
fn requests_that_compute_for_minutes_are_not_left_out() {
    let mut replica = Replica::new(Service::Shared { cores: 4 }, 30 * SECOND);
    replica.carry(12, 600 * SECOND);
    replica.capacity_is(4_000);
}

/// With more in flight from the start than it serves at a time, it has no latency without a queue.
#[test]
fn capacity_is_unknown_while_what_waits_off_cpu_may_be_a_queue() {
    let mut replica = Replica::new(Service::OneThread, 10 * MS);
    replica.carry(6, SECOND);
    replica.carry(40, 10 * SECOND);
    assert_eq!(replica.report().capacity_millirif, None);
    replica.carry(1, 2 * SECOND);
    replica.carry(40, 10 * SECOND);
    let found = replica.report().capacity_millirif.expect("known");
    assert!((950..2_500).contains(&found), "{found}");
    // A CPU that was short shows it, whatever else queries wait for.
    let mut replica = Replica::new(Service::Shared { cores: 2 }, 10 * MS);
    replica.idle_ns = 30 * MS;
    replica.carry(40, 10 * SECOND);
    assert!(replica.report().capacity_millirif.is_some());
}
