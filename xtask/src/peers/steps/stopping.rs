//! SIGTERM: to `serve` during a slow response, which it finishes; then to the agents.

use super::judge;
use crate::loopback::http::is_refused;
use crate::loopback::processes::{Process, wait_for};
use crate::peers::site::{Site, about};
use crate::report::Report;
use core::time::Duration;
use std::fs;
use std::process::Command;
use std::time::Instant;

/// Three seconds at 100 KiB per second.
const SLOW: (&str, usize) = ("/slow/seconds", 310_000);
const LIMIT: Duration = Duration::from_secs(15);
const SOON: Duration = Duration::from_secs(2);

pub(super) fn run(site: &mut Site<'_>, report: &mut Report) {
    report.add(
        "stop",
        "serve, SIGTERM during a response: finishes it, exit 0",
        serve(site),
    );
    for index in 0..site.pairs.len() {
        let process = site.pairs[index].agent_process.take();
        let outcome = process
            .ok_or_else(|| "it was not running".to_owned())
            .and_then(stop);
        report.add("stop", &format!("agent {index}, SIGTERM: exit 0"), outcome);
    }
}

fn serve(site: &mut Site<'_>) -> Result<String, String> {
    let slow = site.www().join(SLOW.0.trim_start_matches('/'));
    fs::write(&slow, vec![b's'; SLOW.1]).map_err(about(&slow))?;
    let mut command = Command::new(&site.tools.curl);
    command
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "10",
            "--output",
            "/dev/null",
        ])
        .args(["--write-out", "%{http_code} %{size_download} %{time_total}"])
        .arg(site.url(SLOW.0));
    let curl = site.processes.start("curl", &mut command)?;
    wait_for("the slow request to be in flight", SOON, || {
        let status = site.status()?;
        let mut replicas = status["replicas"].as_array().into_iter().flatten();
        Ok(replicas
            .any(|replica| replica["in_flight"] == 1)
            .then_some(()))
    })?;

    let process = site.serve.take().ok_or("serve was not running")?;
    process.terminate()?;
    let asked_at = Instant::now();
    let address = site.address;
    wait_for("new connections to be refused", SOON, || {
        Ok(is_refused(address).then_some(()))
    })?;
    let refused = asked_at.elapsed();
    let client = curl.wait(LIMIT)?;
    let ended = process.wait(LIMIT)?;
    let whole = format!("200 {} ", SLOW.1);
    let passed =
        client.status.success() && client.out.starts_with(&whole) && ended.status.success();
    let numbers = format!(
        "new connections refused after {} ms; curl: {}, code size seconds: {}; serve: {} {} ms after SIGTERM",
        refused.as_millis(),
        client.status,
        client.out,
        ended.status,
        asked_at.elapsed().as_millis(),
    );
    judge(passed, numbers)
}

fn stop(process: Process) -> Result<String, String> {
    process.terminate()?;
    let asked_at = Instant::now();
    let ended = process.wait(LIMIT)?;
    let numbers = format!(
        "{} after {} ms",
        ended.status,
        asked_at.elapsed().as_millis()
    );
    judge(ended.status.success(), numbers)
}
