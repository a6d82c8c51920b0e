//! `cargo xtask peers`: Slackwater between real peers. Three nginx servers, an agent before each, one `serve` before them
//! all; curl, wrk, h2load and `slackwater load` ask, while servers and agents are killed and come back.
//!
//! Everything runs on loopback, in a temporary folder, for a bounded time. Each check prints a line; the end prints all of
//! them as a table. Nothing here asserts a latency: that is for benchmarks.

mod http;
mod options;
mod processes;
mod report;
mod site;
mod steps;
mod tools;

use crate::command::build_slackwater;
use options::Options;
use processes::Processes;
use report::Report;
use site::Site;
use std::fs;
use std::path::{Path, PathBuf};
use tools::Tools;

/// Runs everything. An error says what could not be done, or how many checks failed.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let tools = Tools::find()?;
    report::say("building slackwater with the profile quick");
    let slackwater = build_slackwater("quick", &[])?;
    let folder = Folder::new(options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;

    let mut report = Report::default();
    let outcome = Site::start(&processes, &tools, &slackwater, &folder.path)
        .and_then(|mut site| steps::run(&mut site, &options, &mut report));
    if let Err(trouble) = outcome {
        report.add("peers", "all steps could be taken", Err(trouble));
    }
    report.finish(&tools, arguments, options.report.as_deref())
}

/// A temporary folder that goes when this is dropped, unless it is to be kept.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn new(keep: bool) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("slackwater-peers-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, keep })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        leave(&self.path, self.keep);
    }
}

fn leave(folder: &Path, keep: bool) {
    if keep {
        report::say(&format!("kept {}", folder.display()));
    } else {
        // Nothing depends on it: the folder is in the system's place for what may be lost.
        let _ = fs::remove_dir_all(folder);
    }
}
