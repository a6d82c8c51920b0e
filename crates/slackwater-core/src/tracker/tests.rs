//! Requests in flight, and what the report says of the next one.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// One query from `from_ms` to `to_ms`.
fn serve(tracker: &LoadTracker, from_ms: u64, to_ms: u64, end: End) {
    let arrival = tracker.arrive(at_ms(from_ms));
    tracker.finish(at_ms(to_ms), arrival, end);
}

#[test]
fn rif_counts_from_arrival_to_last_byte() {
    let tracker = LoadTracker::default();
    let mut stream = tracker.arrive(at_ms(0));
    let other = tracker.arrive(at_ms(0));
    assert_eq!(tracker.rif(), Rif::new(2));
    tracker.head_ready(at_ms(3), &mut stream, End::Success);
    assert_eq!(
        tracker.rif(),
        Rif::new(2),
        "a stream counts until its last byte"
    );
    tracker.finish(at_ms(5), other, End::Cancelled);
    tracker.finish(at_ms(900), stream, End::Success);
    assert_eq!(tracker.rif(), Rif::ZERO);
    assert_eq!(
        tracker.report(at_ms(900)).latency,
        Some(3 * MS),
        "latency ended with the head"
    );
}

#[test]
fn sample_tag_excludes_the_query_itself() {
    let tracker = LoadTracker::default();
    for _ in 0..9 {
        serve(&tracker, 0, 10, End::Success);
    }
    let other = tracker.arrive(at_ms(0));
    for _ in 0..9 {
        serve(&tracker, 0, 25, End::Success);
    }
    assert_eq!(
        tracker.report(at_ms(25)).latency,
        Some(25 * MS),
        "the next one meets one other"
    );
    tracker.finish(at_ms(25), other, End::Cancelled);
    assert_eq!(
        tracker.report(at_ms(25)).latency,
        Some(10 * MS),
        "the next one is alone"
    );
}

#[test]
fn only_successes_are_samples() {
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 1, End::Failed);
    serve(&tracker, 1, 2, End::Cancelled);
    assert_eq!(tracker.report(at_ms(2)).latency, None, "unknown, not zero");
    serve(&tracker, 2, 9, End::Success);
    assert_eq!(tracker.report(at_ms(9)).latency, Some(7 * MS));
}

#[test]
fn stopped_replica_reports_high_latency() {
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 5, End::Success);
    assert_eq!(
        tracker.report(at_ms(2_000)).latency,
        Some(5 * MS),
        "idle is not stopped"
    );
    let stuck = tracker.arrive(at_ms(2_000));
    assert_eq!(
        tracker.report(at_ms(2_003)).latency,
        Some(5 * MS),
        "the median is higher"
    );
    assert_eq!(tracker.report(at_ms(2_300)).latency, Some(300 * MS));
    tracker.finish(at_ms(2_900), stuck, End::Cancelled);
    assert_eq!(
        tracker.report(at_ms(2_901)).latency,
        Some(900 * MS),
        "its client gave up"
    );
    serve(&tracker, 2_901, 2_907, End::Success);
    assert_eq!(
        tracker.report(at_ms(2_907)).latency,
        Some(5 * MS),
        "it lives: of 5 and 6, the lower"
    );
}

#[test]
fn open_stream_with_sent_head_is_not_a_stall() {
    let tracker = LoadTracker::default();
    let mut stream = tracker.arrive(at_ms(0));
    tracker.head_ready(at_ms(2), &mut stream, End::Success);
    assert_eq!(tracker.report(at_ms(2_000)).latency, Some(2 * MS));
    assert_eq!(tracker.report(at_ms(2_000)).rif, Rif::new(1));
    tracker.finish(at_ms(3_000), stream, End::Cancelled);
    assert_eq!(
        tracker.report(at_ms(3_000)).latency,
        Some(2 * MS),
        "the reader left, not the replica"
    );
}

