//! A replica's own queue before a shared CPU: how many queries are in service at once, which one is
//! next, and which are rejected because they would be late.

use super::running::Running;
use super::{JobId, NEVER, Time, estimate};
use crate::scenario::{Order, Queueing};

/// The limit and the queue.
#[derive(Clone, Debug)]
pub(super) struct Line {
    queueing: Queueing,
    /// In order of arrival, except that those that gave way are behind.
    queue: Vec<Waiting>,
    /// Queries that were rejected since the last look.
    rejected: Vec<JobId>,
}

/// A query that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    job: JobId,
    /// What is left of its work.
    work: f64,
    /// When its client stops waiting. A query that has begun is not rejected any more, so it is
    /// never then.
    due: Time,
}

impl Line {
    pub(super) const fn new(queueing: Queueing) -> Self {
        Self {
            queueing,
            queue: Vec::new(),
            rejected: Vec::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.queue.len()
    }

    /// Adds a query that arrives, and starts it if it is its turn.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        job: JobId,
        work: f64,
        due: Time,
        running: &mut Running,
    ) {
        if self.queueing.order == Order::ShortestRemaining
            && running.len() >= self.queueing.at_once
            && let Some((job, rest)) = running.take_longest_above(work)
        {
            self.queue.push(Waiting {
                job,
                work: rest,
                due: NEVER,
            });
        }
        self.queue.push(Waiting { job, work, due });
        self.start_next(now, running);
    }

    /// Starts queries while there is room, and rejects those that would be late.
    pub(super) fn start_next(&mut self, now: Time, running: &mut Running) {
        while running.len() < self.queueing.at_once
            && let Some(next) = self.next()
        {
            let Waiting { job, work, due } = self.queue.remove(next);
            if self.queueing.drops_late && now as f64 + work > due as f64 {
                self.rejected.push(job);
            } else {
                running.start(job, work);
            }
        }
    }

    /// Returns the position of the query that is served next.
    fn next(&self) -> Option<usize> {
        let by_work = |a: &(usize, &Waiting), b: &(usize, &Waiting)| a.1.work.total_cmp(&b.1.work);
        match self.queueing.order {
            Order::Arrival => (!self.queue.is_empty()).then_some(0),
            // The first of equal ones is the one that arrived first.
            Order::Shortest | Order::ShortestRemaining => {
                let waiting = self.queue.iter().enumerate();
                waiting.min_by(by_work).map(|(position, _)| position)
            }
        }
    }

    /// Returns the queries that were rejected since the last call.
    pub(super) fn take_rejected(&mut self) -> Vec<JobId> {
        core::mem::take(&mut self.rejected)
    }

    pub(super) fn cancel(&mut self, job: JobId) {
        self.queue.retain(|waiting| waiting.job != job);
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.rejected.clear();
    }

    /// Returns the nanoseconds until `work` would be finished if it arrived now and nothing arrived
    /// after it. `running` is what queries in service still need. They share `capacity` cores, and
    /// while fewer are in service than the limit allows, the estimate is too long.
    pub(super) fn finish(&self, running: &mut Vec<f64>, capacity: f64, work: f64) -> f64 {
        let at_once = self.queueing.at_once;
        let order = self.queueing.order;
        if order == Order::ShortestRemaining {
            running.retain(|rest| *rest <= work);
        }
        let before = self.queue.iter().map(|waiting| waiting.work);
        let before = before.filter(|other| order == Order::Arrival || *other <= work);
        let served = estimate::queued(running, before, at_once, work);
        served / (capacity / at_once as f64).min(1.0)
    }
}
