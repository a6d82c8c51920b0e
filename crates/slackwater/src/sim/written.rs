//! Output besides text: its provenance, and the list of files.

use crate::output::print;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_sim::report::{RunInfo, WriteError};
use std::path::PathBuf;

/// The information about the run on a page.
pub(super) fn run_info(threads: usize, wall: Duration) -> RunInfo {
    let arguments = std::env::args_os().skip(1);
    let words = arguments.map(|argument| shell_word(&argument.to_string_lossy()));
    let command = core::iter::once("slackwater".to_owned()).chain(words);
    RunInfo {
        command: command.collect::<Vec<_>>().join(" "),
        version: version(),
        threads,
        wall,
    }
}

/// The version, and the commit if it was set at build time.
fn version() -> String {
    let version = concat!("slackwater ", env!("CARGO_PKG_VERSION"));
    option_env!("SLACKWATER_COMMIT").map_or_else(
        || version.to_owned(),
        |commit| format!("{version}, commit {commit}"),
    )
}

/// The argument, quoted for a shell.
fn shell_word(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:%+@".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// Prints the files that were written, or returns the error of the one that could not be.
pub(super) fn report(written: Result<Vec<PathBuf>, WriteError>) -> Result<(), Fault> {
    let files = written.map_err(|error| Fault::runtime(error.to_string()))?;
    for file in files {
        print(&format!("wrote {}\n", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(shell_word("p99.9=300ms"), "p99.9=300ms");
        assert_eq!(shell_word("my fleet's"), "'my fleet'\\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
