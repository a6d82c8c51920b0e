//! The CPU time that a query takes, and how long it neither uses nor waits for a CPU, in the mean
//! over the newest.
//!
//! Clients compare it between replicas, so a mean over few queries of very different cost is worse
//! than one that is old: it is over as many as it takes to know it.

use super::mul_div;

/// So many queries are remembered where that is enough.
const MEMORY: u64 = 300;
/// And so many where their costs are so different that it is not.
const MEMORY_MAX: u64 = 30_000;
/// The standard error of the mean beyond which it is not enough, in thousandths of the mean: well
/// within the quarter by which clients let replicas differ.
const ERROR_ALLOWED: u128 = 70;
/// No mean of fewer.
const QUERIES_MIN: u64 = 8;
/// Queries are counted in parts, so that to forget a few of them rounds little off.
const PARTS: u64 = 1 << 10;

/// A mean that forgets as fast as it can afford to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanCost {
    used_ns: u64,
    /// May be negative for a while: a wait is told when it is over.
    elsewhere_ns: i64,
    /// In parts.
    queries: u64,
    /// Squares of what each reading was off by the mean, summed: the square of the standard error
    /// of `used_ns`.
    errors: u128,
}

impl MeanCost {
    /// So much CPU time was used, queries have spent so much time with something else, and so many
    /// have finished.
    pub(super) fn read(&mut self, used_ns: u64, elsewhere_ns: i64, finished: u64) {
        let queries = finished.saturating_mul(PARTS);
        let expected_ns = mul_div(self.used_ns, queries, self.queries);
        let off = if self.queries == 0 {
            0
        } else {
            u128::from(expected_ns.abs_diff(used_ns))
        };
        let memory = PARTS * if self.is_sure() { MEMORY } else { MEMORY_MAX };
        let kept = memory.saturating_sub(queries);
        self.used_ns = mul_div(self.used_ns, kept, memory).saturating_add(used_ns);
        let elsewhere_kept = mul_div(self.elsewhere_ns.unsigned_abs(), kept, memory);
        let elsewhere_kept =
            i64::try_from(elsewhere_kept).unwrap_or(0) * self.elsewhere_ns.signum();
        self.elsewhere_ns = elsewhere_kept.saturating_add(elsewhere_ns);
        self.queries = mul_div(self.queries, kept, memory).saturating_add(queries);
        // Nearly always within 64 bits, where a division takes a small part of the time.
        let each = u64::try_from(self.errors).map_or_else(
            |_| self.errors / u128::from(memory),
            |errors| u128::from(errors / memory),
        );
        self.errors = (each * u128::from(kept)).saturating_add(off * off);
    }

    /// Whether the mean is known well enough to forget what it is made of.
    fn is_sure(&self) -> bool {
        let allowed = u128::from(self.used_ns) * ERROR_ALLOWED / 1_000;
        self.errors <= allowed * allowed
    }

    /// In nanoseconds; `None` before enough queries have finished.
    pub(super) fn mean_ns(&self) -> Option<u64> {
        (self.queries >= QUERIES_MIN * PARTS).then(|| mul_div(self.used_ns, PARTS, self.queries))
    }

    /// The time of a query in which it neither uses nor waits for a CPU, in nanoseconds: a disk,
    /// another service, a lock.
    pub(super) fn mean_elsewhere_ns(&self) -> u64 {
        let elsewhere_ns = u64::try_from(self.elsewhere_ns).unwrap_or(0);
        mul_div(elsewhere_ns, PARTS, self.queries)
    }
}
