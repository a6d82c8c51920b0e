//! `slackwater load` through `serve`: its results, and a run without events.

use super::judge;
use crate::loopback::processes::Process;
use crate::peers::options::Options;
use crate::peers::site::{Site, about};
use crate::report::Report;
use core::fmt::Write as _;
use core::time::Duration;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Requests started per second.
pub(super) const RATE: u64 = 500;

/// Time beyond the run's own length: its timeout, and a slow machine.
const END_MAX: Duration = Duration::from_secs(20);

pub(super) fn run(site: &Site<'_>, options: &Options, report: &mut Report) {
    let outcome = Load::start(site, "/", "poisson", options.seconds)
        .and_then(Load::finish)
        .and_then(|figures| {
            judge(
                figures.errors == 0 && figures.requests > 0,
                figures.describe(),
            )
        });
    report.add(
        "load",
        &format!("{RATE} requests/s, undisturbed: no errors"),
        outcome,
    );
}

/// A run in progress.
pub(super) struct Load {
    process: Process,
    file: PathBuf,
    seconds: u64,
}

/// The measurements of a run.
pub(super) struct Figures {
    pub(super) requests: u64,
    pub(super) errors: u64,
    all: Value,
}

impl Load {
    pub(super) fn start(
        site: &Site<'_>,
        path: &str,
        arrivals: &str,
        seconds: u64,
    ) -> Result<Self, String> {
        let file = site.folder.join("load.json");
        let mut command = Command::new(site.slackwater);
        command
            .args(["load", &site.url(path), "--quiet", "--arrivals", arrivals])
            .args([
                "--rate",
                &RATE.to_string(),
                "--seconds",
                &seconds.to_string(),
            ])
            .arg("--json")
            .arg(&file);
        let process = site.processes.start("load", &mut command)?;
        Ok(Self {
            process,
            file,
            seconds,
        })
    }

    pub(super) fn finish(self) -> Result<Figures, String> {
        let limit = Duration::from_secs(self.seconds) + END_MAX;
        let ended = self.process.wait(limit)?;
        if !ended.status.success() {
            return Err(format!(
                "slackwater load: {}: {}",
                ended.status,
                ended.err.trim()
            ));
        }
        let text = fs::read_to_string(&self.file).map_err(about(&self.file))?;
        let all: Value = serde_json::from_str(&text).map_err(|error| format!("load: {error}"))?;
        let number = |name: &str| {
            all[name]
                .as_u64()
                .ok_or_else(|| format!("slackwater load measured no {name}"))
        };
        Ok(Figures {
            requests: number("requests")?,
            errors: number("errors")?,
            all,
        })
    }
}

impl Figures {
    /// The generator's own lateness: the 99th percentile.
    pub(super) fn late(&self) -> Duration {
        let late_ms = self.all["sent_late"]["p99_ms"].as_f64().unwrap_or_default();
        Duration::try_from_secs_f64(late_ms / 1e3).unwrap_or_default()
    }

    pub(super) fn describe(&self) -> String {
        let mut text = format!("{} requests, {} errors", self.requests, self.errors);
        let kinds = self.all["errors_by_kind"].as_object().into_iter().flatten();
        for (kind, count) in kinds.filter(|(_, count)| count.as_u64() != Some(0)) {
            let _ = write!(text, ", {kind} {count}");
        }
        for failure in self.all["first_failures"].as_object().into_iter().flatten() {
            let _ = write!(text, " ({})", failure.1);
        }
        let (p50, p99) = (&self.all["p50_ms"], &self.all["p99_ms"]);
        let _ = write!(text, "; p50 {p50} ms, p99 {p99} ms");
        text
    }
}
