//! What a query costs: CPU time on a replica of speed 1, or latency where a replica replays latencies.

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
