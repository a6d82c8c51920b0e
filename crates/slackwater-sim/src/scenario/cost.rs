//! The cost of a query: CPU time on a replica of speed 1, or latency where a replica replays
//! latencies.

use crate::random::Stream;
use core::f64::consts::TAU;
use core::time::Duration;
use std::sync::Arc;

/// The distribution of a query's cost.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// Always the same.
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Normal, clipped at zero. The paper's "truncated" normal has a standard deviation equal to
    /// the mean m (16 % of queries cost nothing; the mean after clipping is 1.0833 m). `[Prequal
    /// §5]`
    ClippedNormal {
        /// Mean before clipping.
        mean: Duration,
        /// Standard deviation before clipping.
        deviation: Duration,
    },
    /// Lognormal, by its median and the standard deviation of its logarithm.
    Lognormal {
        /// The median.
        median: Duration,
        /// σ, from 0 up; 2 is a very heavy tail.
        sigma: f64,
    },
    /// Pareto: P(X > x) = (least / x)^alpha.
    Pareto {
        /// The smallest cost.
        least: Duration,
        /// The tail index, above 1 so that the mean exists.
        alpha: f64,
    },
    /// Two kinds of queries: a cheap one and a dear one, in random order.
    Bimodal {
        /// Cost of a cheap query.
        cheap: Duration,
        /// Cost of a dear query.
        dear: Duration,
        /// The share of dear queries, from 0 to 1.
        dear_share: f64,
    },
    /// One of these, uniformly at random: a custom trace.
    Trace(Arc<[Duration]>),
}

impl Cost {
    /// Draws a query's cost, in nanoseconds.
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        match self {
            Self::Fixed(cost) => nanoseconds(*cost),
            Self::Exponential(mean) => stream.exponential(nanoseconds(*mean)),
            Self::ClippedNormal { mean, deviation } => {
                (nanoseconds(*mean) + nanoseconds(*deviation) * stream.normal()).max(0.0)
            }
            Self::Lognormal { median, sigma } => {
                nanoseconds(*median) * (sigma * stream.normal()).exp()
            }
            Self::Pareto { least, alpha } => {
                nanoseconds(*least) * (1.0 - stream.uniform()).powf(-1.0 / alpha)
            }
            Self::Bimodal {
                cheap,
                dear,
                dear_share,
            } => nanoseconds(if stream.uniform() < *dear_share {
                *dear
            } else {
                *cheap
            }),
            Self::Trace(costs) => sample_of(costs, stream),
        }
    }

    /// Returns the mean cost, in nanoseconds, from which loads are computed. 0 for an empty trace,
    /// infinite for a Pareto tail of index 1 or less.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Self::Fixed(cost) | Self::Exponential(cost) => nanoseconds(*cost),
            Self::ClippedNormal { mean, deviation } => {
                clipped_normal_mean(nanoseconds(*mean), nanoseconds(*deviation))
            }
            Self::Lognormal { median, sigma } => nanoseconds(*median) * (sigma * sigma / 2.0).exp(),
            Self::Pareto { alpha, .. } if *alpha <= 1.0 => f64::INFINITY,
            Self::Pareto { least, alpha } => nanoseconds(*least) * alpha / (alpha - 1.0),
            Self::Bimodal {
                cheap,
                dear,
                dear_share,
            } => nanoseconds(*cheap) * (1.0 - dear_share) + nanoseconds(*dear) * dear_share,
            Self::Trace(costs) if costs.is_empty() => 0.0,
            Self::Trace(costs) => {
                costs.iter().copied().map(nanoseconds).sum::<f64>() / costs.len() as f64
            }
        }
    }
}

/// Returns one entry of a trace, uniformly at random; 0 if the trace is empty.
pub(crate) fn sample_of(trace: &[Duration], stream: &mut Stream) -> f64 {
    let bound = u32::try_from(trace.len()).unwrap_or(u32::MAX);
    trace
        .get(stream.below(bound) as usize)
        .map_or(0.0, |&cost| nanoseconds(cost))
}

/// Converts to nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs() as f64 * 1e9 + f64::from(duration.subsec_nanos())
}

/// Returns the mean of max(0, X) for a normal X of mean m and deviation d: m Φ(m/d) + d φ(m/d).
fn clipped_normal_mean(mean: f64, deviation: f64) -> f64 {
    if deviation == 0.0 {
        return mean;
    }
    let z = mean / deviation;
    let density = (-z * z / 2.0).exp() / TAU.sqrt();
    mean * normal_share_below(z, density) + deviation * density
}

