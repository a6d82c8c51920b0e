//! A histogram of latencies, and the figures calculated from it.
//!
//! Latencies are stored in whole microseconds up to [`LATENCY_MAX`]; longer ones count as that. The
//! histogram returns the upper end of a value's bucket, so figures are never too low, and too high
//! by less than 0.1 % (three digits) or 1 % (two).

use core::time::Duration;
use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest latency that is distinguished; also the longest timeout of a plan.
pub(crate) const LATENCY_MAX: Duration = Duration::from_hours(1);

const LATENCY_MAX_US: u64 = 3_600_000_000;

/// The histogram's resolution.
#[derive(Debug, Clone, Copy)]
pub(super) enum Digits {
    /// About 200 KiB.
    Three,
    /// About 30 KiB: quick to add up and to clear.
    Two,
}

/// Latencies recorded so far.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    histogram: Histogram<u64>,
    /// Exact; the histogram alone would round it up.
    pub(super) max: Duration,
}

impl Latencies {
    pub(super) fn new(digits: Digits) -> Self {
        let digits = match digits {
            Digits::Three => 3,
            Digits::Two => 2,
        };
        #[expect(
            clippy::expect_used,
            reason = "the bounds are constants and within the crate's limits"
        )]
        let histogram =
            Histogram::new_with_bounds(1, LATENCY_MAX_US, digits).expect("valid bounds");
        Self {
            histogram,
            max: Duration::ZERO,
        }
    }

    pub(super) fn record(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(us);
        self.max = self.max.max(latency);
    }

    pub(super) fn add(&mut self, other: &Self) {
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "all histograms have the same upper bound");
        self.max = self.max.max(other.max);
    }

    pub(super) fn clear(&mut self) {
        self.histogram.reset();
        self.max = Duration::ZERO;
    }

    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(super) fn figures(&self) -> LatencyFigures {
        let quantile = |q| millis(self.histogram.value_at_quantile(q) as f64).min(self.max_ms());
        LatencyFigures {
            p50_ms: quantile(0.50),
            p90_ms: quantile(0.90),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            mean_ms: millis(self.histogram.mean()).min(self.max_ms()),
            max_ms: self.max_ms(),
        }
    }

    fn max_ms(&self) -> f64 {
        self.max.as_secs_f64() * 1e3
    }
}

fn millis(us: f64) -> f64 {
    us / 1e3
}

/// Quantiles, mean and maximum, in milliseconds; all 0 when nothing was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those in JSON, where the unit is needed"
)]
pub(crate) struct LatencyFigures {
    /// Half of the requests took this long or less.
    pub(crate) p50_ms: f64,
    /// 90 % of the requests took this long or less.
    pub(crate) p90_ms: f64,
    /// 99 % of the requests took this long or less.
    pub(crate) p99_ms: f64,
    /// 99.9 % of the requests took this long or less.
    pub(crate) p999_ms: f64,
    /// Arithmetic mean.
    pub(crate) mean_ms: f64,
    /// The longest.
    pub(crate) max_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_never_too_low_and_the_maximum_is_exact() {
        let mut latencies = Latencies::new(Digits::Three);
        (1..=1_000).for_each(|ms| latencies.record(Duration::from_millis(ms)));
        let figures = latencies.figures();
        for (read, exact) in [
            (figures.p50_ms, 500.0),
            (figures.p90_ms, 900.0),
            (figures.p99_ms, 990.0),
            (figures.p999_ms, 999.0),
        ] {
            assert!(
                (exact..=exact * 1.001).contains(&read),
                "{read} for {exact}"
            );
        }
        assert!((figures.mean_ms - 500.5).abs() < 0.5, "{figures:?}");
        assert!((figures.max_ms - 1_000.0).abs() < 1e-9, "{figures:?}");
    }

    #[test]
    fn single_value_is_returned_exactly() {
        let mut latencies = Latencies::new(Digits::Two);
        latencies.record(Duration::from_secs(5));
        let figures = latencies.figures();
        assert_eq!(
            [figures.p50_ms, figures.p999_ms, figures.max_ms].map(f64::to_bits),
            [5e3_f64.to_bits(); 3]
        );
    }

    #[test]
    fn empty_histogram_is_zero_and_huge_values_are_kept() {
        let mut latencies = Latencies::new(Digits::Two);
        assert!(latencies.figures().p99_ms < f64::MIN_POSITIVE);
        latencies.record(Duration::from_hours(1_000_000));
        assert!(latencies.figures().p50_ms >= 3.6e6);
        latencies.clear();
        assert_eq!((latencies.count(), latencies.max), (0, Duration::ZERO));
    }
}
