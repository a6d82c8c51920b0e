//! The record of a run: the result of each arrival, counted exactly once.
//!
//! The latency that each result contributes:
//! - an answer: from the intended start to the last byte of the body, whatever its status;
//! - a timeout, and an arrival that was never sent because the queue was full: the whole timeout;
//! - any other failure: from the intended start to the moment the failure was noticed, at most the
//!   timeout.
//!
//! So each arrival that was due in a stall shows it, and a target cannot look fast by failing. For
//! a target that fails *quickly*, the latencies of good answers are kept separately as well.

use super::latency::{Digits, Latencies};
use super::outcome::{Answer, ErrorKind, Failure};
use super::plan::Plan;
use super::window::{Window, WindowFigures};
use core::time::Duration;

const KINDS: usize = ErrorKind::ALL.len();

/// Counts and latencies of one run. Times are offsets from the start of the run.
#[derive(Debug)]
pub(super) struct Record {
    warmup: Duration,
    timeout: Duration,
    /// Whole run, warm-up included.
    pub(super) whole: Progress,
    pub(super) window: Window,
    /// Latencies and errors since the last restart of these figures; warm-up excluded.
    since: Latencies,
    since_errors: u64,
    /// This field and those below count only arrivals that were due after the warm-up.
    pub(super) issued: u64,
    pub(super) all: Latencies,
    pub(super) good: Latencies,
    pub(super) sent_late: Latencies,
    /// Arrivals that found all connections in use and waited.
    pub(super) waited: u64,
    pub(super) errors: [u64; KINDS],
    /// The message of the first failure of each kind.
    pub(super) first_failures: [Option<String>; KINDS],
    /// Answers by the first digit of their status, 1 to 5 at index 0 to 4.
    pub(super) statuses: [u64; 5],
    pub(super) body_bytes: u64,
    /// Good answers that arrived between the end of the warm-up and the end of the schedule. They
    /// include answers to arrivals of the warm-up.
    pub(super) good_in_time: u64,
    /// When the schedule ended or was stopped; `None` while it runs.
    pub(super) schedule_ended: Option<Duration>,
    /// Whether it was stopped before its end.
    pub(super) is_interrupted: bool,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// Arrivals that are due, whatever their result.
    pub(super) issued: u64,
    /// Arrivals taken from the queue.
    pub(super) started: u64,
    /// Arrivals answered or failed after they were taken from the queue.
    pub(super) ended: u64,
    /// Arrivals that found the queue full.
    pub(super) overloads: u64,
    pub(super) errors: u64,
}

impl Record {
    pub(super) fn new(plan: &Plan, window_seconds: usize) -> Self {
        Self {
            warmup: plan.warmup,
            timeout: plan.timeout,
            whole: Progress::default(),
            window: Window::new(window_seconds),
            since: Latencies::new(Digits::Three),
            since_errors: 0,
            issued: 0,
            all: Latencies::new(Digits::Three),
            good: Latencies::new(Digits::Three),
            sent_late: Latencies::new(Digits::Three),
            waited: 0,
            errors: [0; KINDS],
            first_failures: [const { None }; KINDS],
            statuses: [0; 5],
            body_bytes: 0,
            good_in_time: 0,
            schedule_ended: None,
            is_interrupted: false,
        }
    }

    /// Notes that an arrival is due.
    pub(super) fn issue(&mut self, intended: Duration) {
        self.whole.issued += 1;
        self.issued += u64::from(self.is_measured(intended));
    }

    /// Notes that an arrival left the queue at `now` and is about to be sent.
    pub(super) fn start(&mut self, intended: Duration, now: Duration, has_waited: bool) {
        self.whole.started += 1;
        if self.is_measured(intended) {
            self.sent_late.record(now.saturating_sub(intended));
            self.waited += u64::from(has_waited);
        }
    }

    /// Notes the answer to an arrival; its last byte arrived at `now`.
    pub(super) fn answer(&mut self, intended: Duration, now: Duration, answer: &Answer) {
        self.whole.ended += 1;
        let latency = now.saturating_sub(intended);
        let class = usize::from(answer.status.as_u16() / 100).clamp(1, 5);
        if self.is_measured(intended) {
            self.statuses[class - 1] += 1;
            self.body_bytes += answer.body_bytes;
        }
        if answer.status.is_server_error() {
            let message = answer.status.to_string();
            self.error(intended, now, latency, ErrorKind::Status5xx, message);
            return;
        }
        self.window.record(now, latency, false);
        if self.is_measured(intended) {
            self.all.record(latency);
            self.good.record(latency);
            self.since.record(latency);
        }
        let is_in_time = self.is_measured(now) && self.schedule_ended.is_none();
        self.good_in_time += u64::from(is_in_time);
    }

    /// Notes that an arrival ended at `now` without a complete answer.
    pub(super) fn fail(&mut self, intended: Duration, now: Duration, failure: Failure) {
        let latency = match failure.kind {
            ErrorKind::Timeout | ErrorKind::Overload => self.timeout,
            _ => now.saturating_sub(intended).min(self.timeout),
        };
        if failure.kind == ErrorKind::Overload {
            self.whole.overloads += 1;
        } else {
            self.whole.ended += 1;
        }
        self.error(intended, now, latency, failure.kind, failure.message);
    }

