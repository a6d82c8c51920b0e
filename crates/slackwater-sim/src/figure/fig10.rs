//! Fig. 10: linear combinations of RIF and latency, from latency alone to RIF alone, where half of
//! the fleet is half as fast.

use super::cells::{Plays, c3_settings, latency_ms, linear_settings, prequal_of_the_paper};
use super::charts::{axis, latency_lines, log_axis, rif_lines};
use super::judge::{Bounds, claim, number};
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::presets::{at_load, costing, packed, tight, unequal_halves};
use crate::{PolicyChoice, Scenario};
use core::time::Duration;

/// The linear combinations of Appendix A.
#[derive(Debug)]
pub(super) struct Fig10;

const LINEAR: &str = "linear";
const PREQUAL: &str = "prequal";
const LOAD: f64 = 0.94;

/// A query's cost on the fast half. With one request in flight half of the replicas take this long
/// at the median and half take twice as long. The median of all is 4/3 of it, the paper's 75 ms.
const COST: Duration = Duration::from_micros(56_250);
/// Latency that one request in flight counts as: α.
const RIF_SCALE: Duration = Duration::from_millis(75);

/// The first steps of the paper's first sweep. The paper says only that they perform poorly.
const COARSE_HUNDREDTHS: [u32; 4] = [0, 25, 50, 70];
/// The paper's figure has 13 finer steps up to 1. It does not say which.
const FINE_FROM_HUNDREDTHS: u32 = 76;
const FINE_STEPS: usize = 13;

const LATENCY_ONLY: &str = "0";
const RIF_ONLY: &str = "1";

/// Alternatives that are not in the paper's figure and that users may take instead: the policy by
/// its step's name.
const OTHERS: [(&str, &str); 5] = [
    ("prequal with our defaults", PREQUAL),
    ("rif_then_latency", "rif_then_latency"),
    ("c3", "c3"),
    ("least_loaded", "least_loaded"),
    ("peak_ewma", "peak_ewma"),
];
const CLIENTS: usize = 100;

