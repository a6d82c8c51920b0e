//! Long-running requests: streams, and others that take far longer than most.
//!
//! They are in flight, and load the replica hardly at all. How many there are depends on chance and
//! changes within seconds; what the replica can carry of other requests does not. By Little's law,
//! the mean RIF is the time that requests which end were in flight, for each second. If it is far
//! more, the rest is long-running:
//!
//! ```text
//! ended        = time in flight of the requests that ended / time passed
//! long-running = (mean RIF − ended) × clamp((mean RIF / ended − 3) / 2, 0, 1)
//! ```
//!
//! While a queue grows the mean RIF is more, too, and so it is where requests compute for minutes.
//! So no more requests count than were in flight, and not at a CPU, for all of the last seconds.
//! `[Decision 0009]`

use super::contention::Span;
use super::{FINE, Fine, ONE_RIF, mul_div, towards};
use crate::tracker::LONG_NS;

/// Up to this many times `ended`, the mean RIF shows no long-running requests, in 1/1024. Queues
/// that come and go reach it.
const TIMES_MIN: u64 = 3 * FINE;
/// How many times more it must be until all of the difference is long-running, in 1/1024.
const TIMES_SPAN: u64 = 2 * FINE;
/// The fewest are those of up to this time and of as much before it: 4 to 8 s.
const LEAST_NS: u64 = 4_000_000_000;

/// How many requests in flight are long-running.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongRunning {
    /// The mean RIF, and as much of it as requests that ended explain. Both have a time constant of
    /// [`LONG_NS`].
    rif: Fine,
    ended: Fine,
    /// The fewest requests off the CPU in a reading of the last `least_ns`, and in the [`LEAST_NS`]
    /// before that.
    least: Fine,
    least_before: Fine,
    least_ns: u64,
    count: Fine,
}

impl LongRunning {
    /// Takes in a span with all requests, and how long those that ended in it had been in flight,
    /// each up to [`LONG_NS`].
    pub(super) fn read(&mut self, all: &Span, ended_ns: u64) {
        let passed_ns = all.passed_ns;
        let mean = |time_ns| mul_div(time_ns, ONE_RIF, passed_ns);
        let rif = mean(all.rif_time_ns);
        let off_cpu = mean(all.rif_time_ns.saturating_sub(all.wanted_ns()));
        let ended = mean(ended_ns);
        self.rif = towards(self.rif, rif, passed_ns, LONG_NS);
        self.ended = towards(self.ended, ended, passed_ns, LONG_NS);
        self.least_ns = self.least_ns.saturating_add(passed_ns);
        if self.least_ns > LEAST_NS {
            self.least_before = core::mem::replace(&mut self.least, off_cpu);
            self.least_ns = 0;
        }
        self.least = self.least.min(off_cpu);
        let times = mul_div(self.rif, FINE, self.ended);
        let part = times.saturating_sub(TIMES_MIN).min(TIMES_SPAN);
        let unexplained = self.rif.saturating_sub(self.ended);
        self.count = mul_div(unexplained, part, TIMES_SPAN)
            .min(self.least)
            .min(self.least_before);
    }

    /// The long-running requests.
    pub(super) fn count(&self) -> Fine {
        self.count
    }

    /// The whole ones of them.
    pub(super) fn whole(&self) -> u32 {
        u32::try_from(self.count / ONE_RIF).unwrap_or(u32::MAX)
    }

