//! What one replica contributes to the comparison of the others.

use super::super::WHOLE;
use super::super::evidence::Sample;
use super::{Record, success};
use crate::time::Instant;

/// A replica adds at most the usual failures and this many more to the common sample: a replica
/// that fails every query must not set the standard for the others.
const FAILURES_BESIDES: u64 = 2;

/// Values of one replica with which the others are compared, as of the last tick. Empty if the
/// replica is not in the choice, or should not be.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::health) struct Compared {
    pub(in crate::health) success: Option<u32>,
    pub(in crate::health) success_just_now: Option<u32>,
    pub(in crate::health) shown: Sample,
}

impl Record {
    /// Notes the values with which the others are compared. `fleet` is the success rate before
    /// there is data.
    pub(in crate::health) fn compare(&mut self, bucket: u64, fleet: u32) {
        self.compared = Compared::default();
        if !self.is_compared() {
            return;
        }
        let just_now = self.window.since(bucket.saturating_sub(1));
        let usual = self.shown.queries * u64::from(WHOLE - fleet.min(WHOLE)) / u64::from(WHOLE);
        self.compared = Compared {
            success: self.is_known.then_some(self.success),
            success_just_now: (just_now.count() > 0).then(|| success(&just_now, fleet)),
            shown: Sample {
                queries: self.shown.queries,
                failures: self.shown.failures.min(usual + FAILURES_BESIDES),
            },
        };
    }

    /// Latency of its good answers, if others are compared with it.
    pub(in crate::health) fn compared_latency_ns(&self) -> Option<u64> {
        self.latency_ns.filter(|_| self.is_in_choice())
    }

    /// The larger of its latency and how long it has kept queries waiting, if others are compared
    /// with it.
    pub(in crate::health) fn compared_pace_ns(&self, now: Instant) -> Option<u64> {
        let without_progress_ns = self.without_progress_ns(now);
        let shown = self.latency_ns.or((without_progress_ns > 0).then_some(0));
        let pace_ns = shown.map(|latency_ns| latency_ns.max(without_progress_ns));
        pace_ns.filter(|_| self.is_in_choice())
    }

    /// Its longest recent good answer, if others are compared with it.
    pub(in crate::health) fn compared_peak_ns(&self) -> Option<u64> {
        let peak_ns = self.peaks.longest_ns();
        (peak_ns > 0 && self.is_in_choice()).then_some(peak_ns)
    }

    /// Whether it is in the choice, and should be.
    pub(in crate::health) fn is_compared(&self) -> bool {
        self.is_in_choice() && !self.course.is_spared()
    }
}
