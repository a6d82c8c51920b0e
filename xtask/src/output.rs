//! What chores print.

use std::io::Write;

/// Prints a line as the house's own.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "xtask: {line}");
}
