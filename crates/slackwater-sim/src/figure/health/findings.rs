//! The claims about health, and the charts.

use super::cases::{
    COLD, EVERYWHERE, HEALS, LIES, Means, SINKHOLE, STOPPED, TROUBLES, fast_step, in_words,
};
use super::{CLAIMED, CLIENTS, IN_TROUBLE, LOADS, POLICIES, ROUND_ROBIN, SOME_CLIENTS};
use crate::Measured;
use crate::figure::cells::{Plays, latency_ms};
use crate::figure::charts::{axis, line, log_axis, reference};
use crate::figure::judge::{Bounds, claim, number};
use crate::figure::{Bars, Chart, Claim, Findings, Line, Played, Plot, Table};
use core::iter::successors;
use slackwater_core::tail::HedgeSettings;

/// Errors of round robin where one of four machines fails half of its queries, in per cent.
const ROUND_ROBIN_PERCENT: f64 = 12.5;
/// Seconds from healing until the replica has its fair share again.
const BACK_AFTER: usize = 10;
/// A share counts as fair from this part of the fair share on.
const FAIR: f64 = 0.8;
/// The policies of [`CLAIMED`] that do nothing themselves against failing replicas.
const DEFENCELESS: [&str; 3] = ["prequal", "least_loaded", "power_of_d"];
/// This policy avoids a replica for a minute after a failure. With error aversion it does not, and
/// trials find out whether the replica is back.
const PENALISING: &str = "peak_ewma";

pub(super) fn of(plays: &Plays<'_>) -> Findings {
    let mut claims = of_failing_fast(plays);
    claims.extend(of_sinkholes(plays));
    claims.extend(of_failing_fleets(plays));
    claims.extend(of_healing(plays));
    claims.extend(of_trouble(plays));
    let mut charts = error_charts(plays);
    charts.extend(
        [(HEALS, "heals"), (LIES, "says that it has healed")]
            .map(|(step, what)| share_chart(plays, step, what)),
    );
    charts.extend(TROUBLES.map(|name| trouble_chart(plays, name)));
    Findings {
        claims,
        charts,
        tables: vec![
            table("Failing replicas", plays, |step| !is_trouble(step)),
            table("Trouble", plays, is_trouble),
        ],
    }
}

fn error_percent(run: &Measured) -> f64 {
    100.0 * run.error_share()
}

/// Returns the share of queries that the first replica got, in per cent.
fn first_percent(run: &Measured) -> f64 {
    let first = run.queries_by_replica.first().copied().unwrap_or(0);
    100.0 * first as f64 / run.queries.max(1) as f64
}

fn with<'a>(plays: &Plays<'a>, means: Means) -> Plays<'a> {
    plays.only(|cell| cell.param == means.param())
}

/// Keeps the plays under any of the means that watch errors.
fn with_aversion<'a>(plays: &Plays<'a>) -> Plays<'a> {
    plays.only(|cell| {
        [Means::Errors, Means::All]
            .map(Means::param)
            .contains(&&*cell.param)
    })
}

/// Returns the highest value; `None` if there are none.
fn worst(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.max_by(f64::total_cmp)
}

/// Claims about one of four machines that fails half of its queries at once.
fn of_failing_fast(plays: &Plays<'_>) -> Vec<Claim> {
    let guarded = with_aversion(plays);
    let mut claims = Vec::new();
    for policy in CLAIMED {
        for (highest, asked) in [(0.6, 2.0), (0.9, ROUND_ROBIN_PERCENT)] {
            let within = LOADS.into_iter().filter(|&load| load <= highest);
            let steps: Vec<_> = within.map(fast_step).collect();
            let found = guarded.of(policy).only(|cell| steps.contains(&cell.step));
            let found = worst(found.iter().map(|played| error_percent(&played.all)));
            claims.extend(found.map(|found| {
                Bounds::at_most(asked, " %").judge(
                    format!("one of four fails half of its queries: with error aversion {policy} has fewer than {asked} % errors up to {:.0} % load", 100.0 * highest),
                    found,
                )
            }));
        }
    }
    let bare = with(plays, Means::Off);
    let step = fast_step(0.9);
    let falling = DEFENCELESS.map(|policy| bare.measured(&step, policy).map(error_percent));
    let least = falling.into_iter().flatten().min_by(f64::total_cmp);
    claims.extend(least.map(|found| {
        Bounds::at_least(ROUND_ROBIN_PERCENT, " %").judge(
            "without error aversion each of them has more errors at 90 % load than round robin, but for peak_ewma, which has a penalty of its own (the fewest)",
            found,
        )
    }));
    claims
}

