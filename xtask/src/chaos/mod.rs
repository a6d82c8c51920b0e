//! `cargo xtask chaos`: load at half of capacity through `serve`, over agents and their replicas, each a process of its
//! own, while replicas are killed, stopped, slowed and restarted, certificates are replaced, and `serve` itself is reloaded and
//! upgraded. Part of the load comes over TLS.
//!
//! A request may fail only if it was in flight on a replica while that was killed or stopped; this is computed from the
//! access log and the times of the faults, request by request. Memory has to stay flat, and nothing may be left in flight.
//! Everything runs on loopback, in a temporary folder, for a bounded time.

mod certificates;
mod fleet;
mod judge;
mod lines;
mod options;
mod replica;
mod report;
mod schedule;
mod secure;
mod serve;

use crate::command::build_slackwater;
use crate::folder::Folder;
use crate::peers::processes::Processes;
use crate::run::say;
use fleet::Fleet;
use options::Options;
use report::Report;
use schedule::Schedule;

pub(crate) use replica::run as replica;

/// The chore that a replica's process runs.
pub(crate) const REPLICA: &str = "chaos-replica";

/// Runs everything. An error says what could not be done, or how many checks failed.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    say(&format!(
        "building slackwater with the profile {}",
        options.profile
    ));
    let slackwater = build_slackwater(options.profile, &[])?;
    let folder = Folder::new("chaos", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;

    let mut report = Report::default();
    let mut fleet = Fleet::start(&processes, &slackwater, &folder.path)?;
    let schedule = Schedule::new(&options);
    let played = schedule::play(&mut fleet, &schedule, &options);
    match played {
        Ok(played) => judge::judge(&mut fleet, &played, &mut report),
        Err(trouble) => report.add("every step could be taken", Err(trouble)),
    }
    drop(fleet);
    report.finish(arguments, options.report.as_deref())
}
