//! The hot-cold lexicographic rule: one order over reports, its least element to choose, its greatest to remove.
//!
//! `[A7]` `[Prequal §4 "Replica selection"]` A report is hot when its RIF has reached the limit. Cold ones come before
//! hot ones; cold ones are ordered by latency and then RIF, hot ones by RIF and then latency. "Worst" is the reverse of
//! this very order, so that choice and removal cannot disagree.
//!
//! The order is one number, so that the best of a pool is found without a branch that depends on the load.

use crate::draw::{Draw, below};
use crate::report::Rif;

/// What the rule compares: load in units that are the same for all reports compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// Values from 2^56 on count as equal; 32 bits of RIF, scaled by 16 bits, are fewer.
    pub(super) rif: u64,
    /// Values from 2^56 on (two years) count as equal.
    pub(super) latency_ns: u64,
}

/// A report's place in the order, the lower the better; and, in the lowest 8 bits, its index. From the top: hot (1 bit);
/// latency (63) and RIF (56) of a cold report, RIF and latency of a hot one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u128);

const INDEX_BITS: u32 = 8;
const SIGNAL_MAX: u64 = (1 << 56) - 1;
const HOT: u64 = 1 << 63;

impl Rank {
    /// The rank of the report at `index`, at most 255, with `load`, where a RIF of `limit` or more is hot; `None` makes nothing hot.
    ///
    /// Section 4 says that hot RIF "exceeds" the limit, but with the limit at the maximum (§5.3, Q = 0.999) "a replica
    /// tied for the maximum" is hot, and at Q = 0 all are: so hot is `≥`.
    pub(super) fn new(index: u32, load: Load, limit: Option<u64>) -> Self {
        let rif = load.rif.min(SIGNAL_MAX);
        let latency = load.latency_ns.min(SIGNAL_MAX);
        let hot = limit.is_some_and(|limit| load.rif >= limit);
        let (first, second) = if hot {
            (HOT | rif, latency)
        } else {
            (latency, rif)
        };
        let low = (second << INDEX_BITS) | u64::from(index);
        Self((u128::from(first) << 64) | u128::from(low))
    }

    pub(super) const fn is_hot(self) -> bool {
        self.0 >> 127 == 1
    }

    const fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    const fn ties_with(self, other: Self) -> bool {
        self.0 >> INDEX_BITS == other.0 >> INDEX_BITS
    }
}

/// The best of some ranked candidates, and the second best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Best {
    pub(super) index: usize,
    pub(super) hot: bool,
    pub(super) runner_up: Option<usize>,
}

