//! The findings: how far the default policy is from the clairvoyant where replicas report their
//! capacity, and whether it is behind Prequal anywhere.

use super::cases::{self, Case, Kind, WORKLOADS};
use super::{
    C3, CLAIRVOYANTS, NO_CAPACITIES, OUR_DEFAULTS, OURS, PAPER, PEAK_EWMA, Player, RIF_ONLY,
    RIF_THEN_LATENCY, VARIANTS,
};
use crate::Measured;
use crate::figure::cells::{Plays, TIMED_OUT_MS, latency_ms};
use crate::figure::charts::axis;
use crate::figure::judge::{claim, number};
use crate::figure::{Bars, Chart, Claim, Findings, Played, Plot, Table};
use crate::interval::Estimate;

/// The deciding quantile, and a second one that is also shown.
const P999: f64 = 0.999;
const P99: f64 = 0.99;
/// The default may be at most this many times the better of Prequal and RIF alone.
const NEAR: f64 = 1.05;
/// The highest p99.9 of the default that these cases allow, in milliseconds.
const ASKED: [(&str, f64); 2] = [("homogeneous-1.74", 360.0), ("unequal-1.27", 410.0)];
/// The upper end of bars, in milliseconds.
const CHART_LIMIT_MS: f64 = 1_500.0;

/// A case with its plays.
struct View<'a> {
    case: Case,
    plays: Plays<'a>,
}

impl<'a> View<'a> {
    fn find(&self, player: Player) -> Option<&'a Played> {
        let mut plays = self.plays.iter();
        plays.find(|played| {
            played.cell.policy.name == player.policy && played.cell.param == player.param
        })
    }

    /// Returns the quantile over all seeds.
    fn ms(&self, player: Player, q: f64) -> Option<f64> {
        Some(latency_ms(&self.find(player)?.all, q))
    }

    fn better(&self, of: [Player; 2], q: f64) -> Option<Player> {
        let [first, second] = [self.ms(of[0], q)?, self.ms(of[1], q)?];
        Some(of[usize::from(second < first)])
    }

    /// Returns the player that the default is compared with.
    fn rival(&self, q: f64) -> Option<Player> {
        self.better([PAPER, RIF_ONLY], q)
    }

    /// Returns the player's quantile as a multiple of the rival's, seed by seed.
    fn ratio(&self, player: Player, q: f64) -> Option<Estimate> {
        let of = |player| Some(by_seed(self.find(player)?, q));
        Estimate::ratio(&of(player)?, &of(self.rival(q)?)?)
    }

    fn is_large(&self) -> bool {
        self.case.kind == Kind::Large
    }
}

fn by_seed(played: &Played, q: f64) -> Vec<f64> {
    let runs = played.runs.iter();
    runs.map(|run| latency_ms(run, q)).collect()
}

fn views(played: &[Played]) -> Vec<View<'_>> {
    let plays = Plays::new(played);
    let views = cases::all().into_iter().map(|case| View {
        plays: plays.at(&case.step()),
        case,
    });
    views
        .filter(|view| view.plays.iter().next().is_some())
        .collect()
}

pub(super) fn findings(played: &[Played]) -> Findings {
    let views = views(played);
    Findings {
        claims: claims(&views),
        charts: charts(&views),
        tables: tables(&views),
    }
}

