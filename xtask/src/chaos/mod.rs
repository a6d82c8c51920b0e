//! `cargo xtask chaos`: load at half of capacity through `serve`, with agents and replicas as
//! separate processes. Meanwhile replicas are killed, stopped, slowed and restarted, certificates
//! are replaced, and `serve` itself is reloaded and upgraded. Requests come over HTTP/1.1 and
//! HTTP/2, plain and over TLS, and go to the agents over TLS, in both versions.
//!
//! A request may fail only if it was in flight on a replica while that was killed or stopped; this
//! is computed from the access log and the times of the faults, request by request. Memory must
//! stay flat, and nothing may be left in flight. Everything runs on loopback, in a temporary
//! folder, for a bounded time.

pub(crate) mod certificates;
mod fleet;
mod judge;
mod options;
mod schedule;
mod secure;
mod serve;

use crate::command::build_slackwater;
use crate::folder::Folder;
use crate::loopback::processes::Processes;
use crate::output::say;
use crate::report::{Page, Report};
use fleet::Fleet;
pub(crate) use options::Options;
use schedule::Schedule;

/// Runs everything. Returns an error if a step failed, or if checks failed, with their number.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let profile = options.profile();
    say(&format!("building slackwater with the profile {profile}"));
    let slackwater = build_slackwater(profile, &[])?;
    let folder = Folder::new("chaos", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;

    let mut report = Report::default();
    let mut fleet = Fleet::start(&processes, &slackwater, &folder.path)?;
    let schedule = Schedule::new(options);
    let played = schedule::play(&mut fleet, &schedule, options);
    match played {
        Ok(played) => judge::judge(&mut fleet, &played, &mut report),
        Err(trouble) => report.add("run", "every step could be taken", Err(trouble)),
    }
    drop(fleet);
    let page = Page {
        title: "Chaos",
        about: "A request may be lost only where it was in flight on a replica that was killed or stopped, and could not be\n\
                sent again: all others have to be answered.",
        tools: String::new(),
    };
    report.finish(&page, options.report.as_deref())
}
