//! The health record of one replica: how its queries ended, how long they took, and what its
//! reports contain.

mod compared;

use self::compared::Compared;
use super::WHOLE;
use super::course::Course;
use super::evidence::Sample;
use super::restart::Incarnations;
use super::warm_up::WarmUp;
use super::window::{Peaks, Tally, Window};
use crate::policy::Outcome;
use crate::policy::mark::Mark;
use crate::report::LoadReport;
use crate::time::{Instant, MaybeInstant};
use core::time::Duration;

/// The number of newest answers that decide.
pub(super) const ENOUGH: u32 = 200;
/// This many virtual queries with the fleet's success rate are added, so that two failures of two
/// do not count as 100 %.
const PSEUDO_QUERIES: u64 = 5;
/// The old mean weighs as much as this many answers.
const LATENCY_SMOOTHING: u64 = 8;
/// While the replica keeps failing, the others are compared with every n-th failure.
const LOOK_EVERY: u32 = 4;
/// How long a report's error rate is valid.
const REPORT_AGE_MAX_NS: u64 = 2_000_000_000;
/// Smallest share of a replica that pushes back.
const PUSH_SHARE_MIN: u32 = WHOLE / 16;

/// The health record of one replica.
#[derive(Clone, Debug)]
pub(super) struct Record {
    stay: u32,
    /// The driver offers it as a candidate.
    pub(super) is_offered: bool,
    /// The round trip to its zone, if that is another one.
    pub(super) far: Option<Duration>,
    pub(super) course: Course,
    window: Window,
    /// The part of the window that decides, as of the last estimate.
    tally: Tally,
    /// The newest outcomes, a bit for each, the newest lowest: 1 is good.
    history: u64,
    failures_in_a_row: u32,
    /// Failures in a row that are not chance, as of the last tick.
    pub(super) failures_max: u32,
    /// Queries without a head, and when the last head arrived or the first such query was sent.
    waiting: u32,
    progress_at: Instant,
    /// When a second query began to wait.
    pair_at: Instant,
    /// Queries of this stay in flight.
    in_flight: u32,
    /// Good answers since the last tick.
    tick_answers: u64,
    tick_latency_ns: u64,
    tick_pushed: u32,
    tick_ended: u32,
    latency_ns: Option<u64>,
    /// The longest latencies of good answers.
    peaks: Peaks,
    /// Queries sent before this time still show a silence that is over.
    woken_at: Instant,
    /// The others are so slow that a timeout is a sign of load.
    pub(super) is_fleet_hurried: bool,
    /// The newest good answers, a bit for each, the newest lowest: 1 is slow.
    slow: u16,
    /// Bounds as of the last tick. Above `near_ns` an answer is slow; up to `warm_ns` it is as fast
    /// as the others'.
    pub(super) near_ns: u64,
    pub(super) warm_ns: u64,
    warm_up: Option<WarmUp>,
    push_share: u32,
    reported_failures: u32,
    reported_latency_ns: Option<u64>,
    reported_at: MaybeInstant,
    incarnations: Incarnations,
    /// The latest estimate of its success rate, in millionths.
    pub(super) success: u32,
    /// There is data for `success`.
    is_known: bool,
    /// Queries behind `success`, and how many of them failed.
    shown: Sample,
    pub(super) compared: Compared,
    /// Its success rate when it was taken out, updated by trials since.
    remembered: Option<u32>,
    /// Cost of its failures and of the others, in nanoseconds, as of the last tick.
    pub(super) price_ns: u64,
    pub(super) others_ns: Option<u64>,
}

/// The record of no replica, for an empty slot of a table.
impl Default for Record {
    fn default() -> Self {
        Self::new(Instant::EPOCH, 0)
    }
}

impl Record {
    pub(super) fn new(now: Instant, stay: u32) -> Self {
        Self {
            stay,
            is_offered: true,
            far: None,
            course: Course::new(now),
            window: Window::default(),
            tally: Tally::default(),
            history: u64::MAX,
            failures_in_a_row: 0,
            failures_max: u32::MAX,
            waiting: 0,
            progress_at: now,
            pair_at: now,
            in_flight: 0,
            tick_answers: 0,
            tick_latency_ns: 0,
            tick_pushed: 0,
            tick_ended: 0,
            latency_ns: None,
            peaks: Peaks::default(),
            woken_at: Instant::EPOCH,
            is_fleet_hurried: false,
            slow: 0,
            near_ns: u64::MAX,
            warm_ns: u64::MAX,
            warm_up: None,
            push_share: WHOLE,
            reported_failures: 0,
            reported_latency_ns: None,
            reported_at: MaybeInstant::NONE,
            incarnations: Incarnations::NONE,
            success: WHOLE,
            is_known: false,
            shown: Sample::default(),
            compared: Compared::default(),
            remembered: None,
            price_ns: 0,
            others_ns: None,
        }
    }

