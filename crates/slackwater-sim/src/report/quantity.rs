//! The quantities in tables: a name with its unit, how to get it from a run, and the number of
//! decimals.
//!
//! Pages, terminal and comparisons all use these quantities, so one name means the same in all of
//! them.

use crate::figure::Played;
use crate::interval::Estimate;
use crate::measure::Measured;
use crate::number;

/// A measured quantity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    /// Name and unit, as a table's head.
    pub name: &'static str,
    /// Decimals to show.
    pub decimals: usize,
    /// Returns its value in a run.
    pub of: fn(&Measured) -> f64,
}

/// Latency quantiles.
pub(super) const LATENCIES: [Quantity; 4] = [
    Quantity {
        name: "p50 ms",
        decimals: 1,
        of: |run| quantile_ms(run, 0.5),
    },
    Quantity {
        name: "p90 ms",
        decimals: 1,
        of: |run| quantile_ms(run, 0.9),
    },
    Quantity {
        name: "p99 ms",
        decimals: 1,
        of: |run| quantile_ms(run, 0.99),
    },
    Quantity {
        name: "p99.9 ms",
        decimals: 1,
        of: |run| quantile_ms(run, 0.999),
    },
];

/// Errors in percent of the queries.
pub(super) const ERROR_PERCENT: Quantity = Quantity {
    name: "errors %",
    decimals: 3,
    of: |run| {
        if run.queries > 0 {
            run.error_share() * 100.0
        } else {
            f64::NAN
        }
    },
};

/// The other quantities of a page's table, after latencies and errors.
pub(super) const OTHERS: [Quantity; 6] = [
    Quantity {
        name: "mean ms",
        decimals: 1,
        of: |run| answered(run, ms(run.latency.mean())),
    },
    Quantity {
        name: "RIF p99",
        decimals: 0,
        of: |run| run.rif_quantile(0.99) as f64,
    },
    Quantity {
        name: "RIF max",
        decimals: 0,
        of: |run| run.rif_quantile(1.0) as f64,
    },
    Quantity {
        name: "utilization",
        decimals: 3,
        of: |run| run.utilization.mean(),
    },
    Quantity {
        name: "utilization 1 s p99",
        decimals: 3,
        of: |run| run.utilization.quantile_1s(0.99),
    },
    Quantity {
        name: "probes per query",
        decimals: 2,
        of: Measured::probes_per_query,
    },
];

impl Quantity {
    /// Returns its value for each seed.
    pub(super) fn samples(&self, played: &Played) -> Vec<f64> {
        played.runs.iter().map(self.of).collect()
    }

    /// Returns the mean over seeds; `None` if nothing was played.
    pub(super) fn estimate(&self, played: &Played) -> Option<Estimate> {
        Estimate::mean(&self.samples(played))
    }

    /// Returns `266.1 ± 0.8`, or only the mean for a single seed.
    pub(super) fn shown(&self, played: &Played) -> String {
        shown(self.estimate(played), self.decimals)
    }
}

/// Formats an estimate: the mean, and half of the interval's width if there is one.
pub(super) fn shown(estimate: Option<Estimate>, decimals: usize) -> String {
    let Some(estimate) = estimate else {
        return number::NONE.to_owned();
    };
    let mut text = number::shown(estimate.value, decimals);
    if estimate.interval.is_some() {
        text.push_str(" ± ");
        text.push_str(&number::shown(estimate.half_width(), decimals));
    }
    text
}

/// Converts to milliseconds.
pub(super) fn ms(duration: core::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn quantile_ms(run: &Measured, q: f64) -> f64 {
    answered(run, ms(run.latency.quantile(q)))
}

/// Returns a latency, or NaN if no query has one.
fn answered(run: &Measured, latency_ms: f64) -> f64 {
    if run.latency.count() > 0 {
        latency_ms
    } else {
        f64::NAN
    }
}
