//! The CPU time that a query takes, and how long it neither uses nor waits for a CPU: means over
//! the newest queries.
//!
//! Clients compare the mean between replicas. A mean over few queries of very different cost is
//! worse than an old one, so it covers as many queries as it needs to be accurate. Until it is
//! accurate enough to compare, it is not told: a replica that looked dear by chance would get no
//! query that could show otherwise.

use super::mul_div;

/// Queries that are remembered if that is enough.
const MEMORY: u64 = 300;
/// Queries that are remembered if costs vary so widely that [`MEMORY`] is not enough.
const MEMORY_MAX: u64 = 30_000;
/// Largest standard error of the mean that is enough, in thousandths of the mean: well within the
/// quarter by which clients let replicas differ.
const ERROR_ALLOWED: u128 = 70;
/// Largest standard error of a mean that clients may compare, in thousandths: within that quarter.
const ERROR_COMPARED: u128 = 200;
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
        // While no query has ended nothing is expected, so all of it is error.
        let expected_ns = match self.queries {
            0 => 0,
            known => mul_div(self.used_ns, queries, known),
        };
        let off = u128::from(expected_ns.abs_diff(used_ns));
        let is_sure = self.is_within(ERROR_ALLOWED);
        let memory = PARTS * if is_sure { MEMORY } else { MEMORY_MAX };
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

    /// Whether the standard error of the mean is at most this many thousandths of it.
    fn is_within(&self, thousandths: u128) -> bool {
        let allowed = u128::from(self.used_ns) * thousandths / 1_000;
        self.errors <= allowed * allowed
    }

    /// The mean in nanoseconds. `None` before enough queries have finished.
    pub(super) fn mean_ns(&self) -> Option<u64> {
        (self.queries >= QUERIES_MIN * PARTS).then(|| mul_div(self.used_ns, PARTS, self.queries))
    }

    /// The mean in nanoseconds, once it is accurate enough that clients may compare it.
    pub(super) fn compared_ns(&self) -> Option<u64> {
        self.mean_ns().filter(|_| self.is_within(ERROR_COMPARED))
    }

    /// Mean time in which a query neither uses nor waits for a CPU, in nanoseconds: a disk, another
    /// service, a lock.
    pub(super) fn mean_elsewhere_ns(&self) -> u64 {
        let elsewhere_ns = u64::try_from(self.elsewhere_ns).unwrap_or(0);
        mul_div(elsewhere_ns, PARTS, self.queries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A mean that knows `count` readings of `queries` queries, each of which took 10 ms of CPU
    /// time.
    fn of_equal(count: u32, queries: u64) -> MeanCost {
        let mut cost = MeanCost::default();
        for _ in 0..count {
            cost.read(queries * 10 * MS, 0, queries);
        }
        cost
    }

    #[test]
    fn mean_is_known_after_eight_queries() {
        assert_eq!(of_equal(1, 7).mean_ns(), None);
        assert_eq!(of_equal(1, 8).mean_ns(), Some(10 * MS));
    }

    #[test]
    fn clients_compare_a_mean_with_a_standard_error_of_a_fifth() {
        // All of the first reading is error, so the others have to be four times that.
        let is_compared = |cost: MeanCost| cost.compared_ns().is_some();
        assert!(!is_compared(of_equal(4, 8)));
        assert!(is_compared(of_equal(6, 8)));
        assert!(!is_compared(of_equal(7, 1)), "too few queries");
        // CPU time before the first query has ended is error, too.
        let mut slow = MeanCost::default();
        slow.read(100 * MS, 0, 0);
        slow.read(100 * MS, 0, 20);
        assert!(slow.mean_ns().is_some() && !is_compared(slow));
        slow.read(500 * MS, 0, 50);
        assert!(!is_compared(slow), "141 of 700 ms");
        slow.read(10 * MS, 0, 1);
        assert!(is_compared(slow), "141 of 710 ms");
    }

    #[test]
    fn mean_covers_300_queries_if_costs_are_equal() {
        let mut cost = of_equal(300, 30);
        cost.read(30 * 20 * MS, 0, 30);
        let mean_ns = cost.mean_ns().expect("known");
        assert!(mean_ns.abs_diff(11 * MS) < MS / 100, "{mean_ns}");
        let mut free = MeanCost::default();
        free.read(0, 0, 300);
        free.read(300 * 20 * MS, 0, 300);
        assert_eq!(free.mean_ns(), Some(20 * MS), "no cost is equal, too");
    }

    #[test]
    fn standard_error_of_seven_percent_is_allowed() {
        // 300 queries of 10 ms are known. The next reading of 30 is off by 225 or 226 ms, which is
        // also by how much the sum is off: 6.98 % of 3,225 ms, and 7.01 % of 3,226 ms.
        for (off_ms, is_sure) in [(225, true), (226, false)] {
            let mut cost = of_equal(300, 30);
            cost.read((300 + off_ms) * MS, 0, 30);
            assert_eq!(cost.is_within(ERROR_ALLOWED), is_sure, "{off_ms}");
            // A mean over 300 queries forgets all others at one of 300. A longer one keeps some.
            cost.read(300 * 20 * MS, 0, 300);
            assert_eq!(cost.mean_ns() == Some(20 * MS), is_sure, "{off_ms}");
        }
    }

    #[test]
    fn mean_covers_30_000_queries_if_costs_vary() {
        let mut cost = MeanCost::default();
        for reading in 0..200 {
            cost.read(3_000 * 20 * MS * (reading % 2), 0, 3_000);
        }
        let before_ns = cost.mean_ns().expect("known");
        cost.read(3_000 * 110 * MS, 0, 3_000);
        let after_ns = cost.mean_ns().expect("known");
        let tenth_ns = (110 * MS - before_ns) / 10;
        let moved_ns = after_ns - before_ns;
        assert!(moved_ns.abs_diff(tenth_ns) < tenth_ns / 100, "{moved_ns}");
    }

    #[test]
    fn single_queries_round_off_little() {
        let mean_ns = of_equal(3_000, 1).mean_ns().expect("known");
        assert!(mean_ns.abs_diff(10 * MS) < MS / 10, "{mean_ns}");
    }

    #[test]
    fn time_off_cpu_is_never_below_zero_and_keeps_its_sign() {
        let mut cost = MeanCost::default();
        cost.read(100 * MS, -(50 * MS.cast_signed()), 10);
        assert_eq!(cost.mean_elsewhere_ns(), 0);
        cost.read(100 * MS, 0, 0);
        cost.read(0, 250 * MS.cast_signed(), 0);
        assert_eq!(cost.mean_elsewhere_ns(), 20 * MS);
    }
}
