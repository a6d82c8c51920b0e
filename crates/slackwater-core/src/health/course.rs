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
    /// When the share was last set.
    stepped_at: Instant,
    passed: u8,
    is_tried: bool,
    /// The number of the last trial. `stands`: when its good head arrived, and how long that took.
    trial: u32,
    stands: Option<(Instant, u64)>,
    /// The last trial had no result. The next one needs a token even if earlier ones passed.
    is_void: bool,
    next_trial_at: Instant,
    back_off_ns: u64,
    /// Since when it has its whole share.
    whole_at: Instant,
    /// For how long it had its whole share before it lost it. 0 once it is ejected.
    whole_ns: u64,
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
            stepped_at: now,
            passed: 0,
            is_tried: false,
            trial: 0,
            stands: None,
            is_void: false,
            next_trial_at: now,
            back_off_ns: 0,
            whole_at: now,
            whole_ns: 0,
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
        let woken_share = (self.share / 2).clamp(RETURN_SHARE, WHOLE / 2);
        self.step(now, 0);
        if self.back_off_ns == 0 || self.whole_ns > longest_ns.saturating_mul(FORGIVEN_AFTER) {
            self.back_off_ns = shortest_ns;
        } else {
            self.back_off_ns = self.back_off_ns.saturating_mul(2).min(longest_ns);
        }
        *self = Self {
            woken_share,
            why,
            place: Place::Out,
            passed: 0,
            is_tried: false,
            is_void: false,
            next_trial_at: now.plus_ns(self.back_off_ns),
            whole_ns: 0,
            ..*self
        };
    }

    /// Keeps a replica in with a small share: it should be out, but too many are.
    pub(super) fn keep_limited(&mut self, now: Instant, why: Why) {
        self.why = why;
        self.place = Place::Spared;
        self.step(now, SPARED_SHARE);
    }

    /// Puts the replica back into the choice with a small share: its trials passed, or the other
    /// replicas are no better.
    pub(super) fn come_back(&mut self, now: Instant) {
        self.place = Place::Returning;
        self.step(now, RETURN_SHARE);
    }

    /// Sets the share, at most to the whole. What allows it to double has to be shown from now on.
    fn step(&mut self, now: Instant, share: u32) {
        let share = share.min(WHOLE);
        match (self.is_whole(), share == WHOLE) {
            (true, false) => self.whole_ns = now.ns_since(self.whole_at),
            (false, true) => (self.place, self.whole_at) = (Place::In, now),
            _ => {}
        }
        self.share = share;
        self.good = 0;
        self.unbroken_since = now;
        self.stepped_at = now;
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
    pub(super) fn rise(&mut self, now: Instant) {
        if self.is_out() {
            self.place = Place::In;
        }
        self.step(now, self.share.saturating_add(RISE));
    }

    /// Lowers the share: the replica costs `cost`, the others cost `reference`, which is less.
    /// Returns `true` if no share is left.
    pub(super) fn fall(&mut self, now: Instant, why: Why, reference_ns: u64, cost_ns: u64) -> bool {
        self.why = why;
        let fallen = u128::from(self.share) * u128::from(reference_ns) / u128::from(cost_ns.max(1));
        let fallen = u32::try_from(fallen).unwrap_or(WHOLE);
        self.step(now, fallen.max(self.share / 2));
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
            || now.ns_since(self.stepped_at) >= RETURN_NS_MAX;
        if !self.is_whole() && is_shown {
            self.step(now, self.share.saturating_mul(2));
            if self.is_spared() {
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
mod tests;
