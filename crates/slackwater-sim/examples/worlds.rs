//! Hard worlds, or random scenarios, under policies of your choice, one line for each.
//!
//! `cargo run --release -p slackwater-sim --example worlds -- [--policies NAMES] [--only TEXT]
//! [--drawn SEED:FIRST-LAST] [--worst N] [--reports used|plain|all] [--seeds N] [--first-seed N]
//! [--threads N] [--list]`
//!
//! NAMES have commas between them: policies, clairvoyants, and `paper` for Prequal with the paper's
//! settings. TEXT is a part of a world's name; `--list` names the worlds. `--drawn` plays the
//! random scenarios of that seed and these numbers instead, each as it is, and prints them in
//! words. `--worst` shows only those that are worst for the first policy by p99 or p99.9.
//!
//! A cell has p50/p99/p99.9 in milliseconds, and the share of errors if there are any. At the end
//! of a line is the CPU time of the longest run. `--reports` is whether replicas learn their
//! capacity and responses carry it: for the policies that use it, for none, or for all. Below are
//! each policy's ratios to the best policy of a world, clairvoyants aside: the geometric mean and
//! the worst. In them errors of 1 % count as 20 % more time.

use core::error::Error;
use core::ops::RangeInclusive;
use core::sync::atomic::AtomicBool;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{C3Settings, DEFAULT_POLICY, PolicySettings, Settings};
use slackwater_sim::policy::PolicyKind;
use slackwater_sim::presets::{WORLDS, drawn, reporting_capacity};
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario, Seeds};
use std::io::{self, Write};
use std::sync::Arc;

type Fault = Box<dyn Error>;

const POLICIES: [&str; 8] = [
    DEFAULT_POLICY.name,
    "prequal",
    "paper",
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

/// The random scenarios to play.
#[derive(Debug)]
struct Drawings {
    seed: u64,
    numbers: RangeInclusive<u64>,
}

/// A scenario to play.
#[derive(Debug)]
struct Bed {
    name: String,
    about: String,
    scenario: Scenario,
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
    drawn: Option<Drawings>,
    worst: Option<usize>,
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
            drawn: None,
            worst: None,
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
                "--drawn" => options.drawn = Some(drawings(&value)?),
                "--worst" => options.worst = Some(value.parse()?),
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

/// Reads `SEED:NUMBER` or `SEED:FIRST-LAST`.
fn drawings(text: &str) -> Result<Drawings, Fault> {
    let (seed, numbers) = text.split_once(':').ok_or("--drawn is SEED:FIRST-LAST")?;
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    Ok(Drawings {
        seed: seed.parse()?,
        numbers: first.parse()?..=last.parse()?,
    })
}

/// Returns the scenarios to play.
fn beds(options: &Options) -> Vec<Bed> {
    if let Some(Drawings { seed, numbers }) = &options.drawn {
        let beds = numbers.clone().map(|number| {
            let drawn = drawn(*seed, number, None, None);
            Bed {
                name: format!("{seed}:{number}"),
                about: drawn.words,
                scenario: drawn.scenario,
            }
        });
        return beds.collect();
    }
    let worlds = WORLDS
        .iter()
        .filter(|world| world.name.contains(&options.only));
    let beds = worlds.map(|world| Bed {
        name: world.name.to_owned(),
        about: world.about.to_owned(),
        scenario: world.scenario(None, None),
    });
    beds.collect()
}

fn main() -> Result<(), Fault> {
    let options = Options::parse()?;
    let mut out = io::stdout().lock();
    let beds = beds(&options);
    if options.is_list {
        for bed in &beds {
            writeln!(out, "{:18} {}", bed.name, bed.about)?;
        }
        return Ok(());
    }
    let runs = play(&beds, &options)?;
    write!(out, "{:18}", "p50/p99/p99.9")?;
    for policy in &options.policies {
        write!(out, " {policy:>22.22}")?;
    }
    writeln!(out)?;
    let by_bed: Vec<&[Measured]> = runs.chunks(options.policies.len()).collect();
    let ratios: Vec<Vec<[f64; 2]>> = by_bed
        .iter()
        .map(|runs| ratios(runs, &options.policies))
        .collect();
    let shown_beds = shown_beds(&ratios, options.worst);
    for &number in &shown_beds {
        let (bed, runs) = (&beds[number], by_bed[number]);
        write!(out, "{:18}", bed.name)?;
        for run in runs {
            write!(out, " {:>22}", shown(run))?;
        }
        let cpu = runs.iter().map(|run| run.cpu).max().unwrap_or_default();
        writeln!(out, "  {:.1} s", cpu.as_secs_f64())?;
        if options.drawn.is_some() {
            writeln!(out, "                   {}", bed.about)?;
        }
    }
    for (name, quantile) in [("times best, p99", 0), ("times best, p99.9", 1)] {
        write!(out, "{name:18}")?;
        for policy in 0..options.policies.len() {
            let of_policy = ratios.iter().map(|ratios| ratios[policy][quantile]);
            let of_policy: Vec<f64> = of_policy.collect();
            let logarithms: f64 = of_policy.iter().map(|ratio| ratio.ln()).sum();
            let mean = (logarithms / of_policy.len() as f64).exp();
            let worst = of_policy
                .iter()
                .zip(&beds)
                .max_by(|a, b| a.0.total_cmp(b.0));
            let worst = worst.map_or_else(String::new, |(ratio, bed)| {
                format!("{mean:.2} ({ratio:.1} {:.10})", bed.name)
            });
            write!(out, " {worst:>22.22}")?;
        }
        writeln!(out)?;
    }
    let cpu: f64 = runs.iter().map(|run| run.cpu.as_secs_f64()).sum();
    writeln!(out, "{} runs, {cpu:.0} s of CPU", runs.len())?;
    Ok(())
}

/// Returns the numbers of the scenarios to show: all in order, or the worst for the first policy.
fn shown_beds(ratios: &[Vec<[f64; 2]>], worst: Option<usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..ratios.len()).collect();
    if let Some(worst) = worst {
        let ratio = |number: usize| ratios[number][0].into_iter().fold(0.0, f64::max);
        numbers.sort_by(|&a, &b| ratio(b).total_cmp(&ratio(a)));
        numbers.truncate(worst);
    }
    numbers
}

/// Returns the results of each policy in each scenario, all seeds together.
fn play(beds: &[Bed], options: &Options) -> Result<Vec<Measured>, Fault> {
    let seeds = Seeds::new(options.first_seed, options.seeds);
    let mut jobs = Vec::new();
    for bed in beds {
        let plain = Arc::new(bed.scenario.clone());
        let reporting = Arc::new(reporting_capacity(bed.scenario.clone()));
        for name in &options.policies {
            let policy = policy(name, plain.load.clients.len())
                .ok_or_else(|| format!("there is no policy {name}"))?;
            let reports = match options.reports {
                // A random scenario has its own reports.
                Reports::Used => policy.uses_capacity() && options.drawn.is_none(),
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

/// Returns each policy's p99 and p99.9, as multiples of the best policy's.
fn ratios(runs: &[Measured], names: &[String]) -> Vec<[f64; 2]> {
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
    let ratios = scores.into_iter();
    ratios
        .map(|score| [score[0] / best[0], score[1] / best[1]])
        .collect()
}
