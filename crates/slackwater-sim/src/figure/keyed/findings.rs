//! The claims about rules by key, the tables and the charts.

use super::cases::{
    CLIENTS, Case, HIGH, HINTS, OTHERS, OURS, OWN_COUNTS, PEERS, SOME_CLIENTS, Trouble, VARIANTS,
    WITHOUT, cases, varied,
};
use crate::Measured;
use crate::figure::cells::{Plays, latency_ms};
use crate::figure::charts::{axis, log_axis};
use crate::figure::judge::{claim, number};
use crate::figure::{Chart, Claim, Findings, Line, Played, Plot, Table};
use crate::interval::Estimate;

/// The highest p99, as a multiple of the best peer's, with a slow replica and a hot key.
const BETTER: f64 = 0.7;
/// How far the hit rate may be below that of the best peer.
const HITS_BELOW: f64 = 0.03;

/// The seconds after a restart in which caches fill.
const FILLING_SECONDS: usize = 5;

pub(super) fn findings(played: &[Played]) -> Findings {
    Findings::of(played, |plays| Findings {
        claims: claims(plays),
        charts: charts(plays),
        tables: vec![overview(plays), variants(plays), refills(plays)],
    })
}

/// Returns the play of a rule in a case, without a parameter.
fn find<'a>(plays: &Plays<'a>, case: Case, rule: &str) -> Option<&'a Played> {
    let step = case.step();
    let mut plays = plays.iter();
    plays.find(|played| {
        let cell = &played.cell;
        cell.step == step && cell.policy.name == rule && cell.param.is_empty()
    })
}

fn p99(run: &Measured) -> f64 {
    latency_ms(run, 0.99)
}

/// Returns a quantity of each seed.
fn of_seeds(played: &Played, quantity: impl Fn(&Measured) -> f64) -> Vec<f64> {
    played.runs.iter().map(quantity).collect()
}

/// Returns the most queries of a replica, as a multiple of the mean.
fn balance(run: &Measured) -> f64 {
    let most = run.queries_by_replica.iter().copied().max().unwrap_or(0);
    let all: u64 = run.queries_by_replica.iter().sum();
    most as f64 * run.queries_by_replica.len() as f64 / (all as f64).max(1.0)
}

/// Returns the rule of another load balancer with the lowest p99 in a case.
fn best_peer<'a>(plays: &Plays<'a>, case: Case) -> Option<&'a Played> {
    let peers = PEERS.iter().map(|rule| find(plays, case, rule.name()));
    let peers: Option<Vec<&Played>> = peers.collect();
    peers?
        .into_iter()
        .min_by(|a, b| p99(&a.all).total_cmp(&p99(&b.all)))
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for clients in CLIENTS {
        let case = Case::at_high_load(Trouble::SlowAndHot, clients);
        claims.extend(faster(plays, case, BETTER));
        claims.extend(as_many_hits(plays, case));
    }
    for clients in CLIENTS {
        let case = Case::at_high_load(Trouble::Nothing, clients);
        claims.extend(faster(plays, case, 1.0));
    }
    let many = Case::at_high_load(Trouble::SlowAndHot, 64);
    claims.extend(reports_pay(plays, many));
    claims.extend(hints_pay(
        plays,
        Case::at_high_load(Trouble::Slow, SOME_CLIENTS),
    ));
    claims.extend(keys_pay(
        plays,
        Case::at_high_load(Trouble::Nothing, SOME_CLIENTS),
    ));
    claims
}

/// Returns the text of a ratio with its interval.
fn text(ratio: &Estimate) -> String {
    ratio.interval.map_or_else(
        || number(ratio.value),
        |(low, high)| {
            format!(
                "{} ({} to {})",
                number(ratio.value),
                number(low),
                number(high)
            )
        },
    )
}

/// Returns the upper end of the interval, or the value without one.
fn high(estimate: &Estimate) -> f64 {
    estimate.interval.map_or(estimate.value, |(_, high)| high)
}

fn low(estimate: &Estimate) -> f64 {
    estimate.interval.map_or(estimate.value, |(low, _)| low)
}

