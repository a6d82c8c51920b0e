//! `slackwater sim replay`: a recording played again, exactly under the policy that made its choices.

mod exact;
mod text;

use super::stop::Stop;
use crate::fault::Fault;
use crate::output::print;
use crate::record::{Recording, read};
use exact::Service;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slackwater serve --config slackwater.toml --record today.rec
  slackwater demo --seconds 60 --record demo.rec
  slackwater sim replay demo.rec                            the same picks, one by one
  slackwater sim replay demo.rec --service prequal          of one service only

docs/replay.md says what a recording holds and what a replay of it shows.
Exit codes: 0 it was played, and every pick was the same; 1 something was not, or failed; 2 bad arguments or file; 130 stopped.";

/// Arguments of `slackwater sim replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The recording, as --record wrote it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this service's
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
}

/// Runs `slackwater sim replay`.
pub(super) fn run(args: &Args) -> Result<(), Fault> {
    let file = args.file.display();
    let bytes = std::fs::read(&args.file)
        .map_err(|error| Fault::usage(format!("{file}: cannot be read: {error}")))?;
    let recording = read(&bytes).map_err(|strange| Fault::usage(format!("{file}: {strange}")))?;
    drop(bytes);
    check_service(args, &recording)?;
    let stop = Stop::on_signals()?;
    let services = exact::play(&recording, args.service.as_deref(), &stop)?;
    let services_text: String = services.iter().map(text::service).collect();
    let head = text::recording(&file.to_string(), &recording);
    print(&format!("{head}{services_text}"))?;
    agree(&services)
}

/// A service that was not recorded is named with those that were.
fn check_service(args: &Args, recording: &Recording) -> Result<(), Fault> {
    let mut names: Vec<_> = (recording.streams.iter())
        .map(|stream| stream.head.service.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    match &args.service {
        Some(name) if !names.contains(&name.as_str()) => Err(Fault::usage(format!(
            "--service {name}: is not in the recording, which has {}",
            names.join(", ")
        ))),
        _ if names.is_empty() => Err(Fault::usage(format!(
            "{}: no service was recorded",
            args.file.display()
        ))),
        _ => Ok(()),
    }
}

fn agree(services: &[Service]) -> Result<(), Fault> {
    let differ: Vec<_> = (services.iter())
        .filter(|service| service.difference.is_some())
        .map(|service| service.name.as_str())
        .collect();
    if differ.is_empty() {
        return Ok(());
    }
    Err(Fault::runtime(format!(
        "{}: the replay differs from what was recorded; was it recorded by another version?",
        differ.join(", ")
    )))
}
