//! The tail at scale: the effect of rare outliers on wide fan-outs, and of a second copy of late
//! queries on the tail.

mod hedged_leaves;

use super::cells::{Plays, latency_ms};
use super::charts::{QUANTILES, axis, reference};
use super::fan_out::{FanOut, chance_beyond};
use super::judge::{Bounds, claim, number};
use super::{Bars, Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::presets::{hedged, outlier_leaves, stalling, table_leaves};
use crate::{Measured, PolicyChoice};
use core::time::Duration;

/// `[The Tail at Scale]`
#[derive(Debug)]
pub(super) struct TailAtScale;

/// Leaves that take more than a second once in this many queries, and the name of the step.
const OUTLIERS: [(&str, usize); 3] = [
    ("1 in 100", 100),
    ("1 in 1,000", 1_000),
    ("1 in 10,000", 10_000),
];
/// Leaves of one request, as the article's figure has them, from 1 to 2,000.
const WIDTHS: [usize; 10] = [1, 10, 50, 100, 200, 400, 700, 1_000, 1_500, 2_000];
const SECOND: Duration = Duration::from_secs(1);

const TABLE_1: &str = "table 1";
/// Leaves of one request in Table 1's service. The article says "a very large number".
const TABLE_WIDTHS: [usize; 2] = [100, TABLE_WIDTH];
const TABLE_WIDTH: usize = 2_000;
const TABLE_QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// Table 1, in milliseconds at p50, p95 and p99, by which leaves are waited for.
const TABLE: [(&str, [f64; 3]); 3] = [
    ("one random leaf", [1.0, 5.0, 10.0]),
    ("95 % of all leaves", [12.0, 32.0, 70.0]),
    ("all leaves", [40.0, 87.0, 140.0]),
];

const STALLS: &str = "stalls";
const LEAST_LOADED: &str = "least_loaded";
/// Policies whose queries are sent twice.
const HEDGED: [&str; 3] = ["random", LEAST_LOADED, "prequal"];
/// The policies among them that leave at least one query in a thousand on a stalled replica.
/// Prequal leaves about that many, so its p99.9 varies too much.
const LATE: [&str; 2] = ["random", LEAST_LOADED];
const ONCE: &str = "hedge=none";
/// Quantiles of latency after which a second copy is sent: the article's advice, and the equivalent
/// of its benchmark, whose fixed delay lets 2 % of queries through.
const AFTER: [(&str, f64); 2] = [(AFTER_P95, 0.95), (AFTER_P98, 0.98)];
const AFTER_P95: &str = "hedge=p95";
const AFTER_P98: &str = "hedge=p98";

impl Figure for TailAtScale {
    fn words(&self) -> Words {
        Words {
            name: "tail-at-scale",
            title: "Rare outliers, wide fan-outs, and hedged requests",
            about: "Leaf latencies are played; a fan-out is put together from them afterwards, each leaf a measured query drawn anew: leaves that \
         know nothing of each other, as in the article's own arithmetic [The Tail at Scale]. Of Table 1 only the first line goes in, as \
         a lognormal that has its quantiles; the other two lines are derived for 2,000 leaves; the article \
         does not say how many it has. Its three lines cannot all be measurements of the same leaves: if half of the requests wait \
         more than 12 ms for 95 % of theirs, then at least 5 % of the leaves of half of the requests take more than 12 ms, 2.5 % of all, and \
         the 99th percentile of a random leaf is not 10 ms. A leaf of a wide request must have been slower than one asked alone. Hedged requests are played on twenty replicas of Prequal's testbed, each of \
         which stops for 1.8 s every three minutes; the article's benchmark is a BigTable, so that the effect can be compared, not \
         the number. The hedged fan-out has leaves of 10 ms, and one answer in a hundred is stuck for a second, at any leaf. With one \
         further copy both are stuck once in 10,000 times, which is one request in a hundred, so that no delay and no budget can take \
         p99.9 of the requests below a second; with two further ones it is one request in 10,000. Where it is a replica that stops, and not an \
         answer, a policy that knows of queries in flight sends the further copy elsewhere, and one is enough; but as the copy that is stuck is \
         cancelled, a stopped replica has few queries in flight, and least loaded goes on sending to it: latency probation is what sees that. Requests that take long because \
         they are large take as long again elsewhere. Tied requests are the figure `tied`.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = fan_out_cells(effort);
        cells.extend(stall_cells(effort));
        cells.extend(hedged_leaves::cells(effort));
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        let plays = Plays::new(played);
        let curves = curves(&plays);
        let table = table_1(&plays);
        let mut claims = of_curves(&curves);
        claims.extend(table.as_ref().map(of_table).into_iter().flatten());
        claims.extend(of_hedging(&plays));
        claims.extend(hedged_leaves::claims(&plays));
        Findings {
            claims,
            charts: curves_chart(&curves)
                .into_iter()
                .chain(hedging_chart(&plays))
                .chain(hedged_leaves::chart(&plays))
                .collect(),
            tables: table
                .map(|table| table.shown())
                .into_iter()
                .chain(hedging_table(&plays))
                .chain(hedged_leaves::table(&plays))
                .collect(),
        }
    }
}

fn fan_out_cells(effort: &Effort) -> Vec<Cell> {
    // A leaf's latency does not depend on the chosen replica.
    let Some(policy) = PolicyChoice::named("random") else {
        return Vec::new();
    };
    let outliers = OUTLIERS.map(|(step, one_in)| (step, outlier_leaves(one_in)));
    let steps = outliers.into_iter().chain([(TABLE_1, table_leaves())]);
    steps
        .map(|(step, scenario)| {
            Cell::of(
                step,
                0.0,
                policy.clone(),
                &effort.spend_on(scenario, 0, 100),
            )
        })
        .collect()
}

fn stall_cells(effort: &Effort) -> Vec<Cell> {
    let hedging = AFTER.map(|(param, after)| (param, hedged(after, stalling())));
    [(ONCE, stalling())]
        .into_iter()
        .chain(hedging)
        .flat_map(|(param, scenario)| {
            let scenario = effort.spend_on(scenario, 20, 300);
            HEDGED
                .into_iter()
                .filter_map(PolicyChoice::named)
                .map(move |policy| Cell::of(STALLS, 0.5, policy, &scenario).with_param(param))
        })
        .collect()
}

/// How often a request takes more than a second, by its number of leaves.
struct Curve {
    step: &'static str,
    outliers: f64,
    /// Number of leaves, and the share of requests.
    points: Vec<(usize, f64)>,
}

impl Curve {
    fn at(&self, width: usize) -> Option<f64> {
        let point = self.points.iter().find(|(found, _)| *found == width);
        point.map(|(_, share)| *share)
    }
}

fn curves(plays: &Plays<'_>) -> Vec<Curve> {
    let played = OUTLIERS
        .into_iter()
        .zip(0..)
        .filter_map(|((step, one_in), index)| {
            let played = plays.at(step).iter().next()?;
            let fan_out = FanOut::new(&played.all.latency, index);
            Some(Curve {
                step,
                outliers: 1.0 / one_in as f64,
                points: WIDTHS
                    .map(|width| (width, fan_out.share_beyond(width, SECOND)))
                    .to_vec(),
            })
        });
    played.collect()
}

fn of_curves(curves: &[Curve]) -> Vec<Claim> {
    let says = [
        (
            "1 in 100",
            100,
            "with 100 leaves, 63 % of requests take more than a second if one leaf in 100 does",
        ),
        (
            "1 in 10,000",
            2_000,
            "with 2,000 leaves, almost one request in five does if one leaf in 10,000 does",
        ),
    ];
    says.into_iter()
        .filter_map(|(step, width, says)| {
            let curve = curves.iter().find(|curve| curve.step == step)?;
            let expected = 100.0 * chance_beyond(width, curve.outliers);
            // The number of outliers varies: at one in 10,000 of two million leaves the deviation
            // is 1.2 points. The bound is three deviations.
            let bounds = Bounds::about(expected, 3.5, " %");
            Some(bounds.judge(says, 100.0 * curve.at(width)?))
        })
        .collect()
}

fn curves_chart(curves: &[Curve]) -> Option<Chart> {
    let lines: Vec<Line> = curves
        .iter()
        .flat_map(|curve| {
            let closed = WIDTHS.map(|width| (width as f64, chance_beyond(width, curve.outliers)));
            let played = curve
                .points
                .iter()
                .map(|&(width, share)| (width as f64, share));
            [
                Line {
                    name: curve.step.to_owned(),
                    points: played.collect(),
                    interval: Vec::new(),
                    reference: false,
                },
                reference(format!("{}, 1 − (1 − p)^n", curve.step), &closed),
            ]
        })
        .collect();
    (!lines.is_empty()).then(|| Chart {
        title: "Requests that take more than a second, by how often a leaf does".to_owned(),
        x: axis("leaves of a request"),
        y: axis("share of requests"),
        plot: Plot::Lines(lines),
    })
}

/// Our results for Table 1 in milliseconds, line by line, for each number of leaves.
struct Table1 {
    one: [f64; 3],
    /// Leaves of a request, the wait for 95 % of them, and the wait for all.
    fan_outs: Vec<(usize, [f64; 3], [f64; 3])>,
}

fn table_1(plays: &Plays<'_>) -> Option<Table1> {
    let leaves = &plays.at(TABLE_1).iter().next()?.all;
    let mut fan_out = FanOut::new(&leaves.latency, OUTLIERS.len() as u64);
    let mut wait = |width, share| {
        let waits = fan_out.waits(width, share);
        TABLE_QUANTILES.map(|q| fan_out.wait_ms(&waits, q))
    };
    Some(Table1 {
        one: TABLE_QUANTILES.map(|q| latency_ms(leaves, q)),
        fan_outs: TABLE_WIDTHS
            .map(|width| (width, wait(width, 0.95), wait(width, 1.0)))
            .to_vec(),
    })
}

impl Table1 {
    /// Returns the waits for 95 % and for all leaves of the widest fan-out.
    fn widest(&self) -> Option<([f64; 3], [f64; 3])> {
        let widest = self
            .fan_outs
            .iter()
            .find(|(width, ..)| *width == TABLE_WIDTH);
        widest.map(|&(_, most, all)| (most, all))
    }

    fn shown(&self) -> Table {
        let row = |what: String, [p50, p95, p99]: [f64; 3]| {
            [vec![what], [p50, p95, p99].map(number).to_vec()].concat()
        };
        let mut rows = vec![row("one random leaf".to_owned(), self.one)];
        for (width, most, all) in &self.fan_outs {
            rows.push(row(format!("95 % of {width} leaves"), *most));
            rows.push(row(format!("all of {width} leaves"), *all));
        }
        rows.extend(TABLE.map(|(what, article)| row(format!("{what}, article"), article)));
        let columns = ["finish", "p50, ms", "p95, ms", "p99, ms"];
        Table {
            title: "Table 1: a leaf as in the article, and what follows for requests that wait for many".to_owned(),
            columns: columns.map(str::to_owned).to_vec(),
            rows,
        }
    }
}

fn of_table(table: &Table1) -> Vec<Claim> {
    let [(_, leaf), (_, most), (_, all)] = TABLE;
    let mut claims: Vec<Claim> = leaf
        .into_iter()
        .zip(table.one)
        .zip(TABLE_QUANTILES)
        .map(|((asked, found), q)| {
            let says = format!(
                "one random leaf: {asked} ms at p{} (what the model was given)",
                100.0 * q
            );
            Bounds::about(asked, 0.05 * asked, " ms").judge(says, found)
        })
        .collect();
    let Some((found_most, found_all)) = table.widest() else {
        return claims;
    };
    claims.push(
        Bounds::about(most[0], 0.25 * most[0], " ms")
            .judge("95 % of all leaves: 12 ms at p50", found_most[0]),
    );
    claims.push(Bounds::about(all[0], 0.4 * all[0], " ms").judge(
        "all leaves: 40 ms at p50, forty times a leaf's",
        found_all[0],
    ));
    claims.push(claim(
        "waiting for the slowest 5 % of the leaves is responsible for half of the total 99th percentile",
        format!(
            "{} of {} ms: {} %",
            number(found_all[2] - found_most[2]),
            number(found_all[2]),
            number(100.0 * (1.0 - found_most[2] / found_all[2]))
        ),
        found_most[2] <= 0.5 * found_all[2],
    ));
    claims
}

/// Returns the results of a policy's queries with these second copies.
fn stalled<'a>(plays: &Plays<'a>, policy: &str, param: &str) -> Option<&'a Measured> {
    let plays = plays.only(|cell| cell.param == param);
    plays.measured(STALLS, policy)
}

