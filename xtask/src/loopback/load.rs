//! Runs `slackwater load`, and reads its results.

use super::pair::Programs;
use super::processes::Process;
use core::time::Duration;
use rustix::process::Pid;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A stream of load.
#[derive(Debug)]
pub(crate) struct Load {
    process: Process,
    file: PathBuf,
}

impl Load {
    /// Starts a stream with arguments for rate and length; its results go to `file`.
    pub(crate) fn start(
        programs: &Programs<'_>,
        name: &str,
        url: &str,
        file: PathBuf,
        arguments: &[String],
    ) -> Result<Self, String> {
        let mut command = Command::new(programs.slackwater);
        command.args(["load", url, "--quiet"]);
        command.args(arguments).arg("--json").arg(&file);
        let process = programs.processes.start(name, &mut command)?;
        Ok(Self { process, file })
    }

    pub(crate) const fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// Waits for its end, and returns its results.
    pub(crate) fn finish(self, limit: Duration) -> Result<Value, String> {
        let ended = self.process.wait(limit)?;
        if !ended.status.success() {
            return Err(format!(
                "slackwater load: {}: {}",
                ended.status,
                ended.err.trim()
            ));
        }
        let wrong = |error: &dyn core::fmt::Display| format!("{}: {error}", self.file.display());
        let text = std::fs::read_to_string(&self.file).map_err(|error| wrong(&error))?;
        serde_json::from_str(&text).map_err(|error| wrong(&error))
    }
}
