//! T1–T6: the load tracker, where its own tests leave an edge.

use crate::world::MS;
use core::time::Duration;
use slackwater_core::tracker::{Arrival, End, LoadTracker, TrackerConfig};
use slackwater_core::{Instant, LoadReport, LoadScale, Rif};

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn serve(tracker: &LoadTracker, from_ms: u64, to_ms: u64) {
    let arrival = tracker.arrive(at_ms(from_ms));
    tracker.finish(at_ms(to_ms), arrival, End::Success);
}

fn latency_ms(tracker: &LoadTracker, at: u64) -> Option<u128> {
    tracker
        .report(at_ms(at))
        .latency
        .map(|latency| latency.as_millis())
}

#[test]
fn t1_every_end_decrements_rif_and_first_head_sets_latency() {
    let tracker = LoadTracker::default();
    let mut arrivals: Vec<Arrival> = (0..6).map(|_| tracker.arrive(at_ms(0))).collect();
    tracker.head_ready(at_ms(5), &mut arrivals[0], End::Success);
    tracker.head_ready(at_ms(50), &mut arrivals[0], End::Success);
    tracker.head_ready(at_ms(5), &mut arrivals[1], End::Failed);
    let ends = [End::Success, End::Failed, End::Cancelled]
        .into_iter()
        .cycle();
    for (left, (arrival, end)) in (0..6).rev().zip(arrivals.into_iter().zip(ends)) {
        tracker.finish(at_ms(6), arrival, end);
        assert_eq!(tracker.rif(), Rif::new(left));
    }
    // Samples: 5 ms (a head), 6 ms (finished without one). The failed head and the second head are
    // no samples.
    assert_eq!(latency_ms(&tracker, 6), Some(5));
}

#[test]
fn t2_tag_is_rif_at_arrival() {
    let tracker = LoadTracker::default();
    // Nine that met one other take 30 ms; nine that were alone take 10 ms.
    for _ in 0..9 {
        let first = tracker.arrive(at_ms(0));
        let second = tracker.arrive(at_ms(0));
        tracker.finish(at_ms(10), first, End::Success);
        tracker.finish(at_ms(30), second, End::Success);
    }
    assert_eq!(
        latency_ms(&tracker, 30),
        Some(10),
        "RIF 0: the next one is alone"
    );
    let other = tracker.arrive(at_ms(30));
    assert_eq!(
        latency_ms(&tracker, 30),
        Some(30),
        "RIF 1: the next one meets one"
    );
    tracker.finish(at_ms(30), other, End::Cancelled);
}

#[test]
fn t3_sample_at_its_age_limit_does_not_count() {
    let config = TrackerConfig {
        sample_age_max: 15 * MS,
        ..TrackerConfig::default()
    };
    let tracker = LoadTracker::new(&config);
    serve(&tracker, 0, 5);
    assert_eq!(latency_ms(&tracker, 19), Some(5));
    assert_eq!(latency_ms(&tracker, 20), None, "15 ms old");
}

#[test]
fn t3_age_limit_of_zero_means_unknown_latency() {
    let config = TrackerConfig {
        sample_age_max: Duration::ZERO,
        ..TrackerConfig::default()
    };
    let tracker = LoadTracker::new(&config);
    serve(&tracker, 0, 5);
    assert_eq!(
        latency_ms(&tracker, 5),
        None,
        "at the very instant of a completion"
    );
    let stuck = tracker.arrive(at_ms(6));
    assert_eq!(latency_ms(&tracker, 900), None, "and with a query stuck");
    tracker.finish(at_ms(900), stuck, End::Cancelled);
    assert_eq!(latency_ms(&tracker, 900), None, "and given up");
}

/// Samples of 1, 7 and 12 ms, at 1, 8 and 20 ms.
fn three_samples(config: &TrackerConfig) -> LoadTracker {
    let tracker = LoadTracker::new(config);
    for (from, to) in [(0, 1), (1, 8), (8, 20)] {
        serve(&tracker, from, to);
    }
    tracker
}

#[test]
fn t3_window_of_zero_uses_remembered_samples() {
    let of = |remembered_samples_max| TrackerConfig {
        sample_window: Duration::ZERO,
        remembered_samples_max,
        ..TrackerConfig::default()
    };
    let tracker = three_samples(&of(3));
    assert_eq!(latency_ms(&tracker, 21), Some(7), "of 1, 7 and 12");
    let tracker = three_samples(&of(1));
    assert_eq!(latency_ms(&tracker, 21), Some(12), "the newest");
    let tracker = three_samples(&of(0));
    assert_eq!(latency_ms(&tracker, 21), None, "nothing is remembered");
}

