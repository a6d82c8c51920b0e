//! Replicas and errors of queries, second by second.

use core::ops::Range;

/// Measured queries in each second of the measured span. The last second may be shorter. Runs of
/// one kind are added up, second by second from the beginning of their spans.
#[derive(Clone, Debug, Default)]
pub struct BySecond {
    /// Number of replicas.
    pub replicas: usize,
    /// Queries by the second in which they were first sent: second by second, within it replica by
    /// replica. Entries after the last query are left out.
    pub sent: Vec<u32>,
    /// Errors by the second in which their queries arrived.
    pub errors: Vec<u32>,
    /// Attempts by the second in which they reached a replica with a cache: those whose key was
    /// there, and those whose key was not.
    pub cached: Vec<[u32; 2]>,
}

impl BySecond {
    /// Counts a query that is sent to a replica in this second.
    pub fn record_sent(&mut self, second: usize, replica: usize) {
        *at(&mut self.sent, second * self.replicas + replica) += 1;
    }

    /// Counts an error of a query that arrived in this second.
    pub fn record_error(&mut self, second: usize) {
        *at(&mut self.errors, second) += 1;
    }

    /// Counts an attempt that reaches a replica with a cache in this second.
    pub fn record_cache(&mut self, second: usize, is_hit: bool) {
        if self.cached.len() <= second {
            self.cached.resize(second + 1, [0; 2]);
        }
        self.cached[second][usize::from(!is_hit)] += 1;
    }

    /// Returns the share of the attempts of these seconds, from 0 to 1, whose key was in a cache;
    /// `None` without any.
    pub fn hit_share_within(&self, seconds: Range<usize>) -> Option<f64> {
        let counts = self.cached.iter().take(seconds.end).skip(seconds.start);
        let [mut hits, mut misses] = [0_u64; 2];
        for &[hit, missed] in counts {
            hits += u64::from(hit);
            misses += u64::from(missed);
        }
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }

    /// Returns the share of each second's queries, from 0 to 1, that a replica got; `None` for a
    /// second without queries.
    pub fn shares_of(&self, replica: usize) -> impl Iterator<Item = Option<f64>> + '_ {
        self.sent.chunks(self.replicas.max(1)).map(move |second| {
            let all: u32 = second.iter().sum();
            let share = f64::from(second.get(replica).copied().unwrap_or(0)) / f64::from(all);
            (all > 0).then_some(share)
        })
    }

    /// Returns the share of the queries of these seconds, from 0 to 1, that a replica got; `None`
    /// without queries.
    pub fn share_within(&self, seconds: Range<usize>, replica: usize) -> Option<f64> {
        let replicas = self.replicas.max(1);
        let counts = self.sent.chunks(replicas).take(seconds.end);
        let (mut own, mut all) = (0_u64, 0_u64);
        for second in counts.skip(seconds.start) {
            own += second.get(replica).map_or(0, |&count| u64::from(count));
            all += second.iter().map(|&count| u64::from(count)).sum::<u64>();
        }
        (all > 0).then(|| own as f64 / all as f64)
    }

    /// Adds the counts of another run. If the fleets have different sizes, only the first one's
    /// `sent` is kept.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.sent.is_empty() {
            self.replicas = other.replicas;
        }
        if self.replicas == other.replicas {
            add(&mut self.sent, &other.sent);
        }
        add(&mut self.errors, &other.errors);
        let seconds = self.cached.len().max(other.cached.len());
        self.cached.resize(seconds, [0; 2]);
        for (sums, counts) in self.cached.iter_mut().zip(&other.cached) {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*count);
            }
        }
    }
}

/// Returns the count at `index`, and extends the list if there is none.
fn at(counts: &mut Vec<u32>, index: usize) -> &mut u32 {
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    &mut counts[index]
}

fn add(sums: &mut Vec<u32>, counts: &[u32]) {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.saturating_add(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_without_queries_has_no_shares() {
        let mut by_second = BySecond {
            replicas: 2,
            ..BySecond::default()
        };
        by_second.record_sent(2, 1);
        let shares: Vec<_> = by_second.shares_of(1).collect();
        assert_eq!(shares, [None, None, Some(1.0)]);
    }

    #[test]
    fn hits_are_counted_by_second_and_added_up() {
        let mut by_second = BySecond::default();
        let mut other = BySecond::default();
        by_second.record_cache(1, true);
        other.record_cache(1, true);
        other.record_cache(1, false);
        other.record_cache(2, false);
        by_second.merge(&other);
        let share = |seconds| by_second.hit_share_within(seconds);
        assert_eq!(share(1..2), Some(2.0 / 3.0));
        assert_eq!(share(0..9), Some(0.5));
        assert_eq!(share(2..3), Some(0.0));
        assert_eq!(share(0..1), None, "nothing was looked up");
    }

    #[test]
    fn share_within_seconds_counts_all_their_queries() {
        let mut by_second = BySecond {
            replicas: 2,
            ..BySecond::default()
        };
        for (second, replica) in [(0, 1), (1, 0), (1, 0), (1, 1), (2, 0), (3, 0)] {
            by_second.record_sent(second, replica);
        }
        let share = |seconds, replica| by_second.share_within(seconds, replica);
        assert_eq!(share(1..3, 0), Some(0.75));
        assert_eq!(share(1..3, 1), Some(0.25));
        assert_eq!(share(2..9, 1), Some(0.0), "it got none");
        assert_eq!(share(4..9, 0), None, "there are none");
    }
}