    /// Whether a ticket belongs to a query that was sent since the replica last joined.
    pub(super) const fn has_sent(&self, mark: Mark) -> bool {
        self.stay == mark.stay()
    }

    pub(super) fn sent(&mut self, now: Instant, is_trial: bool) -> Mark {
        if self.waiting == 0 {
            self.progress_at = now;
        }
        if self.waiting == 1 {
            self.pair_at = now;
        }
        self.waiting = self.waiting.saturating_add(1);
        self.in_flight = self.in_flight.saturating_add(1);
        let trial = is_trial.then(|| self.course.trial_sent());
        Mark::new(self.stay, trial)
    }

    /// Notes the first head of a query's response.
    pub(super) fn answered(&mut self, now: Instant, latency_ns: u64, outcome: Outcome) {
        self.waiting = self.waiting.saturating_sub(1);
        self.progress_at = now;
        if self.course.is_out() {
            self.course.revive(now);
        }
        if now.as_nanos() < self.woken_at.as_nanos().saturating_add(latency_ns) {
            return;
        }
        if outcome == Outcome::Success {
            self.note_latency(latency_ns);
            self.slow = self.slow << 1 | u16::from(latency_ns > self.near_ns);
            self.peaks.note(latency_ns);
        }
        if !self.course.is_out() && !self.course.is_whole() {
            let is_good = outcome == Outcome::Success;
            let is_near = latency_ns <= self.warm_ns;
            self.course.answered(now, is_good, is_near);
        }
        if let Some(warm_up) = &mut self.warm_up {
            warm_up.answered(outcome == Outcome::Success && latency_ns <= self.warm_ns);
        }
    }

    const fn note_latency(&mut self, latency_ns: u64) {
        self.tick_answers += 1;
        self.tick_latency_ns = self.tick_latency_ns.saturating_add(latency_ns);
    }

    /// Brings the replica back if it was out for silence, and returns `true` then. Answers to
    /// queries sent before still show the silence, so they do not count.
    pub(super) fn wake(&mut self, now: Instant) -> bool {
        let wakes = self.course.wake(now);
        if wakes {
            self.forget();
            self.woken_at = now;
        }
        wakes
    }

