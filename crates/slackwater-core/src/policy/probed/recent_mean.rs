//! Recent values, and their mean.

use crate::draw::{Draw, below};

/// The last 64 values. `[A13]`
#[derive(Clone, Debug)]
pub(in crate::policy) struct RecentValues {
    ring: [u64; Self::REMEMBERED],
    /// Values so far. The next one goes to the place of this number in the ring.
    recorded: u64,
}

impl Default for RecentValues {
    fn default() -> Self {
        Self {
            ring: [0; Self::REMEMBERED],
            recorded: 0,
        }
    }
}

impl RecentValues {
    const REMEMBERED: usize = 64;
    /// Larger values count as this, so that their sum cannot overflow.
    const VALUE_MAX: u64 = u64::MAX >> 7;

    /// Records a value. Returns the one that is forgotten for it, or 0.
    #[inline]
    pub(in crate::policy) fn record(&mut self, value: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than the length of the ring"
        )]
        let place = (self.recorded % Self::REMEMBERED as u64) as usize;
        self.recorded += 1;
        core::mem::replace(&mut self.ring[place], value)
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
        let values = self.ring.iter().map(|&value| value.min(Self::VALUE_MAX));
        self.mean_of(values.sum())
    }

    /// The ordinary values and their mean. The highest fifth count as the highest of the others, so
    /// that a replica which is overloaded or lies does not stand for all.
    pub(in crate::policy) fn ordinary(&self) -> Ordinary {
        let mut sorted = self.ring;
        let len = usize::try_from(self.len()).unwrap_or(Self::REMEMBERED);
        let values = &mut sorted[..len];
        values.sort_unstable();
        let most = values.get(values.len() * 4 / 5);
        let most = most.map_or(0, |&most| most.min(Self::VALUE_MAX));
        let sum = values.iter().map(|&value| value.min(most)).sum();
        Ordinary {
            most,
            mean: self.mean_of(sum),
        }
    }

    /// The mean, if the sum is this.
    fn mean_of(&self, sum: u64) -> u64 {
        let mean = |len: u64| (sum + len / 2) / len;
        // Most often there are all, and then no division is needed: the length is a power of two.
        if self.recorded >= Self::REMEMBERED as u64 {
            mean(Self::REMEMBERED as u64)
        } else {
            mean(self.recorded.max(1))
        }
    }
}

/// What is ordinary among recent values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) struct Ordinary {
    /// Higher values count as this.
    pub(in crate::policy) most: u64,
    pub(in crate::policy) mean: u64,
}

/// The last 64 values and their sum, for a mean that is needed more often than a value comes.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct RecentMean {
    values: RecentValues,
    sum: u64,
}

impl RecentMean {
    #[inline]
    pub(in crate::policy) fn record(&mut self, value: u64) {
        let value = value.min(RecentValues::VALUE_MAX);
        self.sum += value;
        self.sum -= self.values.record(value);
    }

    /// The mean, rounded to the nearest. 0 if there are no values.
    pub(in crate::policy) fn mean(&self) -> u64 {
        self.values.mean_of(self.sum)
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
    fn highest_fifth_counts_as_the_highest_of_the_others() {
        let mut values = RecentValues::default();
        assert_eq!(values.ordinary(), Ordinary { most: 0, mean: 0 });
        for value in [10, 20, 30, 40, 1_000] {
            values.record(value);
        }
        let ordinary = values.ordinary();
        assert_eq!((ordinary.most, ordinary.mean), (1_000, 220), "one of five");
        values.record(50);
        let ordinary = values.ordinary();
        assert_eq!((ordinary.most, ordinary.mean), (50, 33), "one of six");
        for value in 1..=64 {
            values.record(value);
        }
        assert_eq!(values.ordinary().most, 52, "below are 51 of 64");
    }

    #[test]
    fn kept_mean_is_the_mean_of_the_values() {
        let mut draw = crate::draw::SplitMix64::new(2);
        let (mut mean, mut values) = (RecentMean::default(), RecentValues::default());
        for step in 0..500 {
            let value = draw.draw() >> (step % 64);
            mean.record(value);
            values.record(value);
            assert_eq!(mean.mean(), values.mean(), "{step}");
        }
    }

    #[test]
    fn extreme_values_are_clamped() {
        let mut mean = RecentMean::default();
        for _ in 0..200 {
            mean.record(u64::MAX);
        }
        assert_eq!(mean.mean(), RecentValues::VALUE_MAX);
    }
}
