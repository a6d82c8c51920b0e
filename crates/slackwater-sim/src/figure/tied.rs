//! Tied requests: how much they lower the median and the tail, what they cost, and where they are
//! useless.

use super::cells::{Plays, latency_ms};
use super::charts::{QUANTILES, axis};
use super::judge::{Bounds, number};
use super::{Bars, Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::presets::{large_requests, reads, reads_beside_batch, shared_reads, tied};
use crate::{Measured, PolicyChoice, Scenario};

/// `[The Tail at Scale, Table 2]`
#[derive(Debug)]
pub(super) struct Tied;

const IDLE: &str = "mostly idle";
const BATCH: &str = "beside a batch job";
const SHARING: &str = "shared processor";
const LARGE: &str = "large requests";
const ONCE: &str = "copies=1";
const TWICE: &str = "copies=tied";
const RANDOM: &str = "random";
const POLICIES: [&str; 3] = [RANDOM, "least_loaded", "prequal"];
/// Steps where tied requests are useless, and why.
const OF_NO_USE: [(&str, &str); 2] = [
    (
        SHARING,
        "where requests share the processor nothing waits, and a tie does nothing for",
    ),
    (
        LARGE,
        "where there is room for all and some are slow because they are large, it does nothing for",
    ),
];
/// p50, p90, p99 and p99.9 of Table 2 in milliseconds, without and with tied requests.
const TABLE_2: [(&str, [f64; 4], [f64; 4]); 2] = [
    (IDLE, [19.0, 38.0, 67.0, 98.0], [16.0, 29.0, 42.0, 61.0]),
    (BATCH, [24.0, 56.0, 108.0, 159.0], [19.0, 38.0, 67.0, 108.0]),
];

impl Figure for Tied {
    fn words(&self) -> Words {
        Words {
            name: "tied",
            title: "Tied requests",
            about: "Each query goes to two replicas, the second copy after twice the mean network delay; whichever begins first cancels the other \
         [The Tail at Scale, Table 2]. Twenty replicas do one read after the other, as a disk does. The article does not say how busy its \
         cluster was; at 0.3, with reads of a lognormal around 15 ms, all four quantiles without ties are within 15 % of the table's, and with a \
         batch job that takes each disk for 25 ms eight times a second they are within 11 % of its other half. \
         The article's clients choose among the machines that have the data and know nothing of their queues, which is random here; least loaded and Prequal have \
         the shorter queue to begin with, and there is less to be won. Where reads share the processor, or where there are as many \
         workers as reads, nothing waits, so that there is nothing for a tie to win; the doubled work is what is begun on both \
         sides before the cancellation has come.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let steps: [(&str, Scenario); 4] = [
            (IDLE, reads()),
            (BATCH, reads_beside_batch()),
            (SHARING, shared_reads()),
            (LARGE, large_requests()),
        ];
        let mut cells = Vec::new();
        for (step, scenario) in steps {
            for (param, scenario) in [(ONCE, scenario.clone()), (TWICE, tied(scenario))] {
                let scenario = effort.spend_on(scenario, 20, 300);
                for policy in POLICIES.into_iter().filter_map(PolicyChoice::named) {
                    cells.push(Cell::of(step, 0.3, policy, &scenario).with_param(param));
                }
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        Findings {
            claims: claims(&plays),
            charts: chart(&plays).into_iter().collect(),
            tables: table(&plays).into_iter().collect(),
        }
    }
}

/// Returns the results of a policy's queries, without and with second copies.
fn pair<'a>(plays: &Plays<'a>, step: &str, policy: &str) -> Option<[&'a Measured; 2]> {
    let of = |is_once: bool| {
        let plays = plays.only(|cell| (cell.param == ONCE) == is_once);
        plays.measured(step, policy)
    };
    Some([of(true)?, of(false)?])
}

/// Returns by how much, in per cent, a quantile of the second run is below that of the first.
fn gain_percent([once, twice]: [&Measured; 2], q: f64) -> f64 {
    100.0 * (1.0 - latency_ms(twice, q) / latency_ms(once, q))
}

fn extra_work_percent([once, twice]: [&Measured; 2]) -> f64 {
    100.0 * (twice.utilization.mean() / once.utilization.mean() - 1.0)
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (step, once, twice) in TABLE_2 {
        let Some(pair) = pair(plays, step, RANDOM) else {
            continue;
        };
        let article = |index: usize| number(100.0 * (1.0 - twice[index] / once[index]));
        for (name, q, index, least) in [("p50", 0.5, 0, 10.0), ("p99.9", 0.999, 3, 30.0)] {
            let says = format!(
                "{step}: tied requests take {name} down by {} %",
                article(index)
            );
            claims.push(Bounds::at_least(least, " %").judge(says, gain_percent(pair, q)));
        }
        let says = format!("{step}: the overhead is less than 1 % of the work (ours: 2 %)");
        claims.push(Bounds::at_most(2.0, " %").judge(says, extra_work_percent(pair)));
    }
    for (step, says) in OF_NO_USE {
        if let Some(pair) = pair(plays, step, RANDOM) {
            let says = format!("{says} p99.9");
            claims.push(Bounds::between(-5.0, 5.0, " %").judge(says, gain_percent(pair, 0.999)));
        }
    }
    claims
}

/// Returns each step with each policy, in the order of the cells.
fn by_step<'a>(plays: &Plays<'a>) -> Vec<&'a Played> {
    plays.iter().collect()
}

