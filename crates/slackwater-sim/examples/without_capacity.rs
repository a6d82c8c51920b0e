//! Compares policies where replicas report only RIF and latency, and no capacity: how far each is
//! from the best of the others.
//!
//! `cargo run --release -p slackwater-sim --example without_capacity [seeds [first seed
//! [threads]]]`
//!
//! The fleets are those of `slackwater sim beyond`; a run of a large one has 15 s after 10 s of
//! warm-up. A ratio is a policy's quantile over the lowest quantile of the reference policies,
//! fleet by fleet and seed by seed. Errors count as time: errors of 1 % count as 20 % more. Tables
//! go to standard output as Markdown: they are the evidence of Decision 0010.

use core::error::Error;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::policy::PolicySettings;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_sim::figure::{self, Effort};
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario, Seeds};
use std::io::{self, Write};
use std::sync::Arc;

type Fault = Box<dyn Error>;

/// A run of a large fleet.
const WARMUP: Duration = Duration::from_secs(10);
const SPAN: Duration = Duration::from_secs(15);
/// Weight of the share of errors.
const ERROR_WEIGHT: f64 = 20.0;

/// A policy as it is played here.
#[derive(Clone, Debug)]
struct Player {
    name: &'static str,
    policy: PolicyChoice,
    /// Other policies are compared with the best of the references.
    is_reference: bool,
}

/// A fleet, and the results of each player and seed.
#[derive(Debug)]
struct Fleet {
    name: String,
    scenario: Arc<Scenario>,
    /// p99 and p99.9 in milliseconds, including errors: by player, and then by seed.
    found: Vec<Vec<[f64; 2]>>,
}

