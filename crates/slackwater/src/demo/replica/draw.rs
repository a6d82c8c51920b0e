//! Seeded draws for the demo's world: costs of requests, the load of neighbours, slow episodes.
//!
//! Each consumer opens its own generator by (seed, stream, index), so a draw depends only on these
//! three and on the number of draws before it. Both fleets see the same world, whatever the order
//! of their events. The generator is `SplitMix64` (Steele, Lea and Flood 2014). It is not for
//! secrets. The policies' own draws come from elsewhere.

use core::time::Duration;

/// What a generator is for. Streams never overlap in practice: they start at unrelated places of
/// the cycle.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// Cost of a request that carries a number; the index is that number.
    NumberedCost = 1,
    /// Costs of requests without a number; the index is the replica.
    UnnumberedCost = 2,
    /// How spare capacity is distributed over the replicas; index 0.
    Inequality = 3,
    /// The neighbours' slow drift; the index is the replica.
    Drift = 4,
    /// The neighbours' short bursts; the index is the replica.
    Burst = 5,
    /// When, for how long and at which replica capacity falls to a tenth; index 0.
    Hobble = 6,
    /// Times of arrival and picks, in tests; the index is free.
    #[cfg(test)]
    Test = 7,
}

/// A generator of seeded draws.
#[derive(Debug, Clone)]
pub(crate) struct Draws {
    state: u64,
}

impl Draws {
    /// The generator of `stream` number `index` in the world `seed`.
    pub(crate) fn new(seed: u64, stream: Stream, index: u64) -> Self {
        let stream = scramble(scramble(seed).wrapping_add(stream as u64));
        Self {
            state: scramble(stream.wrapping_add(index)),
        }
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.state)
    }

    /// Uniform in (0, 1]: never 0, so that its logarithm is finite.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((self.bits() >> 11) + 1) as f64 / STEPS
    }

    /// Normal with mean 0 and variance 1 (Box and Muller's method).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (core::f64::consts::TAU * self.unit()).cos()
    }

    /// Uniform in `0..bound`; 0 when `bound` is 0. The bias (under `bound` / 2^64) does not matter
    /// in a demo.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.bits()) * bound as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// Uniform between the two spans.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.unit())
    }

    /// Exponential with this mean.
    #[cfg(test)]
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-self.unit().ln())
    }
}

/// A bijection of 64 bits in which every input bit affects every output bit.
fn scramble(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_only_on_seed_stream_and_index() {
        let four = |seed, stream, index| {
            let mut draws = Draws::new(seed, stream, index);
            [draws.bits(), draws.bits(), draws.bits(), draws.bits()]
        };
        let here = four(1, Stream::Drift, 2);
        assert_eq!(here, four(1, Stream::Drift, 2));
        assert_ne!(here, four(2, Stream::Drift, 2));
        assert_ne!(here, four(1, Stream::Burst, 2));
        assert_ne!(here, four(1, Stream::Drift, 3));
        assert_ne!(four(1, Stream::Drift, 0), four(0, Stream::Drift, 1));
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let mut draws = Draws::new(7, Stream::Test, 0);
        let sample: Vec<f64> = (0..100_000).map(|_| draws.normal()).collect();
        let mean = sample.iter().sum::<f64>() / sample.len() as f64;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / sample.len() as f64;
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut draws = Draws::new(9, Stream::Test, 0);
        let mut hits = [0_u32; 5];
        for _ in 0..5_000 {
            hits[draws.below(5)] += 1;
            let span = draws.between(Duration::from_secs(2), Duration::from_secs(3));
            assert!((Duration::from_secs(2)..=Duration::from_secs(3)).contains(&span));
        }
        assert!(
            hits.iter().all(|&hits| (850..1_150).contains(&hits)),
            "{hits:?}"
        );
        assert_eq!(draws.below(0), 0);
        assert_eq!(
            draws.between(Duration::from_secs(3), Duration::ZERO),
            Duration::from_secs(3)
        );
    }
}
