//! The findings: several workers compared with one pool, and each design compared with both.

use super::{DESIGNS, Design, FLEETS, Fleet, OTHERS, OWN, PREQUAL, PROXIES, SOME_WORKERS, WORKERS};
use crate::Measured;
use crate::figure::cells::{Plays, latency_ms};
use crate::figure::charts::axis;
use crate::figure::judge::{claim, number};
use crate::figure::{Bars, Chart, Claim, Findings, Played, Plot, Table};

/// Number of workers that share nothing, for the claim that p99 stays within [`COST`].
const FEW: usize = 4;
/// Number of workers that share everything, for the claim that p99 stays within [`COST`].
const MANY: usize = 64;
/// The highest p99, as a multiple of one pool's.
const COST: f64 = 1.25;
/// If workers share only answers or only queries, p99 is more than this many times that of workers
/// that share nothing.
const HALF_SHARED: f64 = 2.0;

/// The fleets that were played, with their plays.
struct Fleets<'a>(Vec<(&'static Fleet, Plays<'a>)>);

impl<'a> Fleets<'a> {
    fn new(played: &'a [Played]) -> Self {
        let plays = Plays::new(played);
        let of = |fleet: &'static Fleet| {
            let step = format!("{}x", fleet.label());
            (fleet, plays.only(|cell| cell.step.starts_with(&step)))
        };
        let fleets = FLEETS.iter().map(of);
        Self(
            fleets
                .filter(|(_, plays)| plays.iter().next().is_some())
                .collect(),
        )
    }

    fn iter(&self) -> impl Iterator<Item = View<'_, 'a>> {
        self.0.iter().map(|(fleet, plays)| View { fleet, plays })
    }

    fn compared(&self) -> impl Iterator<Item = View<'_, 'a>> {
        self.iter().filter(|view| view.fleet.compared)
    }
}

/// One fleet.
#[derive(Clone, Copy)]
struct View<'v, 'a> {
    fleet: &'static Fleet,
    plays: &'v Plays<'a>,
}

impl<'a> View<'_, 'a> {
    fn run(&self, clients: usize, policy: &str, param: &str) -> Option<&'a Measured> {
        let step = self.fleet.step(clients);
        let mut plays = self.plays.iter();
        let found = plays.find(|played| {
            let cell = &played.cell;
            cell.step == step && cell.policy.name == policy && cell.param == param
        });
        found.map(|played| &played.all)
    }

    fn p99(&self, clients: usize, policy: &str, param: &str) -> Option<f64> {
        Some(latency_ms(self.run(clients, policy, param)?, 0.99))
    }

    /// Returns a policy's p99 with this many workers in each proxy, each its own client, as a
    /// multiple of that with one pool in each.
    fn cost(&self, policy: &str, proxies: usize, workers: usize) -> Option<f64> {
        Some(self.p99(proxies * workers, policy, "")? / self.p99(proxies, policy, "")?)
    }

    /// Returns the p99 of one proxy's design under Prequal, as a multiple of that with one pool.
    fn design_cost(&self, design: &Design, workers: usize) -> Option<f64> {
        Some(self.p99(workers, PREQUAL, design.param)? / self.p99(1, PREQUAL, "")?)
    }
}

pub(super) fn findings(played: &[Played]) -> Findings {
    let fleets = Fleets::new(played);
    Findings {
        claims: claims(&fleets),
        charts: charts(&fleets),
        tables: tables(&fleets),
    }
}

fn design(param: &str) -> &'static Design {
    let mut designs = DESIGNS.iter();
    designs.find(|design| design.param == param).unwrap_or(&OWN)
}

/// Returns the highest ratio, and its fleet.
fn highest(ratios: impl Iterator<Item = (f64, String)>) -> Option<(f64, String)> {
    ratios.max_by(|(a, _), (b, _)| a.total_cmp(b))
}

fn claims(fleets: &Fleets<'_>) -> Vec<Claim> {
    let claims = [
        few_cost_little(fleets),
        all_shared_are_one(fleets),
        half_shared_are_worse(
            fleets,
            "answers",
            "what replicas answer, but not where they send queries",
        ),
        half_shared_are_worse(
            fleets,
            "queries",
            "where they send queries, but not what replicas answer",
        ),
    ];
    claims.into_iter().flatten().collect()
}

