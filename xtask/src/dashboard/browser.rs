//! Chromium: found, or installed where possible, and started headless.

use super::devtools::DevTools;
use crate::loopback::processes::{Process, Processes, wait_for};
use crate::output::say;
use core::time::Duration;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const START_MAX: Duration = Duration::from_mins(1);
const INSTALL_MAX: Duration = Duration::from_mins(10);

const MISSING: &str = "there is no chromium in PATH, so the dashboard cannot be checked; install it \
                       (Debian: apt-get install --no-install-recommends chromium), or run this as root, who installs it";

/// Possible names.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// A running browser.
pub(super) struct Browser {
    /// Ends when this is dropped.
    _process: Process,
    port: u16,
    path: String,
}

/// Returns its path. If it is missing, and we are root on a system with `apt-get`, installs it.
///
/// # Errors
///
/// Fails if it is missing and cannot be installed; the error says how to get it. A check that is
/// not made does not pass.
pub(super) fn find(processes: &Processes) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(found) = found_in(&path) {
        return Ok(found);
    }
    if rustix::process::geteuid().is_root() {
        install(processes)?;
    }
    found_in(&path).ok_or_else(|| MISSING.to_owned())
}

fn install(processes: &Processes) -> Result<(), String> {
    say("installing chromium");
    let commands: [&[&str]; 2] = [
        &["update"],
        &["install", "--yes", "--no-install-recommends", "chromium"],
    ];
    for arguments in commands {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        let ended = processes
            .run("apt-get", &mut command, INSTALL_MAX)
            .map_err(|error| format!("{MISSING}: {error}"))?;
        if !ended.status.success() {
            let why = ended.err.lines().last().unwrap_or_default().to_owned();
            return Err(format!(
                "{MISSING}: apt-get {}: {}: {why}",
                arguments[0], ended.status
            ));
        }
    }
    Ok(())
}

/// Returns the first of its names that exists in the folders of `path`.
fn found_in(path: &OsStr) -> Option<PathBuf> {
    let folders: Vec<_> = std::env::split_paths(path).collect();
    let mut files = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
}

impl Browser {
    /// Starts it; its files go into `folder`.
    pub(super) fn start(
        processes: &Processes,
        chromium: &Path,
        folder: &Path,
    ) -> Result<Self, String> {
        let profile = folder.join("chromium");
        let mut command = Command::new(chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu"]);
        // So that all requests come from the page.
        command.args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--disable-sync",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            "--remote-debugging-port=0",
        ]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.arg("about:blank");
        let mut process = processes.start("chromium", &mut command)?;
        let file = profile.join("DevToolsActivePort");
        let (port, path) = wait_for("chromium to listen", START_MAX, || {
            process.check_running()?;
            let text = fs::read_to_string(&file).unwrap_or_default();
            let mut lines = text.lines();
            let port = lines.next().and_then(|line| line.parse().ok());
            Ok(port.zip(lines.next().map(str::to_owned)))
        })?;
        Ok(Self {
            _process: process,
            port,
            path,
        })
    }

    /// Opens a new connection.
    pub(super) fn connect(&self) -> Result<DevTools, String> {
        DevTools::connect(self.port, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn browser_is_found_by_the_first_name_that_exists() {
        let folder = Folder::new("browser", false).unwrap();
        let path = folder.path.as_os_str();
        assert_eq!(found_in(path), None);
        assert_eq!(found_in(OsStr::new("")), None);
        for name in ["google-chrome", "chromium"] {
            fs::write(folder.path.join(name), "").unwrap();
            assert_eq!(found_in(path), Some(folder.path.join(name)));
        }
    }
}
