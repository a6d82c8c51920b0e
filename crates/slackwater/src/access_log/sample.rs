//! Which lines are written: all, or a share of them, drawn at random. Failed and slow requests always are.

use core::hash::{BuildHasher, Hasher};
use core::time::Duration;
use slackwater_core::{Draw, Quantile, SplitMix64};
use std::hash::RandomState;

/// One worker's choice.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Of 2^64 draws, as many are written. `None`: all.
    below: Option<u64>,
    always_slower_than: Duration,
    draws: SplitMix64,
}

impl Sample {
    pub(super) fn new(share: Quantile, always_slower_than: Duration) -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self::seeded(share, always_slower_than, seed)
    }

    fn seeded(share: Quantile, always_slower_than: Duration, seed: u64) -> Self {
        let below = u128::from(share.millionths()) * (1 << 64) / 1_000_000;
        Self {
            // A share of 1 is 2^64, which does not fit.
            below: u64::try_from(below).ok(),
            always_slower_than,
            draws: SplitMix64::new(seed),
        }
    }

    /// Whether this request's line is written.
    pub(super) fn takes(&mut self, failed: bool, took: Duration) -> bool {
        let Some(below) = self.below else {
            return true;
        };
        failed || took >= self.always_slower_than || self.draws.draw() < below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_secs(1);

    fn taken(share: u32, failed: bool, took: Duration) -> usize {
        let share = Quantile::from_millionths(share).expect("a share");
        let mut sample = Sample::seeded(share, SLOW, 7);
        (0..100_000).filter(|_| sample.takes(failed, took)).count()
    }

    #[test]
    fn a_share_of_ordinary_requests_is_taken_and_all_that_failed_or_were_slow() {
        let quick = Duration::from_millis(1);
        assert_eq!(taken(1_000_000, false, quick), 100_000);
        assert_eq!(taken(0, false, quick), 0);
        // The standard deviation of the count is 31.
        let tenth = taken(10_000, false, quick);
        assert!((800..1_200).contains(&tenth), "{tenth}");
        assert_eq!(taken(0, true, quick), 100_000);
        assert_eq!(taken(0, false, SLOW), 100_000);
        assert_eq!(taken(0, false, Duration::from_millis(999)), 0);
    }
}
