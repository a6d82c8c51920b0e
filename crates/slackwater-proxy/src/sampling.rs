//! Random sampling of requests.

use crate::seed::draw_seed;
use slackwater_core::{Draw, Quantile, SplitMix64};

/// One worker's draws.
#[derive(Clone, Debug)]
pub(crate) struct Sampling {
    /// A draw below this value is taken. `None`: all requests are taken, without a draw.
    below: Option<u64>,
    draws: SplitMix64,
}

impl Sampling {
    pub(crate) fn new(share: Quantile) -> Self {
        Self::seeded(share, draw_seed())
    }

    pub(crate) fn seeded(share: Quantile, seed: u64) -> Self {
        let below = u128::from(share.millionths()) * (1 << 64) / 1_000_000;
        Self {
            // A share of 1 is 2^64, which does not fit.
            below: u64::try_from(below).ok(),
            draws: SplitMix64::new(seed),
        }
    }

    /// Whether the next request is taken.
    pub(crate) fn takes(&mut self) -> bool {
        self.below.is_none_or(|below| self.draws.draw() < below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_requests_is_sampled() {
        for (millionths, least, most) in [
            (0, 0, 0),
            // The standard deviation of the count is 31.
            (10_000, 800, 1_200),
            (1_000_000, 100_000, 100_000),
        ] {
            let share = Quantile::from_millionths(millionths).expect("a share");
            let mut sampling = Sampling::seeded(share, 7);
            let taken = (0..100_000).filter(|_| sampling.takes()).count();
            assert!((least..=most).contains(&taken), "{millionths}: {taken}");
        }
    }
}
