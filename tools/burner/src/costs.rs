//! Costs of requests: CPU time from a normal distribution clipped at zero, its standard deviation
//! equal to its mean, as in the paper's testbed [Prequal §5.1].

use core::time::Duration;
use slackwater_sim::random::{Purpose, Stream};

/// A sequence of costs, which depends only on the seed.
#[derive(Debug)]
pub(crate) struct Costs {
    mean_before_clip: Duration,
    draws: Stream,
}

impl Costs {
    /// Clipping raises the mean by a twelfth.
    pub(crate) fn new(seed: u64, mean_before_clip: Duration) -> Self {
        Self {
            mean_before_clip,
            draws: Stream::new(seed, Purpose::Cost, 0),
        }
    }

    /// The cost of the next request.
    pub(crate) fn next(&mut self) -> Duration {
        self.mean_before_clip
            .mul_f64((1.0 + self.draws.normal()).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_clipped_normal() {
        let mut costs = Costs::new(3, Duration::from_millis(1));
        let mut sample: Vec<_> = (0..50_000).map(|_| costs.next()).collect();
        sample.sort_unstable();
        assert_eq!(sample[7_500], Duration::ZERO, "16 % are free");
        let median = sample[25_000].as_secs_f64();
        assert!((median - 1e-3).abs() < 3e-5, "{median}");
        let mean = sample.iter().sum::<Duration>().as_secs_f64() / 50_000.0;
        assert!((mean - 1.083e-3).abs() < 2e-5, "{mean}");
    }

    #[test]
    fn a_seed_determines_the_costs_and_a_larger_mean_raises_each() {
        let first = |seed, mean_ms| {
            let mut costs = Costs::new(seed, Duration::from_millis(mean_ms));
            [costs.next(), costs.next(), costs.next()]
        };
        assert_eq!(first(1, 10), first(1, 10));
        assert_ne!(first(1, 10), first(2, 10));
        for (twice, once) in first(1, 20).into_iter().zip(first(1, 10)) {
            assert!(twice.abs_diff(once * 2) < Duration::from_nanos(10));
        }
        assert_eq!(first(1, 0), [Duration::ZERO; 3]);
    }
}
