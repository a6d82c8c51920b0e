//! The hot–cold lexicographic rule: cold before hot, the cold by latency, the hot by RIF.
//!
//! `[A7]` `[Prequal §4 "Replica selection"]` A report is hot when its RIF has reached the limit.
//! Cold ones come before hot ones. Cold ones are ordered by latency and then RIF, hot ones by RIF
//! and then latency. "Worst" is the reverse of the same order, so choice and removal cannot
//! disagree.

use crate::policy::comparison::{Comparison, Equals, Factor, Step, Values};
use crate::policy::pooled::PoolRule;
use crate::policy::probed::Client;
use crate::policy::probed::rank::{Load, Order, Place};
use crate::policy::query::PickReason;
use crate::replica::ReplicaId;
use crate::report::Rif;

/// The rule of [`Prequal`](crate::policy::Prequal).
#[derive(Clone, Debug, Default)]
pub struct HotCold;

impl PoolRule for HotCold {
    const NAME: &'static str = super::ENTRY.name;

    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        client.rif_limit()
    }

    fn order(&self, rif_limit: Option<Rif>, _client: &Client) -> impl Order {
        let limit = unscaled(rif_limit);
        move |_: ReplicaId, load| place(load, limit)
    }

    fn reason(first: u64) -> PickReason {
        reason(first)
    }

    fn comparison(&self, rif_limit: Option<Rif>) -> (&'static Comparison, Values) {
        (&COMPARISON, shared(rif_limit))
    }

    fn values(
        &self,
        _replica: ReplicaId,
        load: Load,
        rif_limit: Option<Rif>,
        _client: &Client,
    ) -> Values {
        values(load, unscaled(rif_limit))
    }
}

/// How the rule compares.
pub(in crate::policy) const COMPARISON: Comparison = Comparison {
    name: "hot_cold",
    formula: "hot = requests in flight ≥ RIF limit; cold before hot, the cold by latency, the hot \
              by requests in flight",
    shared: &[Factor::requests("rif_limit", "RIF limit", 1)],
    factors: &[
        Factor::requests("in_flight", "requests in flight", 1),
        LATENCY,
        IS_HOT,
    ],
    order: &[
        Step::lowest("hot"),
        Step {
            unless: Some("hot"),
            ..Step::lowest("latency_us")
        },
        Step::lowest("in_flight"),
        Step::lowest("latency_us"),
    ],
    equals: Equals::Draw,
};

/// The comparison when replicas scale what they report.
pub(super) const SCALED: Comparison = Comparison {
    name: "hot_cold_scaled",
    factors: &[
        Factor::requests("in_flight", "requests in flight, scaled", 1_024),
        LATENCY,
        IS_HOT,
    ],
    ..COMPARISON
};

const LATENCY: Factor = Factor::time("latency_us", "latency", 1_000);
const IS_HOT: Factor = Factor::flag("hot", "hot");

/// The values that all candidates have in common.
pub(in crate::policy) fn shared(rif_limit: Option<Rif>) -> Values {
    rif_limit.map_or(Values::NONE, |limit| Values::of([limit.count().into()]))
}

/// The compared values of a report.
pub(in crate::policy) fn values(load: Load, limit: Option<u64>) -> Values {
    let hot = is_hot(place(load, limit).first);
    Values::of([load.rif, load.latency_ns, hot.into()])
}

const SIGNAL_MAX: u64 = (1 << 56) - 1;
const HOT: u64 = 1 << 63;

/// The place of a report of `load`, if a RIF of `limit` or more is hot; with `None` nothing is hot.
/// From the top: hot (1 bit), then latency (63) and RIF (56) of a cold report, RIF and latency of a
/// hot one. Values of 2^56 or more count as equal.
///
/// Section 4 says that hot RIF "exceeds" the limit. But with the limit at the maximum (§5.3, Q =
/// 0.999) "a replica tied for the maximum" is hot, and at Q = 0 all are. So hot is `≥`.
pub(in crate::policy) fn place(load: Load, limit: Option<u64>) -> Place {
    let hot = limit.is_some_and(|limit| load.rif >= limit);
    let (first, second) = if hot {
        (HOT | load.rif.min(SIGNAL_MAX), load.latency_ns)
    } else {
        (load.latency_ns.min(SIGNAL_MAX), load.rif)
    };
    Place { first, second }
}

/// Whether a report is hot whose place begins with `first`.
pub(in crate::policy) const fn is_hot(first: u64) -> bool {
    first & HOT != 0
}

/// Why a report was chosen whose place begins with `first`.
pub(in crate::policy) const fn reason(first: u64) -> PickReason {
    if is_hot(first) {
        PickReason::Hot
    } else {
        PickReason::Cold
    }
}

/// The RIF limit in the units of [`Load`], for loads that are not scaled.
pub(in crate::policy) fn unscaled(limit: Option<Rif>) -> Option<u64> {
    limit.map(|rif| u64::from(rif.count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::probed::rank::{PoolRank, best, worst};

    fn rank(rif: u64, latency_ns: u64, limit: Option<u64>) -> PoolRank {
        PoolRank::new(0, place(Load { rif, latency_ns }, limit))
    }

    fn hot(rif: u64, limit: Option<u64>) -> bool {
        is_hot(rank(rif, 0, limit).first())
    }

    /// The best and the worst, when there are no ties.
    fn choose(loads: &[(u64, u64)], limit: Option<u64>) -> (usize, usize) {
        let loads = loads
            .iter()
            .map(|&(rif, latency_ns)| Load { rif, latency_ns });
        let ranks = (0..)
            .zip(loads)
            .map(|(index, load)| PoolRank::new(index, place(load, limit)));
        let mut no_ties = || -> u64 { panic!("these loads have no ties") };
        let best = best(ranks.clone(), &mut no_ties).expect("there are candidates");
        (
            best.index,
            worst(ranks, &mut no_ties).expect("there are candidates"),
        )
    }

    #[test]
    fn rif_at_the_limit_is_hot() {
        assert!(!hot(4, Some(5)));
        assert!(hot(5, Some(5)), "tied with the limit is hot");
        assert!(hot(6, Some(5)));
        assert!(hot(0, Some(0)), "Q = 0: everything is");
        assert!(!hot(u64::MAX, None), "Q = 1: nothing is");
    }

    #[test]
    fn lowest_latency_cold_wins_and_highest_rif_hot_loses() {
        assert_eq!(
            choose(&[(1, 30), (2, 10), (9, 1), (8, 99)], Some(5)),
            (1, 2)
        );
    }

    #[test]
    fn if_all_are_hot_lowest_rif_wins() {
        assert_eq!(choose(&[(7, 1), (6, 50), (9, 2)], Some(5)), (1, 2));
    }

    #[test]
    fn if_all_are_cold_highest_latency_loses() {
        assert_eq!(choose(&[(4, 20), (0, 30), (3, 10)], Some(5)), (2, 1));
    }

    #[test]
    fn other_signal_breaks_ties() {
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
    fn extreme_loads_keep_hot_and_cold_apart() {
        let cold = rank(u64::MAX, u64::MAX, None);
        let hot = rank(0, 0, Some(0));
        assert!(!is_hot(cold.first()) && is_hot(hot.first()) && cold < hot);
        assert!(
            rank(0, u64::MAX, None) < rank(1, u64::MAX, None),
            "the second signal still counts"
        );
    }
}
