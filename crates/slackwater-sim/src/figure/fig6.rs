//! Fig. 6: the load is raised from 0.75 to 1.74 times the allocation, under weighted round robin
//! and under Prequal.

use super::cells::{Plays, TIMED_OUT_MS, latency_ms, prequal_of_the_paper};
use super::charts::{axis, cpu_heat_map, latency_lines, line, log_axis, reference};
use super::judge::{Bounds, claim, number};
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::presets::{LOAD, at_load, testbed};
use crate::{Measured, PolicyChoice};

/// The load ramp of §5.1.
#[derive(Debug)]
pub(super) struct Fig6;

const WRR: &str = "weighted_round_robin";
const PREQUAL: &str = "prequal";
/// The policies of the ramp, which the claims are about.
const POLICIES: [&str; 2] = [WRR, PREQUAL];
/// The parameter of the cells in which Prequal has our defaults, not the paper's settings.
/// `[Decision 0005]`
const OUR_DEFAULTS: &str = "settings=default";

/// Number of steps of the ramp; each is 10/9 of the one before.
const STEPS: i32 = 9;

/// The paper's values of a latency quantile, in milliseconds, at some loads.
type Quoted = (&'static str, &'static [(f64, f64)]);

/// The paper's latencies under weighted round robin. `[Prequal §5.1]`
const PAPER_WRR: [Quoted; 4] = [
    (
        "p50",
        &[(0.75, 80.0), (0.93, 80.0), (1.57, 111.0), (1.74, 150.0)],
    ),
    (
        "p90",
        &[(0.75, 182.0), (0.93, 182.0), (1.27, 203.0), (1.57, 5_000.0)],
    ),
    (
        "p99",
        &[(0.75, 265.0), (0.93, 265.0), (1.03, 335.0), (1.27, 5_000.0)],
    ),
    (
        "p99.9",
        &[
            (0.75, 325.0),
            (0.93, 325.0),
            (1.03, 5_000.0),
            (1.74, 5_000.0),
        ],
    ),
];

/// The paper's latencies under Prequal, up to the load from which they rise.
const PAPER_PREQUAL: [Quoted; 4] = [
    ("p50", &[(0.75, 80.0), (1.57, 80.0)]),
    ("p90", &[(0.75, 182.0), (1.41, 182.0)]),
    ("p99", &[(0.75, 265.0), (1.27, 265.0)]),
    (
        "p99.9",
        &[(0.75, 325.0), (1.14, 325.0), (1.27, 350.0), (1.74, 700.0)],
    ),
];

/// The latencies below allocation, and how far ours may be off: run times on one core without any
/// queue.
const CALIBRATION: [(&str, f64, f64, f64); 4] = [
    ("p50", 0.5, 80.0, 2.0),
    ("p90", 0.9, 182.0, 4.0),
    ("p99", 0.99, 266.0, 5.0),
    ("p99.9", 0.999, 326.0, 8.0),
];

