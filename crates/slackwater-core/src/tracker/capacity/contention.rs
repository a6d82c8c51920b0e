//! Capacity by the CPU time that a replica gets, of what it wants.
//!
//! Its threads are ready to run for as long as they run or wait for a CPU: neighbours, a quota and its own load all show in
//! the wait, and waiting for anything else does not.

use super::{FINE, Fine, grow, mul_div, towards};

/// A replica that gets less than this share of the CPU time that it wants, in 1/1024, is short of it. Some wait always: threads
/// are woken on busy cores.
const SHORT_BELOW: u64 = FINE * 93 / 100;
/// A capacity that is too high comes down to what is carried with this time constant: a few queries of the paper's, and short
/// beside the seconds for which neighbours come.
const MEMORY_NS: u64 = 95_000_000;
/// How much of the way one reading may go at most, in 1/1024, however long it was.
const STEP_MAX: u64 = FINE * 9 / 10;
/// For so long after a shortage its capacity is still taken for what it is. Longer than neighbours stay away.
const RECENT_NS: u64 = 30_000_000_000;

/// What is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contention {
    capacity: Option<Fine>,
    /// For how long nothing was short.
    ample_ns: u64,
    was_short: bool,
}

impl Contention {
    /// Within `span_ns`, in which `mean_rif` were in flight, so much CPU time was used, and so much more was wanted. While none
    /// is wanted nothing is learned.
    pub(super) fn read(&mut self, span_ns: u64, mean_rif: Fine, used_ns: u64, waited_ns: u64) {
        let demand_ns = used_ns.saturating_add(waited_ns);
        if demand_ns == 0 {
            return;
        }
        let got = mul_div(used_ns, FINE, demand_ns);
        let carried = mul_div(mean_rif, got, FINE);
        let capacity = self.capacity.unwrap_or(carried);
        if got < SHORT_BELOW {
            let step = mul_div(span_ns, FINE, MEMORY_NS).min(STEP_MAX);
            self.capacity = Some(towards(capacity, carried, step, FINE));
            self.ample_ns = 0;
            self.was_short = true;
        } else {
            self.capacity = Some(grow(capacity, mean_rif, span_ns));
            self.ample_ns = self.ample_ns.saturating_add(span_ns);
        }
    }

    pub(super) fn capacity(&self) -> Option<Fine> {
        self.capacity
    }

    /// Whether a shortage has said not long ago what the capacity is; without one it is but a guess from below.
    pub(super) fn is_recent(&self) -> bool {
        self.was_short && self.ample_ns < RECENT_NS
    }
}
