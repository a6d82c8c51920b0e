//! Tests of the verdicts: each constant and rule, at its bound.

use super::*;
use crate::policy::Outcome;

const MS: u64 = 1_000_000;

/// A replica with this many queries, of which some failed.
fn record(queries: u32, failures: u32) -> Record {
    let mut record = Record::new(Instant::EPOCH, 1);
    for query in 0..queries {
        let outcome = if query < failures {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        record.booked(0, MS, outcome);
    }
    record.estimate(Instant::EPOCH, 0, WHOLE);
    record
}

/// Others that do not fail.
fn good(queries: u64) -> Reference {
    Reference {
        success: Some(WHOLE),
        shown: Sample {
            queries,
            failures: 0,
        },
        ..Reference::default()
    }
}

/// `[E3]`
#[test]
fn success_rate_below_97_percent_of_the_others_is_bad() {
    for (usual, as_good) in [(WHOLE, 970_000), (500_000, 485_000)] {
        let mut record = record(400, 400);
        let mut others = good(1_200);
        others.success = Some(usual);
        record.success = as_good;
        assert!(!is_bad(&record, &others), "{usual}");
        record.success = as_good - 1;
        assert!(is_bad(&record, &others), "{usual}");
        others.success = None;
        assert!(!is_bad(&record, &others), "there are no others");
    }
}

/// With as many queries as the others, each failure is one bit of evidence. `[E3]`
#[test]
fn a_replica_is_bad_at_22_bits_of_evidence_or_at_10_with_a_reduced_share() {
    let is_bad_with = |failures, is_reduced| {
        let mut record = record(30, failures);
        if is_reduced {
            record.course.fall(Instant::EPOCH, Why::Errors, 1, 2);
        }
        is_bad(&record, &good(30))
    };
    assert!(!is_bad_with(21, false));
    assert!(is_bad_with(22, false));
    assert!(!is_bad_with(9, true));
    assert!(is_bad_with(10, true));
}

/// `[E4]`
#[test]
fn failures_that_are_usual_for_the_others_are_no_evidence() {
    let mut others = good(30);
    others.success = Some(800_000);
    let record = record(30, 22);
    assert!(!is_bad(&record, &others), "six of theirs count");
}

/// `[E3]`
#[test]
fn an_ejected_replica_is_bad_if_it_is_five_standard_deviations_below_the_others() {
    let mut others = good(300);
    others.success = Some(800_000);
    let mut record = record(100, 20);
    record.remember(false);
    // 776,000 − 5 · √(0.8 · 0.2 / 100)
    record.success = 576_000;
    assert!(!is_bad(&record, &others));
    record.success -= 1;
    assert!(is_bad(&record, &others));
    // While it is out, the bound is that of 200 queries: 776,000 − 5 · √(0.8 · 0.2 / 200).
    record
        .course
        .leave(Instant::EPOCH, Why::Errors, &HealthSettings::default());
    record.success = 634_580;
    assert!(!is_bad(&record, &others));
    record.success -= 1;
    assert!(is_bad(&record, &others));
}

/// `[E2]`
#[test]
fn expected_cost_includes_the_retries_of_failures() {
    let mut record = record(0, 0);
    record.price_ns = 20_000;
    for (success, expected) in [(WHOLE, 10_000), (500_000, 30_000), (250_000, 70_000)] {
        record.success = success;
        assert_eq!(expected_ns(&record, 10_000), expected);
    }
    record.success = 0;
    assert_eq!(expected_ns(&record, 10_000), 10_000 + 20_000 * 999_999);
}

/// `[E2]`
#[test]
fn share_falls_if_the_cost_exceeds_five_quarters_of_the_others_and_rises_if_it_is_not_above() {
    let half = WHOLE / 2;
    for (failures_ns, share) in [
        (0, half + WHOLE / 50),
        (1, half),
        (250, half),
        (251, half * 1_000 / 1_251),
    ] {
        let mut record = record(0, 0);
        record.course.fall(Instant::EPOCH, Why::Errors, 1, 2);
        // E = 1,000 + f · (1/0.5 − 1)
        record.others_ns = Some(1_000);
        record.success = WHOLE / 2;
        record.price_ns = failures_ns;
        assert_eq!(
            judge_bad(Instant::EPOCH, &mut record, Why::Errors),
            Verdict::Stay
        );
        assert_eq!(record.course.share(), share, "{failures_ns}");
    }
}

#[test]
fn others_are_hurried_at_four_times_their_best_latency() {
    let mut others = good(30);
    others.unhurried_ns = 100;
    assert!(!is_hurried(&others));
    others.latency_ns = Some(403);
    assert!(!is_hurried(&others));
    others.latency_ns = Some(404);
    assert!(is_hurried(&others));
}

/// `[H4]`
#[test]
fn a_slow_replica_loses_share_unless_it_is_new_or_the_others_take_three_times_their_best_latency() {
    for (others_ns, is_new, share) in [
        (300 * MS + 2, false, WHOLE / 2),
        (300 * MS + 3, false, WHOLE),
        (300 * MS + 2, true, WHOLE),
    ] {
        let mut record = record(0, 0);
        if is_new {
            record.warm_up(WHOLE / 10, Instant::from_nanos(60_000 * MS));
        }
        record.near_ns = 0;
        for _ in 0..8 {
            let answered_at = Instant::from_nanos(10_000 * MS);
            record.answered(answered_at, 10_000 * MS, Outcome::Success);
        }
        record.tick(Instant::EPOCH);
        let mut others = good(30);
        others.latency_ns = Some(others_ns);
        others.unhurried_ns = 100 * MS;
        let settings = HealthSettings::default();
        let verdict = judge(Instant::EPOCH, &mut record, &others, &settings);
        assert_eq!(verdict, Verdict::Stay);
        assert_eq!(record.course.share(), share, "{others_ns}");
    }
}

#[test]
fn more_failures_in_a_row_are_needed_if_the_run_is_likelier_than_one_in_a_billion() {
    let errors = ErrorSettings::default();
    for (success, failures) in [
        (WHOLE, 5),
        (990_000, 5),
        (900_000, 9),
        (500_000, 30),
        (277_000, 64),
        (276_000, u32::MAX),
        (0, u32::MAX),
    ] {
        assert_eq!(failures_max(success, &errors), failures, "{success}");
    }
}

#[test]
fn bounds_are_multiples_of_the_latency_of_the_others() {
    let settings = HealthSettings::default();
    for (others_ms, warm_ms, near_ms) in [(20, 40, 100), (25, 50, 100), (30, 60, 120)] {
        let mut record = record(0, 0);
        let mut others = good(30);
        others.latency_ns = Some(others_ms * MS);
        note_bounds(&mut record, &others, &settings);
        assert_eq!(record.warm_ns, warm_ms * MS);
        assert_eq!(record.near_ns, near_ms * MS);
        assert_eq!(record.others_ns, Some(others_ms * MS));
        assert_eq!(record.failures_max, 5);
    }
}

/// `[E2]`
#[test]
fn failures_cost_their_own_time_and_at_least_twenty_times_the_best_latency() {
    for (best_ns, price_ns) in [(MS / 20, MS), (MS / 20 + 1, MS + 20), (0, MS)] {
        let mut record = record(3, 2);
        let mut others = good(30);
        others.unhurried_ns = best_ns;
        note_bounds(&mut record, &others, &HealthSettings::default());
        assert_eq!(record.price_ns, price_ns);
    }
}

/// `[E2]` `[E3]`
#[test]
fn an_ejected_replica_gets_queries_if_the_others_cost_more() {
    let settings = HealthSettings::default();
    let mut record = record(0, 0);
    record.success = WHOLE / 2;
    record.remember(false);
    record.course.leave(Instant::EPOCH, Why::Errors, &settings);
    let mut others = good(30);
    others.unhurried_ns = 10;
    // 10 + 20 · 10 · (1/0.5 − 1) = 210
    for (others_ns, verdict) in [
        (None, Verdict::Stay),
        (Some(210), Verdict::Stay),
        (Some(211), Verdict::Rise),
    ] {
        others.latency_ns = others_ns;
        let found = judge(Instant::EPOCH, &mut record, &others, &settings);
        assert_eq!(found, verdict, "{others_ns:?}");
    }
}

/// `[H4]`
#[test]
fn a_silence_must_exceed_twice_the_longest_latency_of_the_others() {
    for (longest_ms, silence_ms) in [(10, 100), (200, 400)] {
        let mut record = record(0, 0);
        record.sent(Instant::EPOCH, false);
        record.sent(Instant::EPOCH, false);
        let mut others = good(30);
        (others.pace_ns, others.peak_ns) = (Some(25 * MS), Some(longest_ms * MS));
        let mut judge_at = |now_ns| {
            let now = Instant::from_nanos(now_ns);
            judge(now, &mut record, &others, &HealthSettings::default())
        };
        assert_eq!(judge_at(silence_ms * MS), Verdict::Stay);
        let found = judge_at(silence_ms * MS + 1);
        assert_eq!(found, Verdict::Leave(Why::Silence), "{longest_ms} ms");
    }
}

/// `[E3]`
#[test]
fn a_returning_replica_that_fails_again_is_ejected_at_once() {
    let settings = HealthSettings::default();
    for (why, verdict) in [
        (Why::Errors, Verdict::Leave(Why::Errors)),
        (Why::Slowness, Verdict::Stay),
    ] {
        let mut record = record(0, 0);
        record.course.leave(Instant::EPOCH, why, &settings);
        record.course.come_back(Instant::EPOCH);
        record.others_ns = Some(1_000);
        record.success = WHOLE / 2;
        record.price_ns = 251;
        assert_eq!(judge_bad(Instant::EPOCH, &mut record, why), verdict);
    }
}