    /// The requests in flight, integrated over a span, that are not long-running.
    pub(super) fn others_time(&self, all: &Span) -> u64 {
        let time_ns = mul_div(self.count, all.passed_ns, ONE_RIF);
        all.rif_time_ns.saturating_sub(time_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const STEP_NS: u64 = 50 * MS;

    /// A span in which requests were in flight, and used a CPU, for these times in all.
    fn span(passed_ns: u64, rif_time_ns: u64, used_ns: u64) -> Span {
        Span {
            passed_ns,
            rif_time_ns,
            used_ns,
            ..Span::default()
        }
    }

    impl LongRunning {
        /// Takes in readings of `rif` in flight, of which requests that ended explain `ended`.
        fn spend(&mut self, ms: u64, rif: u64, ended: u64) {
            for _ in 0..ms * MS / STEP_NS {
                self.read(&span(STEP_NS, rif * STEP_NS, 0), ended * STEP_NS);
            }
        }

        /// The count, rounded.
        fn rounded(&self) -> u64 {
            (self.count() + ONE_RIF / 2) / ONE_RIF
        }
    }

    /// After five minutes.
    fn with(rif: u64, ended: u64) -> LongRunning {
        let mut found = LongRunning::default();
        found.spend(300_000, rif, ended);
        found
    }

    #[test]
    fn beyond_three_times_what_ended_the_rest_counts_and_from_five_times_all_of_it() {
        for (rif, count) in [(10, 0), (30, 0), (40, 15), (50, 40), (200, 190)] {
            assert_eq!(with(rif, 10).rounded(), count, "{rif}");
        }
        assert_eq!(with(7, 0).rounded(), 7);
        assert_eq!(with(0, 0).rounded(), 0);
    }

    #[test]
    fn they_are_known_after_8_seconds() {
        let mut found = LongRunning::default();
        found.spend(8_050, 45, 5);
        assert_eq!(found.rounded(), 0);
        found.spend(100, 45, 5);
        assert!(found.rounded() > 20, "{found:?}");
    }

    #[test]
    fn only_those_of_all_of_the_last_seconds_count() {
        let mut found = with(20, 2);
        found.spend(4_000, 80, 2);
        assert_eq!(found.rounded(), 20, "the others have come since");
        found.spend(8_100, 80, 2);
        assert!(found.rounded() > 60, "{found:?}");
        found.spend(50, 3, 2);
        assert_eq!(found.rounded(), 3, "the others have left");
        found.spend(3_950, 80, 2);
        assert_eq!(found.rounded(), 3, "4 s is the least");
        found.spend(4_100, 80, 2);
        assert!(found.rounded() > 60, "8 s is the most");
    }

    #[test]
    fn those_at_a_cpu_do_not_count() {
        let mut found = with(20, 2);
        found.read(&span(STEP_NS, 20 * STEP_NS, 13 * STEP_NS), 2 * STEP_NS);
        assert_eq!(found.rounded(), 7);
        found.read(&span(STEP_NS, 20 * STEP_NS, 21 * STEP_NS), 2 * STEP_NS);
        assert_eq!(found.rounded(), 0);
    }

    #[test]
    fn both_means_have_a_time_constant_of_8_seconds() {
        let mut found = with(100, 0);
        found.read(&span(2_000 * MS, 100 * 2_000 * MS, 0), 96 * 2_000 * MS);
        // A quarter of 96 ended in the mean, so 7/12 of the other 76 count.
        assert_eq!(found.rounded(), 44);
        found.read(&span(100_000 * MS, 16 * 100_000 * MS, 0), 2 * 100_000 * MS);
        assert_eq!(found.rounded(), 14, "at most all of the way");
    }

    #[test]
    fn the_others_of_a_span_are_without_them() {
        let found = with(44, 10);
        assert_eq!(found.whole(), 23, "23.8, rounded down");
        let others_ns = found.others_time(&span(1_000 * MS, 42 * 1_000 * MS, 0));
        assert!(others_ns.abs_diff(18_200 * MS) < 10 * MS, "{others_ns}");
        assert_eq!(found.others_time(&span(1_000 * MS, 23 * 1_000 * MS, 0)), 0);
    }

    #[test]
    fn a_reading_of_no_time_or_of_all_times_does_no_harm() {
        let mut found = LongRunning::default();
        for ns in [0, 1, u64::MAX] {
            found.read(&span(ns, u64::MAX, ns), u64::MAX);
            found.read(&span(ns, u64::MAX, u64::MAX), 0);
            found.read(&span(u64::MAX, ns, 0), ns);
        }
        assert_eq!(found.others_time(&span(u64::MAX, 0, 0)), 0);
    }
}
