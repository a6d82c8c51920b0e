//! The papers' figures: plays them, checks their claims, writes them.

use super::effort::{self, Effort, EffortArgs};
use super::memory::{self, Runs};
use super::out;
use super::progress::Meter;
use super::stop::Stop;
use super::summary;
use super::written;
use crate::output::print;
use core::fmt::Write;
use slackwater_config::Fault;
use slackwater_sim::figure::{self, Cell, FIGURES, Figure, Findings, Verdict};
use slackwater_sim::report;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Returns the last part of the help of a figure, or of all.
pub(super) fn examples(name: &str) -> String {
    format!(
        "\
Examples:
  slackwater sim {name}
  slackwater sim {name} --seeds 1 --seconds 10 --warmup 10   # a first look
  slackwater sim {name} --out sim-results --strict

Writes NAME.csv, NAME.html and NAME-N.svg.
A claim that is not reproduced is a finding, not a failure.
Exit codes: 0 played and written; 1 failed, or --strict and a claim was not reproduced;
2 bad arguments; 130 stopped."
    )
}

pub(super) const OVERVIEW: &str = "\
Examples:
  slackwater sim fig6                                      a figure of the paper, with its claims
  slackwater sim all --out sim-results                     all figures
  slackwater sim run my-fleet.toml --policy prequal --versus peak_ewma
  slackwater sim size my-fleet.toml --slo p99.9=300ms

Exit codes: 0 done; 1 failed; 2 bad arguments or scenario; 130 stopped by Ctrl-C.";

/// Arguments of `slackwater sim fig6` and the others.
#[derive(Debug, clap::Args)]
#[command(after_help = examples("all"))]
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
    let effort = args.effort.effort();
    out::check(&args.out)?;
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
            let (written, lost) = figures.split_at(number);
            return Err(Stop::fault(&lost_and_kept(lost, written, &args.out)));
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
        written::report(index.map(|index| vec![index]))?;
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
    refuse(figure, &cells, effort, memory::available())?;
    let meter = Meter::new(name);
    let seeds = effort.seeds.count();
    let queries: f64 = cells
        .iter()
        .map(|cell| summary::queries_played(&cell.scenario))
        .sum();
    meter.begin(cells.len() * seeds, queries * seeds as f64, effort.threads);
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
    written::report(report::write(&args.out, figure, &played, &findings, &about))?;
    Ok(Some(findings))
}

/// Reports why the cells cannot be played, if they cannot: not at all, or not in this many bytes of
/// memory.
fn refuse(
    figure: &dyn Figure,
    cells: &[Cell],
    effort: &Effort,
    available: Option<f64>,
) -> Result<(), Fault> {
    for cell in cells {
        if let Some(mistake) = cell.scenario.mistakes().first() {
            return Err(Fault::usage(format!(
                "{} cannot be played with these --seconds and --warmup: {}: {}",
                figure.name(),
                mistake.field,
                mistake.message
            )));
        }
    }
    let runs = cells.iter().map(|cell| Runs {
        scenario: &cell.scenario,
        count: effort.seeds.count(),
    });
    let lower = "lower --seconds, --warmup or --seeds";
    memory::check(&runs.collect::<Vec<_>>(), effort.threads, available, lower)
}

/// What was lost by a stop, and what is kept: `fig7, fig8 not written; fig3, fig6 in DIR, without
/// an index`.
fn lost_and_kept(lost: &[&dyn Figure], written: &[&dyn Figure], out: &Path) -> String {
    let names = |figures: &[&dyn Figure]| {
        let names: Vec<_> = figures.iter().map(|figure| figure.name()).collect();
        names.join(", ")
    };
    let mut text = format!("{} not written", names(lost));
    if !written.is_empty() {
        let (kept, out) = (names(written), out.display());
        // Writing to a string does not fail.
        let _ = write!(text, "; {kept} in {out}, without an index");
    }
    text
}

/// The number of claims that were not reproduced.
fn missed(done: &[(&dyn Figure, Findings)]) -> usize {
    let claims = done.iter().flat_map(|(_, findings)| &findings.claims);
    claims
        .filter(|claim| claim.verdict == Verdict::NotReproduced)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use slackwater_sim::Seeds;

    #[test]
    fn figure_that_does_not_fit_in_memory_is_refused() {
        let figure = FIGURES[1];
        assert_eq!(figure.name(), "fig6");
        let refused = |seconds, threads, available| {
            let effort = Effort {
                seeds: Seeds::new(1, 3),
                span: Some(Duration::from_secs(seconds)),
                warmup: None,
                threads,
            };
            let cells = figure.cells(&figure::Effort {
                seeds: effort.seeds,
                span: effort.span,
                warmup: effort.warmup,
            });
            let refused = refuse(figure, &cells, &effort, Some(available));
            refused.map_err(|fault| fault.to_string())
        };
        assert_eq!(refused(60, 2, 4e9), Ok(()));
        assert!(
            refused(10_000, 1, 4e9)
                .expect_err("too much")
                .ends_with(": lower --seconds, --warmup or --seeds")
        );
        assert!(
            refused(60, 64, 4e9)
                .expect_err("too much")
                .contains(": use --threads ")
        );
    }

    #[test]
    fn interrupt_lists_lost_and_written_figures() {
        let (written, lost) = FIGURES[..4].split_at(2);
        let out = Path::new("sim-results");
        assert_eq!(
            lost_and_kept(lost, written, out),
            "fig7, fig8 not written; fig3, fig6 in sim-results, without an index"
        );
        assert_eq!(lost_and_kept(lost, &[], out), "fig7, fig8 not written");
    }
}
