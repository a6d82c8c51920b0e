//! Finds and runs other programs, and builds our own command with cargo.

use crate::output::say;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The path of a program, in a folder of `PATH` or else in one of the other folders.
pub(crate) fn installed(name: &str, also: &[impl AsRef<Path>]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let also = also.iter().map(|folder| folder.as_ref().to_path_buf());
    let folders = std::env::split_paths(&path).chain(also);
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// The command to test: this file, or else the command as it is built with a profile.
pub(crate) fn find_slackwater(file: Option<&Path>, profile: &str) -> Result<PathBuf, String> {
    if let Some(file) = file {
        return Ok(file.to_path_buf());
    }
    say(&format!("building slackwater with the profile {profile}"));
    build_slackwater(profile, &[])
}

/// Builds the command with a profile, and returns its path.
pub(crate) fn build_slackwater(
    profile: &str,
    variables: &[(&str, &str)],
) -> Result<PathBuf, String> {
    build("slackwater", profile, variables)
}

/// Builds slackwater as it is in a sidecar's image, in a folder of its own.
pub(crate) fn build_agent(profile: &str) -> Result<PathBuf, String> {
    let folder = root().join("target/agent-alone").display().to_string();
    let options = ["--no-default-features", "--target-dir", &folder];
    build_with("slackwater", profile, &options, &[])
}

/// Builds the executable of a package, and returns its path.
pub(crate) fn build(
    package: &str,
    profile: &str,
    variables: &[(&str, &str)],
) -> Result<PathBuf, String> {
    build_with(package, profile, &[], variables)
}

fn build_with(
    package: &str,
    profile: &str,
    options: &[&str],
    variables: &[(&str, &str)],
) -> Result<PathBuf, String> {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--profile", profile, "--package", package])
        .args(options)
        .args(["--quiet", "--message-format", "json"])
        .envs(variables.iter().copied())
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo build: {}", output.status));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == package)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| format!("cargo build named no executable {package}"))
}

/// The first line of a command's output or errors; empty if it cannot be run.
pub(crate) fn first_line(command: impl AsRef<OsStr>, arguments: &[&str]) -> String {
    let output = Command::new(command)
        .args(arguments)
        .current_dir(root())
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            text.lines().next().unwrap_or_default().to_owned()
        },
    )
}
