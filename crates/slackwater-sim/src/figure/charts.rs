//! What figures share when they draw: lines over steps, the paper's numbers beside them, heat maps of CPU.

use super::cells::{Plays, latency_ms};
use super::{Axis, Chart, Line, Played, Plot};
use crate::Measured;
use crate::measure::Utilization;

/// The four quantiles of latency that the paper shows, with their names.
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The highest row of a heat map of utilization, in tenths of the allocation: it holds all that is above it, too.
const HEAT_TOP_TENTHS: usize = 30;

/// An axis without logarithm.
pub(super) fn axis(label: impl Into<String>) -> Axis {
    Axis {
        label: label.into(),
        log: false,
    }
}

/// A logarithmic axis.
pub(super) fn log_axis(label: impl Into<String>) -> Axis {
    Axis {
        label: label.into(),
        log: true,
    }
}

/// A line of what `quantity` is in each play, over `x`; the marks are all seeds together, the intervals what single seeds range
/// over.
pub(super) fn line(
    name: impl Into<String>,
    plays: &Plays<'_>,
    x: impl Fn(&Played) -> f64,
    quantity: impl Fn(&Measured) -> f64,
) -> Line {
    let range = |played: &Played| {
        let of_seeds = played.runs.iter().map(&quantity);
        of_seeds.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let mut marks: Vec<_> = plays
        .iter()
        .map(|played| ((x(played), quantity(&played.all)), range(played)))
        .collect();
    marks.sort_by(|((a, _), _), ((b, _), _)| a.total_cmp(b));
    let (points, interval) = marks.into_iter().unzip();
    Line {
        name: name.into(),
        points,
        interval,
        reference: false,
    }
}

/// A line of a paper's numbers.
pub(super) fn reference(name: impl Into<String>, points: &[(f64, f64)]) -> Line {
    Line {
        name: name.into(),
        points: points.to_vec(),
        interval: Vec::new(),
        reference: true,
    }
}

/// One line for each of the four quantiles of latency, in milliseconds.
pub(super) fn latency_lines(plays: &Plays<'_>, x: impl Fn(&Played) -> f64) -> Vec<Line> {
    QUANTILES
        .into_iter()
        .map(|(name, q)| line(name, plays, &x, |run| latency_ms(run, q)))
        .collect()
}

/// Where the CPU of replicas is, as a multiple of the allocation, over windows of so many seconds: a column for each step, a
/// row for each tenth. Windows longer than the run shrink to it.
pub(super) fn cpu_heat_map(
    title: impl Into<String>,
    plays: &Plays<'_>,
    window_seconds: usize,
) -> Chart {
    let columns: Vec<String> = plays
        .iter()
        .map(|played| played.cell.step.clone())
        .collect();
    let shares: Vec<Vec<f64>> = plays
        .iter()
        .map(|played| shares_by_tenth(&windows(played, window_seconds)))
        .collect();
    let highest = shares
        .iter()
        .filter_map(|column| column.iter().rposition(|&share| share > 0.0));
    let rows = highest.max().map_or(0, |row| row + 1);
    Chart {
        title: title.into(),
        x: axis("step"),
        y: axis("CPU, as a multiple of the allocation"),
        plot: Plot::Heat {
            columns,
            rows: (0..rows).map(|row| row as f64 / 10.0).collect(),
            cells: (0..rows)
                .map(|row| shares.iter().map(|column| column[row]).collect())
                .collect(),
        },
    }
}

/// The utilization of each replica in each window of so many seconds, of all seeds. Windows never reach from one run into the
/// next, and shrink to the run if they are longer.
pub(super) fn windows(played: &Played, window_seconds: usize) -> Vec<f32> {
    let of_run =
        |utilization: &Utilization| utilization.averaged(window_seconds.min(utilization.seconds()));
    played
        .runs
        .iter()
        .flat_map(|run| of_run(&run.utilization))
        .collect()
}

/// The share of samples in each tenth of the allocation, from 0 to [`HEAT_TOP_TENTHS`].
fn shares_by_tenth(samples: &[f32]) -> Vec<f64> {
    let mut shares = vec![0.0; HEAT_TOP_TENTHS + 1];
    for &sample in samples {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's conversion saturates, and the row is bounded"
        )]
        let row = (sample * 10.0) as usize;
        shares[row.min(HEAT_TOP_TENTHS)] += 1.0 / samples.len() as f64;
    }
    shares
}