fn named(name: &str, clients: usize) -> String {
    if clients == 1 {
        name.to_owned()
    } else {
        format!("{name} x{clients}")
    }
}

fn clients_in_words(clients: usize) -> String {
    if clients == 1 {
        "one client".to_owned()
    } else {
        format!("{clients} clients")
    }
}

fn of_sinkholes(plays: &Plays<'_>) -> Vec<Claim> {
    let guarded = with_aversion(plays);
    let claims = CLIENTS.into_iter().map(|clients| {
        let plays = guarded
            .at(&named(SINKHOLE, clients))
            .only(|cell| CLAIMED.contains(&&*cell.policy.name));
        let found = worst(plays.iter().map(|played| error_percent(&played.all)))?;
        Some(Bounds::at_most(0.5, " %").judge(
            format!(
                "one of twenty fails everything in 1 ms, {}: fewer than 0.5 % errors after the first second (the worst policy)",
                clients_in_words(clients)
            ),
            found,
        ))
    });
    claims.flatten().collect()
}

fn of_failing_fleets(plays: &Plays<'_>) -> Vec<Claim> {
    let claims = [1, SOME_CLIENTS].into_iter().map(|clients| {
        let plays = plays.at(&named(EVERYWHERE, clients));
        plays.iter().next()?;
        let ejected: u64 = plays
            .iter()
            .map(|played| played.all.health.ejections)
            .sum();
        Some(Bounds::at_most(0.0, "").judge(
            format!(
                "all replicas fail a quarter of their queries, {}: none is ejected (by all policies together)",
                clients_in_words(clients)
            ),
            ejected as f64,
        ))
    });
    claims.flatten().collect()
}

/// Returns the replica's share, as a multiple of the fair one, from [`BACK_AFTER`] seconds after
/// the replica heals or claims to have healed.
fn fair_share_after(played: &Played) -> Option<f64> {
    let scenario = &played.cell.scenario;
    let failure = scenario.fleet.first()?.failure?;
    let turns = failure.until.min(failure.reported_until);
    let since = turns.checked_sub(scenario.warmup)?.as_secs_f64().ceil();
    let first = successors(Some(0_usize), |second| Some(second + 1))
        .find(|&second| second as f64 >= since)?
        + BACK_AFTER;
    let shares = played.all.by_second.shares_of(0).skip(first).flatten();
    let shares: Vec<f64> = shares.collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    (!shares.is_empty()).then_some(mean * scenario.replicas() as f64)
}

fn of_healing(plays: &Plays<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for clients in [1, SOME_CLIENTS] {
        let words = clients_in_words(clients);
        let shares = |name: &str| -> Vec<f64> {
            let plays = plays.at(&named(name, clients));
            plays.iter().filter_map(fair_share_after).collect()
        };
        let least = shares(HEALS).into_iter().min_by(f64::total_cmp);
        claims.extend(least.map(|found| {
            Bounds::at_least(FAIR, "").judge(
                format!("who heals is back at its fair share within {BACK_AFTER} s, {words} (its share in fair ones from then on, of the policy with the least)"),
                found,
            )
        }));
        claims.extend(worst(shares(LIES).into_iter()).map(|found| {
            Bounds::at_most(FAIR / 2.0, "").judge(
                format!("who only says so is not, {words} (of the policy with the most)"),
                found,
            )
        }));
    }
    claims
}

fn is_trouble(step: &str) -> bool {
    TROUBLES.iter().any(|name| step.starts_with(name))
}