/// The candidate of the lowest rank; of `k` equals the one that a single draw below `k` says, in order of index, and
/// without a draw if there is but one. The runner-up is the lowest of the rest, by rank and then index.
pub(super) fn best(
    candidates: impl Iterator<Item = Rank> + Clone,
    draw: &mut dyn Draw,
) -> Option<Best> {
    let (mut first, mut second) = (Rank(u128::MAX), Rank(u128::MAX));
    let mut count = 0_usize;
    for rank in candidates.clone() {
        let (lower, higher) = if rank.0 < first.0 {
            (rank, first)
        } else {
            (first, rank)
        };
        first = lower;
        second = if higher.0 < second.0 { higher } else { second };
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let hot = first.is_hot();
    if count == 1 {
        return Some(Best {
            index: first.index(),
            hot,
            runner_up: None,
        });
    }
    let chosen = if second.ties_with(first) {
        one_of(candidates, first, draw)
    } else {
        first
    };
    let runner_up = if chosen == first { second } else { first };
    Some(Best {
        index: chosen.index(),
        hot,
        runner_up: Some(runner_up.index()),
    })
}

/// The candidate of the highest rank; of equals one at random, as in [`best`].
pub(super) fn worst(
    candidates: impl Iterator<Item = Rank> + Clone,
    draw: &mut dyn Draw,
) -> Option<usize> {
    let worst = candidates.clone().max()?;
    let ties = candidates
        .clone()
        .filter(|rank| rank.ties_with(worst))
        .count();
    let chosen = if ties > 1 {
        one_of(candidates, worst, draw)
    } else {
        worst
    };
    Some(chosen.index())
}

/// One of the candidates that tie with `tied`.
fn one_of(candidates: impl Iterator<Item = Rank> + Clone, tied: Rank, draw: &mut dyn Draw) -> Rank {
    let mut equals = candidates.filter(|rank| rank.ties_with(tied));
    let count = u32::try_from(equals.clone().count()).unwrap_or(u32::MAX);
    equals.nth(below(draw, count) as usize).unwrap_or(tied)
}

/// The latency that stands for an unknown one: the median of those known, element ⌈k/2⌉; 0 if none is known, when all
/// are equal in this respect anyway. Sorts `known_ns` in place.
pub(super) fn stand_in_ns(known_ns: &mut [u64]) -> u64 {
    known_ns.sort_unstable();
    match known_ns.len().div_ceil(2).checked_sub(1) {
        Some(median) => known_ns[median],
        None => 0,
    }
}

/// The RIF limit in the units of [`Load`], for loads that are not scaled.
pub(super) fn unscaled(limit: Option<Rif>) -> Option<u64> {
    limit.map(|rif| u64::from(rif.count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;
    use alloc::vec::Vec;

    fn rank(rif: u64, latency_ns: u64, limit: Option<u64>) -> Rank {
        Rank::new(0, Load { rif, latency_ns }, limit)
    }

    fn ranks(loads: &[(u64, u64)], limit: Option<u64>) -> Vec<Rank> {
        (0..)
            .zip(loads)
            .map(|(index, &(rif, latency_ns))| Rank::new(index, Load { rif, latency_ns }, limit))
            .collect()
    }

    /// The best and the worst, where there are no ties.
    fn choose(loads: &[(u64, u64)], limit: Option<u64>) -> (usize, usize) {
        let ranks = ranks(loads, limit);
        let mut no_ties = || -> u64 { panic!("these loads have no ties") };
        let best = best(ranks.iter().copied(), &mut no_ties).expect("there are candidates");
        (
            best.index,
            worst(ranks.into_iter(), &mut no_ties).expect("there are candidates"),
        )
    }

    #[test]
    fn hot_begins_at_the_limit() {
        assert!(!rank(4, 0, Some(5)).is_hot());
        assert!(rank(5, 0, Some(5)).is_hot(), "tied with the limit is hot");
        assert!(rank(6, 0, Some(5)).is_hot());
        assert!(rank(0, 0, Some(0)).is_hot(), "Q = 0: everything is");
        assert!(!rank(u64::MAX, 0, None).is_hot(), "Q = 1: nothing is");
    }

    #[test]
    fn any_cold_the_cold_with_the_lowest_latency_wins_and_the_hot_with_the_highest_rif_loses() {
        assert_eq!(
            choose(&[(1, 30), (2, 10), (9, 1), (8, 99)], Some(5)),
            (1, 2)
        );
    }

    #[test]
    fn all_hot_the_lowest_rif_wins() {
        assert_eq!(choose(&[(7, 1), (6, 50), (9, 2)], Some(5)), (1, 2));
    }

    #[test]
    fn all_cold_the_highest_latency_loses() {
        assert_eq!(choose(&[(4, 20), (0, 30), (3, 10)], Some(5)), (2, 1));
    }

    #[test]
    fn ties_go_to_the_other_signal() {
        assert_eq!(
            choose(&[(3, 10), (2, 10), (4, 10)], Some(5)),
            (1, 2),
            "cold: the lower RIF"
        );
        assert_eq!(
            choose(&[(6, 30), (6, 20), (6, 40)], Some(5)),
            (1, 2),
            "hot: the lower latency"
        );
    }

    #[test]
    fn full_ties_are_drawn_evenly_for_best_and_worst() {
        let mut draw = SplitMix64::new(3);
        let tied = ranks(&[(1, 1); 4], Some(5));
        let mut counts = [[0_i32; 4]; 2];
        for _ in 0..40_000 {
            counts[0][best(tied.iter().copied(), &mut draw).expect("four").index] += 1;
            counts[1][worst(tied.iter().copied(), &mut draw).expect("four")] += 1;
        }
        // Mean 10,000, standard deviation 87; six of them.
        assert!(
            counts
                .iter()
                .flatten()
                .all(|count| (count - 10_000).abs() < 520),
            "{counts:?}"
        );
    }

    #[test]
    fn the_runner_up_is_the_second_best() {
        let ranks = ranks(&[(5, 9), (1, 1), (2, 2), (1, 0)], None);
        let best_of = |count| best(ranks.iter().take(count).copied(), &mut || 0);
        assert_eq!(
            best_of(4).map(|best| (best.index, best.runner_up)),
            Some((3, Some(1)))
        );
        assert_eq!(best_of(1).map(|best| best.runner_up), Some(None));
        assert_eq!(best_of(0), None);
    }

    #[test]
    fn extreme_loads_do_not_run_into_each_other() {
        let most = Load {
            rif: u64::MAX,
            latency_ns: u64::MAX,
        };
        let cold = Rank::new(255, most, None);
        let hot = Rank::new(
            0,
            Load {
                rif: 0,
                latency_ns: 0,
            },
            Some(0),
        );
        assert!(!cold.is_hot() && hot.is_hot() && cold < hot);
        assert_eq!(cold.index(), 255);
        assert!(
            rank(0, u64::MAX, None) < rank(1, u64::MAX, None),
            "the second signal still counts"
        );
    }

    #[test]
    fn an_unknown_latency_ranks_as_the_median_of_the_known() {
        assert_eq!(stand_in_ns(&mut []), 0);
        assert_eq!(stand_in_ns(&mut [7]), 7);
        assert_eq!(stand_in_ns(&mut [9, 3]), 3, "of two, the lower");
        assert_eq!(stand_in_ns(&mut [9, 3, 5]), 5);
    }
}
