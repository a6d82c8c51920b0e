//! Queries in batches: what waits is taken together, and ends together.

use super::JobId;
use super::running::Running;
use crate::scenario::Batching;
use std::collections::VecDeque;

/// Batches, one after the other, and the queries that wait for the next one.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    batching: Batching,
    pub(super) queue: VecDeque<(JobId, f64)>,
}

impl Batches {
    pub(super) const fn new(batching: Batching) -> Self {
        Self {
            batching,
            queue: VecDeque::new(),
        }
    }

    /// Adds a query. It begins at once if no batch is in progress.
    pub(super) fn admit(&mut self, job: JobId, work: f64, running: &mut Running) {
        self.queue.push_back((job, work));
        self.begin_next(running);
    }

    /// Begins the next batch if the last one has ended.
    pub(super) fn begin_next(&mut self, running: &mut Running) {
        if running.len() > 0 {
            return;
        }
        let queries = self.queue.len().min(self.batching.max);
        let costs = self.queue.iter().take(queries).map(|(_, work)| *work);
        let time = self.time(queries, costs.sum());
        for (job, _) in self.queue.drain(..queries) {
            running.start(job, time);
        }
    }

    /// Returns the work that is done at once in a whole batch.
    pub(super) fn capacity(&self) -> f64 {
        self.batching.capacity()
    }

    /// Returns the nanoseconds until `work` would be finished if it arrived now. Before it come
    /// `rest`, which the present batch still needs, the queries that wait, and those in `coming`.
    /// `rest` is 0 if no batch is in progress.
    pub(super) fn finish(&self, rest: f64, coming: impl Iterator<Item = f64>, work: f64) -> f64 {
        let before = self.queue.iter().map(|(_, work)| *work).chain(coming);
        let (mut queries, mut costs, mut ends) = (0, 0.0, rest);
        for cost in before.chain(core::iter::once(work)) {
            if queries == self.batching.max {
                ends += self.time(queries, costs);
                (queries, costs) = (0, 0.0);
            }
            queries += 1;
            costs += cost;
        }
        ends + self.time(queries, costs)
    }

    /// Returns the time of a batch whose costs add up to `costs`.
    fn time(&self, queries: usize, costs: f64) -> f64 {
        costs / queries.max(1) as f64 * self.batching.factor(queries)
    }
}
