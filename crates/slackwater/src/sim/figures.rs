//! The papers' figures: played, held against their claims, written.

use super::effort::{self, Effort, EffortArgs};
use super::progress::Meter;
use super::stop::Stop;
use super::written;
use crate::fault::Fault;
use crate::output::print;
use slackwater_sim::figure::{self, FIGURES, Figure, Findings, Verdict};
use slackwater_sim::report;
use std::path::PathBuf;
use std::time::Instant;

pub(super) const EXAMPLES: &str = "\
Examples:
  slackwater sim fig6                                       as in the paper: 3 seeds, 60 s after 60 s of warm-up
  slackwater sim fig6 --seeds 1 --seconds 10 --warmup 10    a first look
  slackwater sim all --out sim-results

Writes NAME.csv, NAME.html and NAME-N.svg into --out. That a claim is not reproduced is a finding and no failure.
Exit codes: 0 played and written; 1 failed, or with --strict a claim was not reproduced; 2 bad arguments; 130 stopped.";

/// Arguments of `slackwater sim fig6` and the others.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    effort: EffortArgs,
    /// Write CSV, HTML and SVG into this directory, which is made
    #[arg(long, value_name = "DIR", default_value = "sim-results")]
    out: PathBuf,
    /// End with exit code 1 if a claim is not reproduced
    #[arg(long)]
    strict: bool,
}

/// Lists the figures.
pub(super) fn list() -> Result<(), Fault> {
    let width = FIGURES
        .iter()
        .map(|figure| figure.name().len())
        .max()
        .unwrap_or(0);
    let lines = FIGURES
        .iter()
        .map(|figure| format!("{:<width$}  {}\n", figure.name(), figure.title()));
    print(&lines.collect::<String>())
}

/// Runs the figures one after another; each is written before the next one begins.
pub(super) fn run(figures: &[&'static dyn Figure], args: &Args) -> Result<(), Fault> {
    let effort = args.effort.effort()?;
    let stop = Stop::on_signals()?;
    let start = Instant::now();
    let mut done: Vec<(&dyn Figure, Findings)> = Vec::new();
    for (number, &figure) in figures.iter().enumerate() {
        let name = match figures.len() {
            1 => figure.name().to_owned(),
            all => format!("{} ({} of {all})", figure.name(), number + 1),
        };
        let findings = run_one(figure, name, &effort, args, &stop)?;
        let Some(findings) = findings else {
            let lost: Vec<_> = figures[number..]
                .iter()
                .map(|figure| figure.name())
                .collect();
            return Err(Stop::fault(&format!("{} not written", lost.join(", "))));
        };
        done.push((figure, findings));
    }
    if figures.len() > 1 {
        let about = written::run_info(effort.threads, start.elapsed());
        let done: Vec<_> = done
            .iter()
            .map(|(figure, findings)| (*figure, findings))
            .collect();
        let index = report::write_index(&args.out, &done, &about);
        written::told(index.map(|index| vec![index]))?;
    }
    match missed(&done) {
        0 => Ok(()),
        missed if args.strict => Err(Fault::runtime(format!(
            "--strict: {missed} claim{} not reproduced",
            if missed == 1 { " was" } else { "s were" }
        ))),
        _ => Ok(()),
    }
}

/// Plays and writes a figure; `None` if it was stopped before its end.
fn run_one(
    figure: &'static dyn Figure,
    name: String,
    effort: &Effort,
    args: &Args,
    stop: &Stop,
) -> Result<Option<Findings>, Fault> {
    let asked = figure::Effort {
        seeds: effort.seeds,
        span: effort.span,
        warmup: effort.warmup,
    };
    let cells = figure.cells(&asked);
    for cell in &cells {
        if let Some(mistake) = cell.scenario.mistakes().first() {
            return Err(Fault::usage(format!(
                "{} cannot be played with these --seconds and --warmup: {}: {}",
                figure.name(),
                mistake.field,
                mistake.message
            )));
        }
    }
    let meter = Meter::new(name);
    let progress = |progress| meter.show(progress);
    let played = figure::play(figure, &asked, effort.threads, &progress, stop.flag());
    let wall = meter.elapsed();
    drop(meter);
    if played.len() < cells.len() {
        return Ok(None);
    }
    let findings = figure.findings(&played);
    let runs = played.iter().flat_map(|played| &played.runs);
    let summary = effort::summary(runs, wall);
    print(&format!(
        "{}\n{summary}\n",
        report::summary(figure, &played, &findings)
    ))?;
    let about = written::run_info(effort.threads, wall);
    written::told(report::write(&args.out, figure, &played, &findings, &about))?;
    Ok(Some(findings))
}

/// Claims that were not reproduced.
fn missed(done: &[(&dyn Figure, Findings)]) -> usize {
    let claims = done.iter().flat_map(|(_, findings)| &findings.claims);
    claims
        .filter(|claim| claim.verdict == Verdict::NotReproduced)
        .count()
}
