//! Plays one figure, and writes its files: what `slackwater sim NAME` does, without the command.
//!
//! `cargo run --profile quick -p slackwater-sim --example figure -- NAME [--seeds N]
//! [--first-seed N] [--threads N] [--out FOLDER]`

use core::error::Error;
use core::sync::atomic::AtomicBool;
use slackwater_sim::Seeds;
use slackwater_sim::figure::{Effort, named, play};
use slackwater_sim::report::{RunInfo, summary, write};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("the name of a figure is missing")?;
    let figure = named(&name).ok_or("there is no figure of that name")?;
    let (mut count, mut first, mut threads, mut out) = (1, 1, 1, None);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or("an option has no value")?;
        match argument.as_str() {
            "--seeds" => count = value.parse()?,
            "--first-seed" => first = value.parse()?,
            "--threads" => threads = value.parse()?,
            "--out" => out = Some(PathBuf::from(value)),
            other => return Err(format!("{other} is not an option").into()),
        }
    }
    let effort = Effort {
        seeds: Seeds::new(first, count),
        span: None,
        warmup: None,
    };
    let begun = Instant::now();
    let played = play(figure, &effort, threads, &|_| {}, &AtomicBool::new(false));
    let findings = figure.findings(&played);
    let mut output = io::stdout().lock();
    writeln!(output, "{}", summary(figure, &played, &findings))?;
    let Some(folder) = out else {
        return Ok(());
    };
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let about = RunInfo {
        command: format!(
            "cargo run --profile quick -p slackwater-sim --example figure -- {command}"
        ),
        version: format!("slackwater-sim {}", env!("CARGO_PKG_VERSION")),
        threads,
        wall: begun.elapsed(),
    };
    for file in write(&folder, figure, &played, &findings, &about)? {
        writeln!(output, "{}", file.display())?;
    }
    Ok(())
}
