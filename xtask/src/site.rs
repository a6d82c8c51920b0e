//! `cargo xtask site`: the documentation as a site, built into `target/site` and checked.
//!
//! `tools/site` does the work. It is a separate package, so that xtask builds without mdBook.

use crate::command::root;
use std::process::Command;

const USAGE: &str = "cargo xtask site [FOLDER | --check]";

/// Runs it; findings go to standard error.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    if options.len() > 1 {
        return Err(USAGE.to_owned());
    }
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "slackwater-site", "--"])
        .args(options)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the site has the faults that are listed above".to_owned())
    }
}
