//! A sum over replicas that is kept as their values change.

use crate::policy::turns::FINE;

/// A sum over some replicas. `Default` is over none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) sum: u64,
}

impl Sum {
    /// Counts a replica with another value than before; 0 is none.
    #[inline]
    pub(super) fn replace(&mut self, before: u64, after: u64) {
        // Nearly always neither is 0.
        if before == 0 || after == 0 {
            self.count += u64::from(after > 0);
            self.count -= u64::from(before > 0);
        }
        self.sum = self.sum.wrapping_add(after).wrapping_sub(before);
    }

    /// The sum over the replicas of both.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
        }
    }

    /// The sum without a replica that counts with this value.
    pub(super) const fn without(self, value: u64) -> Self {
        Self {
            count: self.count - (value > 0) as u64,
            sum: self.sum - value,
        }
    }

    pub(super) fn mean(self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// A time in 1/1024 ns as whole nanoseconds, at least 1 unless it is 0, which is none.
pub(super) fn whole_ns(fine: u64) -> u64 {
    fine / FINE + u64::from(fine > 0 && fine < FINE)
}
