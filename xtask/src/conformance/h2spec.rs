//! h2spec: all of its tests against the plain and the TLS listener, and against nginx if it is
//! installed.

use super::site::Site;
use crate::loopback::http;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::wait_for;
use crate::report::{Outcome, Report};
use core::net::SocketAddr;
use core::time::Duration;
use std::fs;
use std::process::Command;

const STEP: &str = "h2spec";
const RUN_MAX: Duration = Duration::from_mins(5);
const START_MAX: Duration = Duration::from_secs(10);

/// Tests that fail at a plain listener, by title, with the reason. None may fail over TLS.
pub(super) const KNOWN_PLAIN: &[(&str, &str)] = &[(
    "Sends invalid connection preface",
    "without TLS what a client says first decides its protocol, so a broken preface is a broken HTTP/1.1 request, \
     answered with 400 and closed",
)];

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let tool = match site.tools.get("h2spec") {
        Ok(tool) => tool,
        Err(why) => return report.add(STEP, "all tests", Outcome::NotRun(why)),
    };
    for (what, address, flags, known) in [
        ("plain (h2c)", site.plain, &[][..], KNOWN_PLAIN),
        ("TLS", site.tls, &["-t", "-k"], &[]),
    ] {
        let judged = judge(site, tool, address, flags)
            .map(|(numbers, failed)| compare(&numbers, &failed, known));
        report.add(STEP, what, judged.unwrap_or_else(Err));
    }
    let beside = nginx(site, tool);
    report.add(STEP, "nginx beside it, plain, for comparison", beside);
}

/// Runs all tests; returns the summary and the titles of failed tests.
fn judge(
    site: &Site<'_>,
    tool: &std::path::Path,
    address: SocketAddr,
    flags: &[&str],
) -> Result<(String, Vec<String>), String> {
    let mut command = Command::new(tool);
    command.args(["generic", "http2", "hpack", "--timeout", "3", "--path", "/"]);
    command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(flags);
    let ended = site.processes.run(STEP, &mut command, RUN_MAX)?;
    read(&ended.out).ok_or_else(|| {
        let last = ended.out.lines().last().unwrap_or_default();
        format!("{}: {last:?} {}", ended.status, ended.err.trim())
    })
}

/// Parses h2spec's output: `146 tests, 145 passed, 0 skipped, 1 failed`, and the failures before
/// it.
fn read(out: &str) -> Option<(String, Vec<String>)> {
    let summary = out.lines().rev().find(|line| line.contains(" tests, "))?;
    let failures = out
        .split_once("Failures:")
        .map_or("", |(_, failures)| failures);
    let titles = failures.lines().filter_map(|line| {
        let (_, title) = line.split_once('×')?.1.split_once(": ")?;
        Some(title.trim().to_owned())
    });
    Some((summary.trim().to_owned(), titles.collect()))
}

/// Passes if exactly the known tests fail.
fn compare(numbers: &str, failed: &[String], known: &[(&str, &str)]) -> Result<String, String> {
    let is_known = |title: &String| known.iter().any(|known| known.0 == title);
    let unknown: Vec<_> = failed
        .iter()
        .filter(|title| !is_known(title))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Err(format!(
            "{numbers}; not known to fail: {}",
            unknown.join("; ")
        ));
    }
    if let Some((title, _)) = known
        .iter()
        .find(|known| !failed.iter().any(|it| it == known.0))
    {
        return Err(format!(
            "{numbers}; passes, and is listed as failing: {title}"
        ));
    }
    let reasons: Vec<_> = known
        .iter()
        .map(|(title, why)| format!("{title}: {why}"))
        .collect();
    Ok([&[numbers.to_owned()], &reasons[..]].concat().join("; "))
}

/// Runs the same tests on nginx, which serves a file of its own.
fn nginx(site: &Site<'_>, tool: &std::path::Path) -> Outcome {
    let nginx = match site.tools.get("nginx") {
        Ok(nginx) => nginx,
        Err(why) => return Outcome::NotRun(why),
    };
    let outcome = (|| {
        let address = FreePorts::default().take()?;
        let home = site.folder.join("nginx");
        fs::create_dir_all(home.join("html")).map_err(|error| error.to_string())?;
        fs::write(home.join("html/index.html"), "hello\n").map_err(|error| error.to_string())?;
        // nginx's plain listener supports either HTTP/2 or HTTP/1.1, so its status has another
        // port.
        let status = FreePorts::default().take()?;
        let text = format!(
            "daemon off;\nerror_log stderr;\npid nginx.pid;\nevents {{}}\nhttp {{\n  access_log off;\n  \
             server {{ listen {address} http2; root html; }}\n  server {{ listen {status}; root html; }}\n}}\n"
        );
        fs::write(home.join("nginx.conf"), text).map_err(|error| error.to_string())?;
        let mut command = Command::new(nginx);
        command.arg("-p").arg(&home).args(["-c", "nginx.conf"]);
        let mut process = site.processes.start("nginx", &mut command)?;
        wait_for("nginx to answer", START_MAX, || {
            process.check_running()?;
            Ok(http::get(status, "/").ok().map(drop))
        })?;
        judge(site, tool, address, &[])
    })();
    match outcome {
        // nginx's failures are not ours.
        Ok((numbers, failed)) if failed.is_empty() => Outcome::Passed(numbers),
        Ok((numbers, failed)) => Outcome::Passed(format!("{numbers}: {}", failed.join("; "))),
        Err(why) => Outcome::NotRun(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "\
Generic tests for HTTP/2 server
  1. Starting HTTP/2
    ✔ 1: Sends a client connection preface

Failures: 

Hypertext Transfer Protocol Version 2 (HTTP/2)
  3. Starting HTTP/2
    3.5. HTTP/2 Connection Preface
      × 2: Sends invalid connection preface
        -> The endpoint MUST terminate the TCP connection.
           Expected: Connection closed

Finished in 0.5101 seconds
145 tests, 144 passed, 0 skipped, 1 failed
";

    #[test]
    fn failures_are_read_by_their_titles() {
        let (numbers, failed) = read(OUT).unwrap();
        assert_eq!(numbers, "145 tests, 144 passed, 0 skipped, 1 failed");
        assert_eq!(failed, ["Sends invalid connection preface"]);
        assert!(read("connection refused").is_none());
    }

    #[test]
    fn failures_must_match_the_known_list() {
        let failed = vec!["a".to_owned()];
        assert!(
            compare("1", &failed, &[("a", "why")])
                .unwrap()
                .ends_with("a: why")
        );
        assert!(
            compare("1", &failed, &[])
                .unwrap_err()
                .contains("not known to fail: a")
        );
        assert!(
            compare("1", &[], &[("a", "why")])
                .unwrap_err()
                .contains("listed as failing: a")
        );
        assert_eq!(compare("1", &[], &[]).unwrap(), "1");
    }
}
