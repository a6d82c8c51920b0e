//! Shares: whether equal replicas get equal shares of the queries, and how soon a replica that was
//! slow has its share again.

use super::cells::{Plays, latency_ms};
use super::charts::axis;
use super::contest::{self, JUDGED};
use super::judge::{claim, number};
use super::{Bars, Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::measure::BySecond;
use crate::presets::{at_load, one_replica, reporting_capacity, web};
use crate::scenario::{Cost, Hobble};
use crate::{PolicyChoice, Scenario};
use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

/// The shares of equal replicas and of one that was slow.
#[derive(Debug)]
pub(super) struct Shares;

/// The law of costs.
struct Costs {
    name: &'static str,
    cost: Cost,
    /// The lowest and the highest share of an equal replica.
    bounds: (f64, f64),
}

/// Both laws have a mean of about 5 ms.
const COSTS: [Costs; 2] = [
    Costs {
        name: "exponential",
        cost: Cost::Exponential(Duration::from_millis(5)),
        bounds: EQUAL_GOAL,
    },
    Costs {
        name: "bimodal",
        cost: Cost::Bimodal {
            cheap: Duration::from_millis(1),
            dear: Duration::from_millis(100),
            dear_share: 0.04,
        },
        bounds: (0.75, 1.25),
    },
];

/// What happens to the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// The first one is slow for the first half of the span.
    Slow,
}

/// Replicas and clients where all replicas stay equal.
const EQUAL: [(usize, usize); 5] = [(2, 1), (4, 4), (8, 4), (16, 4), (32, 20)];
/// Replicas and clients where one replica is slow for a while.
const HEALED: [(usize, usize); 3] = [(4, 4), (8, 4), (16, 20)];
const LOAD: f64 = 0.6;
/// The policies besides the default.
const OTHERS: [&str; 3] = ["prequal", "rif_then_latency", "c3"];
/// The parameter of the default where all replicas report their capacity.
const REPORTED: &str = "capacity=reported";

const WARMUP_SECONDS: u64 = 10;
const EQUAL_SECONDS: u64 = 20;
const HEALED_SECONDS: u64 = 40;
/// The seconds of a window in which equal replicas are compared.
const WINDOW: usize = 20;
/// A slow replica's part of its capacity.
const SLOW_CAPACITY: f64 = 0.2;
/// A slow replica should be found after this many seconds, and a healed one as well.
const FOUND_AFTER: usize = 5;
/// The seconds of a window in which the share of a healed replica is judged.
const HEALED_WINDOW: usize = 10;

/// The shares that equal replicas should have. Those outside are counted.
const EQUAL_GOAL: (f64, f64) = (0.85, 1.15);
/// The highest share of a slow replica.
const SLOW_MAX: f64 = 0.5;
/// The lowest share of a healed replica.
const HEALED_MIN: f64 = 0.8;

