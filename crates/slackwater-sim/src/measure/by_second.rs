//! Where queries went and what became of them, second by second.

/// Measured queries in each second of the measured span; the last one may be shorter. Runs of one
/// kind are added up, second by second from the beginning of their spans.
#[derive(Clone, Debug, Default)]
pub struct BySecond {
    /// How many replicas there are.
    pub replicas: usize,
    /// Queries by the second in which they were first sent: second by second, within it replica by
    /// replica. What comes after the last query is left out.
    pub sent: Vec<u32>,
    /// Errors by the second in which their queries arrived.
    pub errors: Vec<u32>,
}

impl BySecond {
    /// A query is sent to a replica in this second.
    pub fn record_sent(&mut self, second: usize, replica: usize) {
        *at(&mut self.sent, second * self.replicas + replica) += 1;
    }

    /// A query that arrived in this second is an error.
    pub fn record_error(&mut self, second: usize) {
        *at(&mut self.errors, second) += 1;
    }

    /// The share of each second's queries, from 0 to 1, that a replica got; `None` for a second
    /// without queries.
    pub fn shares_of(&self, replica: usize) -> impl Iterator<Item = Option<f64>> + '_ {
        self.sent.chunks(self.replicas.max(1)).map(move |second| {
            let all: u32 = second.iter().sum();
            let share = f64::from(second.get(replica).copied().unwrap_or(0)) / f64::from(all);
            (all > 0).then_some(share)
        })
    }

    /// Of fleets of different sizes, the first one's is kept.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.sent.is_empty() {
            self.replicas = other.replicas;
        }
        if self.replicas == other.replicas {
            add(&mut self.sent, &other.sent);
        }
        add(&mut self.errors, &other.errors);
    }
}

/// The count at `index`, which is made if there is none.
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
    fn a_second_without_queries_has_no_shares() {
        let mut by_second = BySecond {
            replicas: 2,
            ..BySecond::default()
        };
        by_second.record_sent(2, 1);
        let shares: Vec<_> = by_second.shares_of(1).collect();
        assert_eq!(shares, [None, None, Some(1.0)]);
    }
}
