//! Jobs in service, all at the same rate: processor sharing in virtual time.
//!
//! One clock counts the service that each job here has attained. A job's end is a point on that
//! clock, fixed when it comes in; what changes is how fast the clock runs. So an arrival or an end
//! takes O(log jobs), a change of the rate O(1), and no job is ever updated. Queries that a worker
//! or nobody shares are the special case of a clock that runs at full speed.

use super::{JobId, NEVER, Time};
use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Jobs in service.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    ends: BinaryHeap<Reverse<End>>,
    /// Service attained by a job that has been here since the clock began, in nanoseconds.
    attained: f64,
    /// Service that each job attains within a nanosecond.
    rate: f64,
    /// Those that have come into service lately, where somebody asks for them.
    started: Option<Vec<JobId>>,
}

/// Where on the clock of attained service a job ends.
#[derive(Clone, Copy, Debug)]
struct End {
    at: f64,
    job: JobId,
}

impl Running {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn start(&mut self, job: JobId, work: f64) {
        let at = self.attained + work;
        self.ends.push(Reverse(End { at, job }));
        if let Some(started) = &mut self.started {
            started.push(job);
        }
    }

    /// From now on notes who comes into service.
    pub(super) fn note_starts(&mut self) {
        self.started = Some(Vec::new());
    }

    /// Hands out those that have come into service since the last time.
    pub(super) fn take_started(&mut self, to: &mut Vec<JobId>) {
        if let Some(started) = &mut self.started {
            to.append(started);
        }
    }

    /// From now on each job attains this much service within a nanosecond; 0: nobody gets on.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    pub(super) fn elapse(&mut self, nanoseconds: f64) {
        self.attained += self.rate * nanoseconds;
    }

    /// When the first job ends at the present rate, rounded up to whole nanoseconds.
    pub(super) fn next_end(&self, now: Time) -> Time {
        match self.ends.peek() {
            Some(Reverse(first)) if self.rate > 0.0 => {
                now.saturating_add(whole((first.at - self.attained) / self.rate))
            }
            _ => NEVER,
        }
    }

    /// The time that [`next_end`](Self::next_end) named has come: the first job ends now, though
    /// the sum of many small steps may fall short of its end by a rounding.
    pub(super) fn reach_next_end(&mut self) {
        if let Some(Reverse(first)) = self.ends.peek() {
            self.attained = self.attained.max(first.at);
        }
    }

    /// Takes out a job that has ended.
    pub(super) fn take_ended(&mut self) -> Option<JobId> {
        let Reverse(first) = self.ends.peek()?;
        if first.at > self.attained {
            return None;
        }
        let Reverse(ended) = self.ends.pop()?;
        self.begin_clock_anew();
        Some(ended.job)
    }

    /// Drops a job; whether it was here.
    pub(super) fn cancel(&mut self, job: JobId) -> bool {
        let before = self.ends.len();
        self.ends.retain(|Reverse(end)| end.job != job);
        if let Some(started) = &mut self.started {
            started.retain(|started| *started != job);
        }
        self.begin_clock_anew();
        self.ends.len() < before
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
        if let Some(started) = &mut self.started {
            started.clear();
        }
        self.begin_clock_anew();
    }

    /// Service that each job still needs, in no order.
    pub(super) fn remaining(&self) -> impl Iterator<Item = f64> {
        let attained = self.attained;
        self.ends
            .iter()
            .map(move |Reverse(end)| (end.at - attained).max(0.0))
    }

    /// A small clock is an exact one.
    fn begin_clock_anew(&mut self) {
        if self.ends.is_empty() {
            self.attained = 0.0;
        }
    }
}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at
            .total_cmp(&other.at)
            .then_with(|| self.job.cmp(&other.job))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for End {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for End {}

/// Whole nanoseconds, rounded up, so that what is due has happened by then; 0 for what is overdue.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, which is what is meant"
)]
pub(super) fn whole(nanoseconds: f64) -> Time {
    nanoseconds.ceil() as Time
}
