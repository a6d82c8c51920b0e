//! How a share falls, and what brings it back.

use super::*;
use core::time::Duration;

fn at(ms: u64) -> Instant {
    Instant::EPOCH + Duration::from_millis(ms)
}

fn out() -> (Course, HealthSettings) {
    let settings = HealthSettings::default();
    let mut course = Course::new(at(0));
    course.leave(at(0), Why::Errors, &settings);
    (course, settings)
}

#[test]
fn trial_back_off_doubles_up_to_its_maximum() {
    let (mut course, settings) = out();
    assert!(course.is_out() && course.share() == 0);
    let mut now = 0;
    for wait in [1_000, 2_000, 4_000, 4_000] {
        assert!(!course.wants_trial(at(now + wait - 1), false), "{wait}");
        assert!(course.wants_trial(at(now + wait - 1), true));
        now += wait;
        assert!(course.wants_trial(at(now), false), "{wait}");
        course.trial_sent();
        assert!(!course.wants_trial(at(now), true), "one at a time");
        assert!(!course.trial_ended(at(now), Trial::Failed, &settings));
    }
}

#[test]
fn three_passed_trials_restore_an_eighth_and_responses_the_rest() {
    let (mut course, settings) = out();
    let ended = |course: &mut Course, trial| {
        course.trial_sent();
        course.trial_ended(at(5_000), trial, &settings)
    };
    for trial in [Trial::Passed, Trial::Passed, Trial::Failed] {
        assert!(!ended(&mut course, trial));
    }
    for trial in [Trial::Passed, Trial::Void, Trial::Passed] {
        assert!(
            !ended(&mut course, trial),
            "the failed one resets the count"
        );
        assert_eq!(course.is_passing(), trial == Trial::Passed);
        let is_due = course.wants_trial(at(5_000), false);
        assert_eq!(is_due, trial == Trial::Passed, "one that is void waits");
    }
    assert!(ended(&mut course, Trial::Passed));
    course.come_back(at(5_000));
    assert!(!course.is_out() && course.is_returning());
    for share in [WHOLE / 8, WHOLE / 4, WHOLE / 2, WHOLE] {
        assert_eq!(course.share(), share);
        for _ in 0..7 {
            course.answered(at(5_500), true, true);
        }
        course.answered(at(5_500), false, false);
        course.answered(at(5_500), true, false);
        for _ in 0..3 {
            course.answered(at(5_500), true, true);
        }
        course.climb(at(5_999));
        assert_eq!(course.share(), share, "bad: two less, slow: one less");
        course.answered(at(5_500), true, true);
        course.climb(at(5_999));
    }
    assert!(course.is_whole() && !course.is_returning());
    assert!(!course.trial_ended(at(7_000), Trial::Failed, &settings));
    assert!(course.is_whole(), "late trials change nothing");
}

#[test]
fn repeated_ejection_lengthens_back_off() {
    let (mut course, settings) = out();
    course.come_back(at(900));
    course.leave(at(1_000), Why::Slowness, &settings);
    assert!(!course.wants_trial(at(2_999), false));
    assert!(course.wants_trial(at(3_000), false));
    course.come_back(at(5_000));
    for _ in 0..3 {
        for _ in 0..8 {
            course.answered(at(5_500), true, true);
        }
        course.climb(at(5_000));
    }
    let mut forgiven = course;
    course.leave(at(37_000), Why::Errors, &settings);
    assert!(!course.wants_trial(at(40_999), false), "4 s");
    forgiven.leave(at(37_001), Why::Errors, &settings);
    assert!(forgiven.wants_trial(at(38_001), false), "1 s again");
}

#[test]
fn share_falls_by_its_cost_at_most_by_half() {
    let mut course = Course::new(at(0));
    assert!(!course.fall(at(0), Why::Errors, 100, 125));
    assert_eq!(course.share(), WHOLE / 5 * 4);
    let mut falls = 1;
    while !course.fall(at(0), Why::Errors, 1, 1_000) {
        falls += 1;
    }
    assert_eq!(falls, 6, "0.8 · 2^−6 is below 1/64");
    course.rise(at(0));
    assert!(course.share() > SHARE_MIN);
}

#[test]
fn revival_makes_a_trial_due_at_once() {
    let (mut course, _) = out();
    course.revive(at(10));
    assert!(course.wants_trial(at(10), false));
    course.revive(at(900));
    assert_eq!(course.since_trial_was_due(at(900)), 890_000_000);
}

