//! Roll-out: what the default policy's tail does while more and more replicas learn and report
//! their capacity, as in every roll-out of agents.

use super::cells::{Plays, latency_ms};
use super::charts::{axis, line};
use super::contest::{JUDGED, JUDGED_QUANTILES};
use super::judge::{claim, number};
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::presets::{at_load, reporting_capacity, testbed, unequal_halves};
use crate::scenario::Group;
use crate::{Measured, PolicyChoice, Scenario};

/// The steps of a roll-out.
#[derive(Debug)]
pub(super) struct RollOut;

/// Name, load and fleet.
type Fleet = (&'static str, f64, fn() -> Scenario);

const FLEETS: [Fleet; 2] = [
    ("homogeneous-1.74", 1.74, testbed),
    ("unequal-1.27", 1.27, || unequal_halves(testbed())),
];
/// The replicas of each kind that report their capacity, in percent.
const SHARES: [usize; 5] = [0, 10, 50, 90, 100];

const WARMUP_SECONDS: u64 = 10;
const SPAN_SECONDS: u64 = 15;

/// The highest quantile of a step, as a multiple of that of the step before.
const STEP_MAX: f64 = 1.02;

impl Figure for RollOut {
    fn words(&self) -> Words {
        Words {
            name: "roll-out",
            title: "A roll-out: more and more replicas report their capacity",
            about: "The default policy in the testbed at 1.74 times the allocation (homogeneous-1.74), and where half of the replicas are half as \
         fast, at 1.27 (unequal-1.27). Of each kind of replica, 0, 10, 50, 90 and 100 % learn their capacity and the cost of a query, \
         and report both with answers to probes and with responses, as while agents are rolled out. The others report RIF and latency \
         with answers to probes only. A run has 15 s after 10 s of warm-up. No step of a roll-out should make the tail worse.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (name, load, fleet) in FLEETS {
            for share in SHARES {
                let scenario = reporting(share, at_load(load, fleet()));
                let scenario = effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
                let judged = PolicyChoice::named(JUDGED).into_iter();
                cells.extend(judged.map(|policy| {
                    let cell = Cell::of(name, load, policy, &scenario);
                    cell.with_param(format!("reporting={share} %"))
                }));
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        Findings {
            claims: FLEETS
                .iter()
                .flat_map(|(fleet, ..)| claims(fleet, &plays.at(fleet)))
                .collect(),
            charts: chart(&plays).into_iter().collect(),
            tables: table(&plays).into_iter().collect(),
        }
    }
}

/// Makes `share` percent of each kind of replica learn and report their capacity. Each replica
/// keeps its number, and with it its random draws.
fn reporting(share: usize, scenario: Scenario) -> Scenario {
    let upgraded = reporting_capacity(scenario.clone()).fleet;
    let kinds = scenario.fleet.into_iter().zip(upgraded);
    let fleet = kinds.flat_map(|(old, new)| {
        let count = old.count * share / 100;
        let rest = old.count - count;
        [Group { count, ..new }, Group { count: rest, ..old }]
    });
    Scenario {
        fleet: fleet.filter(|group| group.count > 0).collect(),
        ..scenario
    }
}

/// Returns the replicas that report their capacity, in percent.
fn percent(played: &Played) -> f64 {
    let scenario = &played.cell.scenario;
    let reporting = scenario.fleet.iter().filter(|group| group.learns_capacity);
    let count: usize = reporting.map(|group| group.count).sum();
    100.0 * count as f64 / scenario.replicas() as f64
}

/// Claims: no step makes a quantile worse. There are none for a fleet without all of its steps.
fn claims(fleet: &str, plays: &Plays<'_>) -> Vec<Claim> {
    let steps: Vec<&Played> = plays.iter().collect();
    if steps.len() < SHARES.len() {
        return Vec::new();
    }
    let of_quantile = |(name, q)| {
        let ratio = |of: &Played, over: &Played| latency_ms(&of.all, q) / latency_ms(&over.all, q);
        let ratios = steps.windows(2).filter_map(|pair| match pair {
            &[before, after] => Some((ratio(after, before), before, after)),
            _ => None,
        });
        let (worst, before, after) = ratios.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let (first, last) = (steps.first()?, steps.last()?);
        Some(claim(
            format!(
                "(ours) {JUDGED}, {fleet}: no step of the roll-out makes {name} more than {STEP_MAX} times what it was"
            ),
            format!(
                "{worst:.3} times at the worst (from {} to {} %); {:.2} times from {} to {} %",
                percent(before),
                percent(after),
                ratio(last, first),
                percent(first),
                percent(last)
            ),
            worst <= STEP_MAX,
        ))
    };
    JUDGED_QUANTILES
        .into_iter()
        .filter_map(of_quantile)
        .collect()
}

fn table(plays: &Plays<'_>) -> Option<Table> {
    let rows = plays.iter().map(|played| {
        let run = &played.all;
        let [p99, p999] = JUDGED_QUANTILES.map(|(_, q)| number(latency_ms(run, q)));
        let percent = number(percent(played));
        let probes = format!("{:.2}", run.probes_per_query());
        vec![played.cell.step.clone(), percent, p99, p999, probes]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| {
        Table::new(
            format!("{JUDGED} at each step of the roll-out"),
            &[
                "fleet",
                "reporting, %",
                "p99, ms",
                "p99.9, ms",
                "probes a query",
            ],
            rows,
        )
    })
}

/// Makes a chart of p99 at each step.
fn chart(plays: &Plays<'_>) -> Option<Chart> {
    let p99 = |run: &Measured| latency_ms(run, 0.99);
    let lines = plays.steps().into_iter().map(|fleet| {
        let of_fleet = plays.at(&fleet);
        line(fleet, &of_fleet, percent, p99)
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| Chart {
        title: format!("p99 of {JUDGED} while replicas begin to report their capacity"),
        x: axis("replicas that report their capacity, %"),
        y: axis("p99, ms"),
        plot: Plot::Lines(lines),
    })
}

#[cfg(test)]
mod tests;
