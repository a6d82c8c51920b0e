//! The RIF limit: the RIF from which a report counts as hot.
//!
//! `[A6]` `[Prequal §4 "Replica selection"]` The limit is a quantile of the RIF distribution across
//! replicas, estimated from recent probe responses. It does not use the pool: the reports left
//! there are a biased sample, and with one of its own elements as the limit, the pool could never
//! be all hot. It uses only responses of available replicas: one that drains or is ejected runs
//! empty, and must not define hot and cold where queries do go. `[Decision 0002]`

use crate::fixed::Quantile;
use crate::report::Rif;
use alloc::boxed::Box;
use alloc::vec;

/// How many responses the estimate remembers. `[A6]`
const REMEMBERED: usize = 128;

/// The RIF of recent probe responses.
#[derive(Clone, Debug)]
pub(in crate::policy) struct RifDistribution {
    /// In order of arrival, wrapping at `next`.
    ring: Box<[Rif]>,
    /// The values of `ring` in ascending order; only the first `len` count.
    sorted: Box<[Rif]>,
    next: usize,
    len: usize,
}

impl RifDistribution {
    pub(in crate::policy) fn new() -> Self {
        let empty = || vec![Rif::ZERO; REMEMBERED].into_boxed_slice();
        Self {
            ring: empty(),
            sorted: empty(),
            next: 0,
            len: 0,
        }
    }

    pub(in crate::policy) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets everything.
    pub(in crate::policy) fn clear(&mut self) {
        (self.next, self.len) = (0, 0);
    }

    /// Records a response, and forgets the oldest if there are too many. In `sorted`, only the
    /// values between the two move.
    pub(in crate::policy) fn record(&mut self, rif: Rif) {
        let oldest = core::mem::replace(&mut self.ring[self.next], rif);
        self.next = (self.next + 1) % REMEMBERED;
        let sorted = &mut self.sorted[..self.len];
        let place = sorted.partition_point(|&other| other < rif);
        if self.len < REMEMBERED {
            self.sorted.copy_within(place..self.len, place + 1);
            self.sorted[place] = rif;
            self.len += 1;
            return;
        }
        let gap = sorted.partition_point(|&other| other < oldest);
        if gap < place {
            sorted.copy_within(gap + 1..place, gap);
            sorted[place - 1] = rif;
        } else {
            sorted.copy_within(place..gap, place + 1);
            sorted[place] = rif;
        }
    }

    /// The RIF from which a report is hot: the nearest-rank quantile. At 0 the limit is 0
    /// (everything is hot), at 1 there is none (everything is cold). `[A7]`
    pub(in crate::policy) fn limit(&self, quantile: Quantile) -> Option<Rif> {
        if quantile == Quantile::ZERO {
            Some(Rif::ZERO)
        } else if quantile == Quantile::ONE {
            None
        } else {
            self.sorted[..self.len]
                .get(quantile.nearest_rank(self.len))
                .copied()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{SplitMix64, below};
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    fn q(millionths: u32) -> Quantile {
        Quantile::from_millionths(millionths).expect("at most one")
    }

    #[test]
    fn limit_is_the_nearest_rank() {
        let mut distribution = RifDistribution::new();
        assert_eq!(
            distribution.limit(q(500_000)),
            None,
            "nothing is known, nothing is hot"
        );
        for rif in [50, 10, 40, 20, 30] {
            distribution.record(Rif::new(rif));
        }
        assert_eq!(
            distribution.limit(q(840_896)),
            Some(Rif::new(50)),
            "⌈0.84 · 5⌉ = 5th"
        );
        assert_eq!(
            distribution.limit(q(800_000)),
            Some(Rif::new(40)),
            "⌈0.8 · 5⌉ = 4th"
        );
        assert_eq!(distribution.limit(q(1)), Some(Rif::new(10)));
        assert_eq!(
            distribution.limit(q(999_999)),
            Some(Rif::new(50)),
            "ties at the maximum are hot"
        );
    }

    #[test]
    fn quantile_zero_makes_all_hot_and_one_makes_none_hot() {
        let mut distribution = RifDistribution::new();
        assert_eq!(distribution.limit(Quantile::ZERO), Some(Rif::ZERO));
        distribution.record(Rif::new(7));
        assert_eq!(distribution.limit(Quantile::ZERO), Some(Rif::ZERO));
        assert_eq!(distribution.limit(Quantile::ONE), None);
    }

    #[test]
    fn only_last_128_values_count() {
        let mut draw = SplitMix64::new(11);
        let mut distribution = RifDistribution::new();
        let mut recent = VecDeque::new();
        for _ in 0..1_000 {
            let rif = Rif::new(below(&mut draw, 40));
            distribution.record(rif);
            recent.push_back(rif);
            if recent.len() > 128 {
                recent.pop_front();
            }
            let mut sorted: Vec<_> = recent.iter().copied().collect();
            sorted.sort_unstable();
            assert_eq!(distribution.sorted[..distribution.len], sorted);
            for quantile in [q(1), q(300_000), q(840_896), q(999_000)] {
                let rank = quantile.nearest_rank(sorted.len());
                assert_eq!(distribution.limit(quantile), Some(sorted[rank]));
            }
        }
    }
}
