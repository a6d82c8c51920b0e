//! Capacity by the CPU time that a replica gets, of what it wants.
//!
//! Its threads are ready to run for as long as they run or wait for a CPU: neighbours, a quota and
//! its own load all show in the wait, and waiting for anything else does not.

use super::shortage::Shortage;
use super::{FINE, Fine, ONE_RIF, grow, mul_div, towards};
use core::ops::AddAssign;

/// A replica that gets less than this share of the CPU time that it wants, in 1/1024, is short of
/// it. Some wait always: threads are woken on busy cores.
const SHORT_BELOW: u64 = FINE * 93 / 100;
/// A capacity that is too high comes down to what is carried with this time constant: a few queries
/// of the paper's, and short beside the seconds for which neighbours come.
const MEMORY_NS: u64 = 95_000_000;
/// How much of the way one reading may go at most, in 1/1024, however long it was.
const STEP_MAX: u64 = FINE * 9 / 10;
/// What was seen within some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) ns: u64,
    /// Since the reading before, idle time included that the span leaves out.
    pub(super) passed_ns: u64,
    /// Of it, with something in flight.
    pub(super) busy_ns: u64,
    /// Requests in flight summed over it.
    pub(super) rif_time_ns: u64,
    /// CPU time that threads have used and waited for.
    pub(super) used_ns: u64,
    pub(super) waited_ns: u64,
}

impl Span {
    /// Whether half at the least of the CPU time that was wanted can be the queries', if each
    /// wanted a core while it was there.
    pub(super) fn is_of_queries(&self) -> bool {
        let wanted_ns = self.used_ns.saturating_add(self.waited_ns);
        wanted_ns <= self.rif_time_ns.saturating_mul(2)
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

/// What is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contention {
    capacity: Option<Fine>,
    /// What was seen and nothing yet learned from.
    seen: Span,
    shortage: Shortage,
}

impl Contention {
    /// Learns from another span, together with those before that were not yet `least_ns` long.
    /// While no CPU time is wanted, or nothing is in flight, nothing is learned.
    pub(super) fn read(&mut self, span: Span, least_ns: u64) {
        self.seen += span;
        if self.seen.ns < least_ns {
            return;
        }
        let seen = core::mem::take(&mut self.seen);
        let wanted_ns = seen.used_ns.saturating_add(seen.waited_ns);
        // What a server does of itself while nothing is in flight says nothing of what it can
        // carry: it would be taken for none.
        if wanted_ns == 0 || seen.busy_ns == 0 {
            return;
        }
        let got = mul_div(seen.used_ns, FINE, wanted_ns);
        // The rest of the time nobody shared anything.
        let mean_rif = mul_div(seen.rif_time_ns, ONE_RIF, seen.busy_ns);
        let carried = mul_div(mean_rif, got, FINE);
        let capacity = self.capacity.unwrap_or(carried);
        if got < SHORT_BELOW {
            let step = mul_div(seen.ns, FINE, MEMORY_NS).min(STEP_MAX);
            self.capacity = Some(towards(capacity, carried, step, FINE));
            self.shortage.is_now();
        } else {
            self.capacity = Some(grow(capacity, mean_rif, seen.ns));
            self.shortage.was_not_for(seen.passed_ns);
        }
    }

    pub(super) fn capacity(&self) -> Option<Fine> {
        self.capacity
    }

    /// Whether a shortage has said not long ago what the capacity is; without one it is but a guess
    /// from below.
    pub(super) fn is_recent(&self) -> bool {
        self.shortage.is_recent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_does_of_itself_says_nothing_of_what_it_can_carry() {
        const MS: u64 = 1_000_000;
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
