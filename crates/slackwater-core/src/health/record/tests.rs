//! Tests of the record: each of its constants, at its bound.

use super::*;
use crate::report::Rif;
use alloc::vec::Vec;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * MS)
}

fn record() -> Record {
    Record::new(at(0), 1)
}

/// Books queries in one bucket.
fn book(record: &mut Record, bucket: u64, count: u32, outcome: Outcome) {
    for _ in 0..count {
        record.booked(bucket, MS, outcome);
    }
}

fn report(error_millionths: u32) -> LoadReport {
    let mut report = LoadReport::new(Rif::ZERO, None);
    report.error_millionths = Some(error_millionths);
    report
}

/// The share of a replica after one tick with this many pushbacks among 100 responses.
fn push_share_after(record: &mut Record, pushed: u32) -> u32 {
    book(record, 0, pushed, Outcome::PushedBack);
    book(record, 0, 100 - pushed, Outcome::Success);
    record.tick(at(100));
    record.share(true, true)
}

#[test]
fn pushback_of_a_tenth_lowers_the_share_by_30_percent() {
    let mut pushing = record();
    assert_eq!(push_share_after(&mut pushing, 9), WHOLE);
    assert!(!pushing.is_pushing_back());
    for share in [700_000, 490_000, 343_000, 240_100] {
        assert_eq!(push_share_after(&mut pushing, 10), share);
    }
    assert!(pushing.is_pushing_back());
    for _ in 0..9 {
        push_share_after(&mut pushing, 100);
    }
    assert_eq!(pushing.share(true, true), WHOLE / 16, "no less than that");
    assert_eq!(pushing.share(true, false), WHOLE, "not applied");
    for share in [112_500, 162_500, 212_500] {
        assert_eq!(push_share_after(&mut pushing, 9), share);
    }
}

#[test]
fn five_more_queries_count_with_the_success_rate_of_the_fleet() {
    for (fleet, success) in [(WHOLE, 714_285), (900_000, 642_857), (0, 0)] {
        let mut failing = record();
        book(&mut failing, 0, 2, Outcome::Failed);
        failing.estimate(at(0), 0, fleet);
        assert_eq!(failing.success, success, "5/7 of {fleet}");
    }
}

#[test]
fn newest_200_queries_decide() {
    for (newest, queries) in [(199, 299), (200, 200)] {
        let mut recovered = record();
        book(&mut recovered, 0, 100, Outcome::Failed);
        book(&mut recovered, 1, newest, Outcome::Success);
        recovered.estimate(at(1_000), 1, WHOLE);
        assert_eq!(recovered.tally().count(), queries);
        assert_eq!(recovered.shown().queries, u64::from(queries));
    }
}

/// `[E1]`
#[test]
fn reported_failures_count_for_two_seconds() {
    let mut reporting = record();
    reporting.reported(at(0), &report(900_000));
    for (ms, success) in [(0, 100_000), (1_999, 100_000), (2_000, WHOLE)] {
        reporting.estimate(at(ms), 0, WHOLE);
        assert_eq!(reporting.success, success, "{ms} ms");
    }
}

/// `[E1]`
#[test]
fn a_report_with_a_response_replaces_only_what_it_contains() {
    let mut reporting = record();
    reporting.near_ns = 100;
    let mut probed = report(900_000);
    probed.latency = Some(Duration::from_nanos(101));
    let lean = LoadReport::new(Rif::ZERO, None);
    let success_after = |reporting: &mut Record, ms, carried: &LoadReport| {
        reporting.report_carried(at(ms), carried);
        reporting.estimate(at(ms), 0, WHOLE);
        assert!(reporting.reports_against(at(ms), 9_000 * MS));
        reporting.success
    };
    reporting.reported(at(0), &probed);
    assert_eq!(success_after(&mut reporting, 0, &lean), 100_000);
    assert_eq!(success_after(&mut reporting, 1_999, &lean), 100_000);
    assert_eq!(
        success_after(&mut reporting, 2_000, &lean),
        WHOLE,
        "it is no newer for that"
    );
    assert_eq!(
        success_after(&mut reporting, 3_000, &report(300_000)),
        700_000
    );
    reporting.reported(at(3_000), &lean);
    reporting.estimate(at(3_000), 0, WHOLE);
    assert_eq!(reporting.success, WHOLE, "a probe's answer is complete");
    assert!(!reporting.reports_against(at(3_000), MS));
}

