//! `cargo xtask siege`: attacks on `slackwater serve` between real servers, compared with nginx and
//! `HAProxy`.
//!
//! Each attack has a bar: how many honest requests may fail, how much memory and CPU time may be
//! used, which messages must not be treated as complete. Attackers write bytes by hand and share no
//! code with the proxy. Everything runs on loopback, in a temporary folder, with bounded counts and
//! times. No verdict depends on a measured latency.

mod contenders;
mod draws;
mod endings;
mod endurance;
mod fairness;
mod floods;
mod fuzz;
mod innocents;
mod isolation;
mod memory;
mod meters;
mod options;
mod progress;
mod replicas;
mod rogue;
mod scores;
mod setup;
mod site;
mod smuggling;
mod standstill;
mod wire;

use crate::command::find_slackwater;
use crate::folder::Folder;
use crate::loopback::processes::Processes;
use crate::output::say;
pub(crate) use options::Options;
use scores::Scores;
use site::Site;
use std::time::Instant;

/// A part; it returns an error if a step could not be done.
type Part = fn(&Site<'_>, &mut Scores) -> Result<(), String>;

const PARTS: [(&str, Part); 9] = [
    ("isolation", isolation::run),
    ("progress", progress::run),
    ("endings", endings::run),
    ("fairness", fairness::run),
    ("smuggling", smuggling::run),
    ("fuzz", fuzz::run),
    ("memory", memory::run),
    ("replicas", replicas::run),
    ("floods", floods::run),
];

/// Runs everything. Returns an error if a step failed, or if bars were missed, with their number.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let profile = if options.short { "dev" } else { "quick" };
    let slackwater = find_slackwater(options.slackwater.as_deref(), profile)?;
    let folder = Folder::new("siege", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;

    let site = Site::new(
        &processes,
        (&slackwater, &folder.path),
        (options.short, options.seed),
    );
    let mut scores = Scores::default();
    for (name, play) in options.parts() {
        let begun = Instant::now();
        if let Err(trouble) = play(&site, &mut scores) {
            scores.broken(name, trouble);
        }
        say(&format!("{name}: {} s", begun.elapsed().as_secs()));
    }
    if let Some(minutes) = options.minutes
        && let Err(trouble) = endurance::run(&site, minutes, &mut scores)
    {
        scores.broken("endurance", trouble);
    }
    scores.finish(&site::page(), options.report.as_deref())
}