    fn error(
        &mut self,
        intended: Duration,
        now: Duration,
        latency: Duration,
        kind: ErrorKind,
        message: String,
    ) {
        self.whole.errors += 1;
        self.window.record(now, latency, true);
        if self.is_measured(intended) {
            self.all.record(latency);
            self.since.record(latency);
            self.since_errors += 1;
            self.errors[kind as usize] += 1;
            self.first_failures[kind as usize].get_or_insert(message);
        }
    }

    /// The requests that ended since the last restart of the figures.
    pub(super) fn since(&self) -> WindowFigures {
        WindowFigures {
            requests: self.since.count(),
            errors: self.since_errors,
            latency: self.since.figures(),
        }
    }

    pub(super) fn begin_anew(&mut self) {
        self.since.clear();
        self.since_errors = 0;
    }

    fn is_measured(&self, at: Duration) -> bool {
        at >= self.warmup
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{StatusCode, Uri};
    use std::time::Instant;

    const MS: Duration = Duration::from_millis(1);

    fn record(warmup: Duration) -> Record {
        let target = Uri::from_static("http://127.0.0.1/");
        let mut plan = Plan::new(target, 1.0, Duration::from_secs(10));
        plan.warmup = warmup;
        plan.timeout = 100 * MS;
        Record::new(&plan, 5)
    }

    fn answer(status: StatusCode) -> Answer {
        Answer {
            status,
            body_bytes: 3,
            ended: Instant::now(),
        }
    }

    fn failure(kind: ErrorKind) -> Failure {
        Failure {
            kind,
            message: format!("some {}", kind.name()),
        }
    }

    #[test]
    fn index_of_an_error_kind_is_its_position_in_the_table() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }

    #[test]
    fn timeouts_and_unsent_arrivals_count_with_the_full_timeout() {
        for kind in [ErrorKind::Timeout, ErrorKind::Overload] {
            let mut record = record(Duration::ZERO);
            record.fail(5 * MS, 6 * MS, failure(kind));
            assert_eq!(record.all.max, 100 * MS);
            assert_eq!((record.all.count(), record.good.count()), (1, 0));
            assert_eq!(record.errors[kind as usize], 1);
        }
    }

    #[test]
    fn other_failures_count_with_the_time_until_detected() {
        let mut record = record(Duration::ZERO);
        record.fail(5 * MS, 12 * MS, failure(ErrorKind::Closed));
        assert_eq!(record.all.max, 7 * MS);
        record.fail(5 * MS, 500 * MS, failure(ErrorKind::Connect));
        assert_eq!(record.all.max, 100 * MS);
        record.fail(
            5 * MS,
            6 * MS,
            Failure::connect(&std::io::Error::other("another")),
        );
        assert_eq!(record.errors[ErrorKind::Connect as usize], 2);
        let first = &record.first_failures[ErrorKind::Connect as usize];
        assert_eq!(first.as_deref(), Some("some connect"));
    }

    #[test]
    fn a_5xx_is_an_error_with_its_own_latency_and_a_4xx_is_an_answer() {
        let mut record = record(Duration::ZERO);
        record.answer(MS, 9 * MS, &answer(StatusCode::SERVICE_UNAVAILABLE));
        record.answer(MS, 3 * MS, &answer(StatusCode::NOT_FOUND));
        assert_eq!(record.statuses, [0, 0, 0, 1, 1]);
        assert_eq!(record.errors[ErrorKind::Status5xx as usize], 1);
        assert_eq!((record.all.count(), record.all.max), (2, 8 * MS));
        assert_eq!((record.good.count(), record.good.max), (1, 2 * MS));
        assert_eq!((record.body_bytes, record.good_in_time), (6, 1));
    }

    #[test]
    fn warm_up_counts_only_in_window_and_progress() {
        let mut record = record(Duration::from_secs(1));
        let before = 999 * MS;
        record.issue(before);
        record.start(before, before, true);
        record.answer(before, before + MS, &answer(StatusCode::OK));
        record.issue(before);
        record.fail(before, before, failure(ErrorKind::Overload));
        assert_eq!(
            (record.issued, record.all.count(), record.waited),
            (0, 0, 0)
        );
        assert_eq!(record.errors, [0; KINDS]);
        assert_eq!(record.window.figures(before).requests, 2);
        let whole = record.whole;
        assert_eq!(
            (whole.issued, whole.started, whole.ended, whole.overloads),
            (2, 1, 1, 1)
        );
        // The answer arrived after the end of the warm-up, so it counts for the measured
        // throughput.
        assert_eq!(record.good_in_time, 1);
        record.issue(before + MS);
        assert_eq!(record.issued, 1);
    }

    #[test]
    fn interval_figures_restart_and_totals_are_kept() {
        let mut record = record(Duration::ZERO);
        record.fail(5 * MS, 12 * MS, failure(ErrorKind::Closed));
        record.begin_anew();
        assert_eq!((record.since().requests, record.since().errors), (0, 0));
        record.answer(MS, 3 * MS, &answer(StatusCode::OK));
        record.answer(MS, 6 * MS, &answer(StatusCode::BAD_GATEWAY));
        let since = record.since();
        assert_eq!((since.requests, since.errors), (2, 1));
        assert!((since.latency.max_ms - 5.0).abs() < 1e-9);
        assert_eq!((record.all.count(), record.whole.errors), (3, 2));
    }

    #[test]
    fn answers_after_the_schedule_do_not_count_as_throughput() {
        let mut record = record(Duration::ZERO);
        record.schedule_ended = Some(Duration::from_secs(10));
        record.answer(MS, Duration::from_secs(11), &answer(StatusCode::OK));
        assert_eq!((record.good_in_time, record.good.count()), (0, 1));
    }
}
