//! How a replica is taken out of the choice and comes back: its share, the reason, and its trials.

use super::WHOLE;
use super::settings::HealthSettings;
use crate::time::{Instant, span_ns};

/// Good answers that a share needs to double.
const STEP_ANSWERS: u32 = 8;
/// The share of a replica that has just come back.
const RETURN_SHARE: u32 = WHOLE / 8;
/// The share of a replica that should be out but stays in because too many are out already.
const SPARED_SHARE: u32 = WHOLE / 16;
/// Below this share a replica is out.
const SHARE_MIN: u32 = WHOLE / 64;
/// A share also doubles after this long without a bad answer, because answers are rare where there
/// are few queries.
const STEP_NS: u64 = 1_000_000_000;
/// A share that has not doubled for this long doubles anyway. This helps replicas that are slower
/// than the others by nature.
const RETURN_NS_MAX: u64 = 60_000_000_000;
/// Rise of a share in one tick while the replica is worth more than it costs.
const RISE: u32 = WHOLE / 50;
/// Trials that must pass in a row.
const TRIALS: u8 = 3;
/// A trial has passed when its response still runs this long after a good head.
const STANDS_NS: u64 = 1_000_000_000;
/// A replica that had its whole share for this many times the longest back-off starts again with
/// the shortest back-off.
const FORGIVEN_AFTER: u64 = 8;

/// Why a replica has less than its whole share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Errors,
    /// Its answers take long.
    Slowness,
    /// Queries wait, and the replica answers none of them.
    Silence,
}

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    Passed,
    Failed,
    /// No result: the client gave the query up.
    Void,
}

/// Whether a replica is in the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    In,
    Out,
    /// It was out, and trials have brought it back.
    Returning,
    /// It should be out, but stays in because too many are out already.
    Spared,
}

/// Position of a replica between its whole share and ejection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    share: u32,
    /// The share with which it comes back after a silence: half of what it had.
    woken_share: u32,
    why: Why,
    place: Place,
    /// Good answers less bad ones since the last step.
    good: u32,
    /// Since when there was no bad answer.
    unbroken_since: Instant,
    /// When it last came back.
    returned_at: Instant,
    passed: u8,
    is_tried: bool,
    /// The number of the last trial. `stands`: when its good head arrived, and how long that took.
    trial: u32,
    stands: Option<(Instant, u64)>,
    /// The last trial had no result. The next one needs a token even if earlier ones passed.
    is_void: bool,
    next_trial_at: Instant,
    back_off_ns: u64,
    /// When it last had its whole share.
    whole_at: Instant,
}

