//! The defaults beside their alternatives: the latency estimator, the cap on reuse, and the RIF
//! limit's quantile.
//!
//! `cargo run --release -p slackwater-sim --example defaults [seeds [first seed [threads]]]`
//!
//! Each alternative is played with everything else at its default: on the testbed, on its unequal
//! halves, on 64 single-threaded replicas, on fast web replicas, and on small fleets. Tables go to
//! standard output as Markdown: they are the evidence of Decisions 0004 and 0005.

use core::error::Error;
use core::iter::once;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::policy::PolicySettings;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::tracker::TrackerConfig;
use slackwater_sim::figure::{self, Effort};
use slackwater_sim::presets::{at_load, slow_pod, testbed, unequal_halves, web};
use slackwater_sim::runner::{Job, Progress, run_all};
use slackwater_sim::scenario::Cost;
use slackwater_sim::{Measured, PolicyChoice, Scenario, Seeds};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

/// The reference for Prequal on small fleets.
const BASE: &str = "least_loaded";
/// A p99 above this many times the reference's p99 is a runaway.
const RUNAWAY: f64 = 2.0;
/// The small fleets that are played: these workloads and sizes of `slackwater sim small-fleets`.
const WORKLOADS: [&str; 5] = ["tb1.57", "het1.03", "web0.85", "web0.85hob", "fifo0.75"];
const REPLICAS: [usize; 4] = [3, 8, 25, 32];

type Fault = Box<dyn Error>;

/// A combination of settings.
#[derive(Clone, Debug)]
struct Alternative {
    name: String,
    prequal: PrequalSettings,
    tracker: TrackerConfig,
}

/// A fleet to play on.
#[derive(Debug)]
struct Bed {
    name: String,
    scenario: Scenario,
}

/// All fleets, and how thoroughly they are played.
#[derive(Debug)]
struct Beds {
    large: Vec<Bed>,
    small: Vec<Bed>,
    /// [`BASE`]'s p99 on each small fleet, in milliseconds.
    base_ms: Vec<f64>,
    seeds: Seeds,
    threads: usize,
}