/// `[E1]` `[E5]`
#[test]
fn the_worse_of_own_results_and_report_counts() {
    // (35 + 5) / (80 + 5) is the rate by own results.
    for (reported, success, failures) in [
        (0, 470_588, 45),
        (1, 470_588, 45),
        (500_000, 470_588, 45),
        (750_000, 250_000, 60),
    ] {
        let mut failing = record();
        book(&mut failing, 0, 45, Outcome::Failed);
        book(&mut failing, 0, 35, Outcome::Success);
        failing.reported(at(0), &report(reported));
        failing.estimate(at(0), 0, WHOLE);
        assert_eq!(failing.success, success, "{reported}");
        let (queries, shown) = (80, failing.shown());
        assert_eq!(shown, Sample { queries, failures }, "{reported}");
    }
}

#[test]
fn replica_is_slow_if_half_of_its_last_sixteen_responses_are() {
    let mut mixed = record();
    mixed.near_ns = 100;
    let mut answered = |count, latency_ns| {
        for _ in 0..count {
            mixed.answered(at(1), latency_ns, Outcome::Success);
        }
        mixed.is_slow()
    };
    assert!(!answered(7, 101));
    assert!(!answered(8, 100));
    assert!(answered(1, 101), "8 of 16");
    assert!(!answered(1, 100), "7 of 16");
    assert!(!answered(6, 101), "the oldest no longer counts");
    assert!(answered(1, 101));
}

#[test]
fn new_mean_latency_weighs_as_much_as_its_responses_and_the_old_one_as_eight() {
    let mut mixed = record();
    let mut mean_after = |count, latency_ns| {
        for _ in 0..count {
            mixed.answered(at(1), latency_ns, Outcome::Success);
        }
        mixed.tick(at(100));
        mixed.latency_ns()
    };
    assert_eq!(mean_after(0, 0), None);
    assert_eq!(mean_after(2, 300), Some(300), "there is no old one");
    assert_eq!(mean_after(8, 500), Some(400));
    assert_eq!(mean_after(24, 800), Some(700));
}

/// `[E3]` `[E4]`
#[test]
fn failures_beyond_the_usual_and_two_more_do_not_excuse_other_replicas() {
    for (fleet, failures) in [(WHOLE, 2), (900_000, 12), (700_000, 30)] {
        let mut failing = record();
        book(&mut failing, 0, 30, Outcome::Failed);
        book(&mut failing, 0, 70, Outcome::Success);
        failing.estimate(at(0), 0, fleet);
        failing.compare(0, fleet);
        let queries = 100;
        assert_eq!(failing.compared.shown, Sample { queries, failures });
    }
}

#[test]
fn others_are_compared_at_each_fourth_failure_of_a_long_run() {
    let mut failing = record();
    failing.failures_max = 5;
    let mut runs = Vec::new();
    for _ in 0..15 {
        book(&mut failing, 0, 1, Outcome::Failed);
        runs.extend(failing.run());
    }
    assert_eq!(runs, [5, 9, 13]);
}

#[test]
fn sudden_failure_is_remembered_as_total_unless_an_eighth_failed_before() {
    // The last four of the 64 newest queries have failed, and a few of the 60 before.
    for (before, remembered) in [(0, 0), (6, 0), (7, 53 * (WHOLE / 64))] {
        let mut failing = record();
        book(&mut failing, 0, before, Outcome::Failed);
        book(&mut failing, 0, 60 - before, Outcome::Success);
        book(&mut failing, 0, 4, Outcome::Failed);
        failing.remember(true);
        assert_eq!(failing.remembered, Some(remembered), "{before}");
    }
}

#[test]
fn run_of_failures_may_be_longer_than_the_failures_that_the_history_holds() {
    let mut failing = record();
    book(&mut failing, 0, 3, Outcome::Failed);
    let run = failing.booked(0, MS, Outcome::Success);
    // Two responses that began well within the run break off, so that it counts twice.
    failing.booked(0, MS, Outcome::Success);
    failing.broke(0, 0, run, MS, Outcome::Broken);
    failing.broke(0, 0, run, MS, Outcome::Broken);
    assert_eq!(failing.failures_in_a_row, 2 * run + 2);
    failing.remember(true);
    assert_eq!(failing.remembered, Some(0), "it had not failed before");
}