fn chart(plays: &Plays<'_>) -> Option<Chart> {
    let random = plays.of(RANDOM);
    let groups = by_step(&random);
    let series = QUANTILES.map(|(name, q)| Bars {
        name: name.to_owned(),
        values: (groups.iter())
            .map(|played| latency_ms(&played.all, q))
            .collect(),
        marks: vec![None; groups.len()],
    });
    (!groups.is_empty()).then(|| Chart {
        title: "Latency with one copy and with two, random".to_owned(),
        x: axis("fleet"),
        y: axis("latency, ms"),
        plot: Plot::Bars {
            groups: (groups.iter())
                .map(|played| format!("{} {}", played.cell.step, played.cell.param))
                .collect(),
            series: series.into(),
            limit: None,
        },
    })
}

fn table(plays: &Plays<'_>) -> Option<Table> {
    let rows: Vec<Vec<String>> = by_step(plays)
        .into_iter()
        .map(|played| {
            let (cell, run) = (&played.cell, &played.all);
            let mut row = vec![
                cell.step.clone(),
                cell.policy.name.clone(),
                cell.param.clone(),
            ];
            row.extend(QUANTILES.map(|(_, q)| number(latency_ms(run, q))));
            row.push(format!("{:.4}", run.utilization.mean()));
            row
        })
        .collect();
    let mut columns: Vec<String> = ["fleet", "policy", "copies"].map(str::to_owned).into();
    columns.extend(QUANTILES.map(|(name, _)| format!("{name}, ms")));
    columns.extend(["utilization".to_owned()]);
    (!rows.is_empty()).then(|| Table {
        title: "One copy and two: latencies, and how busy the replicas are".to_owned(),
        columns,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Verdict::{NotReproduced, Reproduced};
    use super::super::trial::{self, run, verdicts};
    use super::*;

    fn of(quantiles: [f64; 4], utilization: f32) -> Measured {
        let mut run = run(quantiles);
        run.utilization.by_second = vec![utilization; 100];
        run
    }

    fn like_the_article(cell: &Cell) -> Measured {
        let is_once = cell.param == ONCE;
        let table = TABLE_2.iter().find(|(step, ..)| *step == cell.step);
        match table {
            Some((_, once, _)) if is_once => of(*once, 0.25),
            Some((_, _, twice)) => of(*twice, 0.252),
            None => of([10.0, 20.0, 30.0, 40.0], 0.25),
        }
    }

    #[test]
    fn article_numbers_are_reproduced() {
        let findings = Tied.findings(&trial::played(&Tied, like_the_article));
        assert_eq!(findings.claims.len(), 2 * 3 + 2);
        for claim in &findings.claims {
            assert_eq!(claim.verdict, Reproduced, "{} {}", claim.says, claim.found);
        }
        assert_eq!((findings.charts.len(), findings.tables.len()), (1, 1));
    }

    #[test]
    fn each_claim_can_fail() {
        let cases: [(&[&str], &str, Measured); 8] = [
            (&["idle", "p50"], IDLE, of([18.0, 29.0, 42.0, 61.0], 0.25)),
            (&["idle", "p99.9"], IDLE, of([16.0, 29.0, 42.0, 69.0], 0.25)),
            (
                &["idle", "overhead"],
                IDLE,
                of([16.0, 29.0, 42.0, 61.0], 0.256),
            ),
            (
                &["batch", "p50"],
                BATCH,
                of([22.0, 38.0, 67.0, 108.0], 0.25),
            ),
            (
                &["batch", "p99.9"],
                BATCH,
                of([19.0, 38.0, 67.0, 112.0], 0.25),
            ),
            (&["processor"], SHARING, of([10.0, 20.0, 30.0, 37.0], 0.25)),
            (&["processor"], SHARING, of([10.0, 20.0, 30.0, 43.0], 0.25)),
            (&["large"], LARGE, of([10.0, 20.0, 30.0, 37.0], 0.25)),
        ];
        for (words, step, instead) in cases {
            let played = trial::played(&Tied, |cell| {
                let is_it = cell.step == step && cell.policy.name == RANDOM && cell.param != ONCE;
                if is_it {
                    instead.clone()
                } else {
                    like_the_article(cell)
                }
            });
            let found = verdicts(&Tied, &played, words);
            assert_eq!(found, [NotReproduced], "{words:?}");
        }
    }
}
