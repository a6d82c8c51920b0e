//! Keys whose popularity follows Zipf's law, and one hot key beside them.

use slackwater_sim::random::{Purpose, Stream};

/// All keys and their shares. The same arguments make the same keys and the same draws.
#[derive(Debug)]
pub(crate) struct Population {
    /// The sum of the shares up to each rank.
    cumulated: Vec<f64>,
    hot_share: f64,
    seed: u64,
}

impl Population {
    pub(crate) fn new(seed: u64, keys: u32, zipf: f64, hot_percent: u32) -> Self {
        let mut sum = 0.0;
        let cumulated = (1..=keys).map(|rank| {
            sum += f64::from(rank).powf(-zipf);
            sum
        });
        Self {
            cumulated: cumulated.collect(),
            hot_share: f64::from(hot_percent) / 100.0,
            seed,
        }
    }

    /// Number of keys, without the hot one.
    pub(crate) fn len(&self) -> usize {
        self.cumulated.len()
    }

    /// The name of the key of this rank, from 0. Names differ from seed to seed, so that no run
    /// depends on where one hash puts the most popular keys.
    pub(crate) fn name(&self, rank: usize) -> String {
        format!("{:016x}", mixed(mixed(self.seed) ^ rank as u64))
    }

    /// The hot key.
    pub(crate) fn hot(&self) -> String {
        format!("hot-{:016x}", mixed(self.seed))
    }

    /// Draws a key.
    pub(crate) fn draw(&self, draws: &mut Stream) -> String {
        if draws.uniform() < self.hot_share {
            return self.hot();
        }
        let total = self.cumulated.last().copied().unwrap_or_default();
        let at = draws.uniform() * total;
        let rank = self.cumulated.partition_point(|sum| *sum <= at);
        self.name(rank.min(self.len().saturating_sub(1)))
    }
}

/// The stream of keys.
pub(crate) fn draws(seed: u64) -> Stream {
    Stream::new(seed, Purpose::Cost, 1)
}

/// The finalizer of `SplitMix64`.
fn mixed(number: u64) -> u64 {
    let mut number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn shares(population: &Population) -> HashMap<String, f64> {
        const DRAWS: u32 = 100_000;
        let mut stream = draws(7);
        let mut counts = HashMap::new();
        for _ in 0..DRAWS {
            *counts.entry(population.draw(&mut stream)).or_insert(0.0) += 1.0 / f64::from(DRAWS);
        }
        counts
    }

    #[test]
    fn shares_follow_the_law_and_the_hot_key_has_its_own() {
        let population = Population::new(3, 100, 1.0, 10);
        let shares = shares(&population);
        // The 100th harmonic number is 5.187; the hot key takes a tenth.
        for (key, expected) in [
            (population.hot(), 0.1),
            (population.name(0), 0.9 / 5.187),
            (population.name(9), 0.9 / 51.87),
        ] {
            let share = shares[&key];
            assert!((share - expected).abs() < 0.005, "{key}: {share}");
        }
        assert!(shares.len() <= 101);
    }

    #[test]
    fn a_seed_determines_names_and_draws() {
        let drawn = |seed| {
            let (population, mut stream) = (Population::new(seed, 1_000, 0.9, 0), draws(seed));
            [(); 20].map(|()| population.draw(&mut stream))
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let population = Population::new(1, 1, 0.9, 0);
        assert_eq!(population.draw(&mut draws(1)), population.name(0));
    }
}
