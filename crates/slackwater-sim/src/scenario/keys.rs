//! Keys of queries, and the replicas' caches by key.

use core::time::Duration;

/// The keys that queries carry: users, sessions, paths, shards. Each query draws its key from its
/// own stream, so a load without keys has the same draws as before.
///
/// Keys `0..count` are ranked by popularity. One further key, number `count`, may be hot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keys {
    /// Number of keys, without the hot one: from 1 to [`Keys::MAX`].
    pub count: usize,
    /// Exponent of Zipf's law: key number k is drawn in proportion to `1 / (k + 1)^zipf`. 0: all
    /// keys are equally popular.
    pub zipf: f64,
    /// The share of queries, from 0 to 1, that carry the hot key; 0: there is none.
    pub hot_share: f64,
}

impl Keys {
    /// The most keys: a run keeps eight bytes for each.
    pub const MAX: usize = 1_000_000;

    /// Returns the sum of the shares of the keys up to and including each one, without the hot one.
    /// The last sum is 1.
    pub(crate) fn cumulated(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=self.count)
            .map(|rank| {
                sum += (rank as f64).powf(-self.zipf);
                sum
            })
            .collect();
        for below in &mut sums {
            *below /= sum;
        }
        sums
    }
}

/// A replica's cache: the keys that it has served last.
///
/// A query whose key is there when it arrives costs what was drawn. Any other query costs more, and
/// leaves its key in the cache when it succeeds. A replica that stops, joins or restarts has an
/// empty cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The most keys: from 1 to [`Keys::MAX`]. The key that was used longest ago gives way.
    pub entries: usize,
    /// The additional cost of a query whose key is not there, at speed 1.
    pub miss_cost: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_zipf_and_sum_to_one() {
        let keys = |zipf| Keys {
            count: 3,
            zipf,
            hot_share: 0.0,
        };
        let near = |found: Vec<f64>, expected: [f64; 3]| {
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
            }
        };
        near(keys(0.0).cumulated(), [1.0 / 3.0, 2.0 / 3.0, 1.0]);
        // 1, 1/2 and 1/3 of 11/6.
        near(keys(1.0).cumulated(), [6.0 / 11.0, 9.0 / 11.0, 1.0]);
    }
}
