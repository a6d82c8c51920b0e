//! When each request should start: a pure, seeded sequence of offsets from the start of a run.
//!
//! The schedule knows nothing of the target, so two targets given the same seed, rate and length get exactly the same
//! arrivals (common random numbers): a difference between their latencies is then theirs, not the draw's.

use super::plan::Arrivals;
use core::time::Duration;
use slackwater_core::{Draw, SplitMix64};

/// Uniform over [0, 1), with all 53 bits that a double holds.
fn fraction(draw: &mut impl Draw) -> f64 {
    const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
    (draw.draw() >> 11) as f64 * SCALE
}

/// Iterator over the arrivals' offsets from the start of the run: never decreasing, all below the schedule's length.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    arrivals: Arrivals,
    rate_per_second: f64,
    length: Duration,
    draws: SplitMix64,
    /// Arrivals handed out so far.
    count: u64,
    /// Offset of the last arrival, in nanoseconds. A double holds 53 bits of them, 104 days, without loss.
    last_ns: f64,
}

const NS_PER_SECOND: f64 = 1e9;

impl Schedule {
    /// Arrivals at a mean of `rate_per_second` (above 0) for `length`. Constant arrivals begin at offset 0, Poisson
    /// arrivals after their first gap. Only Poisson arrivals draw from `seed`.
    pub(crate) fn new(
        arrivals: Arrivals,
        rate_per_second: f64,
        length: Duration,
        seed: u64,
    ) -> Self {
        Self {
            arrivals,
            rate_per_second,
            length,
            draws: SplitMix64::new(seed),
            count: 0,
            last_ns: 0.0,
        }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.last_ns = match self.arrivals {
            // From the count, not from the last offset: no rounding error adds up.
            Arrivals::Constant => self.count as f64 * NS_PER_SECOND / self.rate_per_second,
            // The inverse of the exponential distribution; 1 - u lies in (0, 1], so the logarithm is finite.
            Arrivals::Poisson => {
                let mean_gaps = -(1.0 - fraction(&mut self.draws)).ln();
                self.last_ns + mean_gaps * NS_PER_SECOND / self.rate_per_second
            }
        };
        self.count += 1;
        let offset = Duration::try_from_secs_f64(self.last_ns / NS_PER_SECOND).ok()?;
        (offset < self.length).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson(rate_per_second: f64, seconds: u64, seed: u64) -> Vec<Duration> {
        Schedule::new(
            Arrivals::Poisson,
            rate_per_second,
            Duration::from_secs(seconds),
            seed,
        )
        .collect()
    }

    #[test]
    fn a_fraction_spans_zero_to_just_below_one() {
        assert!(fraction(&mut || 0) <= 0.0);
        let highest = fraction(&mut || u64::MAX);
        assert!(highest < 1.0 && (1.0 - highest).ln().is_finite());
    }

    #[test]
    fn constant_arrivals_are_equally_spaced_and_start_at_zero() {
        let offsets: Vec<_> =
            Schedule::new(Arrivals::Constant, 4.0, Duration::from_secs(1), 9).collect();
        let expected: Vec<_> = [0, 250, 500, 750].map(Duration::from_millis).into();
        assert_eq!(offsets, expected);
    }

    #[test]
    fn constant_arrivals_do_not_drift_at_a_rate_that_divides_badly() {
        let last = Schedule::new(Arrivals::Constant, 3.0, Duration::from_secs(100_000), 0)
            .last()
            .unwrap();
        let expected = Duration::from_secs_f64(299_999.0 / 3.0);
        assert!(
            last.abs_diff(expected) < Duration::from_nanos(100),
            "{last:?}"
        );
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let offsets = poisson(1_000.0, 100, 7);
        let count = offsets.len() as f64;
        // 100,000 expected with a standard deviation of 316: four of them either way.
        assert!((98_735.0..101_265.0).contains(&count), "{count}");
        let gaps_ms: Vec<f64> = offsets
            .windows(2)
            .map(|pair| pair[1].abs_diff(pair[0]).as_secs_f64() * 1e3)
            .collect();
        let mean = gaps_ms.iter().sum::<f64>() / gaps_ms.len() as f64;
        let variance =
            gaps_ms.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps_ms.len() as f64;
        // An exponential's standard deviation equals its mean, and e^-3 of its gaps exceed three means.
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "{mean} {variance}"
        );
        let long = gaps_ms.iter().filter(|gap| **gap > 3.0 * mean).count() as f64;
        assert!(
            (long / gaps_ms.len() as f64 - (-3.0_f64).exp()).abs() < 0.003,
            "{long}"
        );
    }

    #[test]
    fn the_seed_alone_decides_poisson_arrivals() {
        assert_eq!(poisson(500.0, 5, 42), poisson(500.0, 5, 42));
        assert_ne!(poisson(500.0, 5, 42), poisson(500.0, 5, 43));
    }

    #[test]
    fn a_longer_schedule_begins_like_a_shorter_one() {
        let short = poisson(500.0, 2, 1);
        assert_eq!(poisson(500.0, 4, 1)[..short.len()], short);
    }

    #[test]
    fn no_length_means_no_arrivals_and_offsets_stay_below_the_length() {
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            assert_eq!(Schedule::new(arrivals, 1e6, Duration::ZERO, 1).count(), 0);
            let length = Duration::from_millis(20);
            assert!(Schedule::new(arrivals, 1e5, length, 1).all(|offset| offset < length));
        }
    }

    #[test]
    fn a_rate_near_zero_ends_instead_of_overflowing() {
        let length = Duration::from_secs(10);
        assert_eq!(
            Schedule::new(Arrivals::Poisson, 1e-300, length, 1).count(),
            0
        );
        assert_eq!(
            Schedule::new(Arrivals::Constant, 1e-300, length, 1).count(),
            1
        );
    }
}
