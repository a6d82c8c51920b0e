//! A fan-out to a hundred leaves with further copies of late queries, and what these do where
//! leaves are slow because they are large.

use super::super::cells::{Plays, latency_ms};
use super::super::charts::{QUANTILES, axis};
use super::super::fan_out::{FanOut, chance_beyond, slowest_ms};
use super::super::judge::{Bounds, number};
use super::super::{Bars, Cell, Chart, Claim, Effort, Played, Plot, Table};
use super::{LEAST_LOADED, ONCE};
use crate::presets::{copied, large_requests, stopping_leaves, stuck_leaves};
use crate::scenario::Scenario;
use crate::{Measured, PolicyChoice};
use core::time::Duration;

const PREQUAL: &str = "prequal";
const STUCK: &str = "answers stuck";
const STOPS: &str = "replicas stop";
const LARGE: &str = "large requests";
/// Copies after p95: their names, the most copies of a query, and the share of additional queries.
const COPIES: [(&str, usize, f64); 3] = [
    ("copies=2 budget=2%", 2, 0.02),
    (TWO, 2, BUDGET),
    (THREE, 3, BUDGET),
];
const TWO: &str = "copies=2 budget=5%";
const THREE: &str = "copies=3 budget=5%";
const BUDGET: f64 = 0.05;
const AFTER: f64 = 0.95;
/// Leaves of one request.
const WIDTH: usize = 100;
/// The quantile of requests that the copies should lower.
const OF_REQUESTS: f64 = 0.999;
/// A latency between that of stuck leaves and that of the others.
const HALF_STUCK: Duration = Duration::from_millis(500);
/// The share of leaves that are stuck.
const STUCK_SHARE: f64 = 0.01;

pub(super) fn cells(effort: &Effort) -> Vec<Cell> {
    // Where single answers are stuck, and not replicas, the choice of replica does not matter.
    let steps: [(&str, &str, Scenario, u64); 4] = [
        (STUCK, "random", stuck_leaves(), 200),
        (STOPS, LEAST_LOADED, stopping_leaves(), 400),
        (STOPS, PREQUAL, stopping_leaves(), 400),
        (LARGE, LEAST_LOADED, large_requests(), 200),
    ];
    let mut cells = Vec::new();
    for (step, policy, scenario, seconds) in steps {
        let Some(policy) = PolicyChoice::named(policy) else {
            continue;
        };
        let more = COPIES.map(|(param, copies, budget)| {
            (param, copied(AFTER, budget, copies, scenario.clone()))
        });
        for (param, scenario) in [(ONCE, scenario)].into_iter().chain(more) {
            let scenario = effort.spend_on(scenario, 20, seconds);
            cells.push(Cell::of(step, 0.3, policy.clone(), &scenario).with_param(param));
        }
    }
    cells
}

/// Returns the results of leaves of this kind, with these copies. If two policies were played, it
/// returns those of Prequal.
fn leaves<'a>(plays: &Plays<'a>, step: &str, param: &str) -> Option<&'a Measured> {
    let plays = plays.at(step).only(|cell| cell.param == param);
    plays.iter().last().map(|played| &played.all)
}

fn more_percent(run: &Measured) -> f64 {
    100.0 * run.hedges as f64 / run.queries.max(1) as f64
}

fn request_ms(run: &Measured) -> f64 {
    slowest_ms(&run.latency, WIDTH, OF_REQUESTS)
}

fn stuck_percent(run: &Measured) -> f64 {
    100.0 * FanOut::new(&run.latency, 0).share_beyond(WIDTH, HALF_STUCK)
}

pub(super) fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let of = |step, param| leaves(plays, step, param);
    if let (Some(once), Some(two), Some(three)) =
        (of(STUCK, ONCE), of(STUCK, TWO), of(STUCK, THREE))
    {
        let both = 100.0 * chance_beyond(WIDTH, STUCK_SHARE * STUCK_SHARE);
        claims.push(Bounds::about(both, 0.3, " %").judge(
            "one answer in a hundred stuck: with two copies of a late leaf, both of one are in 1 % of requests to 100",
            stuck_percent(two),
        ));
        claims.push(Bounds::at_least(5.0, "").judge(
            "one answer in a hundred stuck: up to three copies, after p95, take p99.9 of requests to 100 down by a factor of 5",
            request_ms(once) / request_ms(three),
        ));
        claims.push(
            Bounds::at_most(100.0 * BUDGET, " %")
                .judge("that is no more than 5 % more queries", more_percent(three)),
        );
    }
    if let (Some(once), Some(three)) = (of(STOPS, ONCE), of(STOPS, THREE)) {
        claims.push(Bounds::at_least(5.0, "").judge(
            "replicas that stop, Prequal: the same takes p99.9 of requests to 100 down by a factor of 5",
            request_ms(once) / request_ms(three),
        ));
        claims.push(Bounds::at_most(100.0 * BUDGET, " %").judge(
            "replicas that stop: for no more than 5 % more queries",
            more_percent(three),
        ));
    }
    if let (Some(once), Some(three)) = (of(LARGE, ONCE), of(LARGE, THREE)) {
        let tail_ms = |run| latency_ms(run, OF_REQUESTS);
        claims.push(Bounds::between(-5.0, 5.0, " %").judge(
            "requests that are slow because they are large: further copies do nothing for p99.9",
            100.0 * (1.0 - tail_ms(three) / tail_ms(once)),
        ));
    }
    claims
}

/// Returns all plays, in the order of the cells.
fn played<'a>(plays: &Plays<'a>) -> Vec<&'a Played> {
    let steps = [STUCK, STOPS, LARGE];
    let ours = plays.only(|cell| steps.contains(&cell.step.as_str()));
    ours.iter().collect()
}

