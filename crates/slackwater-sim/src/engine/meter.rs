//! The measurements of a run: the queries of the measured span, and samples of the replicas within
//! it.

use super::cached::Found;
use super::classes::Class;
use crate::Measured;
use crate::machine::Time;
use crate::measure::{Health, latencies_at};
use crate::scenario::Scenario;
use core::ops::Range;
use core::time::Duration;
use slackwater_core::policy::{Pick, PickReason};

const SECOND_NS: Time = 1_000_000_000;

/// Returns the length of the blocks of time by which latencies are recorded; 0: they are not. Loads
/// with keys have blocks of a second, which show how caches fill.
pub(super) fn block(scenario: &Scenario) -> Time {
    match &scenario.replay {
        Some(replay) => super::nanos(replay.block),
        None if scenario.load.keys.is_some() => SECOND_NS,
        None => 0,
    }
}

/// How a measured query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was answered.
    Answered,
    /// It failed or was refused.
    Failed,
    /// It ran into its deadline.
    Expired,
}

/// The measuring part of a run.
#[derive(Debug)]
pub(super) struct Meter {
    measured: Measured,
    begins: Time,
    ends: Time,
    /// Latencies are also recorded by blocks of this length; 0: they are not.
    block: Time,
    /// Measured queries that have not ended yet.
    open: u64,
}

impl Meter {
    pub(super) fn new(replicas: usize, span: Range<Time>, block: Time) -> Self {
        Self {
            measured: Measured::nothing(replicas),
            begins: span.start,
            ends: span.end,
            block,
            open: 0,
        }
    }

    /// Returns whether `now` is within the measured span.
    #[inline]
    pub(super) fn measures(&self, now: Time) -> bool {
        (self.begins..self.ends).contains(&now)
    }

    /// Returns whether the second that ends at `now` is within the measured span.
    pub(super) const fn measures_second(&self, now: Time) -> bool {
        now >= self.begins + SECOND_NS && now <= self.ends
    }

    /// Returns whether nothing at `next` or later can be measured: the span is over, and all its
    /// queries have ended.
    #[inline]
    pub(super) const fn is_done(&self, next: Time) -> bool {
        next > self.ends && self.open == 0
    }

    /// Counts a query that arrives. Returns whether it is measured.
    #[inline]
    pub(super) fn query(&mut self, now: Time) -> bool {
        let measures = self.measures(now);
        if measures {
            self.measured.queries += 1;
            self.open += 1;
        }
        measures
    }

    /// Counts a measured query that goes to its first replica, in another zone or not.
    #[inline]
    pub(super) fn sent(&mut self, now: Time, replica: usize, is_abroad: bool) {
        self.measured.queries_abroad += u64::from(is_abroad);
        self.measured.queries_by_replica[replica] += 1;
        // A synchronous round may end after the span.
        let second = self.second_of(now.min(self.ends - 1));
        self.measured.by_second.record_sent(second, replica);
    }

    /// Returns the second of the span in which `time` lies. It must be within the span.
    const fn second_of(&self, time: Time) -> usize {
        ((time - self.begins) / SECOND_NS) as usize
    }

    /// Counts the policy's pick for a measured query's first copy.
    #[inline]
    pub(super) fn picked(&mut self, pick: &Pick) {
        self.measured.fallbacks += u64::from(pick.reason == PickReason::Fallback);
        self.measured.trials += u64::from(pick.reason == PickReason::Trial);
        if let Some(report) = &pick.chosen {
            self.measured.report_age.record(report.age);
        }
    }

    /// Counts a measured query that ends `latency` after it arrived.
    #[inline]
    pub(super) fn ended(&mut self, now: Time, latency: Time, ending: Ending, class: Option<Class>) {
        self.open -= 1;
        let arrived_in = self.second_of(now - latency);
        let measured = &mut self.measured;
        if ending != Ending::Answered {
            measured.errors += 1;
            measured.by_second.record_error(arrived_in);
        }
        if ending == Ending::Expired {
            measured.timeouts += 1;
        }
        if ending != Ending::Failed {
            let took = Duration::from_nanos(latency);
            measured.latency.record(took);
            if let Some(class) = class {
                measured.latency_by_class[class as usize].record(took);
            }
            if let Some(block) = (now - latency - self.begins).checked_div(self.block) {
                let block = usize::try_from(block).unwrap_or(usize::MAX);
                latencies_at(&mut measured.latency_by_block, block).record(took);
            }
        }
    }

    /// Counts what a replica's cache had for an attempt that arrives there.
    #[inline]
    pub(super) fn found(&mut self, now: Time, found: Option<Found>) {
        let Some(found) = found.filter(|_| self.measures(now)) else {
            return;
        };
        let is_hit = found == Found::Hit;
        self.measured.cache_hits += u64::from(is_hit);
        self.measured.cache_misses += u64::from(!is_hit);
        let second = self.second_of(now);
        self.measured.by_second.record_cache(second, is_hit);
    }

    #[inline]
    pub(super) fn probe(&mut self, now: Time) {
        self.measured.probes += u64::from(self.measures(now));
    }

    pub(super) fn hedge(&mut self, now: Time) {
        self.measured.hedges += u64::from(self.measures(now));
    }

    pub(super) fn rif(&mut self, rif: u32) {
        self.measured.rif.record(u64::from(rif));
    }

    /// Records what one replica used in the last second, as a multiple of its allocation.
    pub(super) fn utilization(&mut self, used: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "three digits would be enough"
        )]
        self.measured.utilization.by_second.push(used as f32);
    }

    pub(super) fn finish(mut self, events: u64, health: Health) -> Measured {
        self.measured.events = events;
        self.measured.health = health;
        self.measured.span = Duration::from_nanos(self.ends - self.begins);
        self.measured.pack();
        self.measured
    }
}
