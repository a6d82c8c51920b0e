//! Many balancers before a large fleet: all replicas for each, or a part of them.

use super::cells::{Plays, latency_ms};
use super::charts::axis;
use super::judge::{Bounds, number};
use super::small_fleets::small_testbed;
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::scenario::{Scenario, Subsets as Parts};
use crate::{Measured, PolicyChoice};
use slackwater_core::policy::DEFAULT_POLICY;

/// One to 1,000 balancers before 1,000 replicas.
#[derive(Debug)]
pub(super) struct Subsets;

const REPLICAS: usize = 1_000;
/// As a multiple of the allocation: the paper's sixth step, where many machines have no spare
/// capacity, so that a replica is only as fast as the choice between it and others is good.
const LOAD: f64 = 1.27;
const WARMUP_SECONDS: u64 = 10;
const SPAN_SECONDS: u64 = 5;
/// Clients, and the sizes of subsets that they are played with.
const CLIENTS: [(usize, &[usize]); 4] = [
    (1, &[]),
    (10, &[200]),
    (100, &[200, 100, 64, 32]),
    (1_000, &[100, 64, 32, 20, 12, 8]),
];

/// The parameter of a cell with random subsets of this size.
fn random(size: usize) -> String {
    format!("random {size}")
}

/// The parameter of a cell with subsets that overlap evenly.
fn numbered(size: usize) -> String {
    format!("numbered {size}")
}

const ALL: &str = "all";

impl Figure for Subsets {
    fn words(&self) -> Words {
        Words {
            name: "subsets",
            title: "One to 1,000 balancers before 1,000 replicas: all of them, or a subset each",
            about: "The testbed of the paper with 1,000 replicas at 1.27 of the allocation, and the default policy with 1 to 1,000 clients. all: each \
         client uses all replicas. random N: each uses N, drawn by the hashes of their names (gRPC A68, subset.size = N). numbered N: each uses N, and \
         subsets overlap evenly (Rocksteadier, subset.index). A replica is in clients x N / 1,000 subsets on average.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut cells = Vec::new();
        let Some(policy) = PolicyChoice::shipped(DEFAULT_POLICY.name) else {
            return cells;
        };
        for (clients, sizes) in CLIENTS {
            let scenario = small_testbed(REPLICAS, clients, LOAD);
            let mut add = |param: String, parts: Option<Parts>| {
                let mut scenario = Scenario::clone(&scenario);
                scenario.load.subsets = parts;
                let scenario = effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
                let cell = Cell::of(clients.to_string(), LOAD, policy.clone(), &scenario);
                cells.push(cell.with_param(param));
            };
            add(ALL.to_owned(), None);
            for &size in sizes {
                for (param, numbered) in [(random(size), false), (numbered(size), true)] {
                    add(param, Some(Parts { size, numbered }));
                }
            }
        }
        cells
    }

    fn findings(&self, played: &[Played]) -> Findings {
        Findings::of(played, |plays| Findings {
            claims: claims(plays),
            charts: vec![chart(plays)],
            tables: vec![table(plays)],
        })
    }
}

fn find<'a>(plays: &Plays<'a>, clients: usize, param: &str) -> Option<&'a Measured> {
    let plays = plays.at(&clients.to_string());
    let found = plays.iter().find(|played| played.cell.param == param);
    found.map(|played| &played.all)
}

/// Returns the p99 with this parameter as a multiple of that with all replicas.
fn ratio(plays: &Plays<'_>, clients: usize, param: &str) -> Option<f64> {
    let p99 = |param| Some(latency_ms(find(plays, clients, param)?, 0.99));
    Some(p99(param)? / p99(ALL)?)
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let at_most = |bound: f64, clients: usize, param: String, says: &str| {
        let found = ratio(plays, clients, &param)?;
        Some(Bounds::at_most(bound, "").judge(says, found))
    };
    let probes = |param: &str| Some(find(plays, 1_000, param)?.probes as f64);
    let fewer = probes(&random(32)).zip(probes(ALL)).map(|(some, all)| {
        Bounds::at_most(1.1, "").judge(
            "1,000 clients with 32 replicas each send no more probes than with all, as a multiple",
            some / all,
        )
    });
    [
        at_most(
            1.1,
            1_000,
            random(32),
            "with 1,000 clients, random subsets of 32 cost little: p99 as a multiple of that with all replicas",
        ),
        at_most(
            1.1,
            1_000,
            numbered(20),
            "with 1,000 clients, numbered subsets of 20 cost little",
        ),
        at_most(
            1.1,
            100,
            numbered(64),
            "with 100 clients, numbered subsets of 64 cost little",
        ),
        fewer,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the most queries that a replica got, as a multiple of the mean.
fn most_to_mean(run: &Measured) -> f64 {
    let queries = &run.queries_by_replica;
    let most = queries.iter().max().copied().unwrap_or_default();
    let sum: u64 = queries.iter().sum();
    most as f64 * queries.len() as f64 / sum.max(1) as f64
}

fn table(plays: &Plays<'_>) -> Table {
    let columns = [
        "clients",
        "replicas of each",
        "connections of a replica",
        "probes a second and replica",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "errors, %",
        "most queries, as a multiple of the mean",
    ];
    let rows = plays.iter().map(|played| {
        let (cell, run) = (&played.cell, &played.all);
        let load = &cell.scenario.load;
        let size = load.subsets.map_or(REPLICAS, |parts| parts.size);
        let connections = load.clients.len() as f64 * size as f64 / REPLICAS as f64;
        let probes = run.probes as f64 / run.span.as_secs_f64() / REPLICAS as f64;
        vec![
            cell.step.clone(),
            cell.param.clone(),
            number(connections),
            number(probes),
            number(latency_ms(run, 0.5)),
            number(latency_ms(run, 0.99)),
            number(latency_ms(run, 0.999)),
            number(100.0 * run.errors as f64 / run.queries.max(1) as f64),
            number(most_to_mean(run)),
        ]
    });
    let title = format!("{REPLICAS} replicas, the default policy");
    Table::new(title, &columns, rows.collect())
}

/// p99 by the number of connections of a replica.
fn chart(plays: &Plays<'_>) -> Chart {
    let kinds = [(false, "random"), (true, "numbered")];
    let lines = CLIENTS.iter().flat_map(|&(clients, _)| {
        let plays = plays.at(&clients.to_string());
        kinds.map(|(numbered, kind)| Line {
            name: format!("{clients} clients, {kind}"),
            points: points(&plays, numbered),
            interval: Vec::new(),
            reference: false,
        })
    });
    let lines = lines.filter(|line| line.points.len() > 1);
    Chart {
        title: "p99 by the number of clients that use a replica".to_owned(),
        x: axis("clients of a replica"),
        y: axis("p99, ms"),
        plot: Plot::Lines(lines.collect()),
    }
}

fn points(plays: &Plays<'_>, numbered: bool) -> Vec<(f64, f64)> {
    let point = |played: &Played| {
        let load = &played.cell.scenario.load;
        let parts = load.subsets.filter(|parts| parts.numbered == numbered)?;
        let connections = load.clients.len() as f64 * parts.size as f64 / REPLICAS as f64;
        Some((connections, latency_ms(&played.all, 0.99)))
    };
    let mut points: Vec<_> = plays.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}