fn main() -> Result<(), Fault> {
    let mut arguments = std::env::args().skip(1);
    let seeds = arguments.next().map_or(Ok(2), |seeds| seeds.parse())?;
    let first = arguments.next().map_or(Ok(1), |first| first.parse())?;
    let threads = arguments.next().map_or(Ok(2), |threads| threads.parse())?;
    let mut beds = Beds {
        large: large_beds(),
        small: small_beds()?,
        base_ms: Vec::new(),
        seeds: Seeds::new(first, seeds),
        threads,
    };
    let base = PolicyChoice::named(BASE).ok_or("the policy is gone")?;
    let runs = beds.play(&beds.small, &base, &TrackerConfig::default());
    beds.base_ms = runs.iter().map(|run| ms(run, 0.99)).collect();

    let mut out = io::stdout().lock();
    let by_default = beds.row(&default("**the defaults**"))?;
    for (title, alternatives) in [
        ("All three", whole()),
        ("The latency estimator", estimators()),
        ("The cap on reuse", reuse_caps()),
        ("The quantile of the RIF limit", quantiles()),
    ] {
        writeln!(out, "## {title}\n\n{}\n{by_default}", beds.head())?;
        for alternative in &alternatives {
            writeln!(out, "{}", beds.row(alternative)?)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn default(name: impl Into<String>) -> Alternative {
    Alternative {
        name: name.into(),
        prequal: PrequalSettings::default(),
        tracker: TrackerConfig::default(),
    }
}

/// Returns the estimator that the paper alone suggests: all recent latencies, or the two newest if
/// none is recent.
fn two_newest() -> TrackerConfig {
    TrackerConfig {
        window_samples_min: 2,
        remembered_samples_max: 2,
        sample_age_max: Duration::from_secs(10),
        ..TrackerConfig::default()
    }
}

fn whole() -> Vec<Alternative> {
    let paper = Alternative {
        prequal: PrequalSettings::paper(),
        ..default("the paper's Q and reuse")
    };
    let literal = Alternative {
        name: "and 20 ms, or the two newest of 10 s".to_owned(),
        tracker: two_newest(),
        ..paper.clone()
    };
    vec![paper, literal]
}

fn estimators() -> Vec<Alternative> {
    let aged = |seconds| TrackerConfig {
        sample_age_max: Duration::from_secs(seconds),
        ..TrackerConfig::default()
    };
    let no_memory = TrackerConfig {
        window_samples_min: 1,
        remembered_samples_max: 0,
        ..TrackerConfig::default()
    };
    let memory_alone = TrackerConfig {
        window_samples_min: usize::MAX,
        ..TrackerConfig::default()
    };
    let longer = TrackerConfig {
        window_samples_min: TrackerConfig::default().remembered_samples_max,
        ..TrackerConfig::default()
    };
    let estimators = [
        ("samples up to 1 s old", aged(1)),
        ("up to 10 s", aged(10)),
        ("of any age", aged(u64::MAX)),
        ("20 ms, or the two newest of 10 s", two_newest()),
        ("20 ms, or unknown", no_memory),
        ("20 ms only if they hold 16 or more", longer),
        ("the 16 newest of 3 s, no window", memory_alone),
    ];
    let alternative = |(name, tracker)| Alternative {
        tracker,
        ..default(name)
    };
    estimators.into_iter().map(alternative).collect()
}

fn reuse_caps() -> Vec<Alternative> {
    let alternative = |reuse_max: u16| {
        let mut alternative = default(format!("`reuse_max = {reuse_max}`"));
        alternative.prequal.reuse_max = reuse_max;
        alternative
    };
    let paper = PrequalSettings::paper().reuse_max;
    [2, 4, paper].into_iter().map(alternative).collect()
}

fn quantiles() -> Vec<Alternative> {
    let alternative = |hundredths: u32| {
        let mut alternative = default(format!("Q = {:.2}", f64::from(hundredths) / 100.0));
        if let Some(quantile) = Quantile::from_millionths(hundredths * 10_000) {
            alternative.prequal.rif_limit_quantile = quantile;
        }
        alternative
    };
    [0, 50, 60, 80, 84, 90]
        .into_iter()
        .map(alternative)
        .collect()
}

fn large_beds() -> Vec<Bed> {
    let fast = Scenario {
        cost: Cost::Exponential(Duration::from_micros(500)),
        ..web(8, 4, 0.0)
    };
    let bed = |name: &str, seconds, scenario| Bed {
        name: name.to_owned(),
        scenario: Scenario {
            warmup: Duration::from_secs(seconds) / 2,
            span: Duration::from_secs(seconds),
            ..scenario
        },
    };
    vec![
        bed("testbed at 1.27", 40, at_load(1.27, testbed())),
        bed("testbed at 1.74", 40, at_load(1.74, testbed())),
        bed(
            "its unequal halves at 1.03",
            40,
            at_load(1.03, unequal_halves(testbed())),
        ),
        bed("fifo 64x6 at 0.82", 40, slow_pod(64, 6)),
        bed("web of 0.5 ms, 8x4 at 0.85", 4, at_load(0.85, fast)),
    ]
}

fn small_beds() -> Result<Vec<Bed>, Fault> {
    let figure = figure::named("small-fleets").ok_or("the figure is gone")?;
    let effort = Effort {
        seeds: Seeds::up_to(1),
        span: None,
        warmup: None,
    };
    let beds = figure.cells(&effort).into_iter();
    let beds = beds
        .filter(|cell| cell.policy.name == BASE)
        .map(|cell| Bed {
            name: cell.step,
            scenario: Scenario::clone(&cell.scenario),
        });
    Ok(beds
        .filter(|bed| WORKLOADS.contains(&bed.workload()))
        .filter(|bed| REPLICAS.contains(&bed.scenario.replicas()))
        .collect())
}

impl Bed {
    /// Returns `web0.85` of `web0.85 8x4`.
    fn workload(&self) -> &str {
        self.name.split(' ').next().unwrap_or(&self.name)
    }

    /// Returns `8x4` of `web0.85 8x4`.
    fn size(&self) -> &str {
        self.name.split(' ').next_back().unwrap_or(&self.name)
    }
}

impl Beds {
    fn head(&self) -> String {
        let large = self.large.iter().map(|bed| bed.name.as_str());
        let names = once("")
            .chain(large)
            .chain(WORKLOADS)
            .chain(once("runaways"));
        let names: Vec<String> = names.map(str::to_owned).collect();
        format!("{}\n|{}", line(&names), "---|".repeat(names.len()))
    }

    fn row(&self, alternative: &Alternative) -> Result<String, Fault> {
        let mut settings = PolicySettings::default();
        settings.prequal = alternative.prequal.clone().validate()?;
        let policy =
            PolicyChoice::with_settings("prequal", settings).ok_or("the policy is gone")?;
        let mut cells = vec![alternative.name.clone()];
        let runs = self.play(&self.large, &policy, &alternative.tracker);
        cells.extend(runs.iter().map(latencies));
        let runs = self.play(&self.small, &policy, &alternative.tracker);
        let ratios = runs.iter().zip(&self.base_ms);
        let ratios: Vec<f64> = ratios
            .map(|(run, base_ms)| ms(run, 0.99) / base_ms)
            .collect();
        cells.extend(WORKLOADS.map(|workload| self.ratios_in(workload, &ratios)));
        let runaways = ratios.iter().filter(|ratio| **ratio > RUNAWAY).count();
        cells.push(format!("{runaways} of {}", ratios.len()));
        Ok(line(&cells))
    }

    /// Formats one workload's fleets: the geometric mean of the ratios, and the worst of them.
    fn ratios_in(&self, workload: &str, ratios: &[f64]) -> String {
        let of_this: Vec<(f64, &Bed)> = ratios
            .iter()
            .copied()
            .zip(&self.small)
            .filter(|(_, bed)| bed.workload() == workload)
            .collect();
        let Some((worst, bed)) = of_this.iter().max_by(|(a, _), (b, _)| a.total_cmp(b)) else {
            return String::new();
        };
        let logarithms: f64 = of_this.iter().map(|(ratio, _)| ratio.ln()).sum();
        let mean = (logarithms / of_this.len() as f64).exp();
        format!("{mean:.2} ({worst:.2}: {})", bed.size())
    }

    /// Plays each of `beds`, and returns the results of all seeds together.
    fn play(&self, beds: &[Bed], policy: &PolicyChoice, tracker: &TrackerConfig) -> Vec<Measured> {
        let mut jobs = Vec::new();
        for bed in beds {
            let mut scenario = bed.scenario.clone();
            for group in &mut scenario.fleet {
                group.tracker = tracker.clone();
            }
            let scenario = Arc::new(scenario);
            jobs.extend(self.seeds.iter().map(|seed| Job {
                scenario: Arc::clone(&scenario),
                policy: policy.clone(),
                seed,
            }));
        }
        let runs = run_all(&jobs, self.threads, &show, &AtomicBool::new(false));
        let runs = runs.chunks(self.seeds.count());
        runs.filter_map(Measured::together).collect()
    }
}

/// Formats a row of a table.
fn line(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// Formats p50, p99 and p99.9 in milliseconds, and errors if there are any.
fn latencies(run: &Measured) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| ms(run, q));
    let digits = usize::from(p50 < 10.0);
    let latencies = format!("{p50:.digits$} / {p99:.digits$} / {p999:.digits$}");
    match run.errors {
        0 => latencies,
        errors => format!("{latencies} ({errors} errors)"),
    }
}

/// Shows how far the runs of one alternative are.
fn show(progress: Progress) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        // Progress is only informative, so a failed write is ignored.
        let _ = write!(err, "\r{:>3.0} % ", progress.share * 100.0);
    }
}

fn ms(run: &Measured, q: f64) -> f64 {
    run.latency.quantile(q).as_secs_f64() * 1e3
}
