//! The findings: the rough model's numbers, comparisons of rules seed by seed, charts and tables.

use super::cases::{
    ALL_ANSWERS, BOUNDED, CASES, DELAY, ESCAPE, HASH, LEAST_LOADED, RULES, SCALED, STICKY,
};
use crate::Measured;
use crate::figure::cells::{Plays, latency_ms};
use crate::figure::charts::axis;
use crate::figure::judge::{Bounds, claim, number};
use crate::figure::{Bars, Chart, Claim, Findings, Played, Plot, Table};
use crate::interval::Estimate;
use core::ops::RangeInclusive;

/// The deciding quantile.
const P99: f64 = 0.99;
/// Bars end here, in seconds.
const CHART_LIMIT: f64 = 10.0;
/// The rules of the charts.
const CHARTED: [&str; 7] = [
    LEAST_LOADED,
    HASH,
    BOUNDED,
    STICKY,
    "prefix scores",
    SCALED,
    ESCAPE,
];

/// A number of the rough model before this one: 16 engines, two seeds. The step, the rule, and the
/// range of p99 of the time to the first token in seconds.
pub(super) const ROUGH: [(&str, &str, [f64; 2]); 8] = [
    ("equal-8", LEAST_LOADED, [18.0, 25.0]),
    ("equal-8", HASH, [13.0, 19.0]),
    ("equal-8", BOUNDED, [3.8, 8.9]),
    ("equal-8", STICKY, [1.6, 2.0]),
    ("equal-8", SCALED, [1.3, 1.5]),
    ("one-slow-8", STICKY, [2.8, 19.0]),
    ("one-slow-8", SCALED, [16.0, 27.0]),
    ("one-slow-8", BOUNDED, [39.0, 59.0]),
];

/// A claim about p99 of two rules in some cases.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    pub(super) steps: &'static [&'static str],
    pub(super) says: &'static str,
    pub(super) of: &'static str,
    pub(super) over: &'static str,
    pub(super) range: RangeInclusive<f64>,
}

const EIGHT: &[&str] = &["equal-8", "one-slow-8"];
const ALL: &[&str] = &[
    "equal-4",
    "equal-8",
    "equal-12",
    "one-slow-8",
    "one-slow-12",
    "restart-8",
    "burst-8",
    "equal-8-x4",
];

/// Returns every comparison.
pub(super) fn comparisons() -> Vec<Compared> {
    let least = |low: f64| low..=f64::INFINITY;
    let most = |high: f64| 0.0..=high;
    let compared = |steps, says, of, over, range| Compared {
        steps,
        says,
        of,
        over,
        range,
    };
    vec![
        compared(
            EIGHT,
            "least requests has at least 3 times the p99 of sticky sessions",
            LEAST_LOADED,
            STICKY,
            least(3.0),
        ),
        compared(
            EIGHT,
            "a hash of the session has at least 1.5 times the p99 of sticky sessions",
            HASH,
            STICKY,
            least(1.5),
        ),
        compared(
            EIGHT,
            "a bounded hash has at least 1.5 times the p99 of sticky sessions",
            BOUNDED,
            STICKY,
            least(1.5),
        ),
        compared(
            EIGHT,
            "probes with scaled load have at least 1.5 times the p99 of sticky sessions",
            SCALED,
            STICKY,
            least(1.5),
        ),
        compared(
            EIGHT,
            "answers with the expected delay take p99 of probes down by a quarter",
            DELAY,
            SCALED,
            most(0.75),
        ),
        compared(
            EIGHT,
            "waiting for all answers takes it down by another quarter",
            ALL_ANSWERS,
            DELAY,
            most(0.75),
        ),
        compared(
            ALL,
            "sticky sessions that may leave by expected delay are not worse than sticky ones",
            ESCAPE,
            STICKY,
            most(1.1),
        ),
        compared(
            ALL,
            "sticky sessions that may leave by expected delay are not worse than prefix scores",
            ESCAPE,
            "prefix scores",
            most(1.1),
        ),
    ]
}

/// Returns claims, charts and tables.
pub(super) fn findings(played: &[Played]) -> Findings {
    let plays = Plays::new(played);
    let rough = ROUGH.iter().filter_map(|of| rough(&plays, *of));
    let compared = comparisons();
    let compared = compared.iter().flat_map(|it| it.judge(&plays));
    Findings {
        claims: rough.chain(compared).collect(),
        charts: charts(&plays),
        tables: tables(&plays),
    }
}

