//! Hard worlds under policies of your choice, one line for each world.
//!
//! `cargo run --release -p slackwater-sim --example worlds -- [--policies NAMES] [--only TEXT]
//! [--reports used|plain|all] [--seeds N] [--first-seed N] [--threads N]`
//!
//! NAMES have commas between them: policies, clairvoyants, and `paper` for Prequal with the paper's
//! settings. TEXT is a part of a world's name; `--list` names the worlds. A cell has p50/p99/p99.9
//! in milliseconds, and the share of errors if there are any. At the end of a line is the CPU time
//! of the longest run. `--reports` is whether replicas learn
//! their capacity and responses carry it: for the policies that use it, for none, or for all. Below
//! the worlds are each policy's ratios to the best policy of a world, clairvoyants aside: the
//! geometric mean and the worst. In them errors of 1 % count as 20 % more time.

use core::error::Error;
use core::sync::atomic::AtomicBool;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{C3Settings, DEFAULT_POLICY, PolicySettings, Settings};
use slackwater_sim::policy::PolicyKind;
use slackwater_sim::presets::{WORLDS, World, reporting_capacity};
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario, Seeds};
use std::io::{self, Write};
use std::sync::Arc;

type Fault = Box<dyn Error>;

const POLICIES: [&str; 9] = [
    DEFAULT_POLICY.name,
    "prequal",
    "paper",
    "capacity",
    "c3",
    "peak_ewma",
    "least_loaded",
    "rif_then_latency",
    "jsq",
];
const ERROR_WEIGHT: f64 = 20.0;

/// Whose replicas report capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reports {
    Used,
    Plain,
    All,
}

#[derive(Debug)]
struct Options {
    policies: Vec<String>,
    only: String,
    reports: Reports,
    seeds: u64,
    first_seed: u64,
    threads: usize,
    is_list: bool,
}

impl Options {
    fn parse() -> Result<Self, Fault> {
        let mut options = Self {
            policies: POLICIES.map(str::to_owned).to_vec(),
            only: String::new(),
            reports: Reports::Used,
            seeds: 1,
            first_seed: 1,
            threads: 1,
            is_list: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            if argument == "--list" {
                options.is_list = true;
                continue;
            }
            let value = arguments.next().ok_or("an option has no value")?;
            match argument.as_str() {
                "--policies" => options.policies = value.split(',').map(str::to_owned).collect(),
                "--only" => options.only = value,
                "--reports" => {
                    options.reports = match value.as_str() {
                        "used" => Reports::Used,
                        "plain" => Reports::Plain,
                        "all" => Reports::All,
                        _ => return Err("--reports is used, plain or all".into()),
                    }
                }
                "--seeds" => options.seeds = value.parse()?,
                "--first-seed" => options.first_seed = value.parse()?,
                "--threads" => options.threads = value.parse()?,
                other => return Err(format!("{other} is not an option").into()),
            }
        }
        Ok(options)
    }
}

