//! Third-party load generators at full speed: HTTP/1.1 by wrk, h2c by h2load.

use super::judge;
use crate::peers::site::Site;
use crate::report::Report;
use core::time::Duration;
use std::process::Command;

const WRK_SECONDS: &str = "5";
const H2LOAD_REQUESTS: &str = "50000";
const LIMIT: Duration = Duration::from_mins(1);

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    report.add("wrk", "64 connections, 5 s, keep-alive: all 2xx", wrk(site));
    report.add(
        "h2load",
        "16 connections x 8 streams, 50,000 requests: all 2xx",
        h2load(site),
    );
}

fn wrk(site: &Site<'_>) -> Result<String, String> {
    let mut command = Command::new(&site.tools.wrk);
    command.args(["--threads", "1", "--connections", "64", "--duration"]);
    command.args([WRK_SECONDS, "--timeout", "5s", &site.url("/")]);
    let ended = site.processes.run("wrk", &mut command, LIMIT)?;
    let line = |with: &str| {
        ended
            .out
            .lines()
            .map(str::trim)
            .find(|line| line.contains(with))
    };
    let troubles: Vec<_> = ["Non-2xx", "Socket errors"]
        .into_iter()
        .filter_map(line)
        .collect();
    let rate = line("Requests/sec").unwrap_or_default();
    let count = line(" requests in ").unwrap_or("no requests");
    let numbers = format!("{count}; {}", squeeze(rate));
    let passed = ended.status.success() && troubles.is_empty() && !rate.is_empty();
    judge(
        passed,
        [&[numbers.as_str()], &troubles[..]].concat().join("; "),
    )
}

fn h2load(site: &Site<'_>) -> Result<String, String> {
    let mut command = Command::new(&site.tools.h2load);
    command.args(["--requests", H2LOAD_REQUESTS, "--clients", "16"]);
    command.args(["--max-concurrent-streams", "8", &site.url("/")]);
    let ended = site.processes.run("h2load", &mut command, LIMIT)?;
    let line = |with: &str| {
        let found = ended.out.lines().find(|line| line.starts_with(with));
        found.map_or_else(|| format!("no {with:?}"), squeeze)
    };
    let (requests, codes) = (line("requests:"), line("status codes:"));
    let passed = ended.status.success()
        && requests.contains(&format!("{H2LOAD_REQUESTS} succeeded, 0 failed, 0 errored"))
        && codes.contains(&format!("{H2LOAD_REQUESTS} 2xx"));
    judge(
        passed,
        format!("{}; {requests}; {codes}", line("finished in")),
    )
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
