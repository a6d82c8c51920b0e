//! The CPU time that a query takes, and how long it neither uses nor waits for a CPU: means over
//! the newest queries.
//!
//! Clients compare the mean between replicas. A mean over few queries of very different cost is
//! worse than an old one, so it covers as many queries as it needs to be accurate.

use super::mul_div;

/// Queries that are remembered if that is enough.
const MEMORY: u64 = 300;
/// Queries that are remembered if costs vary so widely that [`MEMORY`] is not enough.
const MEMORY_MAX: u64 = 30_000;
/// Largest standard error of the mean that is enough, in thousandths of the mean: well within the
/// quarter by which clients let replicas differ.
const ERROR_ALLOWED: u128 = 70;
/// Fewest queries of a mean.
const QUERIES_MIN: u64 = 8;
/// Queries are counted in parts, so that forgetting a few of them rounds off little.
const PARTS: u64 = 1 << 10;

/// A mean that forgets as fast as its accuracy allows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanCost {
    used_ns: u64,
    /// May be negative for a while: a wait is reported when it is over.
    elsewhere_ns: i64,
    /// In parts.
    queries: u64,
    /// Sum of the squared errors of each reading against the mean: the square of the standard error
    /// of `used_ns`.
    errors: u128,
}

impl MeanCost {
    /// Takes in a reading: CPU time used, time that queries spent on something else, and the number
    /// of queries finished.
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
        // This nearly always fits 64 bits, where a division is much faster.
        let each = u64::try_from(self.errors).map_or_else(
            |_| self.errors / u128::from(memory),
            |errors| u128::from(errors / memory),
        );
        self.errors = (each * u128::from(kept)).saturating_add(off * off);
    }

    /// Whether the mean is accurate enough to forget older queries.
    fn is_sure(&self) -> bool {
        let allowed = u128::from(self.used_ns) * ERROR_ALLOWED / 1_000;
        self.errors <= allowed * allowed
    }

    /// The mean in nanoseconds. `None` before enough queries have finished.
    pub(super) fn mean_ns(&self) -> Option<u64> {
        (self.queries >= QUERIES_MIN * PARTS).then(|| mul_div(self.used_ns, PARTS, self.queries))
    }

    /// Mean time in which a query neither uses nor waits for a CPU, in nanoseconds: a disk, another
    /// service, a lock.
    pub(super) fn mean_elsewhere_ns(&self) -> u64 {
        let elsewhere_ns = u64::try_from(self.elsewhere_ns).unwrap_or(0);
        mul_div(elsewhere_ns, PARTS, self.queries)
    }
}