fn hedges_percent(run: &Measured) -> f64 {
    100.0 * run.hedges as f64 / run.queries.max(1) as f64
}

fn of_hedging(plays: &Plays<'_>) -> Vec<Claim> {
    let tail = |policy, param| stalled(plays, policy, param).map(|run| latency_ms(run, 0.999));
    let sent = |policy, param| stalled(plays, policy, param).map(hedges_percent);
    let mut claims = Vec::new();
    for policy in LATE {
        if let (Some(once), Some(twice)) = (tail(policy, ONCE), tail(policy, AFTER_P98)) {
            let says = format!(
                "{policy}: a second copy of 2 % of requests takes p99.9 down by far (article: by 96 %, from 1,800 to 74 ms)"
            );
            claims.push(Bounds::at_least(50.0, " %").judge(says, 100.0 * (1.0 - twice / once)));
        }
        for (param, low, high, says) in [
            (AFTER_P98, 1.0, 2.5, "that is 2 % more requests"),
            (
                AFTER_P95,
                3.0,
                6.0,
                "waiting for the 95th percentile limits the additional load to approximately 5 %",
            ),
        ] {
            claims.extend(sent(policy, param).map(|found| {
                Bounds::between(low, high, " %").judge(format!("{policy}: {says}"), found)
            }));
        }
    }
    claims
}