/// A neighbourhood by name.
type Neighbours = (&'static str, fn() -> Scenario);

/// The neighbourhoods of the runs.
const NEIGHBOURS: [Neighbours; 2] = [("tight", tight), ("packed", packed)];

impl Figure for Fig10 {
    fn words(&self) -> Words {
        Words {
            name: "fig10",
            title: "Linear combinations of RIF and latency",
            about: "The score (1 - λ) · latency + λ · 75 ms · RIF on Prequal's probes and pool, at 94 % of the allocation, half of the replicas \
         burning twice the CPU for each query [Prequal Appendix A, Fig. 10]. Among the antagonists of Fig. 7 (tight), and once more \
         where 60 of 100 machines are full (packed). Prequal with the paper's baseline settings is the row `prequal`.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        NEIGHBOURS
            .into_iter()
            .flat_map(|(neighbours, scenario)| {
                let scenario = at_load(LOAD, unequal_halves(costing(COST, scenario())));
                let scenario = effort.spend_on(scenario, 30, 30);
                let linear = steps().filter_map({
                    let scenario = scenario.clone();
                    move |(step, weight)| {
                        let policy = PolicyChoice::with_settings(
                            LINEAR,
                            linear_settings(weight, RIF_SCALE)?,
                        )?;
                        let param = format!("neighbours={neighbours} rif_weight={step}");
                        Some(Cell::of(step, LOAD, policy, &scenario).with_param(param))
                    }
                });
                let prequal = prequal_of_the_paper().map(|policy| {
                    let cell = Cell::of(PREQUAL, LOAD, policy, &scenario);
                    cell.with_param(format!("neighbours={neighbours}"))
                });
                let others = OTHERS.into_iter().filter_map(|(step, policy)| {
                    let choice = PolicyChoice::with_settings(policy, c3_settings(CLIENTS)?)?;
                    let cell = Cell::of(step.to_owned(), LOAD, choice, &scenario);
                    Some(cell.with_param(format!("neighbours={neighbours}")))
                });
                linear.chain(prequal).chain(others).collect::<Vec<_>>()
            })
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        let mut findings = Findings::default();
        for (neighbours, _) in NEIGHBOURS {
            let plays = plays.only(|cell| is_among(cell, neighbours));
            findings.claims.extend(claims(neighbours, &plays));
            findings.charts.extend(charts(neighbours, &plays));
            findings.tables.push(others(neighbours, &plays));
        }
        findings
    }
}

/// Returns each λ by its name: the coarse ones, then the fine ones.
fn steps() -> impl Iterator<Item = (String, f64)> {
    let fine = (FINE_FROM_HUNDREDTHS..).step_by(2).take(FINE_STEPS);
    COARSE_HUNDREDTHS.into_iter().chain(fine).map(|hundredths| {
        let weight = f64::from(hundredths) / 100.0;
        (weight.to_string(), weight)
    })
}

fn is_among(cell: &Cell, neighbours: &str) -> bool {
    let named = cell.param.strip_prefix("neighbours=");
    named.and_then(|named| named.split(' ').next()) == Some(neighbours)
}

fn claims(neighbours: &str, plays: &Plays<'_>) -> Vec<Claim> {
    let p99 = |step| {
        plays
            .measured(step, LINEAR)
            .map(|run| latency_ms(run, 0.99))
    };
    let Some((latency_only, rif_only)) = p99(LATENCY_ONLY).zip(p99(RIF_ONLY)) else {
        return Vec::new();
    };
    let collapses = |step: &str, found: f64| {
        let says = format!("{neighbours}: λ = {step} performs poorly: p99 against RIF alone");
        Bounds::at_least(2.0, " times").judge(says, found / rif_only)
    };
    let mut claims = vec![collapses(LATENCY_ONLY, latency_only)];
    claims.extend(p99("0.25").map(|found| collapses("0.25", found)));
    claims.extend(p99("0.5").map(|found| collapses("0.5", found)));
    claims.extend(best(neighbours, plays));
    claims.extend(monotonic(neighbours, plays));
    claims.extend(plays.measured(PREQUAL, PREQUAL).map(|run| {
        let says = format!(
            "{neighbours}: Prequal is below every linear combination, by p99 below RIF alone"
        );
        Bounds::at_most(1.0, " times").judge(says, latency_ms(run, 0.99) / rif_only)
    }));
    claims
}

fn best(neighbours: &str, plays: &Plays<'_>) -> Option<Claim> {
    let p99 = |played: &Played| latency_ms(&played.all, 0.99);
    let linear = plays.of(LINEAR);
    let best = linear.iter().min_by(|a, b| p99(a).total_cmp(&p99(b)))?;
    let rif_only = linear.find(RIF_ONLY, LINEAR)?;
    Some(claim(
        format!("{neighbours}: λ = 1, RIF alone, has the lowest p99 of all"),
        format!(
            "lowest at λ = {}: {} ms, at λ = 1 {} ms",
            best.cell.step,
            number(p99(best)),
            number(p99(rif_only))
        ),
        best.cell.step == RIF_ONLY,
    ))
}

/// Counts how often a quantile of latency or RIF rises from one fine step to the next.
fn monotonic(neighbours: &str, plays: &Plays<'_>) -> Option<Claim> {
    let fine = plays.of(LINEAR).only(|cell| {
        let weight = cell.step.parse().unwrap_or(0.0);
        weight * 100.0 >= f64::from(FINE_FROM_HUNDREDTHS) - 0.5
    });
    let quantiles: Vec<[f64; 6]> = fine
        .iter()
        .map(|played| {
            let latency = |q| latency_ms(&played.all, q);
            let rif = |q| played.all.rif_quantile(q) as f64;
            [
                latency(0.5),
                latency(0.9),
                latency(0.99),
                rif(0.5),
                rif(0.9),
                rif(0.99),
            ]
        })
        .collect();
    let rises = quantiles
        .windows(2)
        .flat_map(|pair| pair[0].iter().zip(&pair[1]))
        .filter(|(before, after)| after > before)
        .count();
    let pairs = 6 * quantiles.len().checked_sub(1)?;
    Some(claim(
        format!(
            "{neighbours}: all quantiles of latency and RIF improve monotonically with λ, from 0.76 to 1"
        ),
        format!("{rises} of {pairs} steps of a quantile are upwards"),
        rises == 0,
    ))
}

/// Makes the table of the other policies beside RIF alone and the paper's Prequal.
fn others(neighbours: &str, plays: &Plays<'_>) -> Table {
    let papers = [
        (RIF_ONLY, LINEAR, "λ = 1, RIF alone"),
        (PREQUAL, PREQUAL, "prequal with the paper's settings"),
    ];
    let others = OTHERS.map(|(step, policy)| (step, policy, step));
    let rows = papers
        .into_iter()
        .chain(others)
        .filter_map(|(step, policy, shown)| {
            let run = plays.measured(step, policy)?;
            let latencies = [0.5, 0.99, 0.999].map(|q| number(latency_ms(run, q)));
            let mut row = vec![shown.to_owned()];
            row.extend(latencies);
            row.push(number(100.0 * run.error_share()));
            Some(row)
        });
    Table {
        title: format!("Other policies, {neighbours}"),
        columns: ["policy", "p50, ms", "p99", "p99.9", "errors, %"]
            .map(str::to_owned)
            .into(),
        rows: rows.collect(),
    }
}

fn charts(neighbours: &str, plays: &Plays<'_>) -> [Chart; 2] {
    let linear = plays.of(LINEAR);
    let weight = |played: &Played| played.cell.step.parse().unwrap_or(f64::NAN);
    [
        Chart {
            title: format!("Latency by λ, {neighbours}"),
            x: axis("λ: 0 is latency alone, 1 is RIF alone"),
            y: log_axis("latency, ms"),
            plot: Plot::Lines(latency_lines(&linear, weight)),
        },
        Chart {
            title: format!("RIF by λ, {neighbours}"),
            x: axis("λ: 0 is latency alone, 1 is RIF alone"),
            y: log_axis("requests in flight at a replica"),
            plot: Plot::Lines(rif_lines(&linear, weight)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};
    use crate::policy::PolicyKind;

    /// Results as in the paper: the nearer to RIF alone, the better, and Prequal is better still.
    fn paper(cell: &Cell) -> crate::Measured {
        let p99 = match cell.step.parse::<f64>() {
            Ok(weight) if weight < 0.6 => 900.0,
            Ok(weight) => 400.0 - 100.0 * weight,
            Err(_) => 290.0,
        };
        trial::run([p99 / 4.0, p99 / 2.0, p99, 2.0 * p99])
    }

    #[test]
    fn steps_are_four_coarse_and_thirteen_fine() {
        let steps: Vec<_> = steps().map(|(step, _)| step).collect();
        assert_eq!(steps.len(), 4 + 13);
        assert_eq!(steps[..6], ["0", "0.25", "0.5", "0.7", "0.76", "0.78"]);
        assert_eq!(steps[15..], ["0.98", "1"]);
        let cells = trial::cells(&Fig10);
        assert_eq!(cells.len(), 2 * (18 + OTHERS.len()));
        let PolicyKind::Shipped { settings, .. } = &cells[4].policy.kind else {
            panic!("linear is a policy");
        };
        assert_eq!(settings.linear.rif_weight.millionths(), 760_000);
        assert_eq!(settings.linear.rif_scale, RIF_SCALE);
        assert!(is_among(&cells[0], "tight") && is_among(&cells[22], "tight"));
        assert!(is_among(&cells[23], "packed") && !is_among(&cells[23], "tight"));
    }

    #[test]
    fn paper_results_reproduce_every_claim() {
        let findings = Fig10.findings(&trial::played(&Fig10, paper));
        assert_eq!(findings.claims.len(), 2 * 6);
        for claim in findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
    }

    #[test]
    fn other_policies_are_shown_and_not_judged() {
        let findings = Fig10.findings(&trial::played(&Fig10, |cell| {
            if cell.step == "c3" || cell.step == "prequal with our defaults" {
                trial::run([100.0, 200.0, 300.0, 5_000.0])
            } else {
                paper(cell)
            }
        }));
        let reproduced = |claim: &Claim| claim.verdict == Reproduced;
        assert!(findings.claims.iter().all(reproduced));
        let rows = &findings.tables[1].rows;
        assert_eq!(rows.len(), 2 + OTHERS.len());
        let names: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(
            names[1..3],
            [
                "prequal with the paper's settings",
                "prequal with our defaults"
            ]
        );
        assert_eq!(rows[1][3], "580");
        assert_eq!(rows[2][3], "5,000");
        assert_eq!(rows[4][1..], ["100", "300", "5,000", "0"]);
    }

    #[test]
    fn each_claim_can_fail() {
        let upsets = [
            ("λ = 0 ", "0", 590.0),
            ("λ = 0.25", "0.25", 590.0),
            ("λ = 0.5", "0.5", 590.0),
            ("lowest p99", "0.7", 299.0),
            ("monotonically", "0.8", 330.0),
            ("Prequal", PREQUAL, 301.0),
        ];
        for (words, step, p99) in upsets {
            let played = trial::played(&Fig10, |cell| {
                if cell.step == step && is_among(cell, "packed") {
                    trial::run([p99 / 4.0, p99 / 2.0, p99, 2.0 * p99])
                } else {
                    paper(cell)
                }
            });
            let words = |neighbours| [neighbours, words];
            assert_eq!(
                verdicts(&Fig10, &played, &words("packed")),
                [NotReproduced],
                "{step}"
            );
            assert_eq!(
                verdicts(&Fig10, &played, &words("tight")),
                [Reproduced],
                "{step}"
            );
        }
    }
}
