//! `cargo xtask site`: the documentation as a site, built into `target/site` and checked.
//!
//! `tools/site` does the work. It is a separate package, so that xtask builds without mdBook.

use crate::command::root;
use std::path::PathBuf;
use std::process::Command;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder of the site, in place of target/site
    folder: Option<PathBuf>,
    /// Checks the links of all pages of the repository, and builds nothing
    #[arg(long, conflicts_with = "folder")]
    check: bool,
}

/// Runs it; findings go to standard error.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "slackwater-site", "--"])
        .args(options.check.then_some("--check"))
        .args(&options.folder)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the site has the faults that are listed above".to_owned())
    }
}
