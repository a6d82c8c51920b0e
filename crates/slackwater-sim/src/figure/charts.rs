//! What figures share when they draw: lines over steps, the paper's numbers beside them, heat maps
//! of CPU.

use super::cells::{Plays, latency_ms};
use super::{Axis, Chart, Line, Played, Plot};
use crate::Measured;
use crate::interval::Estimate;
use crate::measure::Utilization;

/// The four quantiles of latency that the paper shows, with their names.
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The highest row of a heat map of utilization, in tenths of the allocation. It also holds
/// everything above it.
const HEAT_TOP_TENTHS: usize = 50;

/// Returns a linear axis.
pub(super) fn axis(label: impl Into<String>) -> Axis {
    Axis {
        label: label.into(),
        log: false,
    }
}

/// Returns a logarithmic axis.
pub(super) fn log_axis(label: impl Into<String>) -> Axis {
    Axis {
        label: label.into(),
        log: true,
    }
}

/// Returns a line of `quantity` in each play, over `x`. The marks are all seeds together, and the
/// intervals are those of the means over seeds.
pub(super) fn line(
    name: impl Into<String>,
    plays: &Plays<'_>,
    x: impl Fn(&Played) -> f64,
    quantity: impl Fn(&Measured) -> f64,
) -> Line {
    let mut marked: Vec<(f64, &Played)> = plays.iter().map(|played| (x(played), played)).collect();
    marked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let intervals = marked.iter().map(|(_, played)| {
        let of_seeds: Vec<f64> = played.runs.iter().map(&quantity).collect();
        Estimate::mean(&of_seeds)?.interval
    });
    Line {
        name: name.into(),
        interval: intervals.collect::<Option<_>>().unwrap_or_default(),
        points: marked
            .iter()
            .map(|(x, played)| (*x, quantity(&played.all)))
            .collect(),
        reference: false,
    }
}

/// Returns a line of a paper's numbers.
pub(super) fn reference(name: impl Into<String>, points: &[(f64, f64)]) -> Line {
    Line {
        name: name.into(),
        points: points.to_vec(),
        interval: Vec::new(),
        reference: true,
    }
}

/// Returns lines of RIF at three quantiles, over replicas and time.
pub(super) fn rif_lines(plays: &Plays<'_>, x: impl Fn(&Played) -> f64) -> Vec<Line> {
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]
        .into_iter()
        .map(|(name, q)| line(name, plays, &x, |run| run.rif_quantile(q) as f64))
        .collect()
}

/// Returns one line for each of the four quantiles of latency, in milliseconds.
pub(super) fn latency_lines(plays: &Plays<'_>, x: impl Fn(&Played) -> f64) -> Vec<Line> {
    QUANTILES
        .into_iter()
        .map(|(name, q)| line(name, plays, &x, |run| latency_ms(run, q)))
        .collect()
}

/// Returns the distribution of the replicas' CPU, as a multiple of the allocation, over windows of
/// `window_seconds`. It has a column for each step and a row for each tenth. Windows longer than
/// the run shrink to it.
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

/// Returns the utilization of each replica in each window of `window_seconds`, of all seeds.
/// Windows never reach from one run into the next, and shrink to the run if they are longer.
pub(super) fn windows(played: &Played, window_seconds: usize) -> Vec<f32> {
    let of_run =
        |utilization: &Utilization| utilization.averaged(window_seconds.min(utilization.seconds()));
    played
        .runs
        .iter()
        .flat_map(|run| of_run(&run.utilization))
        .collect()
}

/// Returns the share of samples in each tenth of the allocation, from 0 to [`HEAT_TOP_TENTHS`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::fig3::Fig3;
    use crate::figure::trial;

    /// Three plays, by falling load, each of two seeds with a p50 of 90 and 110 ms.
    #[test]
    fn line_is_sorted_by_x_and_has_intervals() {
        let mut played = trial::played(&Fig3, |_| trial::run([100.0; 4]));
        played.reverse();
        let lines = latency_lines(&Plays::new(&played), |played| played.cell.load);
        let loads: Vec<f64> = lines[0].points.iter().map(|&(load, _)| load).collect();
        assert!(loads.is_sorted() && loads.len() == 3, "{loads:?}");
        assert!(lines[0].interval.is_empty(), "one seed has no interval");

        for played in &mut played {
            played.runs = vec![trial::run([90.0; 4]), trial::run([110.0; 4])];
        }
        let lines = latency_lines(&Plays::new(&played), |played| played.cell.load);
        // Student's t of one degree of freedom, 12.7, times 10 ms, about 100 ms.
        let (low, high) = lines[0].interval[2];
        assert!(
            (low + 27.0).abs() < 1.0 && (high - 227.0).abs() < 1.0,
            "{low} {high}"
        );
    }

    #[test]
    fn windows_do_not_span_two_runs() {
        let mut played = trial::played(&Fig3, |_| Measured::nothing(1)).swap_remove(0);
        let run = |seconds: &[f32]| {
            let mut run = Measured::nothing(1);
            run.utilization.by_second = seconds.to_vec();
            run
        };
        played.runs = vec![run(&[1.0, 1.0, 4.0]), run(&[2.0, 2.0, 4.0])];
        assert_eq!(
            windows(&played, 2),
            [1.0, 2.0],
            "what is left at the end of a run is left out"
        );
        assert_eq!(
            windows(&played, 60),
            [2.0, 8.0 / 3.0],
            "a window is no longer than its run"
        );
    }
}