/// Compares p99 with that of the best peer: the whole interval must be below the bound.
fn faster(plays: &Plays<'_>, case: Case, bound: f64) -> Option<Claim> {
    let (ours, peer) = (find(plays, case, OURS)?, best_peer(plays, case)?);
    let ratio = Estimate::ratio(&of_seeds(ours, p99), &of_seeds(peer, p99))?;
    Some(claim(
        format!(
            "(ours) {}: p99 is at most {bound} times that of the best of nginx's, HAProxy's and Envoy's rules",
            case.step()
        ),
        format!(
            "{} times that of {}: {} ms, not {}",
            text(&ratio),
            peer.cell.policy.name,
            number(p99(&ours.all)),
            number(p99(&peer.all))
        ),
        high(&ratio) <= bound,
    ))
}

/// Compares the hit rate with that of the peer with the best p99.
fn as_many_hits(plays: &Plays<'_>, case: Case) -> Option<Claim> {
    let (ours, peer) = (find(plays, case, OURS)?, best_peer(plays, case)?);
    let below = Estimate::difference(
        &of_seeds(peer, Measured::hit_share),
        &of_seeds(ours, Measured::hit_share),
    )?;
    let found = peer.all.hit_share() > 0.0;
    found.then(|| {
        claim(
            format!(
                "(ours) {}: the hit rate is at most 3 points below that of the same rule",
                case.step()
            ),
            format!(
                "{} points below {}: {} %, not {} %",
                number(100.0 * below.value),
                peer.cell.policy.name,
                number(100.0 * ours.all.hit_share()),
                number(100.0 * peer.all.hit_share())
            ),
            high(&below) <= HITS_BELOW,
        )
    })
}

/// Compares the bound on reported loads with that on own counts.
fn reports_pay(plays: &Plays<'_>, case: Case) -> Option<Claim> {
    let (ours, own) = (find(plays, case, OURS)?, find(plays, case, OWN_COUNTS)?);
    let ratio = Estimate::ratio(&of_seeds(own, p99), &of_seeds(ours, p99))?;
    Some(claim(
        format!(
            "(ours) {}: with its own counts alone a balancer's p99 is more than 1.25 times as high",
            case.step()
        ),
        format!("{} times", text(&ratio)),
        low(&ratio) > 1.25,
    ))
}

/// Compares synchronous probes that carry the key with our rule without them.
fn hints_pay(plays: &Plays<'_>, case: Case) -> Option<Claim> {
    let (ours, hints) = (find(plays, case, OURS)?, find(plays, case, HINTS)?);
    let ratio = Estimate::ratio(&of_seeds(hints, p99), &of_seeds(ours, p99))?;
    Some(claim(
        format!(
            "(ours) {}: synchronous probes that carry the key have a lower p99, wait included",
            case.step()
        ),
        format!("{} times", text(&ratio)),
        high(&ratio) < 1.0,
    ))
}

/// Compares our rule with the same policy without keys.
fn keys_pay(plays: &Plays<'_>, case: Case) -> Option<Claim> {
    let (ours, without) = (find(plays, case, OURS)?, find(plays, case, WITHOUT)?);
    let ratio = Estimate::ratio(&of_seeds(without, p99), &of_seeds(ours, p99))?;
    Some(claim(
        format!(
            "(ours) {}: without keys p99 is more than ten times as high, because caches hold too little",
            case.step()
        ),
        format!(
            "{} times, with a hit rate of {} %",
            text(&ratio),
            number(100.0 * without.all.hit_share())
        ),
        low(&ratio) > 10.0,
    ))
}

const COLUMNS: [&str; 9] = [
    "fleet",
    "rule",
    "p50, ms",
    "p99, ms",
    "p99 by seed: 95 %",
    "hits, %",
    "most / mean",
    "errors, %",
    "probes a query",
];

fn row(played: &Played) -> Vec<String> {
    let run = &played.all;
    let seeds = Estimate::mean(&of_seeds(played, p99)).and_then(|mean| mean.interval);
    vec![
        played.cell.step.clone(),
        played.cell.player(),
        number(latency_ms(run, 0.5)),
        number(p99(run)),
        seeds.map_or_else(String::new, |(low, high)| {
            format!("{} to {}", number(low), number(high))
        }),
        number(100.0 * run.hit_share()),
        format!("{:.2}", balance(run)),
        number(100.0 * run.error_share()),
        format!("{:.2}", run.probes_per_query()),
    ]
}

