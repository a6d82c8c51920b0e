//! Hard worlds: the scenarios in which policies have done badly, and how far the default policy is
//! from the best of the others in each.

use super::cells::Plays;
use super::charts::axis;
use super::contest::{self, Contest, JUDGED, JUDGED_QUANTILES, by_ratio};
use super::judge::number;
use super::{Bars, Cell, Chart, Effort, Figure, Findings, Played, Plot, Table, Words};
use crate::presets::{WORLDS, reporting_capacity};
use crate::{Measured, Scenario};
use std::sync::Arc;

/// The hard worlds.
#[derive(Debug)]
pub(super) struct Worlds;

/// The policies besides the default, and the bounds that no client could reach.
const OTHERS: [&str; 7] = [
    "prequal",
    "c3",
    "peak_ewma",
    "least_loaded",
    "rif_then_latency",
    BOUND,
    "jsq_weighted",
];
/// The bound that the table shows.
const BOUND: &str = "jsq";

/// The default is nowhere farther from the best other policy than this.
const RATIO_MAX: f64 = 1.5;
/// In the geometric mean it is no farther than this.
const RATIO_MEAN_MAX: f64 = 1.1;
/// Bars end here.
const CHART_LIMIT: f64 = 5.0;

impl Figure for Worlds {
    fn words(&self) -> Words {
        Words {
            name: "worlds",
            title: "Hard worlds: where the default policy is farthest from the best",
            about: "Short scenarios with one difficulty each: costs of two kinds or with heavy tails, streams, lost probes, distant zones, \
         servers that batch, replicas that answer no probes, thousands of clients or replicas, replicas that come and go, cold starts, \
         slow racks, a load that swings. Each policy plays with its default settings, and Prequal also with the paper's. Replicas learn \
         and report their capacity only for the policies that use it. The default's p99 and p99.9 are compared with the lowest of the other \
         policies, where errors of 1 % count as 20 % more time. jsq and jsq_weighted are bounds that no client could reach.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for world in WORLDS {
            let plain = Arc::new(world.scenario(effort.warmup, effort.span));
            let reporting = Arc::new(reporting_capacity(Scenario::clone(&plain)));
            let mut names = vec![JUDGED];
            names.extend(OTHERS.into_iter().filter(|name| *name != JUDGED));
            let players = contest::players(names, plain.load.clients.len());
            cells.extend(contest::cells(world.name, world.load, players, |policy| {
                let reports = policy.uses_capacity();
                Arc::clone(if reports { &reporting } else { &plain })
            }));
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let contests = Contest::all(&Plays::new(played));
        Findings {
            claims: contest::claims(&contests, "world", RATIO_MAX, RATIO_MEAN_MAX),
            charts: charts(&contests),
            tables: tables(&contests),
        }
    }
}

fn tables(contests: &[Contest<'_>]) -> Vec<Table> {
    let rows: Vec<_> = contests.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let columns = [
        "world",
        "what is hard",
        "p99, ms",
        "best other",
        "its p99, ms",
        "times",
        "p99.9, ms",
        "best other",
        "its p99.9, ms",
        "times",
        "errors, %",
        "p99 of jsq, ms",
    ];
    vec![Table {
        title: format!("{JUDGED} and the best other policy in each world; errors count as time"),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }]
}

fn row(contest: &Contest<'_>) -> Option<Vec<String>> {
    let judged = contest.judged()?;
    let about = WORLDS.iter().find(|world| world.name == contest.step);
    let mut row = vec![
        contest.step.to_owned(),
        about.map_or_else(String::new, |world| world.about.to_owned()),
    ];
    for (_, q) in JUDGED_QUANTILES {
        let best = contest.best(q)?;
        row.extend([
            number(contest::score_ms(judged, q)),
            best.name(),
            number(best.ms),
            format!("{:.2}", contest.ratio(q)?),
        ]);
    }
    row.push(number(100.0 * judged.error_share()));
    let bound = |run: &Measured| number(contest::score_ms(run, 0.99));
    row.push(contest.of(BOUND).map_or_else(String::new, bound));
    Some(row)
}

/// Makes a chart of both ratios in each world, the worst first.
fn charts(contests: &[Contest<'_>]) -> Vec<Chart> {
    let by_p99 = by_ratio(contests, JUDGED_QUANTILES[0].1);
    if by_p99.is_empty() {
        return Vec::new();
    }
    let series = JUDGED_QUANTILES.into_iter().map(|(name, q)| {
        let values = by_p99.iter().map(|(_, contest)| contest.ratio(q));
        Bars {
            name: name.to_owned(),
            values: values.map(|ratio| ratio.unwrap_or(f64::NAN)).collect(),
            marks: vec![None; by_p99.len()],
        }
    });
    vec![Chart {
        title: format!("{JUDGED} as a multiple of the best other policy; 1 is level"),
        x: axis("world"),
        y: axis("times the best"),
        plot: Plot::Bars {
            groups: by_p99
                .iter()
                .map(|(_, contest)| contest.step.to_owned())
                .collect(),
            series: series.collect(),
            limit: Some(CHART_LIMIT),
        },
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Verdict, trial};

    /// Every policy has the same latencies, except the default in one world.
    fn verdicts(times: f64, words: &str) -> Vec<Verdict> {
        let played = trial::played(&Worlds, |cell| {
            let is_worse = cell.policy.name == JUDGED && cell.step == "lost-50";
            let times = if is_worse { times } else { 1.0 };
            trial::run([1.0, 2.0, 100.0 * times, 200.0 * times])
        });
        trial::verdicts(&Worlds, &played, &[words])
    }

    #[test]
    fn one_bad_world_fails_the_claim_about_each_world() {
        let words = "in each world";
        assert_eq!(verdicts(1.45, words), [Verdict::Reproduced; 2]);
        assert_eq!(verdicts(1.55, words), [Verdict::NotReproduced; 2]);
    }

    #[test]
    fn mean_over_worlds_has_a_bound() {
        let words = "geometric mean";
        assert_eq!(verdicts(2.0, words), [Verdict::Reproduced; 2]);
        assert_eq!(verdicts(1_000.0, words), [Verdict::NotReproduced; 2]);
    }

    #[test]
    fn table_has_each_world_with_its_best_policy() {
        let played = trial::played(&Worlds, |cell| {
            let p99 = if cell.policy.name == "c3" {
                50.0
            } else {
                100.0
            };
            trial::run([1.0, 2.0, p99, 2.0 * p99])
        });
        let tables = Worlds.findings(&played).tables;
        let rows = &tables[0].rows;
        assert_eq!(rows.len(), WORLDS.len());
        for row in rows {
            assert_eq!(
                (row[3].as_str(), row[5].as_str()),
                ("c3", "2.00"),
                "{row:?}"
            );
        }
    }

    #[test]
    fn capacity_is_reported_only_to_policies_that_use_it() {
        for cell in trial::cells(&Worlds) {
            let learns = cell
                .scenario
                .fleet
                .iter()
                .all(|group| group.learns_capacity);
            assert_eq!(learns, cell.policy.uses_capacity(), "{}", cell.policy.name);
        }
    }
}