fn claims(views: &[View<'_>]) -> Vec<Claim> {
    let asked = ASKED.into_iter().filter_map(|(step, ms)| {
        let view = views.iter().find(|view| view.case.step() == step)?;
        reaches(view, ms)
    });
    let large = views.iter().filter(|view| view.is_large());
    let small = WORKLOADS.into_iter();
    asked
        .chain(large.filter_map(is_near))
        .chain(small.filter_map(|(workload, _)| is_near_in_small_fleets(views, workload)))
        .collect()
}

fn reaches(view: &View<'_>, asked_ms: f64) -> Option<Claim> {
    let played = view.find(OURS)?;
    let found = latency_ms(&played.all, P999);
    let of_seeds = Estimate::mean(&by_seed(played, P999))?;
    let rival = view.ms(PAPER, P999)?;
    Some(claim(
        format!(
            "(ours) {}: p99.9 of the default with capacities, at half a probe a query, is at most {} ms",
            view.case.step(),
            number(asked_ms)
        ),
        format!(
            "{} ms; by seed {} ms; Prequal (Q = 0.84) {} ms",
            number(found),
            estimate(&of_seeds, number),
            number(rival)
        ),
        found <= asked_ms,
    ))
}

fn is_near(view: &View<'_>) -> Option<Claim> {
    let [p999, p99] = [view.ratio(OURS, P999)?, view.ratio(OURS, P99)?];
    Some(claim(
        format!(
            "(ours) {}: p99.9 and p99 of the default with capacities, at half a probe a query, are at most {NEAR} times those of the better of Prequal \
             (Q = 0.84) and RIF alone",
            view.case.step()
        ),
        format!(
            "p99.9: {} times; p99: {} times",
            estimate(&p999, times),
            estimate(&p99, times)
        ),
        p999.value <= NEAR && p99.value <= NEAR,
    ))
}

fn is_near_in_small_fleets(views: &[View<'_>], workload: &str) -> Option<Claim> {
    let of = |q: f64| {
        let views = views.iter().filter(|view| view.case.does(workload));
        views
            .filter_map(|view| Some((view.ratio(OURS, q)?, view.case.step())))
            .collect::<Vec<_>>()
    };
    let [p999, p99] = [Beside::of(&of(P999))?, Beside::of(&of(P99))?];
    Some(claim(
        format!(
            "(ours) {workload}: p99.9 and p99 of the default with capacities, at half a probe a query, are at most {NEAR} times those of the better of \
             Prequal (Q = 0.84) and RIF alone, in every small fleet"
        ),
        format!("p99.9: {}; p99: {}", p999.text(), p99.text()),
        p999.beyond == 0 && p99.beyond == 0,
    ))
}

/// The ratios of some fleets.
struct Beside {
    fleets: usize,
    /// Fleets beyond [`NEAR`], and those of them whose excess is significant.
    beyond: usize,
    surely: usize,
    worst: (Estimate, String),
}

impl Beside {
    fn of(ratios: &[(Estimate, String)]) -> Option<Self> {
        let worst = ratios
            .iter()
            .max_by(|(a, _), (b, _)| a.value.total_cmp(&b.value))?;
        let beyond = || ratios.iter().filter(|(ratio, _)| ratio.value > NEAR);
        Some(Self {
            fleets: ratios.len(),
            beyond: beyond().count(),
            surely: beyond().filter(|(ratio, _)| ratio.excludes(NEAR)).count(),
            worst: worst.clone(),
        })
    }

    fn text(&self) -> String {
        format!(
            "beyond in {} of {} fleets, in {} by more than chance; {} times at the worst ({})",
            self.beyond,
            self.fleets,
            self.surely,
            estimate(&self.worst.0, times),
            self.worst.1
        )
    }
}

fn times(ratio: f64) -> String {
    format!("{ratio:.3}")
}

/// Formats a mean with its interval, if it has one.
fn estimate(of: &Estimate, text: fn(f64) -> String) -> String {
    of.interval.map_or_else(
        || text(of.value),
        |(low, high)| format!("{} ({} to {})", text(of.value), text(low), text(high)),
    )
}

fn milliseconds(ms: Option<f64>) -> String {
    match ms {
        None => String::new(),
        Some(ms) if ms >= TIMED_OUT_MS => "TO".to_owned(),
        Some(ms) => number(ms),
    }
}

fn tables(views: &[View<'_>]) -> Vec<Table> {
    if views.is_empty() {
        return Vec::new();
    }
    vec![
        compared(views, "p99.9", P999),
        compared(views, "p99", P99),
        variants(views),
    ]
}

/// Makes a table with a row for each case.
fn compared(views: &[View<'_>], name: &str, q: f64) -> Table {
    let columns = [
        "case",
        "load",
        "clairvoyant",
        "Prequal, Q = 0.84",
        "RIF alone",
        "Prequal, our defaults",
        "c3",
        "peak_ewma",
        "rif_then_latency",
        "default, no capacities",
        "default, capacities, 0.5 probes",
        "times the better of Q = 0.84 and RIF alone",
        "errors of the default, %",
        "of that one, %",
    ];
    let row = |view: &View<'_>| {
        let clairvoyant = view.better(CLAIRVOYANTS, q);
        let players = [PAPER, RIF_ONLY, OUR_DEFAULTS, C3, PEAK_EWMA];
        let players = players
            .into_iter()
            .chain([RIF_THEN_LATENCY, NO_CAPACITIES, OURS]);
        let ms = |player| milliseconds(view.ms(player, q));
        let ratio = view.ratio(OURS, q);
        let errors = |player| {
            let share = view.find(player).map(|played| played.all.error_share());
            share.map_or_else(String::new, |share| format!("{:.3}", 100.0 * share))
        };
        let mut row = vec![view.case.step(), number(view.case.load)];
        row.push(clairvoyant.map_or_else(String::new, ms));
        row.extend(players.map(ms));
        row.push(ratio.map_or_else(String::new, |ratio| estimate(&ratio, times)));
        row.push(errors(OURS));
        row.push(view.rival(q).map_or_else(String::new, errors));
        row
    };
    Table::new(
        format!(
            "{name} in milliseconds; ratios seed by seed, with the ends of their 95 % intervals"
        ),
        &columns,
        views.iter().map(row).collect(),
    )
}

/// Makes a table of the default with other probe rates, and with fewer signals.
fn variants(views: &[View<'_>]) -> Table {
    let columns = [
        "case",
        "default, with",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "p99.9, times the better of Q = 0.84 and RIF alone",
        "probes a query",
        "errors, %",
    ];
    let mut rows = Vec::new();
    for view in views {
        for player in VARIANTS.into_iter().chain([NO_CAPACITIES]) {
            let Some(played) = view.find(player) else {
                continue;
            };
            let ms = |q| milliseconds(Some(latency_ms(&played.all, q)));
            let ratio = view.ratio(player, P999);
            rows.push(vec![
                view.case.step(),
                match player.param {
                    "" => "no capacities".to_owned(),
                    param => param.to_owned(),
                },
                ms(0.5),
                ms(P99),
                ms(P999),
                ratio.map_or_else(String::new, |ratio| estimate(&ratio, times)),
                format!("{:.2}", Measured::probes_per_query(&played.all)),
                format!("{:.3}", 100.0 * played.all.error_share()),
            ]);
        }
    }
    Table::new(
        "The default with more and fewer probes, without reports on responses, CPU time or capacities"
            .to_owned(),
        &columns,
        rows,
    )
}

fn charts(views: &[View<'_>]) -> Vec<Chart> {
    let large: Vec<&View<'_>> = views.iter().filter(|view| view.is_large()).collect();
    let (first, rest) = large.split_at(large.len().min(LOADS));
    let small = WORKLOADS.into_iter().map(|(workload, _)| {
        let fleets = views.iter().filter(|view| view.case.does(workload));
        (
            format!("p99.9 of small fleets: {workload}"),
            fleets.collect(),
        )
    });
    let large = [
        ("p99.9 by load and neighbours".to_owned(), first.to_vec()),
        (
            "p99.9 where something else is hard".to_owned(),
            rest.to_vec(),
        ),
    ];
    let charts = large.into_iter().chain(small);
    charts
        .filter_map(|(title, views)| chart(title, &views))
        .collect()
}

/// The first large cases, this many, differ only in load and neighbours.
const LOADS: usize = 10;

fn chart(title: String, views: &[&View<'_>]) -> Option<Chart> {
    let clairvoyant = |view: &View<'_>| view.ms(view.better(CLAIRVOYANTS, P999)?, P999);
    let of = |player| move |view: &View<'_>| view.ms(player, P999);
    let series = [
        bars("clairvoyant", views, clairvoyant)?,
        bars("Prequal, Q = 0.84", views, of(PAPER))?,
        bars("RIF alone", views, of(RIF_ONLY))?,
        bars("default, no capacities", views, of(NO_CAPACITIES))?,
        bars("default, capacities", views, of(OURS))?,
    ];
    (!views.is_empty()).then(|| Chart {
        title,
        x: axis("case"),
        y: axis("p99.9, ms"),
        plot: Plot::Bars {
            groups: views.iter().map(|view| view.case.step()).collect(),
            series: series.into(),
            limit: Some(CHART_LIMIT_MS),
        },
    })
}

/// Returns `None` if one of the cases has no such play.
fn bars(name: &str, views: &[&View<'_>], of: impl Fn(&View<'_>) -> Option<f64>) -> Option<Bars> {
    let values: Option<Vec<f64>> = views.iter().map(|view| of(view)).collect();
    let values = values?;
    let mark = |ms: &f64| (*ms >= TIMED_OUT_MS).then(|| "TO".to_owned());
    Some(Bars {
        name: name.to_owned(),
        marks: values.iter().map(mark).collect(),
        values,
    })
}
