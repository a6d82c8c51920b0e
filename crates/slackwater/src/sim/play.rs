//! `slackwater sim run`: a user's scenario under several policies, compared with the first.

use super::effort::{self, EffortArgs};
use super::file::ScenarioFile;
use super::memory;
use super::out;
use super::policies::{self, Around};
use super::progress::Meter;
use super::stop::Stop;
use super::summary;
use super::written;
use crate::output::print;
use slackwater_config::Fault;
use slackwater_sim::figure::{Cell, Played};
use slackwater_sim::report::with_thousands;
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario, Seeds, report};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  slackwater sim run my-fleet.toml --policy prequal --versus peak_ewma
  slackwater sim run my-fleet.toml --versus least_loaded --versus round_robin --seeds 10
  slackwater sim run my-fleet.toml --versus all --seconds 120 --out results

All policies get the same arrivals, costs and neighbours, seed by seed. Means over seeds have 95 %
intervals. Ratios are paired, each seed with itself. A scenario can be as short as six lines of
TOML; docs/reference/scenario.md lists its keys.
Exit codes: 0 it was played; 1 failed; 2 bad arguments or file; 130 stopped.";

/// Arguments of `slackwater sim run`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}{}", policies::help()))]
pub(super) struct Args {
    /// The scenario, a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The policy that the others are compared with
    #[arg(long, value_name = "NAME", default_value = "prequal")]
    policy: String,
    /// More policies, separated by commas, or "all"; may be given several times
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
    let effort = args.effort.effort();
    let ScenarioFile {
        mut scenario,
        settings,
        health,
    } = ScenarioFile::load(&args.file)?;
    effort.apply(&mut scenario)?;
    let chosen = chosen(args, &Around { settings, health })?;
    // Everything that can fail is checked before the run, which may take long.
    args.out.as_deref().map_or(Ok(()), out::check)?;
    let runs = memory::Runs {
        scenario: &scenario,
        count: chosen.len() * effort.seeds.count(),
    };
    memory::check(
        &[runs],
        effort.threads,
        memory::available(),
        memory::LOWER_ALL,
    )?;
    warn_of_luck(&scenario);
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
    written::report(report::write_comparison(
        out, &name, &title, &played, &about,
    ))
}

/// Plays each policy with each seed, as cells of step `name`; `None` if it was stopped.
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
    let queries = summary::queries_played(scenario) * jobs.len() as f64;
    meter.begin(jobs.len(), queries, effort.threads);
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
                load: summary::load_of(scenario),
                policy: policy.clone(),
                param: String::new(),
                scenario: Arc::clone(scenario),
            },
        })
    });
    played.collect()
}

/// The policy of `--policy`, then those of `--versus`.
fn chosen(args: &Args, around: &Around) -> Result<Vec<PolicyChoice>, Fault> {
    if args.policy.contains(',') {
        return Err(Fault::usage(format!(
            "--policy {}: takes one policy here, give the others with --versus",
            args.policy
        )));
    }
    let base = policies::choice("--policy", &args.policy, around)?;
    let mut versus = policies::choose("--versus", &args.versus, around)?;
    if policies::is_all(&args.versus) {
        versus.retain(|policy| policy.name != base.name);
    }
    if versus.iter().any(|policy| policy.name == base.name) {
        return Err(Fault::usage(format!(
            "--versus {}: is --policy already",
            base.name
        )));
    }
    Ok(core::iter::once(base).chain(versus).collect())
}

/// Warns if too few queries determine the tail for it to be meaningful.
fn warn_of_luck(scenario: &Scenario) {
    let queries = summary::queries(scenario);
    let name = match queries {
        _ if queries < 1_000.0 => "p99 and p99.9 are",
        _ if queries < 10_000.0 => "p99.9 is",
        _ => return,
    };
    let queries = with_thousands(&format!("{queries:.0}"));
    let _ = writeln!(
        std::io::stderr(),
        "warning: {name} decided by fewer than ten of some {queries} queries a seed; raise --seconds"
    );
}

fn title(name: &str, scenario: &Scenario, seeds: Seeds) -> String {
    let (what, times) = (summary::fleet_and_load(scenario), summary::times(scenario));
    format!("{name}: {what}, {times}, {seeds}")
}

/// The file's name without `.toml` and `.sim`, for the names of output files.
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
