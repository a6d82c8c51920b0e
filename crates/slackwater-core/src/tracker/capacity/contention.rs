//! Capacity from the CPU time that a replica gets, as a share of what it wants.
//!
//! Its threads are ready to run while they run or wait for a CPU. Neighbours, a quota and its own
//! load all show in that wait; waiting for anything else does not.

use super::inflation::INFLATED_BELOW;
use super::shortage::Shortage;
use super::{FINE, Fine, ONE_RIF, grow, mul_div, towards};
use core::ops::AddAssign;

/// A replica that gets less than this share of the CPU time it wants, in 1/1024, is short of CPU.
/// Some wait is always there: threads are woken on busy cores.
const SHORT_BELOW: u64 = FINE * 93 / 100;
/// Time constant with which a capacity that is too high falls to what is carried: a few of the
/// paper's queries, and short beside the seconds for which neighbours are active.
const MEMORY_NS: u64 = 95_000_000;
/// Largest step of one reading, in 1/1024 of the distance, however long the reading was.
const STEP_MAX: u64 = FINE * 9 / 10;

/// What was measured over a span of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) ns: u64,
    /// Time since the last reading, including idle time that the span leaves out.
    pub(super) passed_ns: u64,
    /// The part of the span with something in flight.
    pub(super) busy_ns: u64,
    /// Requests in flight, integrated over the span.
    pub(super) rif_time_ns: u64,
    /// CPU time that threads used (`used_ns`) and waited for (`waited_ns`); 0 if unknown.
    pub(super) used_ns: u64,
    pub(super) waited_ns: u64,
}

impl Span {
    /// CPU time that threads used or waited for.
    pub(super) fn wanted_ns(&self) -> u64 {
        self.used_ns.saturating_add(self.waited_ns)
    }

    /// Whether at least half of the CPU time that was wanted can belong to queries, if each wanted
    /// one core while it was in flight.
    pub(super) fn is_of_queries(&self) -> bool {
        self.wanted_ns() <= self.rif_time_ns.saturating_mul(2)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        self.ns = self.ns.saturating_add(other.ns);
        self.passed_ns = self.passed_ns.saturating_add(other.passed_ns);
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.rif_time_ns = self.rif_time_ns.saturating_add(other.rif_time_ns);
        self.used_ns = self.used_ns.saturating_add(other.used_ns);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
    }
}

/// The estimate from CPU contention.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contention {
    capacity: Option<Fine>,
    /// What was measured and not yet used.
    seen: Span,
    shortage: Shortage,
    /// Share of the queries' time in which they neither used nor waited for a CPU, in 1/1024.
    elsewhere: u64,
}

impl Contention {
    /// Learns from a span, together with earlier ones that were shorter than `least_ns`. It learns
    /// nothing while no CPU time is wanted, or nothing is in flight.
    pub(super) fn read(&mut self, span: Span, least_ns: u64) {
        self.seen += span;
        if self.seen.ns < least_ns {
            return;
        }
        let seen = core::mem::take(&mut self.seen);
        let wanted_ns = seen.wanted_ns();
        let step = mul_div(seen.ns, FINE, MEMORY_NS).min(STEP_MAX);
        if seen.rif_time_ns > 0 {
            let elsewhere_ns = seen.rif_time_ns.saturating_sub(wanted_ns);
            let elsewhere = mul_div(elsewhere_ns, FINE, seen.rif_time_ns);
            self.elsewhere = towards(self.elsewhere, elsewhere, step, FINE);
        }
        // What a server does on its own while nothing is in flight shows nothing about its
        // capacity, and would make it look like none.
        if wanted_ns == 0 || seen.busy_ns == 0 {
            return;
        }
        let got = mul_div(seen.used_ns, FINE, wanted_ns);
        // Queries were in flight only in the busy part of the span.
        let mean_rif = mul_div(seen.rif_time_ns, ONE_RIF, seen.busy_ns);
        let carried = mul_div(mean_rif, got, FINE);
        let capacity = self.capacity.unwrap_or(carried);
        if got < SHORT_BELOW {
            self.capacity = Some(towards(capacity, carried, step, FINE));
            self.shortage.is_now();
        } else {
            // Queries that waited for something else may have waited in a queue.
            let at_cpu = mul_div(wanted_ns, ONE_RIF, seen.busy_ns).min(mean_rif);
            self.capacity = Some(grow(capacity, mean_rif, at_cpu, seen.ns));
            self.shortage.was_not_for(seen.passed_ns);
        }
    }

