//! A query in flight, as a guard: whatever happens to its owner, it ends exactly once.

use super::Load;
use super::counts::Counts;
use super::hints::HintHash;
use crate::wire::carried::{CarriedField, CarriedLoad};
use core::time::Duration;
use slackwater_core::tracker::{Arrival, End};
use slackwater_core::{Instant, LoadReport, Rif};

/// A query that counts towards its replica's RIF until [`finish`](Self::finish) or drop. `[T1]`
///
/// If dropped, it ends as [`End::Cancelled`]: its client gave it up. Only a panic of the
/// application is recognized as different, and counts as [`End::Failed`].
#[derive(Debug)]
#[must_use = "dropping it counts the query as cancelled by its client"]
pub struct QueryInFlight {
    load: Load,
    /// `None` once ended.
    arrival: Option<Arrival>,
    head_ready_at: Option<Instant>,
    /// The outcome according to the head, if it was not a success.
    by_head: Option<End>,
    /// Its hint, to be noted once it is answered.
    hint: Option<HintHash>,
    /// Whether the application runs for this query. A drop in that time means that it panicked.
    running: bool,
}

impl QueryInFlight {
    pub(super) const fn new(load: Load, arrival: Arrival) -> Self {
        Self {
            load,
            arrival: Some(arrival),
            head_ready_at: None,
            by_head: None,
            hint: None,
            running: false,
        }
    }

    /// Sets what the query is about, as in the hint of its probes. Once it is answered with
    /// success, the replica reports less load to probes with this hint. Does nothing without a
    /// [`hint_cache`](super::LoadBuilder::hint_cache).
    pub fn set_hint(&mut self, hint: &[u8]) {
        self.hint = self.load.hint_hash(hint);
    }

    /// Records that the response's head is ready. Latency ends here. After any end other than
    /// [`End::Success`] there is no sample, and the query ends in that way however its body ends.
    /// Only the first call counts.
    pub fn head_ready(&mut self, end: End) {
        if let (Some(arrival), None) = (&mut self.arrival, self.head_ready_at) {
            let now = self.load.now();
            self.head_ready_at = Some(now);
            self.by_head = (end != End::Success).then_some(end);
            self.load.tracker().head_ready(now, arrival, end);
            if let (Some(hint), End::Success) = (self.hint, end) {
                self.load.note_hint(hint);
            }
        }
    }

    /// Time from the query's arrival to its response's head; `None` before that.
    pub fn latency(&self) -> Option<Duration> {
        let arrival = self.arrival.as_ref()?;
        Some(self.head_ready_at?.saturating_since(arrival.at()))
    }

    /// Returns the load to send with this query's response: RIF without this query, which is about
    /// to end, capacity, and cost per query. For the response's head, once that is ready:
    /// [`write_carried_report`]. Cheaper than [`Load::report`], and takes no lock; latency is left
    /// to probes.
    ///
    /// [`write_carried_report`]: crate::wire::carried::write_carried_report
    pub fn carried_report(&self) -> LoadReport {
        let said = self.carried_load();
        let mut report = LoadReport::new(Rif::new(said.rif), None);
        report.capacity_millirif = said.capacity_millirif;
        report.cost = said.cost_ns.map(Duration::from_nanos);
        report
    }

    /// As [`Self::carried_report`], encoded as a header.
    pub fn carried_field(&self) -> CarriedField {
        CarriedField::saying(self.carried_load())
    }

    /// As [`Self::carried_report`], in the header's units: every response pays for this, so it
    /// makes no `Duration`.
    #[inline]
    pub(super) fn carried_load(&self) -> CarriedLoad {
        // Saves another read of the clock, which would cost more than all else here.
        let at = self.head_ready_at.unwrap_or_else(|| self.load.now());
        let mut said = self.load.carried_load(at);
        said.rif = said.rif.saturating_sub(self.arrival.is_some().into());
        said
    }

    /// Ends the query.
    pub fn finish(mut self, end: End) {
        let now = self.load.now();
        self.end(now, end);
    }

    /// Ends the query at its response's head, which was ready just now. Saves a read of the clock.
    pub(super) fn finish_with_head(mut self, end: End) {
        let now = self.head_ready_at.unwrap_or_else(|| self.load.now());
        self.end(now, end);
    }

    /// Runs a part of the application for this query.
    pub(super) fn run<T>(&mut self, application: impl FnOnce() -> T) -> T {
        self.running = true;
        let value = application();
        self.running = false;
        value
    }

    fn end(&mut self, now: Instant, end: End) {
        let end = self.by_head.unwrap_or(end);
        if let Some(arrival) = self.arrival.take() {
            self.load.tracker().finish(now, arrival, end);
            Counts::query_ended(self.load.live_counts(), end);
        }
    }
}

impl Drop for QueryInFlight {
    fn drop(&mut self) {
        if self.arrival.is_none() {
            return;
        }
        let end = if self.running {
            End::Failed
        } else {
            End::Cancelled
        };
        let now = self.load.now();
        self.end(now, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;

    fn ends(load: &Load) -> [u64; 3] {
        let counts = load.counts();
        [
            counts.queries_succeeded,
            counts.queries_failed,
            counts.queries_cancelled,
        ]
    }

    #[test]
    fn query_ends_exactly_once() {
        let load = Load::new();
        load.arrive().finish(End::Success);
        assert_eq!(ends(&load), [1, 0, 0]);
        drop(load.arrive());
        assert_eq!(ends(&load), [1, 0, 1]);
        let mut query = load.arrive();
        let outcome = catch_unwind(AssertUnwindSafe(move || {
            query.run(|| panic!("the application's mistake"));
        }));
        assert!(outcome.is_err());
        assert_eq!(ends(&load), [1, 1, 1]);
        assert_eq!(load.rif().count(), 0);
    }

    #[test]
    fn latency_ends_when_the_head_is_ready() {
        let load = Load::new();
        let mut query = load.arrive();
        assert_eq!(query.latency(), None);
        query.head_ready(End::Failed);
        let latency = query.latency();
        assert!(latency.is_some());
        query.head_ready(End::Success);
        assert_eq!(query.latency(), latency);
    }

    #[test]
    fn unsuccessful_head_determines_the_end() {
        let load = Load::new();
        let mut query = load.arrive();
        query.head_ready(End::Failed);
        query.head_ready(End::Success);
        assert_eq!(load.rif().count(), 1);
        query.finish(End::Success);
        assert_eq!(ends(&load), [0, 1, 0]);
        assert_eq!(load.report(None).latency, None, "no sample of it");
        let mut pushed_back = load.arrive();
        pushed_back.head_ready(End::Cancelled);
        pushed_back.finish(End::Success);
        assert_eq!(ends(&load), [0, 1, 1]);
        assert_eq!(load.report(None).latency, None);
    }
}
