//! Compares a model's results under another policy, and shows how far they can be trusted.
//!
//! First the model is played under the recorded policy. The difference between its latencies and
//! the recorded ones is the model's error, which is shown with every result. A difference between
//! two policies that is smaller than the error means nothing, and a quantile that only a few
//! queries decide means nothing either.

use super::blocks::{self, Spread};
use crate::Measured;
use crate::interval::Estimate;
use crate::measure::Latencies;
use core::time::Duration;

/// The figures that are compared: names and quantiles.
pub const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// A quantile with fewer queries than this beyond it is shown without a verdict.
pub const BEYOND_MIN: u64 = 100;

/// Recorded latencies.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'r> {
    /// Latencies of all queries.
    pub all: &'r Latencies,
    /// Latencies by the block of time in which queries arrived; empty if there was too little time.
    pub by_block: &'r [Latencies],
}

/// One figure: recorded, by the model, and by the model under another policy. The 95 % intervals
/// include chance between seeds and between blocks of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the quantile.
    pub name: &'static str,
    /// The recorded value.
    pub recorded: Duration,
    /// Recorded queries that took longer.
    pub beyond: u64,
    /// Blocks of time with such queries, and all blocks.
    pub blocks: (usize, usize),
    /// The value by the model under the recorded policy, in milliseconds, over seeds.
    pub same_ms: Estimate,
    /// `same_ms` as a multiple of the recorded value; 1 is a perfect model.
    pub error: Estimate,
    /// The value by the model under the other policy, in milliseconds, over seeds.
    pub other_ms: Option<Estimate>,
    /// `other_ms` as a multiple of `same_ms`, seed by seed.
    pub change: Option<Estimate>,
}

/// The verdict of a figure on the other policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The figure is lower.
    Lower,
    /// The figure is higher.
    Higher,
    /// There is no difference beyond chance between seeds and blocks of time.
    Alike,
    /// The difference is smaller than the model's error may be.
    Unknown,
    /// Too few queries decide the figure.
    TooFew,
}

impl Row {
    /// Returns the verdict; `None` without another policy.
    pub fn verdict(&self) -> Option<Verdict> {
        let change = self.change?;
        let is_alike = (change.interval).is_some_and(|(low, high)| low <= 1.0 && high >= 1.0);
        Some(match change.value {
            _ if self.beyond < BEYOND_MIN => Verdict::TooFew,
            value if is_alike || (value - 1.0).abs() < 1e-9 => Verdict::Alike,
            value if value.ln().abs() <= self.error_max().ln() => Verdict::Unknown,
            value if value < 1.0 => Verdict::Lower,
            _ => Verdict::Higher,
        })
    }

    /// Returns the factor by which the model may differ from the recording, up to the far end of
    /// the interval.
    pub fn error_max(&self) -> f64 {
        let (low, high) = (self.error.interval).unwrap_or((self.error.value, self.error.value));
        [low, high]
            .map(|end| end.ln().abs().exp())
            .into_iter()
            .fold(1.0, f64::max)
    }
}