fn main() -> Result<(), Fault> {
    let mut arguments = std::env::args().skip(1);
    let seeds = arguments.next().map_or(Ok(2), |seeds| seeds.parse())?;
    let first = arguments.next().map_or(Ok(1), |first| first.parse())?;
    let threads = arguments.next().map_or(Ok(2), |threads| threads.parse())?;
    let seeds = Seeds::new(first, seeds);
    let players = players()?;
    let mut fleets = fleets()?;
    play(&mut fleets, &players, &seeds, threads);
    let mut out = io::stdout().lock();
    writeln!(out, "| | large: p99 | p99.9 | small: p99 | p99.9 |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (index, player) in players.iter().enumerate() {
        write!(out, "| {} |", player.name)?;
        for is_large in [true, false] {
            for quantile in [0, 1] {
                let ratios = ratios(&fleets, &players, index, quantile, is_large);
                write!(out, " {} |", in_short(&ratios))?;
            }
        }
        writeln!(out)?;
    }
    write!(out, "\n|")?;
    for player in &players {
        write!(out, " | {}", player.name)?;
    }
    writeln!(out, " |\n|---|{}", "--:|".repeat(players.len()))?;
    for fleet in &fleets {
        write!(out, "| {} |", fleet.name)?;
        for of_player in &fleet.found {
            let [p99, p999] = [0, 1].map(|quantile| mean(of_player, quantile));
            let digits = usize::from(p99 < 100.0);
            write!(out, " {p99:.digits$} / {p999:.digits$} |")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn players() -> Result<Vec<Player>, Fault> {
    let prequal = |mut settings: PrequalSettings, quantile, pool_capacity| {
        settings.rif_limit_quantile = Quantile::from_millionths(quantile).unwrap_or(Quantile::ONE);
        settings.pool_capacity = pool_capacity;
        let mut all = PolicySettings::default();
        all.prequal = settings.validate().ok()?;
        PolicyChoice::with_settings("prequal", all)
    };
    let ours = PrequalSettings::default;
    let paper = PrequalSettings::paper;
    let rows = [
        (
            "rif_then_latency",
            PolicyChoice::named("rif_then_latency"),
            true,
        ),
        ("prequal, Q = 0.7", prequal(ours(), 700_000, 16), true),
        (
            "prequal, Q = 0.7, pool of 8",
            prequal(ours(), 700_000, 8),
            true,
        ),
        ("prequal, Q = 0", prequal(ours(), 0, 16), true),
        ("the paper's, Q = 0", prequal(paper(), 0, 16), true),
        ("the paper's, Q = 0.84", prequal(paper(), 840_896, 16), true),
        ("c3", PolicyChoice::named("c3"), false),
        (
            "**shortest_expected_delay**",
            PolicyChoice::named("shortest_expected_delay"),
            false,
        ),
    ];
    let players = rows.into_iter().map(|(name, policy, is_reference)| {
        Some(Player {
            name,
            policy: policy?,
            is_reference,
        })
    });
    let players: Option<Vec<_>> = players.collect();
    players.ok_or_else(|| "a policy is gone".into())
}

fn fleets() -> Result<Vec<Fleet>, Fault> {
    let figure = figure::named("beyond").ok_or("the figure is gone")?;
    let effort = Effort {
        seeds: Seeds::up_to(1),
        span: None,
        warmup: None,
    };
    let cells = figure.cells(&effort).into_iter();
    let cells = cells.filter(|cell| cell.policy.name == "peak_ewma");
    let fleets = cells.map(|cell| Fleet {
        scenario: if is_large(&cell.step) {
            Arc::new(Scenario {
                warmup: WARMUP,
                span: SPAN,
                ..Scenario::clone(&cell.scenario)
            })
        } else {
            cell.scenario
        },
        name: cell.step,
        found: Vec::new(),
    });
    Ok(fleets.collect())
}

/// Returns whether the fleet is large: only names of small fleets have a size, as in `web0.85 8x4`.
fn is_large(name: &str) -> bool {
    !name.contains(' ')
}

fn play(fleets: &mut [Fleet], players: &[Player], seeds: &Seeds, threads: usize) {
    let mut jobs = Vec::new();
    for fleet in &*fleets {
        for player in players {
            jobs.extend(seeds.iter().map(|seed| Job {
                scenario: Arc::clone(&fleet.scenario),
                policy: player.policy.clone(),
                seed,
            }));
        }
    }
    let runs = run_all(&jobs, threads, &|_| {}, &AtomicBool::new(false));
    let by_player: Vec<Vec<_>> = runs
        .chunks(seeds.count())
        .map(|runs| runs.iter().map(latencies).collect())
        .collect();
    for (fleet, found) in fleets.iter_mut().zip(by_player.chunks(players.len())) {
        fleet.found = found.to_vec();
    }
}

fn latencies(run: &Measured) -> [f64; 2] {
    [0.99, 0.999].map(|quantile| {
        let ms = run.latency.quantile(quantile).as_secs_f64() * 1e3;
        ms * (1.0 + ERROR_WEIGHT * run.error_share())
    })
}

/// Returns the player's ratios, each with its fleet.
fn ratios<'a>(
    fleets: &'a [Fleet],
    players: &[Player],
    player: usize,
    quantile: usize,
    large: bool,
) -> Vec<(f64, &'a str)> {
    let mut ratios = Vec::new();
    for fleet in fleets.iter().filter(|fleet| is_large(&fleet.name) == large) {
        for (seed, found) in fleet.found[player].iter().enumerate() {
            let references = players.iter().zip(&fleet.found);
            let references = references.filter(|(player, _)| player.is_reference);
            let best = references
                .map(|(_, found)| found[seed][quantile])
                .fold(f64::INFINITY, f64::min);
            ratios.push((found[quantile] / best, fleet.name.as_str()));
        }
    }
    ratios
}

/// Formats the geometric mean, and the worst ratio with its fleet.
fn in_short(ratios: &[(f64, &str)]) -> String {
    let logarithms: f64 = ratios.iter().map(|(ratio, _)| ratio.ln()).sum();
    let mean = (logarithms / ratios.len() as f64).exp();
    let worst = ratios.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    worst.map_or_else(String::new, |(worst, fleet)| {
        format!("{mean:.3} ({worst:.2}: {fleet})")
    })
}

fn mean(of_player: &[[f64; 2]], quantile: usize) -> f64 {
    let sum: f64 = of_player.iter().map(|found| found[quantile]).sum();
    sum / of_player.len() as f64
}