impl Figure for Fig6 {
    fn words(&self) -> Words {
        Words {
            name: "fig6",
            title: "Load ramp through the allocation: weighted round robin and Prequal",
            about: "100 clients, 100 replicas among antagonists; the load rises in steps of 10/9 from 0.75 to 1.74 times the allocation \
         [Prequal §5.1, Fig. 6]. Ours differs in that both policies meet the same arrivals, costs and antagonists (common random \
         numbers), where the paper's take turns, and in that its antagonists are a model, fitted to the paper's shares of \
         overloaded replicas. In claims and charts Prequal has the paper's settings; a table has our defaults beside them.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        loads()
            .flat_map(|(step, load)| {
                let scenario = effort.spend_on(at_load(load, testbed()), 60, 60);
                let cell = move |policy| Cell::of(step.clone(), load, policy, &scenario);
                let ours = PolicyChoice::named(PREQUAL)
                    .map(&cell)
                    .map(|cell| cell.with_param(OUR_DEFAULTS.to_owned()));
                let papers = POLICIES.into_iter().filter_map(choice).map(cell);
                papers.chain(ours)
            })
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let all = Plays::new(played);
        let plays = all.only(|cell| cell.param != OUR_DEFAULTS);
        let ours = all.only(|cell| cell.param == OUR_DEFAULTS);
        Findings {
            claims: claims(&plays),
            charts: charts(&plays),
            tables: vec![defaults_beside(&plays, &ours)],
        }
    }
}

/// Returns each step's name, as in the paper, and its load.
fn loads() -> impl Iterator<Item = (String, f64)> {
    (0..STEPS).map(|step| {
        let load = LOAD * (10.0_f64 / 9.0).powi(step);
        (format!("{load:.2}"), load)
    })
}

/// Returns the policy with the paper's settings.
fn choice(policy: &str) -> Option<PolicyChoice> {
    if policy == PREQUAL {
        prequal_of_the_paper()
    } else {
        PolicyChoice::named(policy)
    }
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let mut claims = calibration(plays);
    claims.extend(under_wrr(plays));
    claims.extend(under_prequal(plays));
    claims.extend(never_an_error(plays));
    claims.extend(cpu_spread(plays));
    claims
}

fn calibration(plays: &Plays<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for policy in POLICIES {
        let below = plays.of(policy);
        let Some(run) = below.measured("0.75", policy) else {
            continue;
        };
        for (name, q, value, tolerance) in CALIBRATION {
            let says =
                format!("{policy} at 0.75: {name} is {value} ms, run time without any queue");
            claims.push(Bounds::about(value, tolerance, " ms").judge(says, latency_ms(run, q)));
        }
        let steady = ["0.75", "0.83", "0.93"].map(|step| below.measured(step, policy));
        let errors: u64 = steady.iter().flatten().map(|run| run.errors).sum();
        claims.push(none(
            format!("{policy} below the allocation: no errors"),
            errors,
        ));
        let worst = steady.iter().flatten().map(|run| latency_ms(run, 0.999));
        claims.push(Bounds::about(326.0, 8.0, " ms").judge(
            format!("{policy} below the allocation: p99.9 stays steady"),
            worst.fold(0.0, f64::max),
        ));
    }
    claims
}

fn under_wrr(plays: &Plays<'_>) -> Vec<Claim> {
    let latency = |step, q| {
        let run = plays.measured(step, WRR)?;
        Some(latency_ms(run, q))
    };
    let at = |step, of: fn(&Measured) -> f64| plays.measured(step, WRR).map(of);
    let limit = Bounds::at_least(TIMED_OUT_MS, " ms");
    let judged = [
        latency("1.03", 0.999).map(|found| {
            Bounds::at_least(3_000.0, " ms").judge(
                "WRR at 1.03: p99.9 goes to the 5 s limit as soon as the allocation is exceeded",
                found,
            )
        }),
        at("1.03", Measured::errors_per_second).map(|found| {
            Bounds::between(1.0, 25.0, " errors/s").judge(
                "WRR at 1.03: a very small error rate, 5 to 20 a second",
                found,
            )
        }),
        latency("1.03", 0.99).map(|found| {
            Bounds::about(335.0, 33.5, " ms")
                .judge("WRR at 1.03: p99 jumps by 26 % to 335 ms", found)
        }),
        latency("1.27", 0.99)
            .map(|found| limit.judge("WRR at 1.27: p99 is at the 5 s limit", found)),
        latency("1.27", 0.9).map(|found| {
            Bounds::about(203.0, 10.0, " ms")
                .judge("WRR at 1.27: p90 begins to rise, to 203 ms", found)
        }),
        latency("1.57", 0.9)
            .map(|found| limit.judge("WRR at 1.57: p90 is at the 5 s limit", found)),
        latency("1.57", 0.5).map(|found| {
            Bounds::about(111.0, 17.0, " ms").judge("WRR at 1.57: p50 rises to 111 ms", found)
        }),
        latency("1.74", 0.5).map(|found| {
            Bounds::about(150.0, 23.0, " ms").judge("WRR at 1.74: p50 rises to 150 ms", found)
        }),
        at("1.74", |run| 100.0 * run.error_share()).map(|found| {
            Bounds::between(22.0, 36.0, " %").judge(
                "WRR at 1.74: more than a quarter of all queries are errors",
                found,
            )
        }),
    ];
    judged.into_iter().flatten().collect()
}

fn under_prequal(plays: &Plays<'_>) -> Vec<Claim> {
    let bounds = [
        (
            "1.03",
            "p99.9 does not visibly change",
            Bounds::at_most(345.0, " ms"),
        ),
        (
            "1.14",
            "p99.9 does not visibly change",
            Bounds::at_most(345.0, " ms"),
        ),
        (
            "1.27",
            "p99.9 rises to 350 ms only",
            Bounds::between(335.0, 400.0, " ms"),
        ),
        (
            "1.74",
            "p99.9 stays around 700 ms",
            Bounds::between(450.0, 900.0, " ms"),
        ),
    ];
    bounds
        .into_iter()
        .filter_map(|(step, says, bounds)| {
            let run = plays.measured(step, PREQUAL)?;
            Some(bounds.judge(format!("Prequal at {step}: {says}"), latency_ms(run, 0.999)))
        })
        .collect()
}

fn never_an_error(plays: &Plays<'_>) -> Option<Claim> {
    let runs: Vec<_> = plays.of(PREQUAL).iter().map(|played| &played.all).collect();
    let errors = runs.iter().map(|run| run.errors).sum();
    (!runs.is_empty()).then(|| none("Prequal: no error at any step", errors))
}

/// WRR balances CPU better, and is worse for it.
fn cpu_spread(plays: &Plays<'_>) -> Option<Claim> {
    let spreads: Vec<(String, f64, f64)> = plays
        .steps()
        .into_iter()
        .filter_map(|step| {
            let spread = |policy| {
                let run = plays.measured(&step, policy)?;
                deviation(&run.utilization.by_second)
            };
            let (wrr, prequal) = (spread(WRR)?, spread(PREQUAL)?);
            Some((step, wrr, prequal))
        })
        .collect();
    let (step, wrr, prequal) = spreads
        .iter()
        .min_by(|(_, a_wrr, a), (_, b_wrr, b)| (a - a_wrr).total_cmp(&(b - b_wrr)))?;
    Some(claim(
        "WRR balances CPU: at every step its utilization over 1 s spreads less than Prequal's",
        format!(
            "standard deviations are nearest at {step}: {} of the allocation under WRR, {} under Prequal",
            number(*wrr),
            number(*prequal)
        ),
        prequal > wrr,
    ))
}

/// Returns the standard deviation; `None` without samples.
fn deviation(samples: &[f32]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let n = samples.len() as f64;
    let mean = samples.iter().map(|&sample| f64::from(sample)).sum::<f64>() / n;
    let squares: f64 = samples
        .iter()
        .map(|&sample| (f64::from(sample) - mean).powi(2))
        .sum();
    Some((squares / n).sqrt())
}

/// Makes a table of our defaults beside the paper's settings.
fn defaults_beside(papers: &Plays<'_>, ours: &Plays<'_>) -> Table {
    let shown = |plays: &Plays<'_>, step: &str| {
        let run = plays.measured(step, PREQUAL);
        let latency = |q| run.map_or_else(String::new, |run| number(latency_ms(run, q)));
        let errors = run.map_or_else(String::new, |run| run.errors.to_string());
        [latency(0.5), latency(0.99), latency(0.999), errors]
    };
    let columns = [
        "load",
        "the paper's settings: p50, ms",
        "p99",
        "p99.9",
        "errors",
        "our defaults: p50, ms",
        "p99",
        "p99.9",
        "errors",
    ];
    Table {
        title: "Prequal with the paper's settings, and with our defaults".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: loads()
            .map(|(step, _)| {
                let mut row = vec![step.clone()];
                row.extend([shown(papers, &step), shown(ours, &step)].concat());
                row
            })
            .collect(),
    }
}

