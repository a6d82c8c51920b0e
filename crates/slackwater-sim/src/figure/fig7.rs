//! Fig. 7: nine rules for choosing a replica, at 70 % and at 90 % of the allocation, where half of
//! the fleet is half as fast.

use super::cells::{
    Plays, TIMED_OUT_MS, c3_settings, latency_ms, linear_settings, paper_settings, quantile,
};
use super::charts::axis;
use super::judge::{Bounds, claim, number};
use super::{Bars, Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::PolicyChoice;
use crate::presets::{CLIENTS, at_load, tight, unequal_halves};
use core::time::Duration;

/// The comparison of §5.2.
#[derive(Debug)]
pub(super) struct Fig7;

/// The paper's nine rules, about from the worst on, and what its text says of their results. It has
/// no numbers.
const RULES: [(&str, &str); 9] = [
    ("random", "timed out"),
    ("round_robin", "timed out"),
    (
        "least_loaded",
        "high p99 at 70 %, p90 suffers heavily at 90 %",
    ),
    (
        "power_of_d",
        "better than least_loaded everywhere, still far behind",
    ),
    (
        "weighted_round_robin",
        "quite well at 70 %, p99 suffers greatly at 90 %",
    ),
    (
        "polled_power_of_d",
        "better than power_of_d at high load, but stale",
    ),
    ("linear", "much worse than prequal and c3"),
    ("c3", "with prequal the best everywhere"),
    ("prequal", "3 to 8 % better than c3 everywhere"),
];

/// Policies that are not in the paper: others of ours, and bounds that no client could reach.
const OTHERS: [&str; 7] = [
    "prequal_sync",
    "peak_ewma",
    "els",
    "rif_then_latency",
    "jsq",
    "jsq_weighted",
    "greedy",
];

const LOADS: [(&str, f64); 2] = [("0.7", 0.7), ("0.9", 0.9)];
const LOW: &str = "0.7";
const HIGH: &str = "0.9";

/// Prequal's RIF limit quantile in this experiment.
const RIF_LIMIT_QUANTILE: f64 = 0.75;

/// Latency that the linear rule counts one request in flight as: the median run time on otherwise
/// idle replicas. One half takes 79.7 ms at the median and the other twice as long, so the median
/// of both together is 4/3 of the faster.
const RIF_SCALE: Duration = Duration::from_micros(106_267);
const RIF_WEIGHT: f64 = 0.5;

/// The paper cuts its bars off here, in milliseconds.
const CHART_LIMIT_MS: f64 = 1_250.0;

impl Figure for Fig7 {
    fn words(&self) -> Words {
        Words {
            name: "fig7",
            title: "Nine replica selection rules at 70 % and 90 % of the allocation",
            about: "100 clients, 100 replicas, of which half burn twice the CPU for each query; more antagonist load than in Fig. 6, as the \
         paper itself suspects [Prequal §5.2, Fig. 7]. The load is the CPU utilization if every replica had the same. C3 knows \
         that there are 100 clients; linear takes one request in flight for 106 ms, the median run time; Prequal's Q is 0.75, and the \
         rest of its settings, on which linear and C3 go, too, are the paper's; polls are 500 ms apart. Rules that the paper does \
         not have follow its \
         nine; jsq, jsq_weighted and greedy are clairvoyant: bounds, not policies.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        LOADS
            .into_iter()
            .flat_map(|(step, load)| {
                let scenario = at_load(load, unequal_halves(tight()));
                let scenario = effort.spend_on(scenario, 60, 60);
                rules().filter_map(move |rule| {
                    let (policy, param) = choice(rule)?;
                    Some(Cell::of(step, load, policy, &scenario).with_param(param))
                })
            })
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        Findings {
            claims: claims(&plays),
            charts: LOADS
                .iter()
                .map(|(step, _)| chart(step, &plays.at(step)))
                .collect(),
            tables: vec![in_words(&plays)],
        }
    }
}

/// Returns the names of all rules that are played.
fn rules() -> impl Iterator<Item = &'static str> {
    RULES.into_iter().map(|(rule, _)| rule).chain(OTHERS)
}

/// Returns the policy with the settings of the experiment, and the parameter that it sets. Policies
/// that use probes do so as in the paper.
fn choice(rule: &str) -> Option<(PolicyChoice, String)> {
    let (settings, param) = match rule {
        "c3" => {
            let mut settings = paper_settings(|_| {})?;
            settings.c3 = c3_settings(CLIENTS)?.c3;
            (settings, format!("clients={CLIENTS}"))
        }
        "linear" => {
            let settings = linear_settings(RIF_WEIGHT, RIF_SCALE)?;
            (settings, format!("rif_weight={RIF_WEIGHT} rif_scale=106ms"))
        }
        "prequal" | "prequal_sync" => {
            let q = quantile(RIF_LIMIT_QUANTILE);
            let settings = paper_settings(|prequal| prequal.rif_limit_quantile = q)?;
            (settings, format!("rif_limit_quantile={RIF_LIMIT_QUANTILE}"))
        }
        _ => return Some((PolicyChoice::named(rule)?, String::new())),
    };
    Some((PolicyChoice::with_settings(rule, settings)?, param))
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let p99 = |step, rule| Some(latency_ms(plays.measured(step, rule)?, 0.99));
    let p90 = |step, rule| Some(latency_ms(plays.measured(step, rule)?, 0.9));
    let mut claims = Vec::new();
    for rule in ["random", "round_robin"] {
        claims.extend(p99(HIGH, rule).map(|found| {
            let says = format!("at 90 % {rule} times out: p99 is at the 5 s limit");
            Bounds::at_least(TIMED_OUT_MS, " ms").judge(says, found)
        }));
    }
    claims.extend(p99(HIGH, "least_loaded").map(|found| {
        Bounds::at_most(TIMED_OUT_MS, " ms")
            .judge("at 90 % least_loaded does not time out by p99", found)
    }));
    for (worse, better) in [
        ("least_loaded", "power_of_d"),
        ("power_of_d", "weighted_round_robin"),
        ("weighted_round_robin", "polled_power_of_d"),
        ("polled_power_of_d", "c3"),
        ("polled_power_of_d", "prequal"),
    ] {
        claims.extend(above(
            HIGH,
            worse,
            p99(HIGH, worse),
            better,
            p99(HIGH, better),
        ));
    }
    claims.extend(above(
        LOW,
        "least_loaded",
        p99(LOW, "least_loaded"),
        "power_of_d",
        p99(LOW, "power_of_d"),
    ));
    for (step, _) in LOADS {
        for (name, of) in [("p90", &p90 as &dyn Fn(_, _) -> _), ("p99", &p99)] {
            claims.extend(prequal_beside_c3(
                step,
                name,
                of(step, "prequal"),
                of(step, "c3"),
            ));
        }
    }
    claims.extend(linear_is_worse(
        p99(HIGH, "linear"),
        p99(HIGH, "c3"),
        p99(HIGH, "prequal"),
    ));
    claims.extend(
        p99(HIGH, "weighted_round_robin")
            .zip(p99(LOW, "weighted_round_robin"))
            .map(|(high, low)| {
                let says =
                    "weighted_round_robin does well at 70 %, and its p99 suffers greatly at 90 %";
                Bounds::at_least(1.5, " times p99 at 70 %").judge(says, high / low)
            }),
    );
    claims
}

fn above(
    step: &str,
    worse: &str,
    worse_ms: Option<f64>,
    better: &str,
    better_ms: Option<f64>,
) -> Option<Claim> {
    let (worse_ms, better_ms) = worse_ms.zip(better_ms)?;
    Some(claim(
        format!(
            "at {}: p99 of {worse} is above that of {better}",
            percent(step)
        ),
        format!("{} ms against {} ms", number(worse_ms), number(better_ms)),
        worse_ms > better_ms,
    ))
}

fn prequal_beside_c3(
    step: &str,
    name: &str,
    prequal: Option<f64>,
    c3: Option<f64>,
) -> Option<Claim> {
    let (prequal, c3) = prequal.zip(c3)?;
    let says = format!(
        "at {}: prequal's {name} is a little below c3's, by 3 to 8 %",
        percent(step)
    );
    Some(Bounds::between(0.8, 1.03, " of c3's").judge(says, prequal / c3))
}

fn linear_is_worse(linear: Option<f64>, c3: Option<f64>, prequal: Option<f64>) -> Option<Claim> {
    let (linear, (c3, prequal)) = linear.zip(c3.zip(prequal))?;
    let says = "at 90 %: p99 of linear, RIF and latency weighing the same, is much worse than that of c3 and prequal";
    Some(Bounds::at_least(1.2, " times the worse of the two").judge(says, linear / c3.max(prequal)))
}

fn percent(step: &str) -> &str {
    if step == LOW { "70 %" } else { "90 %" }
}

/// Makes a table of the nine rules: our results in numbers, the paper's in words.
fn in_words(plays: &Plays<'_>) -> Table {
    let shown = |step: &str, rule: &str, q: f64| {
        let run = plays.measured(step, rule);
        run.map_or_else(String::new, |run| match latency_ms(run, q) {
            ms if ms >= TIMED_OUT_MS => "TO".to_owned(),
            ms => number(ms),
        })
    };
    let row = |(rule, words): (&str, &str)| {
        let mut row = vec![rule.to_owned()];
        for step in [LOW, HIGH] {
            row.extend([shown(step, rule, 0.9), shown(step, rule, 0.99)]);
        }
        row.push(words.to_owned());
        row
    };
    let columns = [
        "rule",
        "p90 at 70 %, ms",
        "p99",
        "p90 at 90 %, ms",
        "p99",
        "the paper",
    ];
    Table {
        title: "The nine rules beside the paper's words".to_owned(),
        columns: columns.map(String::from).into(),
        rows: RULES.into_iter().map(row).collect(),
    }
}

fn chart(step: &str, plays: &Plays<'_>) -> Chart {
    let bars = |name: &str, q| {
        let values: Vec<f64> = plays
            .iter()
            .map(|played| latency_ms(&played.all, q))
            .collect();
        Bars {
            name: name.to_owned(),
            marks: values
                .iter()
                .map(|&ms| (ms >= TIMED_OUT_MS).then(|| "TO".to_owned()))
                .collect(),
            values,
        }
    };
    Chart {
        title: format!("Latency at {} of the allocation", percent(step)),
        x: axis("rule"),
        y: axis("latency, ms"),
        plot: Plot::Bars {
            groups: plays
                .iter()
                .map(|played| played.cell.policy.name.clone())
                .collect(),
            series: vec![bars("p90", 0.9), bars("p99", 0.99)],
            limit: Some(CHART_LIMIT_MS),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};
    use crate::policy::PolicyKind;
    use crate::presets::COST;
    use slackwater_core::policy::prequal::PrequalSettings;

    /// Results in the paper's order, with Prequal 5 % ahead of C3.
    fn paper(cell: &Cell) -> Measured {
        let low = cell.step == LOW;
        let (p90, p99) = match cell.policy.name.as_str() {
            "random" | "round_robin" => (5_000.0, 5_000.0),
            "least_loaded" => (900.0, if low { 3_000.0 } else { 4_000.0 }),
            "power_of_d" => (700.0, if low { 1_700.0 } else { 3_500.0 }),
            "weighted_round_robin" => (300.0, if low { 470.0 } else { 1_000.0 }),
            "polled_power_of_d" => (300.0, 640.0),
            "linear" => (400.0, 610.0),
            "c3" => (240.0, 400.0),
            "prequal" => (228.0, 380.0),
            _ => (250.0, 450.0),
        };
        trial::run([80.0, p90, p99, 5_000.0])
    }

    #[test]
    fn every_policy_is_played_at_both_loads_with_its_settings() {
        let cells = trial::cells(&Fig7);
        assert_eq!(cells.len(), 2 * (RULES.len() + OTHERS.len()));
        let settings = |rule: &str| {
            let cell = cells.iter().find(|cell| cell.policy.name == rule);
            match cell.map(|cell| &cell.policy.kind) {
                Some(PolicyKind::Shipped { settings, .. }) => settings.clone(),
                other => panic!("{rule}: {other:?}"),
            }
        };
        assert_eq!(settings("c3").c3.clients, 100);
        for rule in ["linear", "c3", "prequal"] {
            let reuse_max = settings(rule).prequal.reuse_max;
            assert_eq!(reuse_max, PrequalSettings::paper().reuse_max, "{rule}");
        }
        // The median of the costs of both halves: equally many of N(m, m) are above 4/3 m as of
        // N(2m, 2m) are below it.
        let scale = settings("linear").linear.rif_scale.as_secs_f64();
        assert!(
            (scale - COST.as_secs_f64() * 4.0 / 3.0).abs() < 1e-6,
            "{scale}"
        );
        assert_eq!(
            settings("prequal").prequal.rif_limit_quantile,
            quantile(0.75)
        );
        // 100 x 6.4 cores at 0.7. The fast half gets two of three queries, so a query costs 4/3 of
        // 86.3 ms on average.
        let rate = cells[0].scenario.load.rate;
        assert!(
            (rate - 0.7 * 640.0 * 0.75 / 0.086_34).abs() < 10.0,
            "{rate}"
        );
    }

    #[test]
    fn order_in_the_paper_reproduces_every_claim() {
        let findings = Fig7.findings(&trial::played(&Fig7, paper));
        assert_eq!(findings.claims.len(), 3 + 5 + 1 + 4 + 1 + 1);
        for claim in findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{claim:?}");
        }
    }

    /// Each claim, and a p90 and p99 of one rule at one load that contradicts it.
    #[test]
    fn each_claim_can_fail() {
        let upsets: [(&[&str], &str, &str, [f64; 2]); 9] = [
            (&["random times out"], "random", HIGH, [4_000.0, 4_900.0]),
            (
                &["least_loaded does not"],
                "least_loaded",
                HIGH,
                [900.0, 5_000.0],
            ),
            (
                &["90 %: p99 of least_loaded is above"],
                "power_of_d",
                HIGH,
                [900.0, 4_100.0],
            ),
            (
                &["p99 of weighted_round_robin is above"],
                "weighted_round_robin",
                HIGH,
                [300.0, 630.0],
            ),
            (&["70 %: prequal's p90"], "prequal", LOW, [250.0, 380.0]),
            (&["90 %: prequal's p99"], "prequal", HIGH, [228.0, 310.0]),
            (&["90 %: prequal's p99"], "prequal", HIGH, [228.0, 413.0]),
            (&["p99 of linear"], "linear", HIGH, [240.0, 479.0]),
            (
                &["suffers greatly"],
                "weighted_round_robin",
                HIGH,
                [300.0, 690.0],
            ),
        ];
        for (words, rule, step, [p90, p99]) in upsets {
            let played = trial::played(&Fig7, |cell| {
                if cell.policy.name == rule && cell.step == step {
                    trial::run([80.0, p90, p99, 5_000.0])
                } else {
                    paper(cell)
                }
            });
            assert_eq!(
                verdicts(&Fig7, &played, words),
                [NotReproduced],
                "{words:?}"
            );
        }
    }

    #[test]
    fn timed_out_results_are_marked() {
        let findings = Fig7.findings(&trial::played(&Fig7, paper));
        let Plot::Bars {
            groups,
            series,
            limit,
        } = &findings.charts[1].plot
        else {
            panic!("rules are bars");
        };
        assert_eq!((groups[0].as_str(), *limit), ("random", Some(1_250.0)));
        assert_eq!(series[1].marks[0].as_deref(), Some("TO"));
        assert_eq!(series[1].marks[8], None);
        let rows = &findings.tables[0].rows;
        assert_eq!(rows[0][1..5], ["TO"; 4]);
        assert_eq!(
            rows[8][1..5],
            ["228.1", "380.2", "228.1", "380.2"],
            "within a histogram's 0.1 %"
        );
    }
}
