//! Jobs in service, all at the same rate: processor sharing in virtual time.
//!
//! One clock counts the service that each job here has attained. The end of a job is a point on
//! that clock, fixed when it starts. Only the rate of the clock changes. So an arrival or an end
//! takes O(log jobs), a change of the rate O(1), and no job is ever updated. Queries that do not
//! share a CPU, or that have a worker each, are the special case of a clock at full speed.

use super::{JobId, NEVER, Time};
use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Jobs in service.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    ends: BinaryHeap<Reverse<End>>,
    /// Service attained by a job that has been here since the clock started, in nanoseconds.
    attained: f64,
    /// Service that each job attains within a nanosecond.
    rate: f64,
    /// Jobs that have started lately, if starts are recorded.
    started: Option<Vec<JobId>>,
}

/// The end of a job on the clock of attained service.
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

    /// Starts to record which jobs start.
    pub(super) fn note_starts(&mut self) {
        self.started = Some(Vec::new());
    }

    /// Returns the jobs that have started since the last call.
    pub(super) fn take_started(&mut self, to: &mut Vec<JobId>) {
        if let Some(started) = &mut self.started {
            to.append(started);
        }
    }

    /// Sets the service that each job attains within a nanosecond from now on; 0: no job
    /// progresses.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    pub(super) fn elapse(&mut self, nanoseconds: f64) {
        self.attained += self.rate * nanoseconds;
    }

    /// Returns when the first job ends at the present rate, rounded up to whole nanoseconds.
    pub(super) fn next_end(&self, now: Time) -> Time {
        match self.ends.peek() {
            Some(Reverse(first)) if self.rate > 0.0 => {
                now.saturating_add(whole((first.at - self.attained) / self.rate))
            }
            _ => NEVER,
        }
    }

    /// Ends the first job at the time that [`next_end`](Self::next_end) returned. The sum of many
    /// small steps may be below its end by a rounding error.
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

    /// Drops a job. Returns whether it was here.
    pub(super) fn cancel(&mut self, job: JobId) -> bool {
        let before = self.ends.len();
        self.ends.retain(|Reverse(end)| end.job != job);
        if let Some(started) = &mut self.started {
            started.retain(|started| *started != job);
        }
        self.begin_clock_anew();
        self.ends.len() < before
    }

    /// Takes out the job that still needs most, if that is more than `work`, with what it needs.
    pub(super) fn take_longest_above(&mut self, work: f64) -> Option<(JobId, f64)> {
        let longest = self.ends.iter().map(|Reverse(end)| *end).max()?;
        let rest = longest.at - self.attained;
        if rest <= work {
            return None;
        }
        self.ends.retain(|Reverse(end)| end.job != longest.job);
        Some((longest.job, rest))
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
        if let Some(started) = &mut self.started {
            started.clear();
        }
        self.begin_clock_anew();
    }

    /// Returns the service that each job still needs, in no order.
    pub(super) fn remaining(&self) -> impl Iterator<Item = f64> {
        let attained = self.attained;
        self.ends
            .iter()
            .map(move |Reverse(end)| (end.at - attained).max(0.0))
    }

    /// Resets the clock while no job is here, because small values are exact.
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

/// Rounds up to whole nanoseconds, so that what is due has happened by then. Overdue times become
/// 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, which is what is meant"
)]
pub(crate) fn whole(nanoseconds: f64) -> Time {
    nanoseconds.ceil() as Time
}