#[test]
fn slow_decline_is_remembered_by_the_last_sixteen_queries_if_they_are_worse() {
    for (success, remembered) in [(WHOLE, 812_500), (500_000, 500_000)] {
        let mut failing = record();
        book(&mut failing, 0, 3, Outcome::Failed);
        book(&mut failing, 0, 13, Outcome::Success);
        failing.success = success;
        failing.remember(false);
        assert_eq!(failing.remembered, Some(remembered));
    }
}

#[test]
fn passed_trial_removes_an_eighth_of_the_remembered_failures_and_failed_one_adds_a_quarter() {
    let mut tried = record();
    tried.remember_trial(true);
    assert_eq!(tried.remembered, None, "it was not out");
    tried.remembered = Some(200_000);
    tried.remember_trial(true);
    assert_eq!(tried.remembered, Some(300_000));
    tried.remember_trial(false);
    assert_eq!(tried.remembered, Some(225_000));
}

#[test]
fn response_that_breaks_off_continues_a_run_of_failures_if_it_began_in_the_last_two_buckets() {
    for (bucket, run) in [(5, 4), (6, 4), (7, 1)] {
        let mut breaking = record();
        book(&mut breaking, 5, 3, Outcome::Failed);
        let before = breaking.booked(5, MS, Outcome::Success);
        breaking.broke(bucket, 5, before, MS, Outcome::Broken);
        breaking.failures_max = run;
        assert_eq!(breaking.run(), Some(run), "{bucket}");
    }
}

#[test]
fn two_queries_that_wait_make_a_silence() {
    let mut silent = record();
    silent.sent(at(0), false);
    assert_eq!(silent.without_progress_ns(at(900)), 0, "one may be slow");
    silent.sent(at(900), false);
    assert_eq!(silent.without_progress_ns(at(1_000)), 100 * MS);
    silent.sent(at(1_000), false);
    assert_eq!(silent.without_progress_ns(at(1_100)), 200 * MS);
    silent.answered(at(1_100), MS, Outcome::Success);
    assert_eq!(silent.without_progress_ns(at(1_150)), 50 * MS);
    silent.given_up();
    assert_eq!(silent.without_progress_ns(at(1_150)), 0);
}

/// `[H4]`
#[test]
fn responses_to_queries_from_before_a_silence_ended_do_not_count() {
    let settings = crate::health::HealthSettings::default();
    let mut woken = record();
    woken
        .course
        .leave(at(0), crate::health::course::Why::Silence, &settings);
    book(&mut woken, 0, 5, Outcome::Failed);
    woken.remember(false);
    assert!(woken.wake(at(1_000)));
    woken.estimate(at(1_000), 0, WHOLE);
    assert_eq!(woken.success, WHOLE, "nor do failures from before");
    assert!(!woken.is_convicted());
    woken.near_ns = 0;
    for _ in 0..8 {
        woken.answered(at(1_500), 501 * MS, Outcome::Success);
    }
    assert!(!woken.is_slow());
    for _ in 0..8 {
        woken.answered(at(1_500), 500 * MS, Outcome::Success);
    }
    assert!(woken.is_slow());
}

/// `[H4]`
#[test]
fn slow_or_outdated_report_speaks_against_a_trial() {
    let mut out = record();
    out.near_ns = 100;
    assert!(!out.reports_against(at(900), MS), "no report ever came");
    let mut reported = |latency_ns, ms| {
        let latency = Duration::from_nanos(latency_ns);
        out.reported(at(0), &LoadReport::new(Rif::ZERO, Some(latency)));
        out.reports_against(at(ms), 1_000 * MS)
    };
    assert!(!reported(100, 0));
    assert!(reported(101, 0));
    assert!(!reported(100, 1_000));
    assert!(reported(100, 1_001));
}

#[test]
fn response_or_restart_of_an_ejected_replica_makes_its_trial_due_at_once() {
    let settings = crate::health::HealthSettings::default();
    for restarts in [false, true] {
        let mut out = record();
        let mut named = report(0);
        named.incarnation = Some(7);
        assert!(!out.reported(at(0), &named), "the first");
        let why = crate::health::course::Why::Errors;
        out.course.leave(at(0), why, &settings);
        assert!(!out.course.wants_trial(at(300), false));
        if restarts {
            named.incarnation = Some(8);
            assert!(out.reported(at(300), &named));
        } else {
            out.answered(at(300), MS, Outcome::Failed);
        }
        assert!(out.course.wants_trial(at(300), false), "{restarts}");
    }
}