#[test]
fn t3_window_samples_min_is_configurable() {
    let of = |window_samples_min| TrackerConfig {
        window_samples_min,
        remembered_samples_max: 0,
        ..TrackerConfig::default()
    };
    for (window_samples_min, latency) in [(0, Some(12)), (1, Some(12)), (2, None)] {
        let tracker = three_samples(&of(window_samples_min));
        // Only the last one is at most 20 ms old.
        assert_eq!(latency_ms(&tracker, 40), latency, "{window_samples_min}");
    }
    let none = three_samples(&TrackerConfig {
        window_samples_min: 0,
        ..TrackerConfig::default()
    });
    assert_eq!(latency_ms(&none, 41), Some(7), "none is too few: memory");
}

#[test]
fn t4_stall_is_measured_from_the_last_completion() {
    let tracker = LoadTracker::default();
    for _ in 0..20 {
        serve(&tracker, 0, 4);
    }
    let stuck = [tracker.arrive(at_ms(4)), tracker.arrive(at_ms(5))];
    assert_eq!(
        latency_ms(&tracker, 14),
        Some(10),
        "since the first of them, not the second"
    );
    serve(&tracker, 14, 18);
    assert_eq!(
        latency_ms(&tracker, 20),
        Some(4),
        "something else came through"
    );
    let failed = tracker.arrive(at_ms(40));
    assert_eq!(latency_ms(&tracker, 50), Some(32));
    tracker.finish(at_ms(50), failed, End::Failed);
    assert_eq!(
        latency_ms(&tracker, 51),
        Some(4),
        "an error is a sign of life"
    );
    for arrival in stuck {
        tracker.finish(at_ms(51), arrival, End::Success);
    }
}

#[test]
fn t4_ended_stall_expires_with_the_samples() {
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 4);
    let stuck = tracker.arrive(at_ms(10));
    tracker.finish(at_ms(510), stuck, End::Cancelled);
    serve(&tracker, 519, 520);
    assert_eq!(latency_ms(&tracker, 521), Some(1), "answered: it lives");

    let stuck = tracker.arrive(at_ms(1_000));
    tracker.finish(at_ms(1_500), stuck, End::Cancelled);
    assert_eq!(latency_ms(&tracker, 1_501), Some(500));
    assert_eq!(
        latency_ms(&tracker, 3_519),
        Some(500),
        "as long as the samples that it outweighs"
    );
    assert_eq!(latency_ms(&tracker, 4_500), None);

    let impatient = tracker.arrive(at_ms(20_000));
    tracker.finish(at_ms(20_002), impatient, End::Cancelled);
    serve(&tracker, 20_002, 20_002);
    let impatient = tracker.arrive(at_ms(20_003));
    tracker.finish(at_ms(20_005), impatient, End::Cancelled);
    assert_eq!(
        latency_ms(&tracker, 20_005),
        Some(2),
        "a client that leaves after 2 ms shows 2 ms"
    );
}

#[test]
fn t4_cancelled_query_counts_by_its_own_age_at_most() {
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 1);
    let stuck = tracker.arrive(at_ms(10));
    let impatient = tracker.arrive(at_ms(910));
    tracker.finish(at_ms(912), impatient, End::Cancelled);
    assert_eq!(
        latency_ms(&tracker, 912),
        Some(902),
        "the other one still waits"
    );
    tracker.finish(at_ms(912), stuck, End::Failed);
    assert_eq!(latency_ms(&tracker, 912), Some(2), "of the impatient one");
}

#[test]
fn t4_expired_stall_does_not_return_with_a_later_one() {
    let tracker = LoadTracker::default();
    let stuck = tracker.arrive(at_ms(0));
    tracker.finish(at_ms(12_000), stuck, End::Cancelled);
    let impatient = tracker.arrive(at_ms(60_000));
    tracker.finish(at_ms(60_002), impatient, End::Cancelled);
    let failed = tracker.arrive(at_ms(60_002));
    tracker.finish(at_ms(60_003), failed, End::Failed);
    assert_eq!(
        latency_ms(&tracker, 60_003),
        None,
        "12 s were a minute ago; 2 ms are no estimate"
    );
}