fn seconds(run: &Measured, q: f64) -> f64 {
    latency_ms(run, q) / 1e3
}

fn rough(plays: &Plays<'_>, (step, rule, [low, high]): (&str, &str, [f64; 2])) -> Option<Claim> {
    let found = seconds(plays.measured(step, rule)?, P99);
    let says = format!("(rough model) {step}: p99 of the first token by {rule}");
    Some(Bounds::between(low, high, " s").judge(says, found))
}

impl Compared {
    /// Judges the claim in each of its cases that was played.
    fn judge(&self, plays: &Plays<'_>) -> Vec<Claim> {
        let claims = self.steps.iter().filter_map(|step| {
            let of_seeds = |rule| {
                let runs = plays.find(step, rule)?.runs.iter();
                Some(runs.map(|run| seconds(run, P99)).collect::<Vec<_>>())
            };
            let ratio = Estimate::ratio(&of_seeds(self.of)?, &of_seeds(self.over)?)?;
            let interval = ratio.interval.map_or_else(String::new, |(from, to)| {
                format!(" ({} to {})", number(from), number(to))
            });
            let (low, high) = (*self.range.start(), *self.range.end());
            let asked = if low > 0.0 {
                format!("at least {}", number(low))
            } else {
                format!("at most {}", number(high))
            };
            Some(claim(
                format!("(ours) {step}: {}", self.says),
                format!("{}{interval} times (asked: {asked})", number(ratio.value)),
                self.range.contains(&ratio.value),
            ))
        });
        claims.collect()
    }
}

fn charts(plays: &Plays<'_>) -> Vec<Chart> {
    [("p50", 0.5), ("p99", P99)]
        .into_iter()
        .filter_map(|(name, q)| chart(plays, name, q))
        .collect()
}

fn chart(plays: &Plays<'_>, name: &str, q: f64) -> Option<Chart> {
    let groups = plays.steps();
    let series: Option<Vec<Bars>> = CHARTED
        .into_iter()
        .map(|rule| {
            let of_step = |step: &String| Some(seconds(plays.measured(step, rule)?, q));
            let values: Option<Vec<f64>> = groups.iter().map(of_step).collect();
            let values = values?;
            Some(Bars {
                name: rule.to_owned(),
                marks: vec![None; values.len()],
                values,
            })
        })
        .collect();
    let series = series?;
    (!groups.is_empty()).then(|| Chart {
        title: format!("Time to the first token, {name}"),
        x: axis("case, turns a second"),
        y: axis(format!("{name}, s")),
        plot: Plot::Bars {
            groups,
            series,
            limit: Some(CHART_LIMIT),
        },
    })
}

/// Makes a table for each case.
fn tables(plays: &Plays<'_>) -> Vec<Table> {
    let columns = [
        "rule",
        "first token, p50, s",
        "p90, s",
        "p99, s",
        "p99 by seed, s",
        "a further token, p50, ms",
        "p99, ms",
        "prompt tokens cached, %",
        "turns that moved, %",
        "probes a turn",
        "errors, %",
    ];
    let tables = CASES.into_iter().filter_map(|case| {
        let step = case.step();
        let of_rules = RULES.iter().filter_map(|rule| plays.find(&step, rule.name));
        let rows: Vec<_> = of_rules.map(row).collect();
        (!rows.is_empty()).then(|| Table::new(step, &columns, rows))
    });
    tables.collect()
}

fn row(played: &Played) -> Vec<String> {
    let all = &played.all;
    let first = |q| format!("{:.2}", seconds(all, q));
    let by_seed: Vec<f64> = played.runs.iter().map(|run| seconds(run, P99)).collect();
    let estimate = Estimate::mean(&by_seed).map_or_else(String::new, |it| {
        it.interval.map_or_else(
            || format!("{:.2}", it.value),
            |(low, high)| format!("{:.2} ({low:.2} to {high:.2})", it.value),
        )
    });
    let conversations = &all.conversations;
    let token = |q| {
        let took = conversations.per_token.quantile(q);
        format!("{:.1}", took.as_secs_f64() * 1e3)
    };
    vec![
        played.cell.policy.name.clone(),
        first(0.5),
        first(0.9),
        first(P99),
        estimate,
        token(0.5),
        token(P99),
        format!("{:.1}", 100.0 * conversations.cached_share()),
        format!("{:.1}", 100.0 * conversations.moved_share()),
        format!("{:.2}", all.probes_per_query()),
        format!("{:.2}", 100.0 * all.error_share()),
    ]
}