fn params() -> impl Iterator<Item = &'static str> {
    [ONCE].into_iter().chain(AFTER.map(|(param, _)| param))
}

/// Returns the results of each policy with each kind of second copies, policy by policy.
fn by_policy<'a>(plays: &Plays<'a>) -> Vec<(&'static str, &'static str, &'a Measured)> {
    let pairs = HEDGED
        .into_iter()
        .flat_map(|policy| params().map(move |param| (policy, param)));
    pairs
        .filter_map(|(policy, param)| Some((policy, param, stalled(plays, policy, param)?)))
        .collect()
}

fn hedging_chart(plays: &Plays<'_>) -> Option<Chart> {
    let groups = by_policy(plays);
    let series = QUANTILES.map(|(name, q)| Bars {
        name: name.to_owned(),
        values: groups.iter().map(|(.., run)| latency_ms(run, q)).collect(),
        marks: vec![None; groups.len()],
    });
    (!groups.is_empty()).then(|| Chart {
        title: "Latency with and without second copies, replicas that stall".to_owned(),
        x: axis("policy"),
        y: axis("latency, ms"),
        plot: Plot::Bars {
            groups: groups
                .iter()
                .map(|(policy, param, _)| format!("{policy} {param}"))
                .collect(),
            series: series.into(),
            limit: None,
        },
    })
}

fn hedging_table(plays: &Plays<'_>) -> Option<Table> {
    let rows: Vec<Vec<String>> = by_policy(plays)
        .into_iter()
        .map(|(policy, param, run)| {
            let mut row = vec![policy.to_owned(), param.to_owned()];
            row.extend(QUANTILES.map(|(_, q)| number(latency_ms(run, q))));
            row.push(format!("{:.2}", hedges_percent(run)));
            row
        })
        .collect();
    let mut columns: Vec<String> = ["policy", "second copies"].map(str::to_owned).into();
    columns.extend(QUANTILES.map(|(name, _)| format!("{name}, ms")));
    columns.push("sent, % of queries".to_owned());
    (!rows.is_empty()).then(|| Table {
        title: "Hedged requests on replicas that stall for 1.8 s (the article's BigTable: p99.9 from 1,800 to 74 ms for 2 %)".to_owned(),
        columns,
        rows,
    })
}

#[cfg(test)]
mod tests;
