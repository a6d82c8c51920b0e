//! The opponent: scenarios drawn at random, and those in which the default policy is farthest from
//! the best of the others.

use super::cells::Plays;
use super::charts::axis;
use super::contest::{self, Contest, JUDGED, JUDGED_QUANTILES, by_ratio};
use super::judge::number;
use super::{Axis, Cell, Chart, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::presets::drawn;
use slackwater_core::policy::POLICIES;
use std::sync::Arc;

/// The search for scenarios that are bad for the default policy.
#[derive(Debug)]
pub(super) struct Opponent;

/// The seed from which scenarios are drawn. It is not the seed of the runs.
const SEED: u64 = 1;
/// Scenarios that are drawn.
const SCENARIOS: u64 = 200;
/// The worst scenarios that are listed.
const LISTED: usize = 10;

/// The default is nowhere farther from the best other policy than this.
const RATIO_MAX: f64 = 2.0;
/// In the geometric mean it is no farther than this.
const RATIO_MEAN_MAX: f64 = 1.1;

impl Figure for Opponent {
    fn words(&self) -> Words {
        Words {
            name: "opponent",
            title: "Random scenarios, and the worst of them for the default policy",
            about: "200 scenarios drawn from seed 1, which the step numbers: 2 to 200 replicas with shared CPUs, workers, quotas or batches, 1 to \
         400 clients, loads of 30 to 95 %, equal to very unequal costs, near and wide networks, lost probes, pauses, restarts, replicas \
         that leave and join, a load that swings, replicas that are slow or far away or answer no probes, and none, some or all of which report \
         capacity. A run has about 150,000 queries at most. All policies that users can select play with their default settings, and Prequal also with \
         the paper's. The default's p99 and p99.9 are compared with the lowest of the other policies, where errors of 1 % count as 20 % more time. \
         The least of many noisy results is lower than each, so a ratio of 1.1 means little.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for number in 0..SCENARIOS {
            let drawn = drawn(SEED, number, effort.warmup, effort.span);
            let scenario = Arc::new(drawn.scenario);
            let names = POLICIES.iter().map(|entry| entry.name);
            let players = contest::players(names, scenario.load.clients.len());
            cells.extend(contest::cells(&step(number), drawn.load, players, |_| {
                Arc::clone(&scenario)
            }));
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let contests = Contest::all(&Plays::new(played));
        Findings {
            claims: contest::claims(&contests, "scenario", RATIO_MAX, RATIO_MEAN_MAX),
            charts: charts(&contests),
            tables: tables(&contests),
        }
    }
}

fn step(number: u64) -> String {
    format!("{SEED}:{number}")
}

/// Returns the scenario of a step in words.
fn in_words(step: &str) -> String {
    let number = step.rsplit(':').next().map(str::parse);
    match number {
        Some(Ok(number)) => drawn(SEED, number, None, None).words,
        _ => String::new(),
    }
}

/// Makes a table of the worst scenarios for each quantile.
fn tables(contests: &[Contest<'_>]) -> Vec<Table> {
    let columns = [
        "seed:number",
        "times",
        "default, ms",
        "its errors, %",
        "best other",
        "its, ms",
        "its errors, %",
        "scenario",
    ];
    let tables = JUDGED_QUANTILES.into_iter().map(|(name, q)| {
        let worst = by_ratio(contests, q).into_iter().take(LISTED);
        let rows = worst.filter_map(|(ratio, contest)| {
            let (judged, best) = (contest.judged()?, contest.best(q)?);
            Some(vec![
                contest.step.to_owned(),
                format!("{ratio:.2}"),
                number(contest::score_ms(judged, q)),
                number(100.0 * judged.error_share()),
                best.name(),
                number(best.ms),
                number(100.0 * best.played.all.error_share()),
                in_words(contest.step),
            ])
        });
        Table {
            title: format!(
                "The {LISTED} worst scenarios for {JUDGED} by {name}; errors count as time"
            ),
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }
    });
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// Makes a chart of the ratios in order.
fn charts(contests: &[Contest<'_>]) -> Vec<Chart> {
    let lines = JUDGED_QUANTILES.into_iter().filter_map(|(name, q)| {
        let mut ratios: Vec<f64> = by_ratio(contests, q).iter().map(|it| it.0).collect();
        ratios.reverse();
        let most = ratios.len().checked_sub(1).filter(|most| *most > 0)? as f64;
        let points = ratios.iter().enumerate();
        Some(Line {
            name: name.to_owned(),
            points: points
                .map(|(rank, ratio)| (100.0 * rank as f64 / most, *ratio))
                .collect(),
            interval: Vec::new(),
            reference: false,
        })
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        return Vec::new();
    }
    vec![Chart {
        title: format!("{JUDGED} as a multiple of the best other policy, scenarios in order"),
        x: axis("scenarios, %"),
        y: Axis {
            label: "times the best".to_owned(),
            log: true,
        },
        plot: Plot::Lines(lines),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Verdict, trial};

    /// Every policy has the same latencies, except the default in one scenario.
    fn played(times: f64) -> Vec<Played> {
        trial::played(&Opponent, |cell| {
            let is_worse = cell.policy.name == JUDGED && cell.step == step(17);
            let times = if is_worse { times } else { 1.0 };
            trial::run([1.0, 2.0, 100.0 * times, 200.0 * times])
        })
    }

    #[test]
    fn one_bad_scenario_fails_the_claim_about_each_scenario() {
        let verdicts = |times| trial::verdicts(&Opponent, &played(times), &["in each scenario"]);
        assert_eq!(verdicts(1.9), [Verdict::Reproduced; 2]);
        assert_eq!(verdicts(2.1), [Verdict::NotReproduced; 2]);
    }

    #[test]
    fn worst_scenario_is_listed_first_in_words() {
        let tables = Opponent.findings(&played(3.0)).tables;
        assert_eq!(tables.len(), 2);
        for table in tables {
            assert_eq!(table.rows.len(), LISTED);
            let worst = &table.rows[0];
            assert_eq!(worst[0], "1:17");
            assert_eq!(worst[1], "3.00");
            let words = drawn(SEED, 17, None, None).words;
            assert_eq!(worst.last(), Some(&words));
            assert!(words.contains("replicas"));
        }
    }

    #[test]
    fn description_has_the_number_of_scenarios() {
        let about = Opponent.words().about;
        assert!(about.starts_with(&SCENARIOS.to_string()), "{about}");
    }
}
