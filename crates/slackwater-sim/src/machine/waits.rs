//! Queries that wait without the CPU before their work: for a disk, for another service.

use super::running::whole;
use super::{JobId, NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::nanoseconds;
use core::cmp::{Ordering, Reverse};
use core::time::Duration;
use std::collections::BinaryHeap;

/// Queries that wait, each for its own time, uniform up to the longest.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    stream: Stream,
    longest: f64,
    waiting: BinaryHeap<Reverse<Waiting>>,
}

/// A query that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Time,
    job: JobId,
    work: f64,
}

impl Waits {
    pub(super) fn new(longest: Duration, replica: usize, seed: u64) -> Self {
        Self {
            stream: Stream::new(seed, Purpose::IoWait, replica as u64),
            longest: nanoseconds(longest),
            waiting: BinaryHeap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Starts a query's wait, now or at the end of the query's own wait.
    pub(super) fn begin(&mut self, now: Time, job: JobId, work: f64) {
        let wait = whole(self.stream.uniform_between(0.0, self.longest));
        let until = now.saturating_add(wait);
        self.waiting.push(Reverse(Waiting { until, job, work }));
    }

    pub(super) fn next_end(&self) -> Time {
        self.waiting
            .peek()
            .map_or(NEVER, |Reverse(first)| first.until)
    }

    /// Takes out a query whose wait is over, with its work.
    pub(super) fn take_ended(&mut self, now: Time) -> Option<(JobId, f64)> {
        if self.next_end() > now {
            return None;
        }
        let Reverse(ended) = self.waiting.pop()?;
        Some((ended.job, ended.work))
    }

    pub(super) fn cancel(&mut self, job: JobId) {
        self.waiting.retain(|Reverse(waiting)| waiting.job != job);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Returns the work of the waiting queries.
    pub(super) fn work(&self) -> impl Iterator<Item = f64> {
        self.waiting.iter().map(|Reverse(waiting)| waiting.work)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.until, self.job).cmp(&(other.until, other.job))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}
