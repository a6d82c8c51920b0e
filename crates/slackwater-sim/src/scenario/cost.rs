//! What a query costs: CPU time on a replica of speed 1, or latency where a replica replays latencies.

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
    /// Normal with a standard deviation equal to the mean, clipped at zero: the paper's "truncated" normal (16 % of
    /// queries cost nothing; the mean is 1.0833 m). `[Prequal §5]`
    ClippedNormal {
        /// Mean and standard deviation before clipping, m.
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
    /// One of these, uniformly at random: a trace of one's own.
    Trace(Arc<[Duration]>),
}

impl Cost {
    /// A query's cost, in nanoseconds.
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
            Self::Trace(costs) => sample_of(costs, stream),
        }
    }

    /// The mean cost, in nanoseconds: what a load is reckoned by. 0 for an empty trace, infinite for a Pareto tail of index 1
    /// or less.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Self::Fixed(cost) | Self::Exponential(cost) => nanoseconds(*cost),
            Self::ClippedNormal { mean, deviation } => {
                clipped_normal_mean(nanoseconds(*mean), nanoseconds(*deviation))
            }
            Self::Lognormal { median, sigma } => nanoseconds(*median) * (sigma * sigma / 2.0).exp(),
            Self::Pareto { alpha, .. } if *alpha <= 1.0 => f64::INFINITY,
            Self::Pareto { least, alpha } => nanoseconds(*least) * alpha / (alpha - 1.0),
            Self::Trace(costs) if costs.is_empty() => 0.0,
            Self::Trace(costs) => {
                costs.iter().copied().map(nanoseconds).sum::<f64>() / costs.len() as f64
            }
        }
    }
}

/// One entry of a trace, uniformly at random; 0 if the trace is empty.
pub(crate) fn sample_of(trace: &[Duration], stream: &mut Stream) -> f64 {
    let bound = u32::try_from(trace.len()).unwrap_or(u32::MAX);
    trace
        .get(stream.below(bound) as usize)
        .map_or(0.0, |&cost| nanoseconds(cost))
}

/// A duration in nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs() as f64 * 1e9 + f64::from(duration.subsec_nanos())
}

/// The mean of max(0, X) for a normal X of mean m and deviation d: m Φ(m/d) + d φ(m/d).
fn clipped_normal_mean(mean: f64, deviation: f64) -> f64 {
    if deviation == 0.0 {
        return mean;
    }
    let z = mean / deviation;
    let density = (-z * z / 2.0).exp() / TAU.sqrt();
    mean * normal_share_below(z, density) + deviation * density
}

/// Φ(z) for z from 0 up, `density` being φ(z): 1/2 + φ(z) (z + z³/3 + z⁵/(3·5) + …).
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
