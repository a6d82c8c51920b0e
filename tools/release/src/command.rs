//! Runs other programs, and prints the progress.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .map_err(|error| format!("{}: {error}", root.display()))
}

/// Runs a program, and returns what it printed. Its errors go to standard error.
///
/// # Errors
///
/// It does not start, or it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{name} did not start: {error}"))?;
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().map(|it| it.to_string_lossy()).collect();
        return Err(format!("{name} {}: {}", arguments.join(" "), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} printed no UTF-8"))
}

/// Returns the first line that a program prints; empty if it does not run.
pub(crate) fn first_line(command: &mut Command) -> String {
    let output = command.stderr(Stdio::null()).output();
    output.map_or_else(
        |_| String::new(),
        |output| {
            let text = String::from_utf8_lossy(&output.stdout);
            text.lines().next().unwrap_or_default().to_owned()
        },
    )
}

/// Prints how far the work is.
pub(crate) fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "release: {line}");
}

/// Prints a line of the result.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Reads a file.
///
/// # Errors
///
/// It cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a text.
///
/// # Errors
///
/// It cannot be read, or is not UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
