//! How strong the evidence is that a replica fails more often than the others, and not by chance.
//! `[E3]` `[E4]`
//!
//! If the replica were as good as the others, each failure of the fleet would be its own with a
//! probability equal to its part of the queries, at any failure rate of the fleet. The evidence is
//! how unlikely its number of failures would then be. Both sides count. A single failure proves
//! nothing where the others have had only a few dozen queries, and many failures prove nothing
//! where the others fail as well.

use crate::logarithm::{PLACES, log2};

/// Queries that ended, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) queries: u64,
    pub(super) failures: u64,
}

impl Sample {
    pub(super) const fn add(&mut self, other: Self) {
        self.queries = self.queries.saturating_add(other.queries);
        self.failures = self.failures.saturating_add(other.failures);
    }

    /// Everything except `part`.
    pub(super) const fn without(self, part: Self) -> Self {
        Self {
            queries: self.queries.saturating_sub(part.queries),
            failures: self.failures.saturating_sub(part.failures),
        }
    }
}

/// Bits of evidence: by chance, `own` would have this many of the failures less than once in 2^bits
/// (Chernoff's bound for draws with fixed odds). 0 if its part of the failures does not exceed its
/// part of the queries.
pub(super) fn bits(own: Sample, others: Sample) -> u64 {
    let queries = own.queries.saturating_add(others.queries);
    let failures = own.failures.saturating_add(others.failures);
    let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
    if wide(own.failures, queries) <= wide(failures, own.queries) {
        return 0;
    }
    // For each side: failures × log2(failures / its proportional part of all failures).
    let side = |sample: Sample| {
        let log = |value| i128::from(log2(value));
        let times = log(sample.failures) + log(queries) - log(failures) - log(sample.queries);
        i128::from(sample.failures) * times
    };
    let bits = (side(own) + side(others)) >> PLACES;
    u64::try_from(bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(queries: u64, failures: u64) -> Sample {
        Sample { queries, failures }
    }

    #[test]
    fn failure_weight_depends_on_share_of_queries() {
        let others = |replicas: u64| sample(20 * replicas, 0);
        for (replicas, failures, found) in [
            (1, 1, 1),
            (1, 10, 10),
            (3, 1, 2),
            (3, 11, 22),
            (15, 1, 4),
            (15, 6, 24),
        ] {
            let own = sample(20, failures);
            assert_eq!(bits(own, others(replicas)), found, "{failures}, {replicas}");
        }
    }

    #[test]
    fn failure_rate_not_above_the_others_is_no_evidence() {
        for failures in [0, 1, 20] {
            assert_eq!(bits(sample(20, failures), sample(60, 3 * failures)), 0);
            assert_eq!(bits(sample(20, failures), sample(60, 60)), 0);
        }
        assert_eq!(bits(sample(20, 20), Sample::default()), 0, "there are none");
        assert_eq!(bits(Sample::default(), sample(60, 3)), 0);
    }

    #[test]
    fn failures_of_others_reduce_the_evidence() {
        let found = |failures| bits(sample(20, 10), sample(60, failures));
        assert_eq!(found(0), 20);
        // 10 · log2(10/12 / (1/4)) + 2 · log2(2/12 / (3/4)) = 17.37 − 4.34
        assert_eq!(found(2), 13);
        // 10 · log2(10/40 / (1/4)) = 0
        assert_eq!(found(30), 0);
        let many = bits(sample(2_000_000, 40_000), sample(6_000_000, 100_000));
        // 40,000 · log2((40/140) / (1/4)) + 100,000 · log2((100/140) / (3/4)) = 7,705.8 − 7,038.9
        assert_eq!(many, 666, "also of many");
    }
}
