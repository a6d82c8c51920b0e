//! `slackwater sim replay`: plays a recording again, exactly under the policy that made its
//! choices, and with a model of the replicas under another one.

mod exact;
mod figures;
mod model;
mod show;
mod text;

use super::effort::HowOften;
use super::policies;
use super::stop::Stop;
use crate::json_output::JsonOutput;
use crate::output::print;
use exact::Service;
use slackwater_config::Fault;
use slackwater_recording::Malformed;
use slackwater_recording::file::{Recording, StreamHead, read};
use slackwater_sim::PolicyChoice;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slackwater serve --config slackwater.toml --record today.rec
  slackwater demo --seconds 60 --record demo.rec
  slackwater sim replay demo.rec                            the same picks, one by one
  slackwater sim replay demo.rec --service prequal          of one service only
  slackwater sim replay demo.rec --show                     its content, with the settings
  slackwater sim replay demo.rec --policy peak_ewma         another policy, by a model
  slackwater sim replay demo.rec --policy peak_ewma --seeds 10 --json replay.json

docs/reference/replay.md describes what a recording holds and what a replay of it shows.
Exit codes: 0 it was played, and every pick was the same; 1 something was not, or failed;
2 bad arguments or file; 130 stopped.";

/// Arguments of `slackwater sim replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The recording, as --record wrote it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Show what it holds, with the settings, and play nothing
    #[arg(long, conflicts_with_all = ["policy", "json"])]
    show: bool,
    /// Show what the results would have been under this policy, with the recorded settings
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    #[command(flatten)]
    how_often: HowOften,
    /// Write the figures to this file as JSON; - is standard output, instead of all else there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    fn threads(&self) -> usize {
        self.how_often.threads()
    }
}

/// Runs `slackwater sim replay`.
pub(super) fn run(args: &Args) -> Result<(), Fault> {
    let file = args.file.display();
    let bytes = std::fs::read(&args.file)
        .map_err(|error| Fault::usage(format!("{file}: cannot be read: {error}")))?;
    let recording = read(&bytes).map_err(|strange| Fault::usage(format!("{file}: {strange}")))?;
    drop(bytes);
    check_service(args, &recording)?;
    if let Some(policy) = &args.policy {
        policies::check("--policy", policy)?;
        if PolicyChoice::shipped(policy).is_none() {
            return Err(Fault::usage(format!(
                "--policy {policy}: sees the replicas themselves, not the recorded changes of the fleet, so it cannot be compared"
            )));
        }
    }
    if args.show {
        let stop = Stop::on_signals()?;
        let services = show::read(&recording, args.service.as_deref(), &stop)?;
        let services: String = services.iter().map(show::Held::text).collect();
        let head = text::recording(&file.to_string(), &recording);
        return print(&format!("{head}{services}"));
    }
    // Opened before the replay, so that a bad path is reported at once.
    let json = args.json.clone().map(JsonOutput::open).transpose()?;
    let is_told = !json.as_ref().is_some_and(JsonOutput::is_stdout);
    let stop = Stop::on_signals()?;
    let services = exact::play(&recording, args.service.as_deref(), &stop)?;
    if is_told {
        let services: String = services.iter().map(text::service).collect();
        let head = text::recording(&file.to_string(), &recording);
        print(&format!("{head}{services}"))?;
    }
    let mut changed = Vec::new();
    for service in &services {
        let Some(policy) = args.policy.as_deref() else {
            continue;
        };
        if model::is_own(service, policy) {
            if is_told {
                print(&model::own_text(service))?;
            }
        } else {
            let seeds = args.how_often.seeds();
            let service = model::play(service, args, policy, seeds, &stop)?;
            if is_told {
                print(&service.text())?;
            }
            changed.push(service);
        }
    }
    if let Some(json) = json {
        json.write(&text::figures(&services, &changed))?;
    }
    agree(&services)
}

/// The error for a stream whose events cannot be read any further.
fn unreadable(head: &StreamHead, events: u64, malformed: Malformed) -> Fault {
    Fault::runtime(format!(
        "service {}, worker {}: event {events} cannot be read: {malformed}",
        head.service, head.worker
    ))
}

/// Checks that the service was recorded; the error names the services that were.
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