impl Course {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            share: WHOLE,
            woken_share: WHOLE / 2,
            why: Why::Errors,
            place: Place::In,
            good: 0,
            unbroken_since: now,
            returned_at: now,
            passed: 0,
            is_tried: false,
            trial: 0,
            stands: None,
            is_void: false,
            next_trial_at: now,
            back_off_ns: 0,
            whole_at: now,
        }
    }

    pub(super) const fn share(&self) -> u32 {
        self.share
    }

    pub(super) fn is_out(&self) -> bool {
        self.place == Place::Out
    }

    pub(super) fn is_returning(&self) -> bool {
        self.place == Place::Returning
    }

    pub(super) fn is_spared(&self) -> bool {
        self.place == Place::Spared
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.share == WHOLE
    }

    pub(super) const fn why(&self) -> Why {
        self.why
    }

    /// Takes the replica out of the choice.
    pub(super) fn leave(&mut self, now: Instant, why: Why, settings: &HealthSettings) {
        let shortest_ns = span_ns(settings.back_off);
        let longest_ns = longest_ns(settings);
        let sound_ns = if self.is_whole() {
            now.ns_since(self.whole_at)
        } else {
            0
        };
        if self.back_off_ns == 0 || sound_ns > longest_ns.saturating_mul(FORGIVEN_AFTER) {
            self.back_off_ns = shortest_ns;
        } else {
            self.back_off_ns = self.back_off_ns.saturating_mul(2).min(longest_ns);
        }
        *self = Self {
            woken_share: (self.share / 2).clamp(RETURN_SHARE, WHOLE / 2),
            share: 0,
            why,
            place: Place::Out,
            passed: 0,
            is_tried: false,
            is_void: false,
            next_trial_at: now.plus_ns(self.back_off_ns),
            ..*self
        };
    }

    /// Keeps a replica in with a small share: it should be out, but too many are.
    pub(super) const fn keep_limited(&mut self, why: Why) {
        self.why = why;
        self.place = Place::Spared;
        self.share = SPARED_SHARE;
        self.good = 0;
    }

    /// Puts the replica back into the choice with a small share: its trials passed, or the other
    /// replicas are no better.
    pub(super) const fn come_back(&mut self, now: Instant) {
        self.place = Place::Returning;
        self.share = RETURN_SHARE;
        self.good = 0;
        self.unbroken_since = now;
        self.returned_at = now;
    }

    /// Brings a replica that was out for silence back with half of its former share, because it
    /// answers again. Returns whether it was.
    pub(super) fn wake(&mut self, now: Instant) -> bool {
        let wakes = self.is_out() && self.why == Why::Silence;
        if wakes {
            self.come_back(now);
            self.share = self.woken_share;
        }
        wakes
    }

    /// Gives the replica a little more share although it is bad: the other replicas have no
    /// capacity left.
    pub(super) fn rise(&mut self) {
        if self.is_out() {
            self.place = Place::In;
            self.good = 0;
        }
        self.share = self.share.saturating_add(RISE).min(WHOLE);
    }

    /// Lowers the share: the replica costs `cost`, the others cost `reference`, which is less.
    /// Returns `true` if no share is left.
    pub(super) fn fall(&mut self, why: Why, reference_ns: u64, cost_ns: u64) -> bool {
        if self.is_whole() {
            self.place = Place::In;
        }
        self.why = why;
        self.good = 0;
        let fallen = u128::from(self.share) * u128::from(reference_ns) / u128::from(cost_ns.max(1));
        let fallen = u32::try_from(fallen).unwrap_or(WHOLE);
        self.share = fallen.max(self.share / 2);
        self.share < SHARE_MIN
    }

    /// Counts an answer that came while the replica has less than its whole share. A good but slow
    /// answer takes back only one good one: a replica that was down has cold caches.
    pub(super) const fn answered(&mut self, now: Instant, is_good: bool, is_near: bool) {
        if is_good && is_near {
            self.good = self.good.saturating_add(1);
        } else {
            self.good = self.good.saturating_sub(if is_good { 1 } else { 2 });
            self.unbroken_since = now;
        }
    }

    /// Nothing is wrong with the replica: doubles its share if enough answers were good, or if none
    /// was bad for long enough.
    pub(super) fn climb(&mut self, now: Instant) {
        let is_shown = self.good >= STEP_ANSWERS
            || now.ns_since(self.unbroken_since) >= STEP_NS
            || now.ns_since(self.returned_at) >= RETURN_NS_MAX;
        if !self.is_whole() && is_shown {
            self.good = 0;
            self.unbroken_since = now;
            self.share = self.share.saturating_mul(2).min(WHOLE);
            self.whole_at = now;
            if self.is_whole() || self.is_spared() {
                self.place = Place::In;
            }
        }
    }

    /// Whether a trial may be sent. `in_a_hurry`: the other replicas have no capacity left, so the
    /// back-off is ignored.
    pub(super) fn wants_trial(&self, now: Instant, in_a_hurry: bool) -> bool {
        self.is_out() && !self.is_tried && (in_a_hurry || now >= self.next_trial_at)
    }

    pub(super) const fn since_trial_was_due(&self, now: Instant) -> u64 {
        now.ns_since(self.next_trial_at)
    }

    /// Whether a trial has passed and more must follow.
    pub(super) const fn is_passing(&self) -> bool {
        self.passed > 0 && !self.is_void
    }

    /// Notes that a trial is sent, and returns its number.
    pub(super) const fn trial_sent(&mut self) -> u32 {
        self.is_tried = true;
        self.stands = None;
        self.trial = self.trial.wrapping_add(1);
        self.trial
    }

    /// Whether this trial is in flight and not judged yet.
    pub(super) const fn awaits(&self, trial: u32) -> bool {
        self.is_tried && self.trial == trial
    }

    /// Notes that this trial has a good head.
    pub(super) const fn trial_began(&mut self, now: Instant, trial: u32, latency_ns: u64) {
        if self.awaits(trial) {
            self.stands = Some((now, latency_ns));
        }
    }

    /// The latency of the head of a trial whose response runs on for long enough to have passed.
    /// The rest of the response may take hours, in which the replica may come back for another
    /// reason: then nothing is left to pass.
    pub(super) fn standing(&self, now: Instant) -> Option<u64> {
        let is_tried = self.is_out() && self.is_tried;
        let (since, latency_ns) = self.stands.filter(|_| is_tried)?;
        (now.ns_since(since) >= STANDS_NS).then_some(latency_ns)
    }

    /// Allows the next trial at once, after a sign of life.
    pub(super) fn revive(&mut self, now: Instant) {
        self.next_trial_at = self.next_trial_at.min(now);
    }

    /// Ends a trial. Returns `true` if it was the last one needed.
    pub(super) fn trial_ended(
        &mut self,
        now: Instant,
        trial: Trial,
        settings: &HealthSettings,
    ) -> bool {
        if !self.is_out() || !self.is_tried {
            return false;
        }
        self.is_tried = false;
        self.is_void = trial == Trial::Void;
        match trial {
            Trial::Passed => {
                self.passed = self.passed.saturating_add(1);
                self.next_trial_at = now;
                return self.passed >= TRIALS;
            }
            Trial::Failed => self.trial_failed(now, settings),
            Trial::Void => self.put_off(now),
        }
        false
    }

    /// Notes that a trial failed, or broke off after it had passed.
    pub(super) fn trial_failed(&mut self, now: Instant, settings: &HealthSettings) {
        self.passed = 0;
        let longest_ns = longest_ns(settings);
        self.back_off_ns = self.back_off_ns.saturating_mul(2).min(longest_ns);
        self.put_off(now);
    }

    /// Delays the next trial by another back-off.
    pub(super) fn put_off(&mut self, now: Instant) {
        self.next_trial_at = now.plus_ns(self.back_off_ns);
    }
}

fn longest_ns(settings: &HealthSettings) -> u64 {
    span_ns(settings.back_off_max.max(settings.back_off))
}

#[cfg(test)]
mod tests {
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
        assert!(!course.fall(Why::Errors, 100, 125));
        assert_eq!(course.share(), WHOLE / 5 * 4);
        let mut falls = 1;
        while !course.fall(Why::Errors, 1, 1_000) {
            falls += 1;
        }
        assert_eq!(falls, 6, "0.8 · 2^−6 is below 1/64");
        course.rise();
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
            course.rise();
            assert_eq!(course.share(), rise * 20_000, "a fiftieth each time");
        }
        course.keep_limited(Why::Errors);
        assert_eq!((course.share(), course.is_spared()), (62_500, true));
        course.rise();
        for share in [41_250, 20_625] {
            assert!(!course.fall(Why::Errors, 1, 2));
            assert_eq!(course.share(), share);
        }
        for (reference_ns, is_out) in [(15_625, false), (15_624, true)] {
            let mut course = course;
            assert_eq!(course.fall(Why::Errors, reference_ns, 20_625), is_out);
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
}
