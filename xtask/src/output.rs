//! Output of chores.

use std::io::Write;

/// Prints a line that is marked as ours.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "xtask: {line}");
}

/// Prints how far a long chore is.
pub(crate) fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "xtask: {line}");
}
