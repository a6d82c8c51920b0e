//! `cargo xtask conformance`: third-party test suites for HTTP/2 and gRPC, and third-party clients,
//! through `serve`, plain and over TLS.
//!
//! Tests whose tool is missing are reported, and do not count as passed. Known failures are listed
//! with their reasons
//!; one that is not listed fails the run, and so does one that is listed and passes.

mod browser;
mod curl;
mod grpc;
mod grpcurl;
mod h2spec;
mod proxied;
mod replica;
mod site;
mod tools;
mod websocket;

use crate::command::find_slackwater;
use crate::folder::Folder;
use crate::loopback::processes::Processes;
use crate::report::{Page, Report};
use site::Site;
use std::path::PathBuf;
use tools::Tools;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Keeps the temporary folder with configuration and logs
    #[arg(long)]
    keep: bool,
    /// The command to test; built by default
    #[arg(long, value_name = "FILE")]
    slackwater: Option<PathBuf>,
    /// A file for the table, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs everything. Returns an error if a step failed, or if checks failed, with their number.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let tools = Tools::find()?;
    let slackwater = find_slackwater(options.slackwater.as_deref(), "quick")?;
    let folder = Folder::new("conformance", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;

    let mut report = Report::default();
    let site = Site::start(&processes, &tools, &slackwater, &folder.path)?;
    h2spec::run(&site, &mut report);
    grpc::run(&site, &mut report);
    grpcurl::run(&site, &mut report);
    proxied::run(&site, &mut report);
    curl::run(&site, &mut report);
    browser::run(&site, &mut report);
    let page = Page {
        title: "Conformance",
        about: "What each line means is in `docs/research/conformance.md`.",
        tools: tools.versions(),
    };
    report.finish(&page, options.report.as_deref())
}