/// Returns the highest cost of one proxy's design, and its fleet.
fn worst(fleets: &Fleets<'_>, design: &Design, workers: usize) -> Option<(f64, String)> {
    let cost = |view: View<'_, '_>| Some((view.design_cost(design, workers)?, view.fleet.label()));
    highest(fleets.compared().filter_map(cost))
}

fn few_cost_little(fleets: &Fleets<'_>) -> Option<Claim> {
    let (worst, label) = worst(fleets, &OWN, FEW)?;
    Some(claim(
        format!(
            "(ours) of one proxy with {FEW} workers, each its own client, p99 is at most {COST} times what it is with one pool, in every \
             fleet"
        ),
        format!("{} times at the worst ({label})", number(worst)),
        worst <= COST,
    ))
}

fn all_shared_are_one(fleets: &Fleets<'_>) -> Option<Claim> {
    let (told, label) = worst(fleets, design("answers and queries"), MANY)?;
    let (own, own_label) = worst(fleets, &OWN, MANY)?;
    Some(claim(
        format!(
            "(ours) with {MANY} workers that tell each other what replicas answer and where they send queries, it is at most {COST} times \
             what it is with one pool, in every fleet"
        ),
        format!(
            "{} times at the worst ({label}); {} times where they tell nothing ({own_label})",
            number(told),
            number(own)
        ),
        told <= COST,
    ))
}

fn half_shared_are_worse(fleets: &Fleets<'_>, param: &str, what: &str) -> Option<Claim> {
    let ratio = |view: View<'_, '_>| {
        let ratio = view.design_cost(design(param), MANY)? / view.design_cost(&OWN, MANY)?;
        Some((ratio, view.fleet.label()))
    };
    let (worst, label) = highest(fleets.compared().filter_map(ratio))?;
    Some(claim(
        format!(
            "(ours) {MANY} workers that tell each other {what}, are worse than if they told nothing: p99 is more than {HALF_SHARED} times \
             that, in some fleet"
        ),
        format!("{} times at the worst ({label})", number(worst)),
        worst > HALF_SHARED,
    ))
}