fn of_trouble(plays: &Plays<'_>) -> Vec<Claim> {
    let guarded = with(plays, Means::All);
    let mut claims = Vec::new();
    let all = guarded.at(STOPPED);
    claims.extend(worst(all.iter().map(|played| error_percent(&played.all))).map(|found| {
        Bounds::at_most(0.5, " %").judge(
            "one of ten stands still for 30 s: with all means fewer than 0.5 % errors under any policy (the worst one)",
            found,
        )
    }));
    let of_cold = |means| {
        let run = with(plays, means).measured(COLD, ROUND_ROBIN)?;
        Some(latency_ms(run, 0.999))
    };
    if let (Some(off), Some(on)) = (of_cold(Means::Off), of_cold(Means::WarmUp)) {
        claims.push(claim(
            "one of ten joins ten times as slow: with warm-up by evidence round robin's p99.9 is at most a half",
            format!("{} ms against {} ms", number(on), number(off)),
            on <= off / 2.0,
        ));
    }
    // A means against one trouble must not cost anything in another.
    let ratios = guarded
        .iter()
        .filter(|played| is_trouble(&played.cell.step));
    let ratios = ratios.filter_map(|played| {
        let bare = with(plays, Means::Off).measured(&played.cell.step, &played.cell.policy.name)?;
        let ratio = latency_ms(&played.all, 0.999) / latency_ms(bare, 0.999);
        Some((ratio, &played.cell))
    });
    // Peak EWMA has its own penalty, which health replaces, so its bound is wider.
    let (penalising, others): (Vec<_>, Vec<_>) =
        ratios.partition(|(_, cell)| cell.policy.name == PENALISING);
    for (ratios, most, words) in [
        (
            others,
            1.1,
            "more than a tenth above that without, but for peak_ewma",
        ),
        (
            penalising,
            1.25,
            "more than a quarter above that of peak_ewma with its own penalty, which tries no replica again within a minute",
        ),
    ] {
        let worse = (ratios.into_iter()).max_by(|(a, _), (b, _)| a.total_cmp(b));
        claims.extend(worse.map(|(ratio, cell)| {
            claim(
                format!("in no trouble is p99.9 with all means {words}"),
                format!(
                    "at most {} times, with {} in {}",
                    number(ratio),
                    cell.policy.name,
                    cell.step
                ),
                ratio <= most,
            )
        }));
    }
    let trials = worst(plays.iter().map(|played| 100.0 * played.all.trial_share()));
    claims.extend(trials.map(|found| {
        Bounds::at_most(1.0, " %").judge("trials are at most 1 % of queries, anywhere", found)
    }));
    let copies = worst(plays.iter().map(copies_percent));
    claims.extend(copies.map(|found| {
        Bounds::at_most(2.0, " %").judge(
            "hedging at its default budget sends at most 2 % more queries, anywhere, but for the ten that each client has saved",
            found,
        )
    }));
    claims
}

/// Returns the second copies paid for by measured queries, in per cent of queries.
fn copies_percent(played: &Played) -> f64 {
    let clients = played.cell.scenario.load.clients.len() * played.runs.len();
    let saved = u64::from(HedgeSettings::default().burst) * clients as u64;
    100.0 * played.all.hedges.saturating_sub(saved) as f64 / played.all.queries.max(1) as f64
}

const LOAD_AXIS: &str = "load, as a share of what four machines can do";

