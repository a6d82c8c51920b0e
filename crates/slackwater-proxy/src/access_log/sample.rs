//! Decides which lines are written: all, or a random share of them. Failed and slow requests are
//! always logged.

use crate::sampling::Sampling;
use core::time::Duration;
use slackwater_core::Quantile;

/// One worker's sampling state.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    sampling: Sampling,
    always_slower_than: Duration,
}

impl Sample {
    pub(super) fn new(share: Quantile, always_slower_than: Duration) -> Self {
        Self {
            sampling: Sampling::new(share),
            always_slower_than,
        }
    }

    /// Whether this request's line is written.
    pub(super) fn takes(&mut self, failed: bool, took: Duration) -> bool {
        failed || took >= self.always_slower_than || self.sampling.takes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_secs(1);

    fn taken(share: u32, failed: bool, took: Duration) -> usize {
        let share = Quantile::from_millionths(share).expect("a share");
        let mut sample = Sample {
            sampling: Sampling::seeded(share, 7),
            always_slower_than: SLOW,
        };
        (0..100_000).filter(|_| sample.takes(failed, took)).count()
    }

    #[test]
    fn failed_and_slow_requests_are_always_logged_others_sampled() {
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