/// Returns Φ(z) for z from 0 up, where `density` is φ(z): 1/2 + φ(z) (z + z³/3 + z⁵/(3·5) + …).
fn normal_share_below(z: f64, density: f64) -> f64 {
    // Beyond 8 deviations the rest is below 1e-15, and the series is long.
    if z > 8.0 {
        return 1.0;
    }
    let mut term = z;
    let mut sum = z;
    let mut odd = 1.0;
    while term > sum * f64::EPSILON {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    0.5 + density * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    const MS: f64 = 1e6;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn samples(cost: &Cost, count: usize) -> Vec<f64> {
        let mut stream = Stream::new(1, Purpose::Cost, 0);
        (0..count).map(|_| cost.sample(&mut stream)).collect()
    }

    /// Asserts that this share of the samples lies beyond `bound`: four deviations of a binomial.
    fn assert_share_beyond(samples: &[f64], bound: f64, share: f64) {
        let count = samples.len() as f64;
        let beyond = samples.iter().filter(|&&cost| cost > bound).count() as f64;
        let deviation = (count * share * (1.0 - share)).sqrt();
        assert!(
            (beyond - count * share).abs() < 4.0 * deviation,
            "{beyond} of {count} beyond {bound}"
        );
    }

    #[test]
    fn testbed_cost_has_the_quantiles_of_the_paper() {
        let mean = Duration::from_micros(79_700);
        let cost = Cost::ClippedNormal {
            mean,
            deviation: mean,
        };
        let samples = samples(&cost, 400_000);
        // The paper's 80, 182, 265, 325 ms, to the nearest.
        for (ms, share) in [(79.7, 0.5), (181.84, 0.1), (265.11, 0.01), (325.99, 0.001)] {
            assert_share_beyond(&samples, ms * MS, share);
        }
        // Clipped, not drawn again: Φ(1) of the queries have a cost.
        assert_share_beyond(&samples, 0.0, 0.841_34);
    }

    #[test]
    fn mean_matches_the_sample_mean() {
        let normal = |mean, deviation| Cost::ClippedNormal {
            mean: ms(mean),
            deviation: ms(deviation),
        };
        let costs = [
            Cost::Fixed(ms(7)),
            Cost::Exponential(ms(7)),
            normal(7, 7),
            normal(7, 1),
            normal(7, 0),
            normal(1, 20),
            Cost::Lognormal {
                median: ms(7),
                sigma: 1.0,
            },
            Cost::Pareto {
                least: ms(7),
                alpha: 3.0,
            },
            Cost::Bimodal {
                cheap: ms(5),
                dear: ms(12),
                dear_share: 0.25,
            },
            Cost::Trace([ms(1), ms(2), ms(30)].into()),
        ];
        for cost in costs {
            let samples = samples(&cost, 200_000);
            let mean = samples.iter().sum::<f64>() / 200_000.0;
            let expected = cost.mean_ns();
            // Deviations are at most 1.5 of their means (clipped at 1 of 20 ms), so five deviations
            // of the mean are 1.7 %.
            assert!((mean / expected - 1.0).abs() < 0.017, "{cost:?}: {mean}");
        }
    }

    #[test]
    fn clipped_normal_mean_is_exact() {
        // Φ(1) + φ(1), from tables.
        let mean = clipped_normal_mean(1.0, 1.0);
        assert!((mean - (0.841_344_746_068_543 + 0.241_970_724_519_143)).abs() < 1e-12);
        // Never below zero, so nothing is clipped, on either side of the series' end.
        assert!((clipped_normal_mean(7.9, 1.0) - 7.9).abs() < 1e-12);
        assert!((clipped_normal_mean(8.1, 1.0) - 8.1).abs() < 1e-12);
    }

    #[test]
    fn tails_match_their_distributions() {
        let pareto = samples(
            &Cost::Pareto {
                least: ms(6),
                alpha: 2.5,
            },
            200_000,
        );
        assert!(pareto.iter().all(|&cost| cost >= 6.0 * MS));
        // P(X > 4 · least) = 4^-2.5.
        assert_share_beyond(&pareto, 24.0 * MS, 1.0 / 32.0);
        let lognormal = samples(
            &Cost::Lognormal {
                median: ms(7),
                sigma: 2.0,
            },
            200_000,
        );
        // More than two deviations of the logarithm.
        assert_share_beyond(&lognormal, 7.0 * MS * f64::exp(4.0), 0.022_75);
    }

    #[test]
    fn bimodal_cost_has_two_values_in_their_shares() {
        let bimodal = samples(
            &Cost::Bimodal {
                cheap: ms(2),
                dear: ms(90),
                dear_share: 0.05,
            },
            40_000,
        );
        let is_one_of_two = |cost: &f64| {
            [2.0, 90.0]
                .iter()
                .any(|kind| (cost - kind * MS).abs() < 1.0)
        };
        assert!(bimodal.iter().all(is_one_of_two));
        assert_share_beyond(&bimodal, 50.0 * MS, 0.05);
    }

    #[test]
    fn undefined_means_are_infinite_or_zero() {
        let pareto = Cost::Pareto {
            least: ms(1),
            alpha: 1.0,
        };
        assert!(pareto.mean_ns().is_infinite());
        assert!(Cost::Trace([].into()).mean_ns().abs() < 1e-12);
    }
}
