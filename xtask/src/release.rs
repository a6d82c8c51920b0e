//! `cargo xtask release`: static programs, archives, packages and images for those who install,
//! into `target/dist`.
//!
//! `tools/release` does the work. It is a separate package, so that xtask builds without its
//! libraries, and it is optimized, because it compresses some hundred megabytes.

use crate::command::root;
use std::process::Command;

/// Runs it; findings go to standard error.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--profile", "quick"])
        .args(["--package", "slackwater-release", "--"])
        .args(options)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the release is not complete; the reason stands above".to_owned())
    }
}
