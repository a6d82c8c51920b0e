//! One order over all candidates: its least element is chosen, its greatest is removed.
//!
//! Every policy that compares reports gives each its [`Place`]. The best, the worst and the
//! runner-up are found here, and ties are drawn. "Worst" is the reverse of the same order as
//! "best", so choice and removal cannot disagree.
//!
//! A place and an index are packed into one number, so that the search has no branch that depends
//! on the load.

use crate::draw::{Draw, below};
use crate::replica::ReplicaId;

/// What rules compare: load in units that are the same for all candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// RIF, or scaled RIF.
    pub(in crate::policy) rif: u64,
    /// The latency, or the stand-in for an unknown one. `[A7]`
    pub(in crate::policy) latency_ns: u64,
}

/// The sort key of a candidate; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// What decides.
    pub(in crate::policy) first: u64,
    /// Decides between equals in `first`. Values of at least 2^(64 − index bits) − 1 count as
    /// equal; in a pool, of at least 2^56 − 1.
    pub(in crate::policy) second: u64,
}

/// The current order: the place of a replica with this load.
pub trait Order: Fn(ReplicaId, Load) -> Place + Copy {}

impl<F: Fn(ReplicaId, Load) -> Place + Copy> Order for F {}

/// A place and, in the lowest `INDEX_BITS`, the candidate's index. From the top: `first` (64 bits),
/// `second`, index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::policy) struct Rank<const INDEX_BITS: u32>(u128);

/// Ranks among at most 256 candidates: a pool, or the answers to a round.
pub(in crate::policy) type PoolRank = Rank<8>;

impl<const INDEX_BITS: u32> Rank<INDEX_BITS> {
    /// The rank of the candidate at `index`, which must be below 2^`INDEX_BITS`.
    pub(in crate::policy) fn new(index: u32, place: Place) -> Self {
        let second = place.second.min(u64::MAX >> INDEX_BITS);
        let low = (second << INDEX_BITS) | u64::from(index);
        Self((u128::from(place.first) << 64) | u128::from(low))
    }

    /// No candidate's rank is higher.
    pub(in crate::policy) const HIGHEST: Self = Self(u128::MAX);

    /// What decided.
    pub(in crate::policy) const fn first(self) -> u64 {
        (self.0 >> 64) as u64
    }

    pub(in crate::policy) const fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    pub(in crate::policy) const fn ties_with(self, other: Self) -> bool {
        self.0 >> INDEX_BITS == other.0 >> INDEX_BITS
    }
}

/// The best of some ranked candidates, and the second best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) struct Best {
    pub(in crate::policy) index: usize,
    /// What decided: the first part of its place.
    pub(in crate::policy) first: u64,
    /// How many candidates there were.
    pub(in crate::policy) count: usize,
    pub(in crate::policy) runner_up: Option<usize>,
}

/// The candidate of the lowest rank. Among `k` equals, a single draw below `k` decides, in order of
/// index; a single candidate needs no draw. The runner-up is the lowest of the rest, by rank and
/// then index.
pub(in crate::policy) fn best<const INDEX_BITS: u32>(
    candidates: impl Iterator<Item = Rank<INDEX_BITS>> + Clone,
    draw: &mut dyn Draw,
) -> Option<Best> {
    // One pass for the two lowest ranks, without a branch that depends on the load.
    let (mut first, mut second) = (Rank(u128::MAX), Rank::<INDEX_BITS>(u128::MAX));
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
    let decided = first.first();
    if count == 1 {
        return Some(Best {
            index: first.index(),
            first: decided,
            count,
            runner_up: None,
        });
    }
    let chosen = if second.ties_with(first) {
        one_of(candidates, first, draw)
    } else {
        first
    };
    // If another of the equals was drawn, the lowest one is the runner-up.
    let runner_up = if chosen == first { second } else { first };
    Some(Best {
        index: chosen.index(),
        first: decided,
        count,
        runner_up: Some(runner_up.index()),
    })
}

