//! `cargo xtask story`: slow requests under load, explained from outside.
//!
//! Real processes: replicas with agents, one of which is ten times slower than the others, `serve`
//! with access log, decisions and tracing, an OTLP collector, load. It finds the slowest request in
//! the access log, and the slowest of those with a second copy; then the decision by the request's
//! id, and its spans by their trace. The three must contain the same facts.

mod compare;
mod site;

use crate::command::{build, find_slackwater};
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::output::say;
use crate::provenance;
use compare::{Row, rows};
use core::fmt::Write as _;
use serde_json::Value;
use site::Site;
use std::fs;
use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Debug builds, and less load
    #[arg(long)]
    short: bool,
    /// Keeps the temporary folder with configurations and logs
    #[arg(long)]
    keep: bool,
    /// The command to test; built by default
    #[arg(long, value_name = "FILE")]
    slackwater: Option<PathBuf>,
    /// A file for the page, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Plays the scenario and compares.
///
/// # Errors
///
/// Fails if something did not start or did not arrive, or if the three disagree.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let profile = if options.short { "dev" } else { "quick" };
    let slackwater = find_slackwater(options.slackwater.as_deref(), profile)?;
    let collector = build("slackwater-collector", profile, &[])?;
    let folder = Folder::new("story", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
    };
    let (rate, seconds) = if options.short { (60, 4) } else { (300, 10) };
    let mut site = Site::start(programs, &folder.path, &collector)?;
    let lines = run_until_one_is_copied(&mut site, (rate, seconds))?;
    let mut tales = Vec::new();
    for (title, copied) in [
        ("The slowest of those that were sent once", false),
        ("The slowest of those that had a second copy", true),
    ] {
        let slowest = slowest(&lines, copied).ok_or_else(|| format!("{title}: there is none"))?;
        let request = site.collect(slowest)?;
        let rows = rows(&request)?;
        tales.push((title, rows, request.sentences));
    }
    let page = page(&tales, (rate, seconds));
    say(&page);
    if let Some(file) = &options.report {
        fs::write(file, &page).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let rows = tales.iter().flat_map(|(_, rows, _)| rows);
    let wrong: Vec<_> = rows.filter(|row| !row.agrees()).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong: Vec<_> = wrong.iter().map(|row| format!("{row:?}")).collect();
    Err(format!("the three disagree on {}", wrong.join(", ")))
}

/// Whether a request is late depends on chance, so it may take more requests.
fn run_until_one_is_copied(
    site: &mut Site<'_>,
    (rate, seconds): (u64, u64),
) -> Result<Vec<Value>, String> {
    const RUNS_MAX: usize = 5;
    for _ in 0..RUNS_MAX {
        site.load(rate, seconds)?;
        let lines = site.lines()?;
        if slowest(&lines, true).is_some() {
            return Ok(lines);
        }
    }
    Err(format!("no request was late in {RUNS_MAX} runs"))
}

/// The slowest request, with a second copy or without.
fn slowest(lines: &[Value], copied: bool) -> Option<Value> {
    let of_kind = lines
        .iter()
        .filter(|line| (line["attempts"].as_u64() > Some(1)) == copied);
    of_kind
        .max_by_key(|line| line["total_us"].as_u64())
        .cloned()
}

/// The comparison for a request: its description, the rows, and the decision in words.
type Tale<'t> = (&'t str, Vec<Row>, String);

fn page(tales: &[Tale<'_>], (rate, seconds): (u64, u64)) -> String {
    let mut page = String::from("# Slow requests, told three times\n\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "`cargo xtask story` on {}, commit {}, {}.\n\n\
         Five replicas with agents, of which one is ten times slower than the others; `policy = \"prequal\"`, second copies of \
         requests that are late, {rate} requests per second for {seconds} s. Of each request the id and the trace are from the \
         access log; the decision was asked for by the one (`GET /decisions?id=…`), the spans by the other, at a collector that \
         takes OTLP. What two or three of them have to tell, they have to tell, and the same, or the chore fails.",
        provenance::date(),
        provenance::commit(),
        provenance::machine(),
    );
    for (title, rows, sentences) in tales {
        let _ = writeln!(
            page,
            "\n## {title}\n\n| | access log | decision | spans |\n|---|---|---|---|"
        );
        for row in rows {
            let [line, decision, spans] = row
                .values
                .each_ref()
                .map(|value| value.as_deref().unwrap_or(""));
            let _ = writeln!(page, "| {} | {line} | {decision} | {spans} |", row.what);
        }
        let _ = writeln!(
            page,
            "\nThe decision in words:\n\n```text\n{}\n```",
            sentences.trim_end()
        );
    }
    page
}