impl Figure for Shares {
    fn words(&self) -> Words {
        Words {
            name: "shares",
            title: "Shares of equal replicas, and of one that was slow",
            about: "Web replicas (4 cores, processor sharing) at 60 %, with exponential costs of 5 ms (exponential) or 96 % of 1 ms and 4 % of \
         100 ms (bimodal). A share is a replica's part of the queries as a multiple of an equal part. Where all replicas are equal, \
         their shares in each window of 20 s are compared. In the fleets called healed, the first replica has a fifth of its capacity \
         for the first half of the 40 s, and then all of it. Replicas report RIF and latency; the default also plays where they learn \
         and report their capacity, too.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        for costs in &COSTS {
            for (trouble, fleets) in [(Trouble::None, &EQUAL[..]), (Trouble::Slow, &HEALED)] {
                for &(replicas, clients) in fleets {
                    let scenario = scenario(costs, trouble, replicas, clients, effort);
                    let names = core::iter::once(JUDGED).chain(OTHERS);
                    let step = step(costs, trouble, replicas, clients);
                    let players = contest::players(names, clients).into_iter();
                    cells.extend(players.map(|policy| Cell::of(&step, LOAD, policy, &scenario)));
                    let reporting = Arc::new(reporting_capacity(Scenario::clone(&scenario)));
                    let judged = PolicyChoice::named(JUDGED).into_iter();
                    cells.extend(judged.map(|policy| {
                        Cell::of(&step, LOAD, policy, &reporting).with_param(REPORTED)
                    }));
                }
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        let equal: Vec<_> = plays.iter().filter_map(Equal::of).collect();
        let healed: Vec<_> = plays.iter().filter_map(Healed::of).collect();
        let judged = COSTS
            .iter()
            .flat_map(|costs| ["", REPORTED].map(|param| Judged { costs, param }));
        Findings {
            claims: judged
                .flat_map(|judged| judged.claims(&equal, &healed))
                .collect(),
            charts: charts(&plays, &equal),
            tables: [equal_table(&equal), healed_table(&healed)]
                .into_iter()
                .filter(|table| !table.rows.is_empty())
                .collect(),
        }
    }
}

fn step(costs: &Costs, trouble: Trouble, replicas: usize, clients: usize) -> String {
    let healed = match trouble {
        Trouble::None => "",
        Trouble::Slow => "healed ",
    };
    format!("{healed}{} {replicas}x{clients}", costs.name)
}

fn scenario(
    costs: &Costs,
    trouble: Trouble,
    replicas: usize,
    clients: usize,
    effort: &Effort,
) -> Arc<Scenario> {
    let equal = Scenario {
        cost: costs.cost.clone(),
        ..web(replicas, clients, LOAD)
    };
    let spend = |seconds| effort.spend_on(at_load(LOAD, equal), WARMUP_SECONDS, seconds);
    match trouble {
        Trouble::None => spend(EQUAL_SECONDS),
        Trouble::Slow => Arc::new(slowed(Arc::unwrap_or_clone(spend(HEALED_SECONDS)))),
    }
}

/// Makes the first replica slow for the first half of the span.
fn slowed(scenario: Scenario) -> Scenario {
    let slow = Hobble {
        from: scenario.warmup,
        until: scenario.warmup + scenario.span / 2,
        capacity: SLOW_CAPACITY,
        latency: None,
    };
    one_replica(scenario, |first| first.hobble = Some(slow))
}

/// Returns a replica's share of the queries of these seconds, as a multiple of an equal share.
fn share(run: &BySecond, seconds: Range<usize>, replica: usize) -> Option<f64> {
    Some(run.share_within(seconds, replica)? * run.replicas as f64)
}

/// Returns the whole seconds of a time.
fn whole_seconds(time: Duration) -> usize {
    usize::try_from(time.as_secs()).unwrap_or(usize::MAX)
}

/// Returns the lowest and the highest of these; `None` if there are none.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}

/// The shares of equal replicas under one policy.
struct Equal<'a> {
    played: &'a Played,
    /// The share of each replica in each window of each run.
    shares: Vec<f64>,
    least: f64,
    most: f64,
}

impl<'a> Equal<'a> {
    /// Returns the shares of a play; `None` if a replica is slow, or a run has no window.
    fn of(played: &'a Played) -> Option<Self> {
        let scenario = &played.cell.scenario;
        if scenario.fleet.iter().any(|group| group.hobble.is_some()) {
            return None;
        }
        let windows = whole_seconds(scenario.span) / WINDOW;
        let mut shares = Vec::new();
        for run in &played.runs {
            for window in 0..windows {
                let seconds = window * WINDOW..(window + 1) * WINDOW;
                let replicas = 0..scenario.replicas();
                shares.extend(replicas.filter_map(|it| share(&run.by_second, seconds.clone(), it)));
            }
        }
        let (least, most) = ends(&shares)?;
        Some(Self {
            played,
            shares,
            least,
            most,
        })
    }

    /// Returns how many shares are outside of the goal.
    fn outside(&self) -> usize {
        let (low, high) = EQUAL_GOAL;
        let shares = self.shares.iter();
        shares
            .filter(|share| !(low..=high).contains(*share))
            .count()
    }

    /// Returns the largest distance of a share from an equal one.
    fn distance(&self) -> f64 {
        (1.0 - self.least).max(self.most - 1.0)
    }
}

/// The share of a replica that was slow under one policy, in the mean over runs.
struct Healed<'a> {
    played: &'a Played,
    /// From [`FOUND_AFTER`] seconds after it became slow until it was well.
    slow: f64,
    /// In the first, the second and the third to fifth second after it was well.
    at_first: [f64; 3],
    /// From [`FOUND_AFTER`] seconds after it was well, for [`HEALED_WINDOW`] seconds.
    found: f64,
    /// The lowest of any run in these seconds.
    least: f64,
}