/// Returns the rows: the recording, and runs of its model with the same seeds under the recorded
/// policy and under another one, if any. `None` if there is nothing to compare.
pub fn rows(recorded: Recorded<'_>, same: &[Measured], other: &[Measured]) -> Option<Vec<Row>> {
    fn by_block(runs: &[Measured]) -> Vec<&[Latencies]> {
        runs.iter().map(|run| &*run.latency_by_block).collect()
    }
    let quantiles = QUANTILES.map(|(_, q)| q);
    let (by_block_same, by_block_other) = (by_block(same), by_block(other));
    let spreads = blocks::spreads(
        recorded.by_block,
        &by_block_same,
        &by_block_other,
        &quantiles,
    );
    let row = |((name, q), spreads): ((&'static str, f64), blocks::Spreads)| {
        let in_ms = |latency: Duration| latency.as_secs_f64() * 1e3;
        let samples = |runs: &[Measured]| -> Vec<f64> {
            let quantiles = runs.iter().map(|run| in_ms(run.latency.quantile(q)));
            quantiles.collect()
        };
        let (same, other) = (samples(same), samples(other));
        let was = recorded.all.quantile(q);
        let was_ms = vec![in_ms(was).max(1e-6); same.len()];
        let beyond = |latencies: &Latencies| -> u64 {
            let beyond = latencies.counts().filter(|(latency, _)| *latency > was);
            beyond.map(|(_, count)| count).sum()
        };
        let with_any = recorded.by_block.iter().filter(|block| beyond(block) > 0);
        Some(Row {
            name,
            recorded: was,
            beyond: beyond(recorded.all),
            blocks: (with_any.count(), recorded.by_block.len()),
            same_ms: Estimate::mean(&same)?,
            error: widened(Estimate::ratio(&same, &was_ms)?, spreads.error),
            other_ms: Estimate::mean(&other),
            change: Estimate::ratio(&other, &same).map(|change| widened(change, spreads.change)),
        })
    };
    QUANTILES.into_iter().zip(spreads).map(row).collect()
}

/// Widens a ratio's interval between seeds by the spread between blocks of time. The two are
/// independent, so their squares add up.
fn widened(ratio: Estimate, spread: Spread) -> Estimate {
    let Some((low, high)) = spread else {
        return ratio;
    };
    let value = ratio.value.ln();
    let (seeds_low, seeds_high) =
        (ratio.interval).map_or((value, value), |(low, high)| (low.ln(), high.ln()));
    let below = (value - seeds_low).hypot((value - low).max(0.0));
    let above = (seeds_high - value).hypot((high - value).max(0.0));
    Estimate {
        value: ratio.value,
        interval: Some(((value - below).exp(), (value + above).exp())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// About ten thousand queries: enough for p99.
    fn latencies(ms: u64) -> Latencies {
        let mut latencies = Latencies::default();
        for latency in 1..=20_000 {
            latencies.record(Duration::from_nanos(latency * ms * 50_000));
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

    fn rows_of(recorded: u64, same: [u64; 3], other: Option<[u64; 3]>) -> Vec<Row> {
        let recorded = Recorded {
            all: &latencies(recorded),
            by_block: &[],
        };
        let other = other.map_or_else(Vec::new, runs);
        rows(recorded, &runs(same), &other).expect("there is something")
    }

    fn verdict(recorded: u64, same: [u64; 3], other: [u64; 3]) -> Verdict {
        let rows = rows_of(recorded, same, Some(other));
        let verdicts: Vec<_> = rows.iter().filter_map(Row::verdict).collect();
        let [first, .., last] = verdicts[..] else {
            panic!("four rows: {verdicts:?}");
        };
        assert_eq!(last, Verdict::TooFew, "20 queries decide p99.9");
        assert_eq!(verdicts[..3], [first; 3]);
        first
    }

    #[test]
    fn difference_must_exceed_model_error_and_noise() {
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
        // The mean error is zero, but the error may be larger than the difference.
        assert_eq!(
            verdict(100, [85, 100, 117], [93, 110, 129]),
            Verdict::Unknown
        );
    }

    #[test]
    fn rows_show_recorded_value_and_model_error() {
        let rows = rows_of(100, [120, 120, 120], None);
        let p99 = &rows[2];
        assert_eq!((p99.name, p99.recorded.as_secs()), ("p99", 99));
        assert!((p99.error.value - 1.2).abs() < 0.01, "{:?}", p99.error);
        assert!((p99.error_max() - 1.2).abs() < 0.01);
        assert_eq!((p99.verdict(), &p99.change), (None, &None));
        assert!((190..=200).contains(&p99.beyond), "{}", p99.beyond);
        let recorded = Recorded {
            all: &latencies(1),
            by_block: &[],
        };
        assert!(super::rows(recorded, &[], &[]).is_none());
    }

    #[test]
    fn time_blocks_widen_the_interval_of_seeds() {
        let narrow = Estimate {
            value: 2.0,
            interval: Some((1.9, 2.1)),
        };
        assert_eq!(widened(narrow, None), narrow);
        let (low, high) = widened(narrow, Some((1.0_f64.ln(), 3.0_f64.ln())))
            .interval
            .expect("it has one");
        assert!(
            low < 1.0 && low > 0.98 && high > 3.0 && high < 3.05,
            "{low} to {high}"
        );
        // Seeds alone would have shown a difference here.
        let all = latencies(100);
        let recorded = Recorded {
            all: &all,
            by_block: &[latencies(100), latencies(100)],
        };
        let run = |blocks: [u64; 2]| Measured {
            latency: latencies(blocks[0] + blocks[1]),
            latency_by_block: blocks.map(latencies).into(),
            ..Measured::nothing(1)
        };
        let (same, other) = (
            [100, 100].map(|ms| run([ms; 2])),
            [100, 100].map(|_| run([50, 400])),
        );
        let rows = rows(recorded, &same, &other).expect("there is something");
        let change = rows[2].change.expect("there is another policy");
        assert_eq!(rows[2].verdict(), Some(Verdict::Alike), "{change:?}");
        assert_eq!(rows[2].blocks, (2, 2));
    }
}
