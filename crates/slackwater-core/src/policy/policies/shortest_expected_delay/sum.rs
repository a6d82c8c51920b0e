//! A sum over replicas that is kept as their values change.

use crate::policy::turns::FINE;

/// A sum over some replicas. `Default` is over none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) count: u64,
    sum: u64,
}

impl Sum {
    /// Adds a replica's value; 0 is none.
    pub(super) fn add(&mut self, value: u64) {
        self.count += u64::from(value > 0);
        self.sum += value;
    }

    /// Takes a replica's value out.
    pub(super) fn take_away(&mut self, value: u64) {
        self.count -= u64::from(value > 0);
        self.sum -= value;
    }

    pub(super) fn mean(self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// A time in 1/1024 ns as whole nanoseconds, at least 1 unless it is 0, which is none.
pub(super) fn whole_ns(fine: u64) -> u64 {
    (fine / FINE).max(fine.min(1))
}