fn tables(fleets: &Fleets<'_>) -> Vec<Table> {
    if fleets.0.is_empty() {
        return Vec::new();
    }
    vec![costs(fleets), costs_of_others(fleets), designs(fleets)]
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

fn table(title: &str, columns: Vec<String>, rows: Vec<Vec<String>>) -> Table {
    Table {
        title: title.to_owned(),
        columns,
        rows,
    }
}

/// Makes a table of what workers that share nothing cost under Prequal.
fn costs(fleets: &Fleets<'_>) -> Table {
    let fixed = ["fleet", "proxies", "one pool each: p99, ms"].map(str::to_owned);
    let workers = WORKERS[1..]
        .iter()
        .map(|workers| format!("{workers} workers, times"));
    let rest = ["probes a query, 1 worker", "64 workers"].map(str::to_owned);
    let mut rows = Vec::new();
    for view in fleets.iter() {
        for proxies in PROXIES {
            let one = view
                .p99(proxies, PREQUAL, "")
                .map_or_else(String::new, number);
            let mut row = vec![view.fleet.label(), proxies.to_string(), one];
            let costs = WORKERS[1..].iter();
            row.extend(costs.map(|&workers| times(view.cost(PREQUAL, proxies, workers))));
            for clients in [proxies, proxies * MANY] {
                let run = view.run(clients, PREQUAL, "");
                row.push(times(run.map(Measured::probes_per_query)));
            }
            rows.push(row);
        }
    }
    table(
        "Prequal: p99 with several workers in each proxy, each its own client, as a multiple of that with one pool in each",
        fixed.into_iter().chain(workers).chain(rest).collect(),
        rows,
    )
}

/// Makes a table of the same cost under other policies, with their p99 beside Prequal's.
fn costs_of_others(fleets: &Fleets<'_>) -> Table {
    let mut columns = ["fleet", "policy", "one client: p99, ms"]
        .map(str::to_owned)
        .to_vec();
    columns.extend(SOME_WORKERS.map(|workers| format!("{workers} workers, ms")));
    columns.extend([1, 16, 64].map(|workers| format!("10 proxies of {workers}, ms")));
    let mut rows = Vec::new();
    for view in fleets.compared() {
        for policy in core::iter::once(PREQUAL).chain(OTHERS) {
            let p99 = |clients| {
                view.p99(clients, policy, "")
                    .map_or_else(String::new, number)
            };
            let mut row = vec![view.fleet.label(), policy.to_owned(), p99(1)];
            row.extend(SOME_WORKERS.map(p99));
            row.extend([10, 160, 640].map(p99));
            rows.push(row);
        }
    }
    table(
        "Every policy, each worker its own client: p99",
        columns,
        rows,
    )
}

fn designs(fleets: &Fleets<'_>) -> Table {
    let columns = [
        "fleet",
        "workers",
        "design",
        "p50, ms",
        "p99, ms",
        "times one pool",
        "p99.9, ms",
        "errors, %",
        "probes a query",
        "RIF p99",
        "report's age p50, ms",
        "p99, ms",
        "chance, %",
    ];
    let mut rows = Vec::new();
    for view in fleets.compared() {
        rows.extend(view.run(1, PREQUAL, "").map(|run| row(view, 1, &OWN, run)));
        for workers in SOME_WORKERS {
            for design in core::iter::once(&OWN).chain(&DESIGNS) {
                let run = view.run(workers, PREQUAL, design.param);
                rows.extend(run.map(|run| row(view, workers, design, run)));
            }
        }
    }
    table(
        "Prequal, one proxy: what its workers have in common",
        columns.map(str::to_owned).to_vec(),
        rows,
    )
}

fn row(view: View<'_, '_>, workers: usize, design: &Design, run: &Measured) -> Vec<String> {
    let ms = |q| number(latency_ms(run, q));
    let age = |q| number(run.report_age.quantile(q).as_secs_f64() * 1e3);
    let design_name = match (workers, design.param) {
        (1, _) => "one pool",
        (_, "") => "each its own",
        (_, param) => param,
    };
    vec![
        view.fleet.label(),
        workers.to_string(),
        design_name.to_owned(),
        ms(0.5),
        ms(0.99),
        times(view.design_cost(design, workers)),
        ms(0.999),
        number(100.0 * run.error_share()),
        format!("{:.2}", run.probes_per_query()),
        run.rif_quantile(0.99).to_string(),
        age(0.5),
        age(0.99),
        format!("{:.2}", 100.0 * run.fallback_share()),
    ]
}

/// Makes a chart of the designs for each number of workers.
fn charts(fleets: &Fleets<'_>) -> Vec<Chart> {
    let shown = ["", "answers", "queries", "answers and queries"];
    let charts = SOME_WORKERS.map(|workers| {
        let views: Vec<View<'_, '_>> = fleets
            .compared()
            .filter(|view| view.design_cost(&OWN, workers).is_some())
            .collect();
        let bars = shown.map(|param| {
            let cost = |view: &View<'_, '_>| view.design_cost(design(param), workers);
            let values: Vec<f64> = views.iter().filter_map(cost).collect();
            Bars {
                name: if param.is_empty() {
                    "tell nothing".to_owned()
                } else {
                    format!("tell {param}")
                },
                marks: vec![None; values.len()],
                values,
            }
        });
        let groups: Vec<String> = views.iter().map(|view| view.fleet.label()).collect();
        let complete = bars.iter().all(|bars| bars.values.len() == groups.len());
        (complete && !groups.is_empty()).then(|| Chart {
            title: format!("p99 as a multiple of one pool's: one proxy of {workers} workers"),
            x: axis("fleet and replicas"),
            y: axis("times one pool's p99"),
            plot: Plot::Bars {
                groups,
                series: bars.into(),
                limit: Some(4.0),
            },
        })
    });
    charts.into_iter().flatten().collect()
}
