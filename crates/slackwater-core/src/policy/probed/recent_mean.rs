//! The mean over recent values.

use crate::draw::{Draw, below};

/// The mean of the last 64 values. `[A13]`
#[derive(Clone, Debug)]
pub(in crate::policy) struct RecentMean {
    ring: [u64; Self::REMEMBERED],
    sum: u64,
    /// Values so far. The next one goes to the place of this number in the ring.
    recorded: u64,
}

impl Default for RecentMean {
    fn default() -> Self {
        Self {
            ring: [0; Self::REMEMBERED],
            sum: 0,
            recorded: 0,
        }
    }
}

impl RecentMean {
    const REMEMBERED: usize = 64;
    /// Larger values count as this, so that the sum cannot overflow.
    const VALUE_MAX: u64 = u64::MAX >> 7;

    pub(in crate::policy) fn record(&mut self, value: u64) {
        let value = value.min(Self::VALUE_MAX);
        self.sum += value;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the length of the ring"
        )]
        let place = (self.recorded % Self::REMEMBERED as u64) as usize;
        self.sum -= core::mem::replace(&mut self.ring[place], value);
        self.recorded += 1;
    }

    fn len(&self) -> u64 {
        self.recorded.min(Self::REMEMBERED as u64)
    }

    /// One of the values, drawn. 0 without a draw if there are none.
    pub(in crate::policy) fn drawn(&self, draw: &mut dyn Draw) -> u64 {
        match u32::try_from(self.len()) {
            Ok(len) if len > 0 => self.ring[below(draw, len) as usize],
            _ => 0,
        }
    }

    /// The mean, rounded to the nearest. 0 if there are no values.
    pub(in crate::policy) fn mean(&self) -> u64 {
        let of = |len: u64| (self.sum + len / 2) / len;
        // Nearly always, and then no division is needed: the length is a power of two.
        if self.recorded >= Self::REMEMBERED as u64 {
            of(Self::REMEMBERED as u64)
        } else {
            of(self.recorded.max(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_covers_last_64_values_rounded_to_nearest() {
        let mut mean = RecentMean::default();
        assert_eq!(mean.mean(), 0, "of nothing");
        mean.record(7);
        assert_eq!(mean.mean(), 7);
        mean.record(8);
        assert_eq!(mean.mean(), 8, "7.5");
        mean.record(7);
        assert_eq!(mean.mean(), 7, "22 / 3");
        for _ in 0..61 {
            mean.record(100);
        }
        assert_eq!(mean.mean(), 96, "6,122 / 64");
        mean.record(100);
        mean.record(100);
        mean.record(100);
        assert_eq!(mean.mean(), 100, "what came first counts no more");
    }

    #[test]
    fn extreme_values_are_clamped() {
        let mut mean = RecentMean::default();
        for _ in 0..200 {
            mean.record(u64::MAX);
        }
        assert_eq!(mean.mean(), RecentMean::VALUE_MAX);
    }
}
