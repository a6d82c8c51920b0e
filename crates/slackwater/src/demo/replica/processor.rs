//! A processor that its jobs share evenly: a pure value that receives events and returns finished
//! jobs.
//!
//! With capacity C (cores) and n jobs, each job runs at rate min(1, C/n): one thread for each job,
//! and no core left idle. As all jobs run at the same rate, a single number changes instead of n:
//! the service *attained* by a job that is present since the start. A job of work W that arrives at
//! attained service A finishes at A + W. So jobs are ordered by that sum, and arrivals,
//! cancellations and completions cost O(log n).
//!
//! Time is a `Duration` since the start of the world. There is no clock and no runtime here
//! (`machine` has them). Attained service is fixed point, in 2^-32 ns: a change of rate rounds by
//! less than that, and a completion is late by less than 1 ns. Times before the last event count as
//! the time of that event.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

/// An amount of processor: thousandths of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cores {
    milli: u32,
}

impl Cores {
    /// One core.
    pub(crate) const ONE: Self = Self { milli: 1_000 };

    /// This number of thousandths of a core; 0 stops every job.
    pub(crate) const fn from_milli(milli: u32) -> Self {
        Self { milli }
    }

    /// This number of cores, to the nearest thousandth. Negative numbers and NaN are 0; the maximum
    /// is 4.29 million.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float's `as` saturates, which is what is documented"
    )]
    pub(crate) fn from_f64(cores: f64) -> Self {
        Self {
            milli: (cores * 1_000.0).round() as u32,
        }
    }

    /// The number of cores, for arithmetic and display.
    pub(crate) fn as_f64(self) -> f64 {
        f64::from(self.milli) / 1_000.0
    }
}

/// A job that is or was in service. Jobs are ordered by when they finish, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobId {
    /// The attained service at which the job is done, in 2^-32 ns.
    finish: u128,
    /// Distinguishes jobs that finish together.
    arrival: u64,
}

/// The processor has as many jobs as it may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Jobs that share a capacity; see the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Processor {
    jobs_max: usize,
    capacity: Cores,
    jobs: BTreeSet<JobId>,
    /// Done, not yet polled; oldest first. Together with `jobs` at most `jobs_max`.
    completed: VecDeque<JobId>,
    arrivals: u64,
    /// Service attained until `settled_ns`, in 2^-32 ns. Since then capacity and jobs have not
    /// changed.
    attained: u128,
    settled_ns: u64,
    /// CPU used by all jobs until `settled_ns`: nanoseconds of a thousandth of a core.
    used_milli_ns: u128,
}

const FRACTION_BITS: u32 = 32;

impl Processor {
    /// Returns an idle processor that holds at most `jobs_max` jobs (0 rejects all).
    pub(crate) fn new(jobs_max: usize, capacity: Cores) -> Self {
        Self {
            jobs_max,
            capacity,
            jobs: BTreeSet::new(),
            completed: VecDeque::new(),
            arrivals: 0,
            attained: 0,
            settled_ns: 0,
            used_milli_ns: 0,
        }
    }

    /// Starts a job of `work` (CPU time of one core). A job without work is done at once.
    ///
    /// # Errors
    /// [`Full`] when `jobs_max` jobs are in service or wait to be polled: the job is rejected.
    pub(crate) fn arrive(&mut self, now: Duration, work: Duration) -> Result<JobId, Full> {
        self.settle(now);
        if self.jobs.len() + self.completed.len() >= self.jobs_max {
            return Err(Full);
        }
        let work = u128::from(as_ns(work)) << FRACTION_BITS;
        let job = JobId {
            finish: self.attained + work,
            arrival: self.arrivals,
        };
        self.arrivals += 1;
        self.jobs.insert(job);
        Ok(job)
    }

    /// Sets the capacity from `now` on.
    pub(crate) fn set_capacity(&mut self, now: Duration, capacity: Cores) {
        self.settle(now);
        self.capacity = capacity;
    }

    /// Removes a job; its remaining work is not done. Returns false if the job is done already;
    /// then it is, or was, polled.
    pub(crate) fn cancel(&mut self, now: Duration, job: JobId) -> bool {
        self.settle(now);
        self.jobs.remove(&job)
    }

    /// Returns when the next job will be done if nothing changes until then. That is in the past if
    /// a job waits to be polled. `None` without jobs, or without capacity.
    pub(crate) fn next_completion(&self) -> Option<Duration> {
        let next_ns = if self.completed.is_empty() {
            self.next_finish()?.1
        } else {
            self.settled_ns
        };
        Some(Duration::from_nanos(next_ns))
    }

    /// Returns a job that is done at `now`. Each job is returned once, in the order in which they
    /// finished.
    pub(crate) fn poll_completed(&mut self, now: Duration) -> Option<JobId> {
        self.finish_due(as_ns(now));
        self.completed.pop_front()
    }

    /// Jobs in service at the last event.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// The capacity that the jobs share.
    pub(crate) fn capacity(&self) -> Cores {
        self.capacity
    }

    /// CPU time used by all jobs until the last event.
    pub(crate) fn cpu_used(&self) -> Duration {
        let used_ns = self.used_milli_ns / u128::from(Cores::ONE.milli);
        Duration::from_nanos(u64::try_from(used_ns).unwrap_or(u64::MAX))
    }

    /// Advances the value to `now`, so that something can change there.
    fn settle(&mut self, now: Duration) {
        let now_ns = as_ns(now);
        self.finish_due(now_ns);
        self.advance(now_ns);
    }

    /// Moves the jobs that are done at `now_ns` to `completed`, one by one, because each job that
    /// leaves speeds up the rest.
    fn finish_due(&mut self, now_ns: u64) {
        while let Some((job, at_ns)) = self.next_finish()
            && at_ns <= now_ns.max(self.settled_ns)
        {
            self.advance(at_ns);
            self.jobs.remove(&job);
            self.completed.push_back(job);
        }
    }

    /// Adds the service attained until `to_ns`. No job may arrive or leave in that time.
    fn advance(&mut self, to_ns: u64) {
        let Some(span_ns) = to_ns.checked_sub(self.settled_ns) else {
            return;
        };
        if let Some((rate, over)) = self.rate() {
            self.attained += ((u128::from(span_ns) * rate) << FRACTION_BITS) / over;
            self.used_milli_ns += u128::from(span_ns) * rate;
        }
        self.settled_ns = to_ns;
    }

    /// Returns the job that is done first and its time, rounded up to a nanosecond at which it is
    /// certainly done.
    fn next_finish(&self) -> Option<(JobId, u64)> {
        let job = *self.jobs.first()?;
        let missing = job.finish.saturating_sub(self.attained);
        if missing == 0 {
            return Some((job, self.settled_ns));
        }
        let (rate, over) = self.rate()?;
        let span_ns = missing.saturating_mul(over).div_ceil(rate << FRACTION_BITS);
        let at_ns = u128::from(self.settled_ns).saturating_add(span_ns);
        Some((job, u64::try_from(at_ns).unwrap_or(u64::MAX)))
    }

    /// The rate of each job as a fraction: min(1, capacity / jobs). `None` if no job makes
    /// progress.
    fn rate(&self) -> Option<(u128, u128)> {
        let one_core_each = u128::from(Cores::ONE.milli) * self.jobs.len() as u128;
        let rate = u128::from(self.capacity.milli).min(one_core_each);
        (rate > 0).then_some((rate, one_core_each))
    }
}

/// Nanoseconds; saturates at 584 years.
fn as_ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
