//! `cargo xtask release`: static programs, archives, packages and images for those who install,
//! into `target/dist`.
//!
//! `tools/release` does the work. It is a separate package, so that xtask builds without its
//! libraries, and it is optimized, because it compresses some hundred megabytes.

use crate::command::root;
use std::process::Command;

/// The options, which `tools/release` checks.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// --short              with this machine's own build, a minute once that is built
    /// --slackwater FILE    the build for --short
    /// --verify             builds twice and compares
    /// --profiles FOLDER    with the counts of a release of this commit, without training
    /// --untrained          without counts
    /// --target TRIPLE      only for this target, also several times
    /// --out FOLDER         in place of target/dist
    #[arg(value_name = "OPTION", verbatim_doc_comment)]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

/// Runs it; findings go to standard error.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--profile", "quick"])
        .args(["--package", "slackwater-release", "--"])
        .args(&options.options)
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the release is not complete; the reason stands above".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    #[test]
    fn options_are_passed_on_as_they_are() {
        let given = ["--short", "--slackwater", "a", "--out=b"];
        let options: Options = parse(&given).unwrap();
        assert_eq!(options.options, given);
    }
}
