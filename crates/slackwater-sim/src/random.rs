//! Seeded streams of draws, one for each purpose, so that purposes are independent: the draws of
//! arrivals do not depend on those of a policy.
//!
//! A stream is the core's [`SplitMix64`], started from seed, purpose and index. Its draws never
//! change.

use slackwater_core::{Draw, SplitMix64};

/// The purpose of a stream. Each purpose has its own streams, which an index distinguishes: the
/// client, the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// When queries arrive.
    Arrivals = 1,
    /// Their costs.
    Cost = 2,
    /// Failures of queries.
    Failure = 3,
    /// Network delays of queries and responses.
    QueryDelay = 4,
    /// Network delays of probes and reports.
    ProbeDelay = 5,
    /// Losses of probes.
    ProbeLoss = 6,
    /// Draws of a policy.
    Policy = 7,
    /// Draws of a clairvoyant.
    Clairvoyant = 8,
    /// Spare capacity on a replica's machine.
    Headroom = 9,
    /// The order in which machines are full.
    FullTurns = 10,
    /// When a replica stalls.
    Stall = 11,
    /// How long a query waits without the CPU.
    IoWait = 12,
    /// Latencies from a replica's own trace.
    LatencyTrace = 13,
    /// The leaves of a fan-out among the measured queries.
    FanOut = 14,
    /// The blocks of time in a resampled past.
    Blocks = 15,
    /// Errors of reports.
    ReportNoise = 16,
    /// The queries that mostly wait, and how long.
    Mix = 17,
    /// When a replica's quota is renewed, and when the neighbour within it comes and goes.
    Quota = 18,
    /// The parts of a scenario that is drawn at random.
    Scenario = 19,
    /// The keys of queries.
    Keys = 20,
    /// The sessions of conversations, and which balancer gets a turn.
    Sessions = 21,
    /// How reports of replicas are divided among their parts.
    Parts = 22,
}

/// A stream of draws.
#[derive(Clone, Debug)]
pub struct Stream {
    draws: SplitMix64,
    /// Normals are drawn in pairs. This is the second one, until it is used.
    second_normal: Option<f64>,
}

impl Stream {
    /// Returns the stream of `purpose` and `index` in the run of `seed`.
    pub fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        let scrambled = |word: u64| SplitMix64::new(word).draw();
        let start = scrambled(scrambled(scrambled(seed) ^ purpose as u64) ^ index);
        Self {
            draws: SplitMix64::new(start),
            second_normal: None,
        }
    }

    /// Draws uniformly from [0, 1), in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.draws.draw() >> 11) as f64 * STEP
    }

    /// Draws uniformly from [`least`, `most`); `least` if the two are equal.
    pub fn uniform_between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.uniform()
    }

    /// Draws uniformly from 0..`bound`; 0 for a `bound` of 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        slackwater_core::draw::below(&mut self.draws, bound)
    }

    /// Draws from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - uniform is above 0, so the logarithm is finite.
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Draws from the normal distribution with mean 0 and standard deviation 1, by the polar method
    /// (Marsaglia and Bray, 1964).
    pub fn normal(&mut self) -> f64 {
        if let Some(second) = self.second_normal.take() {
            return second;
        }
        loop {
            let (x, y) = (
                self.uniform_between(-1.0, 1.0),
                self.uniform_between(-1.0, 1.0),
            );
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.second_normal = Some(y * scale);
                return x * scale;
            }
        }
    }
}

impl Draw for Stream {
    fn draw(&mut self) -> u64 {
        self.draws.draw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(seed: u64, purpose: Purpose, index: u64) -> [u64; 4] {
        let mut stream = Stream::new(seed, purpose, index);
        [(); 4].map(|()| stream.draw())
    }

    #[test]
    fn streams_differ_only_by_seed_purpose_and_index() {
        let one = draws(1, Purpose::Arrivals, 2);
        assert_eq!(one, draws(1, Purpose::Arrivals, 2));
        assert_ne!(one, draws(2, Purpose::Arrivals, 1));
        assert_ne!(one, draws(2, Purpose::Arrivals, 2));
        assert_ne!(one, draws(1, Purpose::Cost, 2));
        assert_ne!(one, draws(1, Purpose::Cost, 1));
        assert_ne!(one, draws(1, Purpose::Arrivals, 3));
    }

    #[test]
    fn draws_of_a_seed_never_change() {
        // Published results name their seeds, so the draws must not change.
        assert_eq!(
            draws(7, Purpose::Cost, 3),
            [
                16_293_190_309_005_119_491,
                13_386_757_147_016_529_479,
                12_830_309_116_692_258_968,
                2_712_958_152_249_285_289
            ]
        );
    }

    /// Returns mean, variance, and the fourth moment about the mean in units of the variance's
    /// square.
    fn moments(mut draw: impl FnMut() -> f64) -> [f64; 3] {
        let values: Vec<f64> = (0..400_000).map(|_| draw()).collect();
        let mean_of = |value: &dyn Fn(f64) -> f64| {
            values.iter().map(|&x| value(x)).sum::<f64>() / values.len() as f64
        };
        let mean = mean_of(&|x| x);
        let variance = mean_of(&|x| (x - mean).powi(2));
        [
            mean,
            variance,
            mean_of(&|x| (x - mean).powi(4)) / variance.powi(2),
        ]
    }

    #[test]
    fn draws_have_the_moments_of_their_distributions() {
        let mut stream = Stream::new(1, Purpose::Cost, 0);
        // The bounds are five deviations of each sample moment from 400,000 draws.
        let check = |found: [f64; 3], expected: [f64; 3], errors: [f64; 3]| {
            for ((found, expected), error) in found.into_iter().zip(expected).zip(errors) {
                assert!((found - expected).abs() < error, "{found}, not {expected}");
            }
        };
        check(
            moments(|| stream.uniform_between(2.0, 4.0)),
            [3.0, 1.0 / 3.0, 1.8],
            [0.005, 0.0024, 0.02],
        );
        check(
            moments(|| stream.normal()),
            [0.0, 1.0, 3.0],
            [0.008, 0.012, 0.04],
        );
        check(
            moments(|| stream.exponential(1.0)),
            [1.0, 1.0, 9.0],
            [0.008, 0.023, 0.8],
        );
    }

    #[test]
    fn normals_of_a_pair_are_independent() {
        let mut stream = Stream::new(2, Purpose::Headroom, 0);
        let pairs = 200_000;
        let together: f64 = (0..pairs).map(|_| stream.normal() * stream.normal()).sum();
        // A product of two has a variance of 1.
        assert!((together / f64::from(pairs)).abs() < 5.0 / f64::from(pairs).sqrt());
    }

    #[test]
    fn below_covers_exactly_its_range() {
        let mut stream = Stream::new(3, Purpose::Policy, 0);
        let mut seen = [0; 3];
        for _ in 0..3_000 {
            seen[stream.below(3) as usize] += 1;
        }
        // Binomial: 1,000 with a deviation of 26.
        assert!(
            seen.iter().all(|count| (870..1_130).contains(count)),
            "{seen:?}"
        );
        assert_eq!(stream.below(0), 0);
    }
}