#[test]
fn queries_that_end_count_for_their_time_in_flight_and_at_most_8_seconds() {
    let tracker = LoadTracker::default();
    let ended_ms = || tracker.ended_ns.load(Relaxed) / 1_000_000;
    let mut stream = tracker.arrive(at_ms(100));
    serve(&tracker, 200, 207, End::Cancelled);
    assert_eq!(ended_ms(), 7);
    tracker.head_ready(at_ms(300), &mut stream, End::Success);
    assert_eq!(ended_ms(), 7, "in flight until its last byte");
    tracker.finish(at_ms(8_101), stream, End::Success);
    assert_eq!(ended_ms(), 8_007);
    let lost = tracker.arrive(at_ms(9_000));
    tracker.withdraw(lost);
    let early = tracker.arrive(at_ms(9_000));
    tracker.finish(at_ms(8_000), early, End::Failed);
    assert_eq!(
        ended_ms(),
        8_007,
        "never there, and a clock that stepped back"
    );
}

#[test]
fn withdrawn_query_is_neither_sample_nor_progress_nor_stall() {
    let tracker = LoadTracker::default();
    serve(&tracker, 0, 5, End::Success);
    let stuck = tracker.arrive(at_ms(100));
    let lost = tracker.arrive(at_ms(200));
    tracker.withdraw(lost);
    assert_eq!(tracker.rif(), Rif::new(1));
    assert_eq!(
        tracker.report(at_ms(300)).latency,
        Some(200 * MS),
        "no progress since 100 ms"
    );
    tracker.finish(at_ms(300), stuck, End::Success);
    let lost = tracker.arrive(at_ms(400));
    tracker.withdraw(lost);
    assert_eq!(tracker.rif(), Rif::ZERO);
    assert_eq!(
        tracker.report(at_ms(1_000)).latency,
        Some(5 * MS),
        "of 5 and 200 the lower: it has not stopped"
    );
    let mut stream = tracker.arrive(at_ms(1_000));
    tracker.head_ready(at_ms(1_009), &mut stream, End::Success);
    tracker.withdraw(stream);
    let stuck = tracker.arrive(at_ms(1_100));
    assert_eq!(
        tracker.report(at_ms(1_400)).latency,
        Some(300 * MS),
        "one waits, not none"
    );
    tracker.finish(at_ms(1_400), stuck, End::Failed);
}

#[test]
fn first_query_in_flight_gives_an_estimate_after_three_seconds() {
    let tracker = LoadTracker::default();
    let stuck = tracker.arrive(at_ms(0));
    assert_eq!(tracker.report(at_ms(1)).latency, None);
    assert_eq!(tracker.report(at_ms(2_999)).latency, None);
    assert_eq!(tracker.report(at_ms(3_000)).latency, Some(3_000 * MS));
    tracker.finish(at_ms(3_000), stuck, End::Cancelled);
}

#[test]
fn clock_may_step_back() {
    let tracker = LoadTracker::default();
    let arrival = tracker.arrive(at_ms(50));
    tracker.finish(at_ms(10), arrival, End::Success);
    assert_eq!(tracker.report(at_ms(5)).latency, None);
    assert_eq!(tracker.rif(), Rif::ZERO);
    serve(&tracker, 60, 67, End::Success);
    assert_eq!(tracker.report(at_ms(70)).latency, Some(7 * MS));
}

#[test]
fn queries_of_zero_duration_have_unknown_latency() {
    let tracker = LoadTracker::default();
    for to_ms in [50, 50, 50, 52] {
        serve(&tracker, 50, to_ms, End::Success);
        assert_eq!(tracker.report(at_ms(53)).latency, None);
    }
}

#[test]
fn replica_is_busy_while_queries_are_in_flight() {
    let tracker = LoadTracker::default();
    let at = Instant::from_nanos;
    assert_eq!(tracker.busy_ns(at(5)), 0);
    let first = tracker.arrive(at(10));
    let second = tracker.arrive(at(15));
    assert_eq!(tracker.busy_ns(at(18)), 8);
    tracker.finish(at(20), first, End::Success);
    tracker.finish(at(30), second, End::Failed);
    assert_eq!(tracker.busy_ns(at(90)), 20);
    let third = tracker.arrive(at(100));
    assert_eq!(tracker.busy_ns(at(103)), 23);
    tracker.withdraw(third);
    assert_eq!(tracker.busy_ns(at(110)), 20, "as if it had never been");
}
