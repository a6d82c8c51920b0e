//! T5: one load tracker, many threads. Nothing is lost or torn.
//!
//! Threads take the time from a shared counter, so nothing here depends on how fast they run.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use slackwater_core::tracker::{End, LoadTracker, TrackerConfig};
use slackwater_core::{Instant, Rif};
use std::thread;

const WORKERS: u64 = 4;
const QUERIES: u64 = 20_000;

/// Latencies that are recorded. Halves of two different ones never form a valid one.
fn latency(worker: u64, query: u64) -> Duration {
    let part = worker * 1_000 + query % 1_000 + 1;
    Duration::from_nanos(part << 32 | part)
}

fn is_whole(latency: Duration) -> bool {
    let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    let part = ns >> 32;
    part == ns & 0xFFFF_FFFF && (1..=WORKERS * 1_000).contains(&part)
}

#[test]
fn t5_concurrent_rif_returns_to_zero_and_reports_are_not_torn() {
    // Two slots: every thread writes and reads slots that others are writing.
    let config = TrackerConfig {
        sample_window: Duration::from_hours(1_000_000),
        sample_age_max: Duration::from_hours(1_000_000),
        sample_capacity: 2,
        ..TrackerConfig::default()
    };
    let tracker = LoadTracker::new(&config);
    let running = AtomicBool::new(true);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let tracker = &tracker;
                scope.spawn(move || {
                    for query in 0..QUERIES {
                        let mut arrival = tracker.arrive(Instant::EPOCH);
                        let done = Instant::EPOCH + latency(worker, query);
                        match query % 4 {
                            0 => tracker.head_ready(done, &mut arrival, End::Success),
                            1 => {
                                tracker.finish(Instant::EPOCH, arrival, End::Failed);
                                continue;
                            }
                            _ => {}
                        }
                        tracker.finish(done, arrival, End::Success);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while running.load(Ordering::Relaxed) {
                    let report = tracker.report(Instant::EPOCH);
                    assert!(report.rif <= Rif::new(4), "{report:?}");
                    assert!(report.latency.is_none_or(is_whole), "{report:?}");
                }
            });
        }
        for worker in workers {
            worker.join().expect("a worker panicked");
        }
        running.store(false, Ordering::Relaxed);
    });
    assert_eq!(tracker.rif(), Rif::ZERO);
    let report = tracker.report(Instant::EPOCH);
    assert!(report.latency.is_some_and(is_whole), "{report:?}");
}

#[test]
fn t5_latency_and_age_of_a_sample_belong_together() {
    const SLOW: Duration = Duration::from_millis(8);
    const FAST: Duration = Duration::from_millis(1);
    // Recent slow queries beside fast ones of an hour ago, which are too old to count: a slot read
    // while it is written would make a recent fast one.
    let tracker = LoadTracker::new(&TrackerConfig {
        sample_capacity: 2,
        ..TrackerConfig::default()
    });
    let now = Instant::EPOCH + Duration::from_hours(1);
    let serve = |at: Instant, latency| {
        let arrival = tracker.arrive(at);
        tracker.finish(at + latency, arrival, End::Success);
    };
    serve(now, SLOW);
    let running = AtomicBool::new(true);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..500_000 {
                serve(Instant::EPOCH, FAST);
                serve(now, SLOW);
                serve(now, SLOW);
            }
        });
        scope.spawn(|| {
            while running.load(Ordering::Relaxed) {
                let latency = tracker.report(now + SLOW).latency;
                assert!(latency.is_none_or(|latency| latency == SLOW), "{latency:?}");
            }
        });
        writer.join().expect("the writer panicked");
        running.store(false, Ordering::Relaxed);
    });
}

#[test]
fn t4_probe_at_the_first_query_after_a_pause_sees_no_stall() {
    const PAUSE: Duration = Duration::from_hours(1);
    const SERVICE: Duration = Duration::from_millis(5);
    let config = TrackerConfig {
        sample_age_max: 10 * PAUSE,
        ..TrackerConfig::default()
    };
    let tracker = LoadTracker::new(&config);
    let clock_ns = AtomicU64::new(0);
    let running = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while running.load(Ordering::Relaxed) {
                let now = Instant::from_nanos(clock_ns.load(Ordering::Acquire));
                let latency = tracker.report(now).latency;
                assert!(
                    latency.is_none_or(|latency| latency <= SERVICE),
                    "{latency:?} at {now}"
                );
            }
        });
        for _ in 0..2_000_000 {
            // The pause is over; for a moment the tracker is idle, then a query comes and is
            // served.
            let now = Instant::from_nanos(clock_ns.load(Ordering::Relaxed)) + PAUSE;
            clock_ns.store(now.as_nanos(), Ordering::Release);
            let arrival = tracker.arrive(now);
            tracker.finish(now + SERVICE, arrival, End::Success);
        }
        running.store(false, Ordering::Relaxed);
    });
}