fn overview(plays: &Plays<'_>) -> Table {
    let usual = plays.only(|cell| cell.param.is_empty());
    let rows = usual.iter().map(row).collect();
    Table::new("Each rule in each fleet".to_owned(), &COLUMNS, rows)
}

fn variants(plays: &Plays<'_>) -> Table {
    let mut rows = Vec::new();
    for case in varied() {
        let step = case.step();
        let of = |param: &str| {
            plays.only(|cell| cell.step == step && cell.policy.name == OURS && cell.param == param)
        };
        for (param, _) in VARIANTS {
            rows.extend(of(param).iter().map(row));
        }
    }
    let title = "Our rule with other settings".to_owned();
    Table::new(title, &COLUMNS, rows)
}

/// Makes a table of what happens while the cache of one replica fills.
fn refills(plays: &Plays<'_>) -> Table {
    let columns = [
        "fleet",
        "rule",
        "first 5 s: p99, ms",
        "hits, %",
        "share of replica 0, times the mean",
        "later: p99, ms",
        "hits, %",
        "share of replica 0, times the mean",
    ];
    let mut rows = Vec::new();
    for played in plays.iter() {
        let troubles = [Trouble::Restart, Trouble::Join];
        let is_refill = troubles
            .map(|trouble| Case::at_high_load(trouble, SOME_CLIENTS).step())
            .contains(&played.cell.step);
        if !is_refill {
            continue;
        }
        let run = &played.all;
        let seconds = run.latency_by_block.len();
        let split = FILLING_SECONDS.min(seconds);
        let mut row = vec![played.cell.step.clone(), played.cell.player()];
        for seconds in [0..split, split..seconds] {
            let mut latency = crate::measure::Latencies::default();
            for block in &run.latency_by_block[seconds.clone()] {
                latency.merge(block);
            }
            row.push(number(latency.quantile(0.99).as_secs_f64() * 1e3));
            let hits = run.by_second.hit_share_within(seconds.clone());
            row.push(number(100.0 * hits.unwrap_or_default()));
            let share = run.by_second.share_within(seconds, 0).unwrap_or_default();
            let replicas = run.queries_by_replica.len() as f64;
            row.push(format!("{:.2}", share * replicas));
        }
        rows.push(row);
    }
    let title = "While a cache fills after a restart, and after a replica has joined".to_owned();
    Table::new(title, &columns, rows)
}

fn charts(plays: &Plays<'_>) -> Vec<Chart> {
    let charts = [
        ("p99, ms", true, p99 as fn(&Measured) -> f64),
        ("hits, %", false, |run| 100.0 * run.hit_share()),
    ];
    let of_trouble = |trouble: Trouble| {
        charts.map(|(label, is_log, quantity)| {
            let names = PEERS.iter().chain(&OTHERS).map(|rule| rule.name());
            let names = names.chain([OURS, OWN_COUNTS, HINTS]);
            let lines = names.map(|name| line(plays, trouble, name, quantity));
            Chart {
                title: format!("{}, {HIGH} queries a second: {label}", trouble.name()),
                x: log_axis("balancers"),
                y: if is_log { log_axis(label) } else { axis(label) },
                plot: Plot::Lines(lines.collect()),
            }
        })
    };
    let all = cases();
    let troubles = [Trouble::Nothing, Trouble::SlowAndHot];
    let played = troubles.into_iter().filter(|trouble| {
        let mut cases = all.iter();
        cases.any(|case| case.trouble == *trouble && find(plays, *case, OURS).is_some())
    });
    played.flat_map(of_trouble).collect()
}

/// Returns a rule's quantity over the number of balancers.
fn line(
    plays: &Plays<'_>,
    trouble: Trouble,
    rule: &str,
    quantity: impl Fn(&Measured) -> f64,
) -> Line {
    let found = CLIENTS.iter().filter_map(|&clients| {
        let played = find(plays, Case::at_high_load(trouble, clients), rule)?;
        let interval = Estimate::mean(&of_seeds(played, &quantity))?.interval;
        Some(((clients as f64, quantity(&played.all)), interval))
    });
    let (points, intervals): (Vec<_>, Vec<_>) = found.unzip();
    Line {
        name: rule.to_owned(),
        points,
        interval: intervals
            .into_iter()
            .collect::<Option<_>>()
            .unwrap_or_default(),
        reference: false,
    }
}