pub(super) fn chart(plays: &Plays<'_>) -> Option<Chart> {
    let groups = played(plays);
    let series = QUANTILES.map(|(name, q)| Bars {
        name: name.to_owned(),
        values: (groups.iter())
            .map(|played| slowest_ms(&played.all.latency, WIDTH, q))
            .collect(),
        marks: vec![None; groups.len()],
    });
    (!groups.is_empty()).then(|| Chart {
        title: "Requests to 100 leaves, whose late ones are asked again".to_owned(),
        x: axis("leaves"),
        y: axis("latency of a request, ms"),
        plot: Plot::Bars {
            groups: (groups.iter())
                .map(|Played { cell, .. }| {
                    format!("{} {} {}", cell.step, cell.policy.name, cell.param)
                })
                .collect(),
            series: series.into(),
            limit: None,
        },
    })
}

pub(super) fn table(plays: &Plays<'_>) -> Option<Table> {
    let rows: Vec<Vec<String>> = played(plays)
        .into_iter()
        .map(|Played { cell, all: run, .. }| {
            let policy = cell.policy.name.clone();
            let mut row = vec![cell.step.clone(), policy, cell.param.clone()];
            row.extend([0.5, 0.99, OF_REQUESTS].map(|q| number(latency_ms(run, q))));
            let request = |q| number(slowest_ms(&run.latency, WIDTH, q));
            row.extend([0.5, 0.99, OF_REQUESTS].map(request));
            row.push(format!("{:.2}", stuck_percent(run)));
            row.push(format!("{:.2}", more_percent(run)));
            row.push(format!("{:.3}", run.utilization.mean()));
            row
        })
        .collect();
    let columns = [
        "leaves",
        "policy",
        "copies",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "p50 of 100, ms",
        "p99 of 100, ms",
        "p99.9 of 100, ms",
        "requests beyond 500 ms, %",
        "further copies, %",
        "utilization",
    ];
    (!rows.is_empty()).then(|| Table {
        title:
            "Further copies of late leaves after p95: one leaf, and a request that waits for 100"
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::Verdict::{NotReproduced, Reproduced};
    use super::super::super::trial::{self, run, verdicts};
    use super::super::TailAtScale;
    use super::*;
    use slackwater_core::tail::HedgeSettings;

    /// A run in which `stuck` of 100,000 leaves are stuck, and the others take 10 ms. Its 10,000
    /// queries had `hedges` further copies.
    fn of(stuck: u64, hedges: u64) -> Measured {
        let mut run = Measured::nothing(100);
        run.queries = 10_000;
        run.hedges = hedges;
        for number in 0..100_000 {
            let ms = if number < stuck { 1_010 } else { 10 };
            run.latency.record(Duration::from_millis(ms));
        }
        run
    }

    fn as_computed(cell: &Cell) -> Measured {
        match (cell.step.as_str(), cell.param.as_str()) {
            (LARGE, ONCE) => run([10.0, 47.0, 162.0, 398.0]),
            (LARGE, _) => run([10.0, 47.0, 162.0, 397.0]),
            (STUCK | STOPS, ONCE) => of(1_000, 0),
            (STUCK | STOPS, TWO) => of(10, 490),
            (STUCK | STOPS, _) => of(1, 490),
            _ => Measured::nothing(100),
        }
    }

    #[test]
    fn analytically_expected_results_are_reproduced() {
        let plays = trial::played(&TailAtScale, as_computed);
        let plays = Plays::new(&plays);
        let claims = claims(&plays);
        assert_eq!(claims.len(), 3 + 2 + 1);
        for claim in claims {
            assert_eq!(claim.verdict, Reproduced, "{} {}", claim.says, claim.found);
        }
        assert!(chart(&plays).is_some());
        assert_eq!(table(&plays).map(|table| table.rows.len()), Some(4 * 4));
    }

    #[test]
    fn each_claim_can_fail() {
        let cases: [(&[&str], &str, &str, Measured); 8] = [
            (&["two copies"], STUCK, TWO, of(6, 490)),
            (&["two copies"], STUCK, TWO, of(14, 490)),
            (&["stuck: up to three"], STUCK, THREE, of(2, 490)),
            (&["that is no more than 5 %"], STUCK, THREE, of(1, 501)),
            (&["Prequal: the same"], STOPS, THREE, of(2, 490)),
            (&["stop: for no more than 5 %"], STOPS, THREE, of(1, 501)),
            (&["large"], LARGE, THREE, run([10.0, 47.0, 162.0, 370.0])),
            (&["large"], LARGE, THREE, run([10.0, 47.0, 162.0, 430.0])),
        ];
        for (words, step, param, instead) in cases {
            let played = trial::played(&TailAtScale, |cell| {
                if cell.step == step && cell.param == param {
                    instead.clone()
                } else {
                    as_computed(cell)
                }
            });
            let found = verdicts(&TailAtScale, &played, words);
            assert_eq!(found, [NotReproduced], "{words:?}");
        }
    }

    #[test]
    fn widest_request_uses_the_fan_out_settings_of_the_core() {
        let settings = HedgeSettings::for_fan_out();
        assert_eq!(THREE, format!("copies={} budget=5%", settings.copies_max));
        assert_eq!(settings.budget.millionths(), 50_000);
        assert_eq!(settings.quantile.millionths(), 950_000);
        let hedges = trial::cells(&TailAtScale);
        let hedges = hedges.iter().filter(|cell| cell.param == THREE);
        for cell in hedges {
            let hedge = cell.scenario.load.hedge.expect("hedged");
            assert_eq!((hedge.copies_max, hedge.budget), (3, BUDGET));
        }
    }
}
