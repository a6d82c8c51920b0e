//! `slackwater sim run`: a user's scenario under several policies, compared with the first.

use super::effort::{self, EffortArgs};
use super::file::ScenarioFile;
use super::policies;
use super::progress::Meter;
use super::stop::Stop;
use super::written;
use crate::fault::Fault;
use crate::output::print;
use core::fmt::Write;
use slackwater_sim::figure::{Cell, Played};
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario, Seeds, report};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  slackwater sim run my-fleet.toml --policy prequal --versus peak_ewma
  slackwater sim run my-fleet.toml --versus least_loaded,round_robin --seeds 10 --seconds 120 --out results

All policies meet the same arrivals, costs and neighbours, seed by seed. Means over seeds have 95 % intervals; ratios are
paired, each seed with itself. The file's keys are in docs/scenario.md.
Exit codes: 0 it was played; 1 failed; 2 bad arguments or file; 130 stopped.";

/// Arguments of `slackwater sim run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenario, a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The policy that the others are compared with
    #[arg(long, value_name = "NAME", default_value = "prequal")]
    policy: String,
    /// More policies, separated by commas
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    versus: Vec<String>,
    #[command(flatten)]
    effort: EffortArgs,
    /// Write FILE's name with .csv and .html into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs `slackwater sim run`.
pub(super) fn run(args: &Args) -> Result<(), Fault> {
    let effort = args.effort.effort()?;
    let ScenarioFile {
        mut scenario,
        settings,
    } = ScenarioFile::load(&args.file)?;
    effort.apply(&mut scenario)?;
    let mut chosen = policies::choose("--policy", core::slice::from_ref(&args.policy), &settings)?;
    let versus = policies::choose("--versus", &args.versus, &settings)?;
    if versus.iter().any(|policy| policy.name == args.policy) {
        return Err(Fault::usage(format!(
            "--versus {}: is --policy already",
            args.policy
        )));
    }
    chosen.extend(versus);
    let name = name_of(&args.file);
    let title = title(&name, &scenario, effort.seeds);
    let scenario = Arc::new(scenario);

    let stop = Stop::on_signals()?;
    let meter = Meter::new("run");
    let played = play(&name, &scenario, &chosen, &effort, &meter, &stop)
        .ok_or_else(|| Stop::fault("nothing was written"))?;
    let wall = meter.elapsed();
    drop(meter);

    let runs = played.iter().flat_map(|played| &played.runs);
    let summary = effort::summary(runs, wall);
    print(&format!(
        "{}\n{summary}\n",
        report::comparison(&title, &played)
    ))?;
    let Some(out) = &args.out else {
        return Ok(());
    };
    let about = written::run_info(effort.threads, wall);
    written::told(report::write_comparison(
        out, &name, &title, &played, &about,
    ))
}

/// Each policy with each seed, as cells of step `name`; `None` if it was stopped.
fn play(
    name: &str,
    scenario: &Arc<Scenario>,
    policies: &[PolicyChoice],
    effort: &effort::Effort,
    meter: &Meter,
    stop: &Stop,
) -> Option<Vec<Played>> {
    let job = |policy: &PolicyChoice, seed| Job {
        scenario: Arc::clone(scenario),
        policy: policy.clone(),
        seed,
    };
    let jobs: Vec<_> = (policies.iter())
        .flat_map(|policy| effort.seeds.iter().map(move |seed| job(policy, seed)))
        .collect();
    let progress = |progress| meter.show(progress);
    let mut runs = run_all(&jobs, effort.threads, &progress, stop.flag());
    if runs.len() < jobs.len() {
        return None;
    }
    let played = policies.iter().map(|policy| {
        let seeds = effort.seeds.count().min(runs.len());
        let own: Vec<_> = runs.drain(..seeds).collect();
        Some(Played {
            all: Measured::together(&own)?,
            runs: own,
            cell: Cell {
                step: name.to_owned(),
                load: load_of(scenario),
                policy: policy.clone(),
                param: String::new(),
                scenario: Arc::clone(scenario),
            },
        })
    });
    played.collect()
}

/// The load as a share of what the fleet can do; 0 where it takes any load.
fn load_of(scenario: &Scenario) -> f64 {
    let whole = slackwater_sim::presets::rate_at(1.0, &scenario.fleet, &scenario.cost);
    if whole > 0.0 {
        scenario.load.rate / whole
    } else {
        0.0
    }
}

fn title(name: &str, scenario: &Scenario, seeds: Seeds) -> String {
    let mut title = name.to_owned();
    let (replicas, clients) = (scenario.replicas(), scenario.load.clients.len());
    // Writing to a string does not fail.
    let _ = write!(
        title,
        ": {replicas} replicas, {clients} clients, {:.1} queries/s",
        scenario.load.rate
    );
    let load = load_of(scenario);
    if load > 0.0 {
        let _ = write!(title, " ({:.0} % of what the fleet can do)", load * 100.0);
    }
    let (warmup, span) = (scenario.warmup.as_secs_f64(), scenario.span.as_secs_f64());
    let _ = write!(title, ", {span} s after {warmup} s of warm-up, {seeds}");
    title
}

/// The file's name without `.toml` and `.sim`, for what is written.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".toml").unwrap_or(&name);
    let name = name.strip_suffix(".sim").unwrap_or(name);
    if name.is_empty() {
        "scenario".to_owned()
    } else {
        name.to_owned()
    }
}