fn none(says: impl Into<String>, errors: u64) -> Claim {
    Bounds::at_most(0.0, " errors").judge(says, errors as f64)
}

fn charts(plays: &Plays<'_>) -> Vec<Chart> {
    let load = |played: &Played| played.cell.load;
    let mut charts = Vec::new();
    for policy in POLICIES {
        let plays = plays.of(policy);
        let mut lines = latency_lines(&plays, load);
        lines.extend(paper(policy));
        charts.push(Chart {
            title: format!("Latency under {policy}"),
            x: axis("load, as a multiple of the allocation"),
            y: log_axis("latency, ms"),
            plot: Plot::Lines(lines),
        });
    }
    charts.push(Chart {
        title: "Errors".to_owned(),
        x: axis("load, as a multiple of the allocation"),
        y: axis("errors a second"),
        plot: Plot::Lines(
            POLICIES
                .map(|policy| line(policy, &plays.of(policy), load, Measured::errors_per_second))
                .into(),
        ),
    });
    for policy in POLICIES {
        charts.push(cpu_heat_map(
            format!("CPU over 1 s under {policy}"),
            &plays.of(policy),
            1,
        ));
    }
    charts
}

fn paper(policy: &str) -> impl Iterator<Item = Line> {
    let said = if policy == WRR {
        PAPER_WRR
    } else {
        PAPER_PREQUAL
    };
    said.into_iter()
        .map(|(quantile, points)| reference(format!("{quantile}, paper"), points))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{self, NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};
    use crate::policy::PolicyKind;
    use slackwater_core::policy::prequal::PrequalSettings;

    /// The paper's own numbers, with a spread of CPU: 0.1 under WRR, 0.3 under Prequal.
    fn paper(cell: &Cell) -> Measured {
        let prequal = cell.policy.name == PREQUAL;
        let mut run = trial::run(match (cell.step.as_str(), prequal) {
            ("0.75" | "0.83" | "0.93", _) | ("1.03" | "1.14", true) => [80.0, 182.0, 265.0, 325.0],
            ("1.27", true) => [80.0, 182.0, 267.0, 350.0],
            ("1.41" | "1.57", true) => [80.0, 190.0, 300.0, 450.0],
            ("1.74", true) => [90.0, 250.0, 500.0, 700.0],
            ("1.03", false) => [80.0, 182.0, 335.0, 5_000.0],
            ("1.14" | "1.27", false) => [80.0, 203.0, 5_000.0, 5_000.0],
            ("1.57", false) => [111.0, 5_000.0, 5_000.0, 5_000.0],
            _ => [150.0, 5_000.0, 5_000.0, 5_000.0],
        });
        if !prequal {
            run.errors = match cell.step.as_str() {
                "1.03" => 100,
                "1.74" => 2_600,
                _ => 0,
            };
        }
        let spread = if prequal { 0.3 } else { 0.1 };
        run.utilization.by_second = vec![1.0 - spread, 1.0 + spread];
        run
    }

    #[test]
    fn steps_and_settings_match_the_paper() {
        let steps: Vec<_> = loads().map(|(step, _)| step).collect();
        assert_eq!(
            steps,
            [
                "0.75", "0.83", "0.93", "1.03", "1.14", "1.27", "1.41", "1.57", "1.74"
            ]
        );
        let cells = trial::cells(&Fig6);
        assert_eq!(cells.len(), 27);
        let rates: Vec<_> = [&cells[0], &cells[26]]
            .map(|cell| cell.scenario.load.rate)
            .into();
        assert!(
            (rates[0] - 5_560.0).abs() < 40.0 && (rates[1] - 12_920.0).abs() < 100.0,
            "{rates:?}"
        );
        assert_eq!(cells[0].scenario.replicas(), 100);
        let played = |param: &str| {
            cells.iter().find_map(|cell| match &cell.policy.kind {
                PolicyKind::Shipped {
                    entry, settings, ..
                } if entry.name == PREQUAL && cell.param == param => Some(settings.prequal.clone()),
                _ => None,
            })
        };
        assert_eq!(played(""), PrequalSettings::paper().validate().ok());
        assert_eq!(
            played(OUR_DEFAULTS),
            PrequalSettings::default().validate().ok()
        );
        assert_ne!(played(""), played(OUR_DEFAULTS));
    }

    #[test]
    fn paper_numbers_reproduce_every_claim() {
        let findings = Fig6.findings(&trial::played(&Fig6, paper));
        assert_eq!(findings.claims.len(), 2 * 6 + 9 + 4 + 1 + 1);
        for claim in findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
    }

    /// Claims of the paper are checked with its own settings. Ours are only shown.
    #[test]
    fn our_defaults_are_shown_and_not_judged() {
        let findings = Fig6.findings(&trial::played(&Fig6, |cell| {
            if cell.param == OUR_DEFAULTS {
                let mut run = trial::run([81.0, 190.0, 270.0, 900.0]);
                run.errors = 3;
                run
            } else {
                paper(cell)
            }
        }));
        let reproduced = |claim: &Claim| claim.verdict == Reproduced;
        assert!(findings.claims.iter().all(reproduced));
        let rows = &findings.tables[0].rows;
        assert_eq!(rows.len(), 9);
        assert_eq!(rows[5][0], "1.27");
        assert_eq!(rows[5][3..5], ["350", "0"], "the paper's");
        assert_eq!(rows[5][5..], ["81.02", "270.1", "900", "3"], "ours");
    }

    /// Returns the verdicts on the claims with these words if one cell differs from the paper.
    fn upset_by(
        words: &[&str],
        policy: &str,
        step: &str,
        change: impl Fn(&mut Measured),
    ) -> Vec<Verdict> {
        let played = trial::played(&Fig6, |cell| {
            let mut run = paper(cell);
            if cell.policy.name == policy && cell.step == step {
                change(&mut run);
            }
            run
        });
        verdicts(&Fig6, &played, words)
    }

    #[test]
    fn each_claim_on_latency_can_fail() {
        let upsets: [(&[&str], _, _, _); 10] = [
            (
                &["weighted", "p50"],
                WRR,
                "0.75",
                [83.0, 182.0, 265.0, 325.0],
            ),
            (
                &["prequal", "p99 "],
                PREQUAL,
                "0.75",
                [80.0, 182.0, 272.0, 325.0],
            ),
            (
                &["prequal", "steady"],
                PREQUAL,
                "0.93",
                [80.0, 182.0, 265.0, 336.0],
            ),
            (
                &["1.03: p99.9 goes"],
                WRR,
                "1.03",
                [80.0, 182.0, 335.0, 2_900.0],
            ),
            (
                &["1.03: p99 jumps"],
                WRR,
                "1.03",
                [80.0, 182.0, 300.0, 5_000.0],
            ),
            (&["1.27: p90"], WRR, "1.27", [80.0, 192.0, 5_000.0, 5_000.0]),
            (
                &["1.57: p90"],
                WRR,
                "1.57",
                [111.0, 4_900.0, 5_000.0, 5_000.0],
            ),
            (
                &["1.74: p50"],
                WRR,
                "1.74",
                [175.0, 5_000.0, 5_000.0, 5_000.0],
            ),
            (
                &["Prequal at 1.03"],
                PREQUAL,
                "1.03",
                [80.0, 182.0, 265.0, 347.0],
            ),
            (
                &["Prequal at 1.74"],
                PREQUAL,
                "1.74",
                [80.0, 182.0, 265.0, 440.0],
            ),
        ];
        for (words, policy, step, latencies) in upsets {
            let found = upset_by(words, policy, step, |run| *run = trial::run(latencies));
            assert_eq!(found, [NotReproduced], "{words:?}");
        }
    }

    #[test]
    fn each_claim_on_errors_and_cpu_can_fail() {
        let upsets: [(&[&str], _, _, _); 6] = [
            (&["prequal below", "no errors"], PREQUAL, "0.83", 1),
            (&["1.03: a very small error rate"], WRR, "1.03", 260),
            (&["1.03: a very small error rate"], WRR, "1.03", 9),
            (&["1.74: more than a quarter"], WRR, "1.74", 2_100),
            (&["1.74: more than a quarter"], WRR, "1.74", 3_700),
            (&["Prequal: no error"], PREQUAL, "1.57", 1),
        ];
        for (words, policy, step, errors) in upsets {
            let found = upset_by(words, policy, step, |run| run.errors = errors);
            assert_eq!(found, [NotReproduced], "{words:?} {errors}");
        }
        let even = |run: &mut Measured| run.utilization.by_second = vec![1.0, 1.1];
        assert_eq!(
            upset_by(&["spreads less"], PREQUAL, "1.14", even),
            [NotReproduced]
        );
    }

    #[test]
    fn charts_show_paper_numbers_beside_ours() {
        let findings = Fig6.findings(&trial::played(&Fig6, paper));
        let Plot::Lines(lines) = &findings.charts[0].plot else {
            panic!("latencies are lines");
        };
        let ours: Vec<_> = lines.iter().filter(|line| !line.reference).collect();
        assert_eq!((ours.len(), lines.len()), (4, 8));
        assert!(ours.iter().all(|line| line.points.len() == 9));
        assert!(
            matches!(&findings.charts[4].plot, Plot::Heat { columns, .. } if columns.len() == 9)
        );
    }
}