    pub(super) fn capacity(&self) -> Option<Fine> {
        self.capacity
    }

    /// Whether queries spend enough time off the CPU that waits there can explain why their latency
    /// has grown. Otherwise longer queries explain it.
    pub(super) fn waits_elsewhere(&self) -> bool {
        self.elsewhere > FINE - INFLATED_BELOW
    }

    /// Whether a recent shortage has shown the capacity. Without one it is only a guess from below.
    pub(super) fn is_recent(&self) -> bool {
        self.shortage.is_recent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A span in which `rif` queries were in flight and got `got_permille` of the CPU time that
    /// they wanted.
    fn span(ns: u64, rif: u64, got_permille: u64) -> Span {
        Span {
            ns,
            passed_ns: ns,
            busy_ns: ns,
            rif_time_ns: rif * ns,
            used_ns: got_permille * MS,
            waited_ns: (1_000 - got_permille) * MS,
        }
    }

    /// The estimate after ten queries in flight were carried without a wait.
    fn of_ten() -> Contention {
        let mut contention = Contention::default();
        contention.read(span(1, 10, 1_000), 0);
        assert_eq!(contention.capacity(), Some(10 * ONE_RIF));
        contention
    }

    /// The capacity after a reading of `ns` in which ten in flight got half of what they wanted.
    fn ten_halved_after(ns: u64) -> Fine {
        let mut contention = of_ten();
        contention.read(span(ns, 10, 500), 0);
        contention.capacity().expect("known")
    }

    #[test]
    fn less_than_93_percent_of_the_wanted_cpu_time_is_a_shortage() {
        for (got_permille, is_short) in [(929, true), (930, false)] {
            let mut contention = of_ten();
            contention.read(span(50 * MS, 10, got_permille), 0);
            assert_eq!(contention.is_recent(), is_short, "{got_permille}");
            let is_less = contention.capacity() < Some(10 * ONE_RIF);
            assert_eq!(is_less, is_short, "{got_permille}");
        }
    }

    #[test]
    fn capacity_rises_to_what_was_at_the_cpu_with_little_wait() {
        let of = |at_cpu: u64| {
            let mut contention = of_ten();
            let fifteen = Span {
                used_ns: at_cpu * 950 * MS,
                waited_ns: at_cpu * 50 * MS,
                ..span(1_000 * MS, 15, 0)
            };
            contention.read(fifteen, 0);
            contention.capacity()
        };
        assert_eq!(of(15), Some(15 * ONE_RIF));
        assert_eq!(of(30), Some(15 * ONE_RIF), "queries of two threads");
        // The others may have waited in a queue.
        assert_eq!(of(4), Some(ONE_RIF * 112 / 10));
    }

    #[test]
    fn waits_off_the_cpu_count_from_two_fifths_of_the_queries_time() {
        let after = |at_cpu_permille: u64, ns: u64| {
            let mut contention = Contention::default();
            let of_ten = Span {
                used_ns: 10 * at_cpu_permille * ns / 1_000,
                waited_ns: 0,
                ..span(ns, 10, 0)
            };
            for _ in 0..100 {
                contention.read(of_ten, 0);
            }
            contention.waits_elsewhere()
        };
        assert!(!after(605, 50 * MS));
        assert!(after(595, 50 * MS));
        assert!(after(0, 50 * MS), "none wanted a CPU");
        let mut contention = Contention::default();
        let elsewhere = span(95 * MS / 4, 10, 0);
        contention.read(
            Span {
                waited_ns: 0,
                ..elsewhere
            },
            0,
        );
        assert!(
            !contention.waits_elsewhere(),
            "with a time constant of 95 ms"
        );
        contention.read(
            Span {
                waited_ns: 0,
                ..elsewhere
            },
            0,
        );
        assert!(contention.waits_elsewhere());
    }

    #[test]
    fn capacity_falls_with_a_time_constant_of_95_ms() {
        assert_eq!(ten_halved_after(95 * MS / 4), ONE_RIF * 875 / 100);
        assert_eq!(ten_halved_after(95 * MS / 2), ONE_RIF * 750 / 100);
    }

    #[test]
    fn one_reading_moves_capacity_by_nine_tenths_at_most() {
        for ns in [95 * MS, 1_000 * MS, u64::MAX / 20] {
            let off = ten_halved_after(ns).abs_diff(ONE_RIF * 55 / 10);
            assert!(off < ONE_RIF / 200, "{ns}: {off}");
        }
    }

    #[test]
    fn queries_that_want_no_cpu_time_do_not_change_capacity() {
        let waiting = Span {
            used_ns: 0,
            waited_ns: 0,
            ..span(50 * MS, 10, 500)
        };
        let mut contention = Contention::default();
        contention.read(waiting, 0);
        assert_eq!(contention.capacity(), None);
    }

    #[test]
    fn short_spans_are_learned_from_together() {
        let mut contention = of_ten();
        // A first span without waits, and a second one in which all of them are reported.
        let first = Span {
            used_ns: 40 * MS,
            waited_ns: 0,
            ..span(100 * MS, 12, 0)
        };
        let second = Span {
            passed_ns: 29_900 * MS,
            busy_ns: 50 * MS,
            rif_time_ns: 600 * MS,
            used_ns: 0,
            waited_ns: 120 * MS,
            ..span(100 * MS, 12, 0)
        };
        contention.read(first, 200 * MS);
        contention.read(
            Span {
                ns: 99 * MS,
                ..second
            },
            200 * MS,
        );
        assert_eq!(contention.capacity(), Some(10 * ONE_RIF), "199 ms");
        let mut contention = of_ten();
        contention.read(first, 200 * MS);
        contention.read(second, 200 * MS);
        // A quarter of 12, by nine tenths of the way.
        let found = contention.capacity().expect("known");
        assert!(found.abs_diff(ONE_RIF * 37 / 10) < ONE_RIF / 100, "{found}");
        contention.read(
            Span {
                passed_ns: 100 * MS,
                ..span(1, 0, 1_000)
            },
            2,
        );
        contention.read(
            Span {
                passed_ns: 29_899 * MS,
                ..span(1, 0, 1_000)
            },
            2,
        );
        assert!(contention.is_recent(), "29.999 s without a shortage");
        contention.read(span(MS, 0, 1_000), 0);
        assert!(!contention.is_recent());
    }

    #[test]
    fn cpu_time_of_up_to_twice_the_rif_belongs_to_queries() {
        let wanted = |waited_ns| Span {
            rif_time_ns: 10 * MS,
            used_ns: 15 * MS,
            waited_ns,
            ..Span::default()
        };
        assert!(wanted(5 * MS).is_of_queries());
        assert!(!wanted(5 * MS + 1).is_of_queries());
    }

    #[test]
    fn cpu_use_without_queries_does_not_change_capacity() {
        let own = Span {
            ns: 50 * MS,
            used_ns: MS,
            waited_ns: MS,
            ..Span::default()
        };
        let busy = Span {
            busy_ns: 50 * MS,
            rif_time_ns: 100 * MS,
            used_ns: 50 * MS,
            waited_ns: 50 * MS,
            ..own
        };
        let mut contention = Contention::default();
        contention.read(own, 0);
        assert_eq!(contention.capacity(), None, "nothing was in flight");
        contention.read(busy, 0);
        assert_eq!(contention.capacity(), Some(ONE_RIF), "half of two");
        contention.read(own, 0);
        assert_eq!(contention.capacity(), Some(ONE_RIF), "nor was it then");
    }
}