impl<'a> Healed<'a> {
    /// Returns the shares of a play; `None` if no replica is slow, or the span is too short.
    fn of(played: &'a Played) -> Option<Self> {
        let scenario = &played.cell.scenario;
        let spell = scenario.fleet.first()?.hobble?;
        let healed = whole_seconds(spell.until.checked_sub(scenario.warmup)?);
        let of_each = |seconds: Range<usize>| -> Option<Vec<f64>> {
            let runs = played.runs.iter();
            runs.map(|run| share(&run.by_second, seconds.clone(), 0))
                .collect()
        };
        let mean = |seconds| {
            let shares = of_each(seconds)?;
            Some(shares.iter().sum::<f64>() / shares.len() as f64)
        };
        let found = healed + FOUND_AFTER..healed + FOUND_AFTER + HEALED_WINDOW;
        if whole_seconds(scenario.span) < found.end {
            return None;
        }
        let (least, _) = ends(&of_each(found.clone())?)?;
        Some(Self {
            played,
            slow: mean(FOUND_AFTER..healed)?,
            at_first: [
                mean(healed..healed + 1)?,
                mean(healed + 1..healed + 2)?,
                mean(healed + 2..healed + 5)?,
            ],
            found: mean(found)?,
            least,
        })
    }
}

/// The default policy, with or without reports of capacity, under one law of costs.
struct Judged<'a> {
    costs: &'a Costs,
    param: &'static str,
}