/// A replica that answered in 5 ms until 1 s, and has hung since. Its clients give up after 1 s,
/// and send the next query 10 ms later: at 2,000 and 3,010 ms so far.
fn hung_since_1_s(config: &TrackerConfig) -> LoadTracker {
    let tracker = LoadTracker::new(config);
    serve(&tracker, 995, 1_000);
    for from in [1_000, 2_010] {
        let stuck = tracker.arrive(at_ms(from));
        tracker.finish(at_ms(from + 1_000), stuck, End::Cancelled);
    }
    tracker
}

#[test]
fn t4_hung_replica_stays_slow_after_its_samples_expire() {
    let unremembering = TrackerConfig {
        remembered_samples_max: 0,
        ..TrackerConfig::default()
    };
    for config in [TrackerConfig::default(), unremembering] {
        let tracker = hung_since_1_s(&config);
        assert_eq!(latency_ms(&tracker, 3_999), Some(1_000), "a sample is left");
        assert_eq!(latency_ms(&tracker, 4_000), Some(1_000), "none is");
        let stuck = tracker.arrive(at_ms(4_020));
        for at in [4_020, 4_024, 5_010] {
            assert_eq!(latency_ms(&tracker, at), Some(1_000), "at {at} ms");
        }
        assert_eq!(latency_ms(&tracker, 5_019), Some(1_000));
        tracker.finish(at_ms(5_020), stuck, End::Cancelled);
        assert_eq!(latency_ms(&tracker, 5_021), Some(1_000), "and given up");
        assert_eq!(latency_ms(&tracker, 8_019), Some(1_000));
        assert_eq!(latency_ms(&tracker, 8_020), None, "3 s ago: tried again");
    }
}

#[test]
fn t4_wait_beyond_usual_latency_counts_at_any_age() {
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 5);
    let stuck = tracker.arrive(at_ms(60_000));
    assert_eq!(latency_ms(&tracker, 60_005), None, "5 ms are as usual");
    assert_eq!(latency_ms(&tracker, 60_006), Some(6));
    assert_eq!(latency_ms(&tracker, 60_990), Some(990));
    tracker.finish(at_ms(61_000), stuck, End::Success);
    assert_eq!(latency_ms(&tracker, 61_000), Some(1_000), "a sample");

    // Four seconds are not a stall where ten are usual, though they exceed the age limit of
    // samples.
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 10_000);
    let slow = tracker.arrive(at_ms(20_000));
    assert_eq!(latency_ms(&tracker, 24_000), None);
    assert_eq!(latency_ms(&tracker, 30_001), Some(10_001));
    tracker.finish(at_ms(30_001), slow, End::Failed);
}

#[test]
fn t4_query_cancelled_early_is_no_stall() {
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 50);
    let impatient = tracker.arrive(at_ms(60_000));
    tracker.finish(at_ms(60_050), impatient, End::Cancelled);
    assert_eq!(latency_ms(&tracker, 60_051), None, "not slower than usual");
    let impatient = tracker.arrive(at_ms(60_100));
    tracker.finish(at_ms(60_151), impatient, End::Cancelled);
    assert_eq!(latency_ms(&tracker, 60_152), Some(51), "slower");
}

#[test]
fn t4_new_replica_is_unknown_during_its_first_query() {
    let tracker = LoadTracker::default();
    let first = tracker.arrive(at_ms(0));
    assert_eq!(latency_ms(&tracker, 1_500), None, "it may be cold");
    tracker.finish(at_ms(1_500), first, End::Cancelled);
    assert_eq!(latency_ms(&tracker, 1_501), None, "nothing to compare with");
}

#[test]
fn t6_unknown_values_are_not_reported() {
    let report = LoadTracker::default().report(at_ms(1));
    assert_eq!(report, LoadReport::new(Rif::ZERO, None));
    assert!(!report.draining);
    assert_eq!(report.load_scale, LoadScale::ONE);
    assert_eq!((report.incarnation, report.error_millionths), (None, None));
    assert_eq!(
        (report.cpu_millionths, report.query_rate_millis),
        (None, None)
    );
    assert_eq!((report.capacity_millirif, report.cost), (None, None));
}

#[test]
fn t5_eight_old_samples_do_not_hide_a_newer_one_and_nine_do() {
    let tracker = LoadTracker::default();
    serve(&tracker, 9_000, 9_005);
    // Threads that were delayed record what ended long ago.
    for _ in 0..8 {
        serve(&tracker, 0, 1);
    }
    assert_eq!(latency_ms(&tracker, 9_006), Some(5));
    serve(&tracker, 0, 1);
    assert_eq!(latency_ms(&tracker, 9_006), None);
}