    /// Notes that a query without a head will not get one.
    pub(super) const fn given_up(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Notes that a query broke off or timed out before it had a head.
    pub(super) fn unanswered(&mut self, now: Instant, took_ns: u64, outcome: Outcome) {
        self.given_up();
        if outcome == Outcome::TimedOut {
            // It would have taken longer.
            self.note_latency(took_ns);
            self.slow = self.slow << 1 | u16::from(took_ns > self.near_ns);
        } else if outcome == Outcome::Broken && !self.course.is_out() && !self.course.is_whole() {
            self.course.answered(now, false, false);
        }
    }

    /// Notes the end of a query.
    pub(super) const fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Takes back a response that started well in the bucket `began` and ended badly. `run` is the
    /// number of failures in a row before it.
    pub(super) fn broke(&mut self, bucket: u64, began: u64, run: u32, took_ns: u64, how: Outcome) {
        if !self.tells(how) {
            return;
        }
        self.window.take_back(began);
        if bucket.saturating_sub(began) <= 1 {
            self.history = self.history >> 1 | 1 << 63;
            self.failures_in_a_row = self.failures_in_a_row.saturating_add(run);
        }
        self.booked(bucket, took_ns, how);
    }

    /// Whether an outcome is evidence about the replica. A timeout in a hurried fleet and a query
    /// that was given up are not.
    fn tells(&self, outcome: Outcome) -> bool {
        outcome != Outcome::Dropped && !(outcome == Outcome::TimedOut && self.is_fleet_hurried)
    }

    /// Books the result of a query: at its head, or at its end if it had none. Returns the number
    /// of failures in a row before it.
    pub(super) fn booked(&mut self, bucket: u64, took_ns: u64, outcome: Outcome) -> u32 {
        let run = self.failures_in_a_row;
        if !self.tells(outcome) {
            return run;
        }
        self.tick_ended = self.tick_ended.saturating_add(1);
        if outcome == Outcome::Success {
            self.window.at(bucket).good += 1;
            self.history = self.history << 1 | 1;
            self.failures_in_a_row = 0;
        } else if outcome.is_failure() {
            let tally = self.window.at(bucket);
            tally.bad += 1;
            tally.bad_ns = tally.bad_ns.saturating_add(took_ns);
            self.history <<= 1;
            self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        } else if outcome == Outcome::PushedBack {
            self.tick_pushed = self.tick_pushed.saturating_add(1);
        }
        run
    }

    /// The number of failures in a row, if by the last tick's bounds it is not chance. Returns it
    /// only for every [`LOOK_EVERY`]-th failure, because the caller then compares all the others.
    pub(super) const fn run(&self) -> Option<u32> {
        let run = self.failures_in_a_row;
        if run >= self.failures_max && (run - self.failures_max).is_multiple_of(LOOK_EVERY) {
            Some(run)
        } else {
            None
        }
    }

    /// How many of its last eight queries succeeded.
    pub(super) const fn last_eight(&self) -> u32 {
        (self.history & 0xFF).count_ones()
    }

    /// Its success rate before the current run of failures, so that the run does not explain
    /// itself.
    pub(super) fn success_before_run(&self, tally: &Tally) -> u32 {
        let before = Tally {
            bad: tally.bad.saturating_sub(self.failures_in_a_row),
            ..*tally
        };
        success(&before, WHOLE)
    }

    /// Takes in its answer to a probe, which replaces what it has reported before. Returns what
    /// [`Self::report_carried`] does.
    pub(super) fn reported(&mut self, now: Instant, report: &LoadReport) -> bool {
        self.reported_at = now.into();
        self.reported_failures = 0;
        self.reported_latency_ns = None;
        self.report_carried(now, report)
    }

    /// Takes in a report with a response. What is absent there stays as the latest probe reported
    /// it. Returns `true` if the replica has restarted: its latency is forgotten. Its failures are
    /// not, since a failing replica could clear itself that way.
    pub(super) fn report_carried(&mut self, now: Instant, report: &LoadReport) -> bool {
        if let Some(failures) = report.error_millionths {
            self.reported_at = now.into();
            self.reported_failures = failures.min(WHOLE);
        }
        if let Some(latency) = report.known_latency() {
            self.reported_latency_ns = Some(crate::time::span_ns(latency));
        }
        let incarnation = report.incarnation;
        let has_restarted = incarnation.is_some_and(|named| self.incarnations.named(now, named));
        if has_restarted {
            self.forget_latency();
            self.course.revive(now);
        }
        has_restarted
    }

    fn forget_latency(&mut self) {
        self.latency_ns = None;
        self.slow = 0;
        (self.tick_answers, self.tick_latency_ns) = (0, 0);
    }

    /// Forgets how its queries went.
    pub(super) fn forget(&mut self) {
        self.window = Window::default();
        self.history = u64::MAX;
        self.failures_in_a_row = 0;
        self.forget_latency();
        self.remembered = None;
        self.reported_failures = 0;
    }

    pub(super) fn warm_up(&mut self, share: u32, ends_at: Instant) {
        self.warm_up = Some(WarmUp::new(share, ends_at));
    }

    pub(super) const fn is_warming_up(&self) -> bool {
        self.warm_up.is_some()
    }

    pub(super) const fn is_pushing_back(&self) -> bool {
        self.push_share < WHOLE
    }

    /// The part of the queries that it may get. `spares_new`: warm-up lowers the share;
    /// `spares_full`: pushback does.
    pub(super) fn share(&self, spares_new: bool, spares_full: bool) -> u32 {
        let warm_up = self.warm_up.filter(|_| spares_new);
        let warm_up = warm_up.map_or(WHOLE, |warm_up| warm_up.share());
        let push_share = if spares_full { self.push_share } else { WHOLE };
        self.course.share().min(warm_up).min(push_share)
    }

    /// Takes in what happened since the last tick.
    pub(super) fn tick(&mut self, now: Instant) {
        if let Some(mean_ns) = self.tick_latency_ns.checked_div(self.tick_answers) {
            let known_ns = self.latency_ns.unwrap_or(mean_ns);
            let weights = self.tick_answers + LATENCY_SMOOTHING;
            let sum = u128::from(known_ns) * u128::from(LATENCY_SMOOTHING)
                + u128::from(mean_ns) * u128::from(self.tick_answers);
            self.latency_ns = u64::try_from(sum / u128::from(weights)).ok();
        }
        let pushes_back = self.tick_pushed > 0 && self.tick_pushed >= self.tick_ended / 10;
        self.push_share = if pushes_back {
            (self.push_share / 10 * 7).max(PUSH_SHARE_MIN)
        } else {
            (self.push_share + WHOLE / 20).min(WHOLE)
        };
        (self.tick_answers, self.tick_latency_ns) = (0, 0);
        self.peaks.tick(now);
        (self.tick_pushed, self.tick_ended) = (0, 0);
        self.warm_up.take_if(|warm_up| warm_up.tick(now));
    }

    /// How its recent queries went, as of the last estimate.
    pub(super) const fn tally(&self) -> Tally {
        self.tally
    }

    /// Estimates its success rate: its own queries, or its report if that is worse. `[E1]`
    pub(super) fn estimate(&mut self, now: Instant, bucket: u64, fleet: u32) {
        self.tally = self.window.recent(bucket, ENOUGH);
        let tally = self.tally;
        if self.course.is_out() {
            self.success = self.remembered.unwrap_or(self.success);
            self.is_known = true;
            return;
        }
        let own = success(&tally, self.remembered.unwrap_or(fleet));
        let is_fresh = |at| now.ns_since(at) < REPORT_AGE_MAX_NS;
        let is_reported =
            self.reported_failures > 0 && self.reported_at.get().is_some_and(is_fresh);
        let reported = WHOLE
            - if is_reported {
                self.reported_failures
            } else {
                0
            };
        self.success = own.min(reported);
        self.is_known = tally.count() > 0 || is_reported;
        // A report does not name the number of queries behind it. It counts as if it covered those
        // that were sent from here.
        let queries = u64::from(tally.count());
        let reported = queries * u64::from(WHOLE - reported) / u64::from(WHOLE);
        self.shown = Sample {
            queries,
            failures: reported.max(tally.bad.into()),
        };
    }

    /// How many of its queries have a known result, and how many of these failed.
    pub(super) const fn shown(&self) -> Sample {
        self.shown
    }

    /// Whether it was out for failures and no trial has cleared it, so that failures need no new
    /// proof.
    pub(super) const fn is_convicted(&self) -> bool {
        self.remembered.is_some()
    }

    pub(super) fn is_in_choice(&self) -> bool {
        self.is_offered && !self.course.is_out()
    }

    /// Remembers its success rate for as long as it is out. After a sudden stop the rate before it
    /// does not count: the replica is assumed to fail all queries, unless it had failed often in
    /// the 64 queries before, too.
    pub(super) fn remember(&mut self, is_sudden: bool) {
        let failed = self.history.count_zeros();
        let run = self.failures_in_a_row.min(64);
        let remembered = if !is_sudden {
            // Its last queries show what it does now, before the window does.
            let newest = (self.history & 0xFFFF).count_ones();
            self.success.min(newest * (WHOLE / 16))
        } else if failed.saturating_sub(run) >= (64 - run) / 8 {
            (64 - failed) * (WHOLE / 64)
        } else {
            0
        };
        self.remembered = Some(remembered);
    }

    /// Updates the remembered rate with the end of a trial.
    pub(super) fn remember_trial(&mut self, is_good: bool) {
        if let Some(remembered) = self.remembered {
            let target = if is_good { WHOLE } else { 0 };
            let part = if is_good { 8 } else { 4 };
            self.remembered = Some(remembered - remembered / part + target / part);
        }
    }

    pub(super) const fn forget_remembered(&mut self) {
        self.remembered = None;
    }

    pub(super) const fn latency_ns(&self) -> Option<u64> {
        self.latency_ns
    }

    pub(super) fn latency(&self) -> Option<Duration> {
        self.latency_ns.map(Duration::from_nanos)
    }

    /// Whether half of its last sixteen answers were slow. A mean could be made by a single answer.
    pub(super) const fn is_slow(&self) -> bool {
        self.slow.count_ones() >= u16::BITS / 2
    }

    /// How long at least two queries have waited without any answer. A single query may just be
    /// slow.
    pub(super) fn without_progress_ns(&self, now: Instant) -> u64 {
        if self.waiting >= 2 {
            now.ns_since(self.progress_at.max(self.pair_at))
        } else {
            0
        }
    }

    /// Whether no query to it is in flight.
    pub(super) const fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Whether its probes speak against a trial: it answered some before and none for `span_ns`, or
    /// reports that it is slow.
    pub(super) fn reports_against(&self, now: Instant, span_ns: u64) -> bool {
        self.reported_at.get().is_some_and(|at| {
            now.ns_since(at) > span_ns
                || self.reported_latency_ns.is_some_and(|ns| ns > self.near_ns)
        })
    }
}

/// The success rate in millionths. [`PSEUDO_QUERIES`] more count with a rate of `prior`.
fn success(tally: &Tally, prior: u32) -> u32 {
    let good = u64::from(tally.good) * u64::from(WHOLE) + PSEUDO_QUERIES * u64::from(prior);
    let queries = u64::from(tally.count()) + PSEUDO_QUERIES;
    u32::try_from(good / queries).unwrap_or(WHOLE)
}

#[cfg(test)]
mod tests;