impl Judged<'_> {
    fn is(&self, played: &Played) -> bool {
        let cell = &played.cell;
        let is_player = cell.policy.name == JUDGED && cell.param == self.param;
        is_player && cell.scenario.cost == self.costs.cost
    }

    fn in_words(&self) -> String {
        let capacity = if self.param.is_empty() {
            "no capacity"
        } else {
            "capacities"
        };
        format!("{JUDGED}, {} costs, {capacity} reported", self.costs.name)
    }

    fn claims(&self, equal: &[Equal<'_>], healed: &[Healed<'_>]) -> Vec<Claim> {
        let equal: Vec<_> = equal.iter().filter(|it| self.is(it.played)).collect();
        let healed: Vec<_> = healed.iter().filter(|it| self.is(it.played)).collect();
        let claims = [
            self.are_equal(&equal),
            self.is_spared(&healed),
            self.is_found(&healed),
        ];
        claims.into_iter().flatten().collect()
    }

    /// Claim: equal replicas get equal shares.
    fn are_equal(&self, equal: &[&Equal<'_>]) -> Option<Claim> {
        let least = equal.iter().min_by(|a, b| a.least.total_cmp(&b.least))?;
        let most = equal.iter().max_by(|a, b| a.most.total_cmp(&b.most))?;
        let outside: usize = equal.iter().map(|it| it.outside()).sum();
        let all: usize = equal.iter().map(|it| it.shares.len()).sum();
        let (low, high) = self.costs.bounds;
        Some(claim(
            format!(
                "(ours) {}: each of equal replicas gets {low} to {high} times an equal share in each window of {WINDOW} s",
                self.in_words()
            ),
            format!(
                "{:.2} ({}) to {:.2} times ({}); outside {} to {} in {} of {}",
                least.least,
                least.played.cell.step,
                most.most,
                most.played.cell.step,
                EQUAL_GOAL.0,
                EQUAL_GOAL.1,
                number(outside as f64),
                number(all as f64)
            ),
            low <= least.least && most.most <= high,
        ))
    }

    /// Claim: a slow replica gets less.
    fn is_spared(&self, healed: &[&Healed<'_>]) -> Option<Claim> {
        let worst = healed.iter().max_by(|a, b| a.slow.total_cmp(&b.slow))?;
        Some(claim(
            format!(
                "(ours) {}: a replica with a fifth of its capacity gets at most {SLOW_MAX} times an equal share after {FOUND_AFTER} s",
                self.in_words()
            ),
            format!(
                "{:.2} times at most ({})",
                worst.slow, worst.played.cell.step
            ),
            worst.slow <= SLOW_MAX,
        ))
    }

    /// Claim: a healed replica has its share again.
    fn is_found(&self, healed: &[&Healed<'_>]) -> Option<Claim> {
        let worst = healed.iter().min_by(|a, b| a.least.total_cmp(&b.least))?;
        Some(claim(
            format!(
                "(ours) {}: {FOUND_AFTER} s after it has all of its capacity again, it gets at least {HEALED_MIN} times an equal share, \
                 in the {HEALED_WINDOW} s from then on",
                self.in_words()
            ),
            format!(
                "{:.2} times at least ({})",
                worst.least, worst.played.cell.step
            ),
            worst.least >= HEALED_MIN,
        ))
    }
}

fn equal_table(equal: &[Equal<'_>]) -> Table {
    let rows = equal.iter().map(|it| {
        vec![
            it.played.cell.step.clone(),
            it.played.cell.player(),
            format!("{:.2}", it.least),
            format!("{:.2}", it.most),
            number(it.outside() as f64),
            number(it.shares.len() as f64),
            number(latency_ms(&it.played.all, 0.99)),
        ]
    });
    let (low, high) = EQUAL_GOAL;
    let outside = format!("outside {low} to {high}");
    Table::new(
        format!(
            "Shares of equal replicas in windows of {WINDOW} s, as multiples of an equal share"
        ),
        &[
            "fleet", "policy", "lowest", "highest", &outside, "of", "p99, ms",
        ],
        rows.collect(),
    )
}

fn healed_table(healed: &[Healed<'_>]) -> Table {
    let rows = healed.iter().map(|it| {
        let [first, second, third] = it.at_first;
        let shares = [it.slow, first, second, third, it.found, it.least];
        let mut row = vec![it.played.cell.step.clone(), it.played.cell.player()];
        row.extend(shares.map(|share| format!("{share:.2}")));
        row.push(number(latency_ms(&it.played.all, 0.99)));
        row
    });
    Table::new(
        format!(
            "Share of a replica that has a fifth of its capacity for a while, as a multiple of an equal share: the mean of all runs, and the \
             lowest of a run in {HEALED_WINDOW} s from the {}th second on",
            FOUND_AFTER + 1
        ),
        &[
            "fleet",
            "policy",
            "while slow",
            "1st second after",
            "2nd",
            "3rd to 5th",
            "6th to 15th",
            "lowest",
            "p99, ms",
        ],
        rows.collect(),
    )
}

/// Makes a chart of the largest distance from an equal share for each law of costs, and one of the
/// healed replica's share for each of its fleets.
fn charts(plays: &Plays<'_>, equal: &[Equal<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for costs in &COSTS {
        let of: Vec<_> = equal
            .iter()
            .filter(|it| it.played.cell.scenario.cost == costs.cost)
            .collect();
        charts.extend(distances(costs, &of));
        for (replicas, clients) in HEALED {
            let step = step(costs, Trouble::Slow, replicas, clients);
            charts.extend(seconds(&step, &plays.at(&step)));
        }
    }
    charts
}

fn distances(costs: &Costs, equal: &[&Equal<'_>]) -> Option<Chart> {
    let groups: Vec<String> = EQUAL
        .iter()
        .map(|&(replicas, clients)| step(costs, Trouble::None, replicas, clients))
        .collect();
    let mut names: Vec<String> = Vec::new();
    for it in equal {
        let name = it.played.cell.player();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let series: Vec<Bars> = names
        .into_iter()
        .map(|name| {
            let value = |step: &String| {
                let mut of = equal.iter();
                let found =
                    of.find(|it| it.played.cell.player() == name && it.played.cell.step == *step);
                found.map_or(f64::NAN, |it| it.distance())
            };
            Bars {
                values: groups.iter().map(value).collect(),
                marks: vec![None; groups.len()],
                name,
            }
        })
        .collect();
    (!series.is_empty()).then(|| Chart {
        title: format!(
            "Largest distance of a replica's share from an equal one in {WINDOW} s, {} costs",
            costs.name
        ),
        x: axis("replicas x clients"),
        y: axis("distance, in equal shares"),
        plot: Plot::Bars {
            groups,
            series,
            limit: None,
        },
    })
}

/// Makes a chart of the first replica's share, second by second.
fn seconds(step: &str, plays: &Plays<'_>) -> Option<Chart> {
    let lines: Vec<Line> = plays
        .iter()
        .map(|played| {
            let by_second = &played.all.by_second;
            let shares = by_second.shares_of(0).enumerate();
            let replicas = by_second.replicas as f64;
            Line {
                name: played.cell.player(),
                points: shares
                    .filter_map(|(second, share)| Some((second as f64, share? * replicas)))
                    .collect(),
                interval: Vec::new(),
                reference: false,
            }
        })
        .collect();
    (!lines.is_empty()).then(|| Chart {
        title: format!("Share of a replica that is slow for the first half: {step}"),
        x: axis("seconds"),
        y: axis("times an equal share"),
        plot: Plot::Lines(lines),
    })
}

#[cfg(test)]
mod tests;