fn error_charts(plays: &Plays<'_>) -> Vec<Chart> {
    let fast = plays.only(|cell| LOADS.map(fast_step).contains(&cell.step));
    let lines = |means, quantity: fn(&Measured) -> f64| -> Vec<Line> {
        let plays = with(&fast, means);
        let load = |played: &Played| played.cell.load;
        POLICIES
            .into_iter()
            .map(|policy| line(policy, &plays.of(policy), load, quantity))
            .collect()
    };
    let with_bounds = |mut lines: Vec<Line>| {
        let highest = LOADS.into_iter().fold(0.0, f64::max);
        lines.push(reference(
            "round robin, as it must be",
            &[
                (LOADS[0], ROUND_ROBIN_PERCENT),
                (highest, ROUND_ROBIN_PERCENT),
            ],
        ));
        lines.push(reference(
            "the least possible",
            &LOADS.map(|load| (load, least_percent(load))),
        ));
        lines
    };
    let errors = |title: &str, means| Chart {
        title: title.to_owned(),
        x: axis(LOAD_AXIS),
        y: axis("errors, % of queries"),
        plot: Plot::Lines(with_bounds(lines(means, error_percent))),
    };
    vec![
        errors(
            "Errors without error aversion, one of four failing half of its queries",
            Means::Off,
        ),
        errors(
            "Errors with error aversion, one of four failing half of its queries",
            Means::Errors,
        ),
        Chart {
            title: "p99 of latency with error aversion".to_owned(),
            x: axis(LOAD_AXIS),
            y: log_axis("latency, ms"),
            plot: Plot::Lines(lines(Means::Errors, |run| latency_ms(run, 0.99))),
        },
    ]
}

/// Returns the fewest errors where one of four fails half of its queries at no cost, in per cent.
/// Queries that exceed the capacity of the other three go to the failing one, and half of them
/// fail.
fn least_percent(load: f64) -> f64 {
    100.0 * (1.0 - 0.75 / load).max(0.0) / 2.0
}

/// Makes a chart of the first replica's share, second by second.
fn share_chart(plays: &Plays<'_>, step: &str, what: &str) -> Chart {
    let lines = plays.at(step);
    let lines = lines.iter().map(|played| {
        let shares = played.all.by_second.shares_of(0).enumerate();
        Line {
            name: played.cell.policy.name.clone(),
            points: shares
                .filter_map(|(second, share)| Some((second as f64, 100.0 * share?)))
                .collect(),
            interval: Vec::new(),
            reference: false,
        }
    });
    Chart {
        title: format!("The share of one of four that fails half of its queries and {what}"),
        x: axis("seconds"),
        y: axis("share of all queries, %"),
        plot: Plot::Lines(lines.collect()),
    }
}

fn trouble_chart(plays: &Plays<'_>, name: &str) -> Chart {
    let p999 = |policy, means| {
        let run = with(plays, means).measured(name, policy);
        run.map_or(0.0, |run| latency_ms(run, 0.999))
    };
    let series = Means::EACH.map(|means| Bars {
        name: means.words().to_owned(),
        values: IN_TROUBLE.map(|policy| p999(policy, means)).to_vec(),
        marks: vec![None; IN_TROUBLE.len()],
    });
    Chart {
        title: format!("p99.9 of latency: {}", in_words(name)),
        x: axis("policy"),
        y: log_axis("latency, ms"),
        plot: Plot::Bars {
            groups: IN_TROUBLE.map(str::to_owned).to_vec(),
            series: series.to_vec(),
            limit: None,
        },
    }
}

fn table(title: &str, plays: &Plays<'_>, kept: impl Fn(&str) -> bool) -> Table {
    let columns = [
        "case",
        "policy",
        "means",
        "errors, %",
        "p50, ms",
        "p99, ms",
        "p99.9, ms",
        "to the first replica, %",
        "trials, %",
        "second copies, %",
        "ejected",
        "on probation",
        "back",
    ];
    let rows = plays.only(|cell| kept(&cell.step));
    Table {
        title: format!("{title}: what came out, and how often clients took replicas out and back"),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}

fn row(played: &Played) -> Vec<String> {
    let (cell, run) = (&played.cell, &played.all);
    let means = cell.param.trim_start_matches("health=");
    let mut row = vec![
        cell.step.clone(),
        cell.policy.name.clone(),
        means.to_owned(),
    ];
    row.push(number(error_percent(run)));
    row.extend([0.5, 0.99, 0.999].map(|q| number(latency_ms(run, q))));
    row.push(number(first_percent(run)));
    row.push(number(100.0 * run.trial_share()));
    row.push(number(100.0 * run.hedge_share()));
    let health = run.health;
    row.extend(
        [health.ejections, health.probations, health.readmissions].map(|count| count.to_string()),
    );
    row
}
