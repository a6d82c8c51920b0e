//! Fig. 3: by the minute, the CPU of every replica stays within its allocation. By the second, it
//! does not.

use super::cells::Plays;
use super::charts::{cpu_heat_map, windows};
use super::judge::{Bounds, claim, number};
use super::{Cell, Claim, Effort, Figure, Findings, Played, Table, Words};
use crate::PolicyChoice;
use crate::presets::{at_load, testbed};

/// Utilization at two time scales.
#[derive(Debug)]
pub(super) struct Fig3;

const WRR: &str = "weighted_round_robin";

/// Loads below the allocation: the first steps of Fig. 6. The last of them is the peak.
const LOADS: [(&str, f64); 3] = [("0.75", 0.75), ("0.83", 0.75 / 0.9), ("0.93", 0.75 / 0.81)];
const PEAK: &str = "0.93";

const MINUTE: usize = 60;
const SECOND: usize = 1;

impl Figure for Fig3 {
    fn words(&self) -> Words {
        Words {
            name: "fig3",
            title: "CPU over 1 min and over 1 s under weighted round robin",
            about: "The paper shows hundreds of replicas of the YouTube homepage over a day under weighted round robin [Prequal §2, Fig. 3]. \
         We play the testbed below its allocation instead: its queries arrive as a Poisson process of constant rate, so that \
         what spreads over 1 s is chance alone. Production traffic is burstier, and its bursts higher.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        LOADS
            .into_iter()
            .filter_map(|(step, load)| {
                let scenario = effort.spend_on(at_load(load, testbed()), 60, 300);
                Some(Cell::of(step, load, PolicyChoice::named(WRR)?, &scenario))
            })
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        Findings {
            claims: claims(&plays),
            charts: vec![
                cpu_heat_map("CPU over 1 min", &plays, MINUTE),
                cpu_heat_map("CPU over 1 s", &plays, SECOND),
            ],
            tables: vec![table(&plays)],
        }
    }
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let Some(peak) = plays.find(PEAK, WRR) else {
        return Vec::new();
    };
    let (minutes, seconds) = (windows(peak, MINUTE), windows(peak, SECOND));
    if seconds.is_empty() {
        return Vec::new(); // a run of less than a second
    }
    let over = share_over_allocation(&seconds);
    // In a shorter run the windows are shorter, and there are no minutes.
    let has_minutes = peak
        .runs
        .iter()
        .all(|run| run.utilization.seconds() >= MINUTE);
    let by_minute = has_minutes.then(|| {
        Bounds::at_most(1.0, " of the allocation").judge(
            "at peak load no replica exceeds its allocation in any minute",
            highest(&minutes),
        )
    });
    let by_second = [
        claim(
            "at peak load the allocation is frequently exceeded for a second",
            format!(
                "in {} % of all seconds of a replica (asked: at least 1 %)",
                number(100.0 * over)
            ),
            over >= 0.01,
        ),
        Bounds::at_least(2.0, " of the allocation").judge(
            "at peak load a second may use more than twice the allocation",
            highest(&seconds),
        ),
    ];
    by_minute.into_iter().chain(by_second).collect()
}

fn table(plays: &Plays<'_>) -> Table {
    let rows = plays.iter().flat_map(|played| {
        [("1 min", MINUTE), ("1 s", SECOND)].map(|(name, window)| {
            let samples = windows(played, window);
            vec![
                played.cell.step.clone(),
                name.to_owned(),
                samples.len().to_string(),
                number(highest(&samples)),
                number(100.0 * share_over_allocation(&samples)),
            ]
        })
    });
    Table {
        title: "CPU of replicas, as a multiple of the allocation".to_owned(),
        columns: ["load", "over", "samples", "highest", "above 1, %"]
            .map(String::from)
            .into(),
        rows: rows.collect(),
    }
}

fn highest(samples: &[f32]) -> f64 {
    f64::from(samples.iter().copied().fold(0.0, f32::max))
}

fn share_over_allocation(samples: &[f32]) -> f64 {
    let over = samples.iter().filter(|&&sample| sample > 1.0).count();
    over as f64 / samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial;
    use crate::figure::{Plot, Verdict};

    /// One replica for two minutes: quiet, but for these seconds in the first minute.
    fn verdicts(bursts: &[f32]) -> Vec<Verdict> {
        verdicts_of(bursts, 120)
    }

    fn verdicts_of(bursts: &[f32], seconds: usize) -> Vec<Verdict> {
        let played = trial::played(&Fig3, |_| {
            let mut run = Measured::nothing(1);
            run.queries = 1;
            run.utilization.by_second = bursts.to_vec();
            run.utilization.by_second.resize(seconds, 0.8);
            run
        });
        let claims = Fig3.findings(&played).claims;
        claims.into_iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn claims_distinguish_the_two_time_scales() {
        assert_eq!(verdicts(&[2.1, 1.2]), [Reproduced; 3]);
        assert_eq!(
            verdicts(&[1.9, 1.2]),
            [Reproduced, Reproduced, NotReproduced]
        );
        assert_eq!(
            verdicts(&[1.0; 2]),
            [Reproduced, NotReproduced, NotReproduced]
        );
        assert_eq!(
            verdicts(&[1.01; 60]),
            [NotReproduced, Reproduced, NotReproduced]
        );
    }

    #[test]
    fn runs_under_a_minute_skip_the_claim_on_minutes() {
        assert_eq!(verdicts_of(&[2.1], 60), [Reproduced; 3]);
        assert_eq!(verdicts_of(&[2.1], 59), [Reproduced; 2]);
        assert_eq!(
            verdicts_of(&[1.9; 59], 59),
            [Reproduced, NotReproduced],
            "the two of seconds"
        );
    }

    #[test]
    fn runs_under_a_second_make_no_claims() {
        let played = trial::played(&Fig3, |_| {
            let mut run = Measured::nothing(1);
            run.queries = 1;
            run
        });
        assert!(Fig3.findings(&played).claims.is_empty());
    }

    #[test]
    fn charts_show_both_time_scales() {
        let played = trial::played(&Fig3, |_| {
            let mut run = Measured::nothing(1);
            run.queries = 1;
            run.utilization.by_second = [[0.55; 60], [1.55; 60]].concat();
            run.utilization.by_second[0] = 2.05;
            run
        });
        let charts = Fig3.findings(&played).charts;
        let heights = charts.iter().map(|chart| match &chart.plot {
            Plot::Heat { rows, cells, .. } => (rows.len(), cells[5][0]),
            other => panic!("{other:?} is no heat map"),
        });
        let heights: Vec<_> = heights.collect();
        assert_eq!(heights[0], (16, 0.5), "two minutes: one at 0.5, one at 1.5");
        assert_eq!(heights[1].0, 21, "a second above 2");
        assert!((heights[1].1 - 59.0 / 120.0).abs() < 1e-9);
    }
}
