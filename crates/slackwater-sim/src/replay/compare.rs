//! What a model says of another policy, and how far it is to be believed.
//!
//! The model is played under the policy that was recorded first. By how much its latencies then miss those that were is the
//! model's error, and is told with everything that it says. A difference between two policies that is less than that says
//! nothing.

use crate::Measured;
use crate::interval::Estimate;
use crate::measure::Latencies;
use core::time::Duration;

/// The figures that are compared: names and quantiles.
pub const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// One figure: as it was, by the model, and by the model under another policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which.
    pub name: &'static str,
    /// As it was.
    pub recorded: Duration,
    /// By the model under the recorded policy, in milliseconds, over seeds.
    pub same_ms: Estimate,
    /// That as a multiple of what was; 1 is a perfect model.
    pub error: f64,
    /// By the model under the other policy, in milliseconds, over seeds.
    pub other_ms: Option<Estimate>,
    /// That as a multiple of the model under the recorded one, seed by seed.
    pub change: Option<Estimate>,
}

/// What a figure says of the other policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is lower.
    Lower,
    /// It is higher.
    Higher,
    /// There is no difference beyond what chance makes between seeds.
    Alike,
    /// The difference is less than the model's error.
    Unknown,
}

impl Row {
    /// What it says; `None` without another policy.
    pub fn verdict(&self) -> Option<Verdict> {
        let change = self.change?;
        let is_alike = (change.interval).is_some_and(|(low, high)| low <= 1.0 && high >= 1.0);
        Some(match change.value {
            value if is_alike || (value - 1.0).abs() < 1e-9 => Verdict::Alike,
            value if value.ln().abs() <= self.error.ln().abs() => Verdict::Unknown,
            value if value < 1.0 => Verdict::Lower,
            _ => Verdict::Higher,
        })
    }
}

/// The rows: what was, and runs of its model with the same seeds under the recorded policy and under another one, if any. `None` if
/// there is nothing to compare.
pub fn rows(recorded: &Latencies, same: &[Measured], other: &[Measured]) -> Option<Vec<Row>> {
    let row = |(name, q): (&'static str, f64)| {
        let in_ms = |latency: Duration| latency.as_secs_f64() * 1e3;
        let samples = |runs: &[Measured]| -> Vec<f64> {
            let quantiles = runs.iter().map(|run| in_ms(run.latency.quantile(q)));
            quantiles.collect()
        };
        let (same, other) = (samples(same), samples(other));
        let (was, same_ms) = (recorded.quantile(q), Estimate::mean(&same)?);
        Some(Row {
            name,
            recorded: was,
            error: same_ms.value / in_ms(was).max(1e-6),
            same_ms,
            other_ms: Estimate::mean(&other),
            change: Estimate::ratio(&other, &same),
        })
    };
    QUANTILES.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(ms: u64) -> Latencies {
        let mut latencies = Latencies::default();
        for latency in 1..=1_000 {
            latencies.record(Duration::from_micros(latency * ms));
        }
        latencies
    }

    fn runs(ms: [u64; 3]) -> Vec<Measured> {
        let run = |ms| Measured {
            latency: latencies(ms),
            ..Measured::nothing(1)
        };
        ms.map(run).into()
    }

    fn verdict(recorded: u64, same: [u64; 3], other: [u64; 3]) -> Verdict {
        let rows =
            rows(&latencies(recorded), &runs(same), &runs(other)).expect("there is something");
        let verdicts: Vec<_> = rows.iter().filter_map(Row::verdict).collect();
        assert!(
            verdicts.windows(2).all(|pair| pair[0] == pair[1]),
            "{verdicts:?}"
        );
        verdicts[0]
    }

    #[test]
    fn a_difference_counts_if_it_is_more_than_the_error_and_more_than_chance() {
        assert_eq!(verdict(100, [110, 111, 109], [55, 54, 56]), Verdict::Lower);
        assert_eq!(
            verdict(100, [110, 111, 109], [150, 154, 152]),
            Verdict::Higher
        );
        assert_eq!(
            verdict(100, [110, 111, 109], [101, 102, 100]),
            Verdict::Unknown
        );
        assert_eq!(verdict(100, [90, 91, 89], [97, 99, 96]), Verdict::Unknown);
        assert_eq!(verdict(100, [101, 101, 101], [80, 120, 99]), Verdict::Alike);
        assert_eq!(
            verdict(100, [101, 101, 101], [101, 101, 101]),
            Verdict::Alike
        );
    }

    #[test]
    fn rows_say_how_it_was_and_how_far_the_model_is_off() {
        let rows = rows(&latencies(100), &runs([120, 120, 120]), &[]).expect("there is something");
        let p99 = &rows[2];
        assert_eq!((p99.name, p99.recorded.as_millis()), ("p99", 99));
        assert!((p99.error - 1.2).abs() < 0.01, "{}", p99.error);
        assert_eq!((p99.verdict(), &p99.change), (None, &None));
        assert!(super::rows(&latencies(1), &[], &[]).is_none());
    }
}