/// The candidate of the highest rank. Equals are drawn, as in [`best`].
pub(in crate::policy) fn worst<const INDEX_BITS: u32>(
    candidates: impl Iterator<Item = Rank<INDEX_BITS>> + Clone,
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
fn one_of<const INDEX_BITS: u32>(
    candidates: impl Iterator<Item = Rank<INDEX_BITS>> + Clone,
    tied: Rank<INDEX_BITS>,
    draw: &mut dyn Draw,
) -> Rank<INDEX_BITS> {
    let mut equals = candidates.filter(|rank| rank.ties_with(tied));
    let count = u32::try_from(equals.clone().count()).unwrap_or(u32::MAX);
    equals.nth(below(draw, count) as usize).unwrap_or(tied)
}

/// The latency that stands for an unknown one: the median of the known ones, element ⌈k/2⌉. 0 if
/// none is known, since all are then equal anyway. Changes the order of `known_ns`.
pub(in crate::policy) fn stand_in_ns(known_ns: &mut [u64]) -> u64 {
    match known_ns.len().div_ceil(2).checked_sub(1) {
        Some(median) => *known_ns.select_nth_unstable(median).1,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;
    use alloc::vec::Vec;

    fn ranks(places: &[(u64, u64)]) -> Vec<PoolRank> {
        (0..)
            .zip(places)
            .map(|(index, &(first, second))| Rank::new(index, Place { first, second }))
            .collect()
    }

    #[test]
    fn first_key_decides_then_second_and_worst_is_reverse() {
        let ranks = ranks(&[(2, 9), (1, 5), (1, 4), (3, 0), (3, 1)]);
        let mut no_ties = || -> u64 { panic!("these places have no ties") };
        let best = best(ranks.iter().copied(), &mut no_ties);
        let expected = Best {
            index: 2,
            first: 1,
            count: 5,
            runner_up: Some(1),
        };
        assert_eq!(best, Some(expected));
        assert_eq!(worst(ranks.into_iter(), &mut no_ties), Some(4));
    }

    #[test]
    fn ties_of_best_and_worst_are_drawn_evenly() {
        let mut draw = SplitMix64::new(3);
        let tied = ranks(&[(1, 1); 4]);
        let mut counts = [[0_i32; 4]; 2];
        for _ in 0..40_000 {
            counts[0][best(tied.iter().copied(), &mut draw).expect("four").index] += 1;
            counts[1][worst(tied.iter().copied(), &mut draw).expect("four")] += 1;
        }
        // Mean 10,000, standard deviation 87; the limit is six of them.
        assert!(
            counts
                .iter()
                .flatten()
                .all(|count| (count - 10_000).abs() < 520),
            "{counts:?}"
        );
    }

    #[test]
    fn runner_up_is_second_best() {
        let ranks = ranks(&[(9, 5), (1, 1), (2, 2), (0, 1)]);
        let best_of = |count| best(ranks.iter().take(count).copied(), &mut || 0);
        assert_eq!(
            best_of(4).map(|best| (best.index, best.runner_up)),
            Some((3, Some(1)))
        );
        assert_eq!(best_of(1).map(|best| best.runner_up), Some(None));
        assert_eq!(best_of(0), None);
    }

    #[test]
    fn extreme_keys_do_not_overflow_into_the_index() {
        let most = Place {
            first: u64::MAX,
            second: u64::MAX,
        };
        let rank = Rank::<20>::new((1 << 20) - 1, most);
        assert_eq!((rank.first(), rank.index()), (u64::MAX, (1 << 20) - 1));
        assert_eq!(Rank::<20>::new(0, most).index(), 0);
        assert_eq!(PoolRank::new(255, most).index(), 255);
    }

    #[test]
    fn unknown_latency_ranks_as_median_of_known() {
        assert_eq!(stand_in_ns(&mut []), 0);
        assert_eq!(stand_in_ns(&mut [7]), 7);
        assert_eq!(stand_in_ns(&mut [9, 3]), 3, "of two, the lower");
        assert_eq!(stand_in_ns(&mut [9, 3, 5]), 5);
    }
}
