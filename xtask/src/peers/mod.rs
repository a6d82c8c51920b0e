//! `cargo xtask peers`: Slackwater with third-party servers and clients. Three nginx servers, an
//! agent before each, one `serve` before all of them. curl, wrk, h2load and `slackwater load` send
//! requests, while servers and agents are killed and come back.
//!
//! Everything runs on loopback, in a temporary folder, for a bounded time. Each check prints a
//! line. Nothing here asserts a latency: that is for benchmarks.

mod options;
mod site;
mod steps;
mod tools;

use crate::command::build_slackwater;
use crate::folder::Folder;
use crate::loopback::processes::Processes;
use crate::output::say;
use crate::report::{Page, Report};
pub(crate) use options::Options;
use site::Site;
use tools::Tools;

/// Runs everything. Returns an error if a step failed, or if checks failed, with their number.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let tools = Tools::find()?;
    say("building slackwater with the profile quick");
    let slackwater = build_slackwater("quick", &[])?;
    let folder = Folder::new("peers", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;

    let mut report = Report::default();
    let outcome = Site::start(&processes, &tools, &slackwater, &folder.path)
        .and_then(|mut site| steps::run(&mut site, options, &mut report));
    if let Err(trouble) = outcome {
        report.add("peers", "all steps could be taken", Err(trouble));
    }
    let page = Page {
        title: "Between real peers",
        about: "Three nginx servers, a `slackwater agent` before each, one `slackwater serve` before them; configuration in\n\
                `deploy/examples/`. What each number means is said in `xtask/src/peers/steps/`.",
        tools: tools.versions(),
    };
    report.finish(&page, options.report.as_deref())
}