fn main() -> Result<(), Fault> {
    let options = Options::parse()?;
    let mut out = io::stdout().lock();
    let worlds = WORLDS
        .iter()
        .filter(|world| world.name.contains(&options.only));
    if options.is_list {
        for world in worlds {
            writeln!(out, "{:18} {}", world.name, world.about)?;
        }
        return Ok(());
    }
    let worlds: Vec<&World> = worlds.collect();
    let runs = play(&worlds, &options)?;
    write!(out, "{:18}", "p50/p99/p99.9")?;
    for policy in &options.policies {
        write!(out, " {:>22.22}", policy)?;
    }
    writeln!(out)?;
    let mut ratios = vec![Vec::new(); options.policies.len()];
    for (world, runs) in worlds.iter().zip(runs.chunks(options.policies.len())) {
        write!(out, "{:18}", world.name)?;
        for run in runs {
            write!(out, " {:>22}", shown(run))?;
        }
        let cpu = runs.iter().map(|run| run.cpu).max().unwrap_or_default();
        writeln!(out, "  {:.1} s", cpu.as_secs_f64())?;
        add_ratios(&mut ratios, world, runs, &options.policies);
    }
    for (name, quantile) in [("times best, p99", 0), ("times best, p99.9", 1)] {
        write!(out, "{name:18}")?;
        for of_policy in &ratios {
            let logarithms: f64 = of_policy
                .iter()
                .map(|(ratio, _)| ratio[quantile].ln())
                .sum();
            let mean = (logarithms / of_policy.len() as f64).exp();
            let worst = of_policy
                .iter()
                .max_by(|a, b| a.0[quantile].total_cmp(&b.0[quantile]));
            let worst = worst.map_or_else(String::new, |(ratio, world)| {
                format!("{mean:.2} ({:.1} {world:.10})", ratio[quantile])
            });
            write!(out, " {worst:>22.22}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the results of each policy in each world, all seeds together.
fn play(worlds: &[&World], options: &Options) -> Result<Vec<Measured>, Fault> {
    let seeds = Seeds::new(options.first_seed, options.seeds);
    let mut jobs = Vec::new();
    for world in worlds {
        let plain = Arc::new(world.scenario(None, None));
        let reporting = Arc::new(reporting_capacity(Scenario::clone(&plain)));
        for name in &options.policies {
            let policy = policy(name, plain.load.clients.len())
                .ok_or_else(|| format!("there is no policy {name}"))?;
            let reports = match options.reports {
                Reports::Used => policy.uses_capacity(),
                Reports::Plain => false,
                Reports::All => true,
            };
            let scenario = if reports { &reporting } else { &plain };
            jobs.extend(seeds.iter().map(|seed| Job {
                scenario: Arc::clone(scenario),
                policy: policy.clone(),
                seed,
            }));
        }
    }
    let runs = run_all(&jobs, options.threads, &|_| {}, &AtomicBool::new(false));
    let together = runs.chunks(seeds.count()).map(Measured::together);
    let together: Option<Vec<_>> = together.collect();
    together.ok_or_else(|| "there are no seeds".into())
}

/// Returns the policy of that name, with the settings that fit this number of clients.
fn policy(name: &str, clients: usize) -> Option<PolicyChoice> {
    let mut settings = PolicySettings::default();
    match name {
        "paper" => {
            settings.prequal = PrequalSettings::paper().validate().ok()?;
            PolicyChoice::with_settings("prequal", settings)
        }
        "c3" => {
            let c3 = C3Settings {
                clients: u32::try_from(clients).ok()?,
                ..C3Settings::default()
            };
            settings.c3 = c3.validate().ok()?;
            PolicyChoice::with_settings("c3", settings)
        }
        _ => PolicyChoice::named(name),
    }
}

fn shown(run: &Measured) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| {
        let ms = run.latency.quantile(q).as_secs_f64() * 1e3;
        let digits = usize::from(ms < 100.0);
        format!("{ms:.digits$}")
    });
    let errors = if run.errors > 0 {
        format!(" {:.1}%", 100.0 * run.error_share())
    } else {
        String::new()
    };
    format!("{p50}/{p99}/{p999}{errors}")
}

/// Adds each policy's p99 and p99.9 in a world, as multiples of the best policy's.
fn add_ratios(
    ratios: &mut [Vec<([f64; 2], &'static str)>],
    world: &World,
    runs: &[Measured],
    names: &[String],
) {
    let scores: Vec<[f64; 2]> = runs
        .iter()
        .map(|run| {
            [0.99, 0.999].map(|q| {
                let ms = run.latency.quantile(q).as_secs_f64() * 1e3;
                ms * (1.0 + ERROR_WEIGHT * run.error_share())
            })
        })
        .collect();
    let is_bound = |name: &String| {
        let choice = PolicyChoice::named(name);
        choice.is_some_and(|choice| matches!(choice.kind, PolicyKind::Clairvoyant(_)))
    };
    let best = [0, 1].map(|quantile| {
        let real = scores.iter().zip(names).filter(|(_, name)| !is_bound(name));
        real.map(|(score, _)| score[quantile])
            .fold(f64::INFINITY, f64::min)
    });
    for (ratios, score) in ratios.iter_mut().zip(scores) {
        ratios.push(([score[0] / best[0], score[1] / best[1]], world.name));
    }
}