#[test]
fn share_doubles_after_a_second_without_failure() {
    let (mut course, _) = out();
    course.come_back(at(1_000));
    course.climb(at(1_999));
    assert_eq!(course.share(), WHOLE / 8);
    course.climb(at(2_000));
    assert_eq!(course.share(), WHOLE / 4);
    course.answered(at(2_500), true, false);
    course.climb(at(3_499));
    assert_eq!(course.share(), WHOLE / 4);
    course.climb(at(3_500));
    assert_eq!(course.share(), WHOLE / 2);
}

#[test]
fn first_response_restores_only_an_unresponsive_replica() {
    let (mut course, settings) = out();
    assert!(!course.wake(at(10)), "it fails");
    course = Course::new(at(0));
    course.leave(at(20), Why::Silence, &settings);
    assert!(course.wake(at(30)) && !course.is_out());
    assert_eq!(course.share(), WHOLE / 2);
    assert!(!course.wake(at(40)), "once");
    course.leave(at(50), Why::Silence, &settings);
    assert!(course.wake(at(60)));
    assert_eq!(course.share(), WHOLE / 4, "half of what it had");
    for _ in 0..9 {
        course.leave(at(70), Why::Silence, &settings);
        assert!(course.wake(at(80)));
    }
    assert_eq!(course.share(), WHOLE / 8, "and no less than by trials");
}

#[test]
fn share_has_its_bounds_in_each_state() {
    let (mut course, _) = out();
    for rise in 1..=3 {
        course.rise(at(0));
        assert_eq!(course.share(), rise * 20_000, "a fiftieth each time");
    }
    course.keep_limited(at(0), Why::Errors);
    assert_eq!((course.share(), course.is_spared()), (62_500, true));
    course.rise(at(0));
    for share in [41_250, 20_625] {
        assert!(!course.fall(at(0), Why::Errors, 1, 2));
        assert_eq!(course.share(), share);
    }
    for (reference_ns, is_out) in [(15_625, false), (15_624, true)] {
        let mut course = course;
        assert_eq!(
            course.fall(at(0), Why::Errors, reference_ns, 20_625),
            is_out
        );
    }
}

#[test]
fn share_doubles_once_a_minute_whatever_the_responses() {
    let (mut course, _) = out();
    course.come_back(at(1_000));
    course.answered(at(60_900), false, false);
    course.climb(at(60_999));
    assert_eq!(course.share(), WHOLE / 8);
    course.climb(at(61_000));
    assert_eq!(course.share(), WHOLE / 4);
}

#[test]
fn after_its_first_minute_a_share_doubles_only_on_evidence() {
    let mut limited = Course::new(at(0));
    limited.keep_limited(at(70_000), Why::Errors);
    let mut fallen = Course::new(at(0));
    fallen.fall(at(70_000), Why::Slowness, 1, 2);
    for (mut course, share) in [(limited, WHOLE / 16), (fallen, WHOLE / 2)] {
        course.climb(at(70_100));
        assert_eq!(course.share(), share, "no second without a bad answer");
        course.answered(at(71_000), false, false);
        course.climb(at(71_100));
        assert_eq!(course.share(), share);
    }
    let (mut course, _) = out();
    course.come_back(at(0));
    course.answered(at(60_000), false, false);
    for now in [60_000, 60_100] {
        course.climb(at(now));
        assert_eq!(course.share(), WHOLE / 4, "once a minute");
    }
}

#[test]
fn a_long_sound_time_is_forgiven_however_the_share_falls() {
    const DAY_MS: u64 = 86_400_000;
    let (mut course, settings) = out();
    course.come_back(at(1_000));
    for now in [2_000, 3_000, 4_000] {
        course.climb(at(now));
    }
    assert!(course.is_whole());
    while !course.fall(at(DAY_MS), Why::Slowness, 1, 2) {}
    let mut limited = course;
    limited.keep_limited(at(DAY_MS), Why::Slowness);
    for mut course in [course, limited] {
        course.leave(at(DAY_MS), Why::Slowness, &settings);
        assert!(course.wants_trial(at(DAY_MS + 1_000), false), "1 s again");
        course.come_back(at(DAY_MS + 1_000));
        course.leave(at(DAY_MS + 2_000), Why::Slowness, &settings);
        let is_due = |ms| course.wants_trial(at(DAY_MS + 2_000 + ms), false);
        assert!(!is_due(1_999) && is_due(2_000), "forgiven once");
    }
}

#[test]
fn a_share_that_rises_to_the_whole_ends_sparing() {
    let (mut course, settings) = out();
    course.keep_limited(at(0), Why::Errors);
    while !course.is_whole() {
        assert!(course.is_spared());
        course.rise(at(1_000));
    }
    assert!(!course.is_spared());
    course.rise(at(40_000));
    course.leave(at(40_000), Why::Errors, &settings);
    assert!(course.wants_trial(at(41_000), false), "sound for 39 s");
}
