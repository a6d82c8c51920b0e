//! The hot-cold lexicographic rule: one order over reports, its least element to choose, its greatest to remove.
//!
//! `[A7]` `[Prequal §4 "Replica selection"]` A report is hot when its RIF has reached the limit. Cold ones come before
//! hot ones; cold ones are ordered by latency and then RIF, hot ones by RIF and then latency. "Worst" is the reverse of
//! this very order, so that choice and removal cannot disagree.

use crate::draw::{Draw, below};
use crate::report::Rif;

/// What the rule compares: load in units that are the same for all reports compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) rif: u64,
    pub(super) latency_ns: u64,
}

/// A report's place in the order: the lower, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    hot: bool,
    first: u64,
    second: u64,
}

impl Rank {
    /// The rank of `load` where a RIF of `limit` or more is hot; `None` makes nothing hot.
    ///
    /// Section 4 says that hot RIF "exceeds" the limit, but with the limit at the maximum (§5.3, Q = 0.999) "a replica
    /// tied for the maximum" is hot, and at Q = 0 all are: so hot is `≥`.
    pub(super) const fn new(load: Load, limit: Option<u64>) -> Self {
        match limit {
            Some(limit) if load.rif >= limit => Self {
                hot: true,
                first: load.rif,
                second: load.latency_ns,
            },
            _ => Self {
                hot: false,
                first: load.latency_ns,
                second: load.rif,
            },
        }
    }

    pub(super) const fn is_hot(self) -> bool {
        self.hot
    }
}

/// The best of some ranked candidates, and the second best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Best {
    pub(super) index: usize,
    pub(super) rank: Rank,
    pub(super) runner_up: Option<usize>,
}

/// The candidate of the lowest rank; among equals a random one, each with the same chance. Draws only for ties.
pub(super) fn best(
    candidates: impl Iterator<Item = (usize, Rank)>,
    draw: &mut dyn Draw,
) -> Option<Best> {
    let mut best: Option<Best> = None;
    let mut runner_up_rank = None;
    let mut ties = 1;
    for (index, rank) in candidates {
        let Some(leader) = &mut best else {
            best = Some(Best {
                index,
                rank,
                runner_up: None,
            });
            continue;
        };
        let wins = if rank == leader.rank {
            ties += 1;
            below(draw, ties) == 0
        } else {
            if rank < leader.rank {
                ties = 1;
            }
            rank < leader.rank
        };
        if wins {
            runner_up_rank = Some(leader.rank);
            *leader = Best {
                index,
                rank,
                runner_up: Some(leader.index),
            };
        } else if runner_up_rank.is_none_or(|second| rank < second) {
            runner_up_rank = Some(rank);
            leader.runner_up = Some(index);
        }
    }
    best
}

/// The candidate of the highest rank; among equals a random one.
pub(super) fn worst(
    candidates: impl Iterator<Item = (usize, Rank)>,
    draw: &mut dyn Draw,
) -> Option<usize> {
    let mut worst: Option<(usize, Rank)> = None;
    let mut ties = 1;
    for (index, rank) in candidates {
        let replaces = match worst {
            None => true,
            Some((_, highest)) if rank == highest => {
                ties += 1;
                below(draw, ties) == 0
            }
            Some((_, highest)) => {
                if rank > highest {
                    ties = 1;
                }
                rank > highest
            }
        };
        if replaces {
            worst = Some((index, rank));
        }
    }
    worst.map(|(index, _)| index)
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
        Rank::new(Load { rif, latency_ns }, limit)
    }

    fn choose(loads: &[(u64, u64)], limit: Option<u64>) -> (usize, usize) {
        let ranked: Vec<_> = loads
            .iter()
            .map(|&(rif, latency_ns)| rank(rif, latency_ns, limit))
            .collect();
        let mut no_ties = || -> u64 { panic!("these loads have no ties") };
        let candidates = || ranked.iter().copied().enumerate();
        let best = best(candidates(), &mut no_ties).expect("there are candidates");
        (
            best.index,
            worst(candidates(), &mut no_ties).expect("there are candidates"),
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
        let mut counts = [[0_i32; 4]; 2];
        for _ in 0..40_000 {
            let tied = || (0..4).map(|index| (index, rank(1, 1, Some(5))));
            counts[0][best(tied(), &mut draw).expect("four").index] += 1;
            counts[1][worst(tied(), &mut draw).expect("four")] += 1;
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
        let ranks = [(5, 9), (1, 1), (2, 2), (1, 0)].map(|(rif, ns)| rank(rif, ns, None));
        let best = best(ranks.into_iter().enumerate(), &mut || 0).expect("four");
        assert_eq!((best.index, best.runner_up), (3, Some(1)));
        let alone = super::best(ranks.into_iter().take(1).enumerate(), &mut || 0).expect("one");
        assert_eq!(alone.runner_up, None);
    }

    #[test]
    fn an_unknown_latency_ranks_as_the_median_of_the_known() {
        assert_eq!(stand_in_ns(&mut []), 0);
        assert_eq!(stand_in_ns(&mut [7]), 7);
        assert_eq!(stand_in_ns(&mut [9, 3]), 3, "of two, the lower");
        assert_eq!(stand_in_ns(&mut [9, 3, 5]), 5);
    }
}
