//! curl through `serve`: methods and protocols, and the state in `/status` afterwards.

use super::{has_own_report, judge};
use crate::loopback::processes::wait_for;
use crate::peers::site::{REPLICAS, Site};
use crate::report::Report;
use core::time::Duration;
use serde_json::Value;
use std::process::Command;

const STEP: &str = "curl";
pub(super) const PROTOCOLS: [(&str, &str); 2] = [
    ("HTTP/1.1", "--http1.1"),
    ("h2c", "--http2-prior-knowledge"),
];
const CURL_MAX: Duration = Duration::from_secs(10);
const STATUS_MAX: Duration = Duration::from_secs(5);

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for (protocol, flag) in PROTOCOLS {
        let version = if protocol == "h2c" { "2" } else { "1.1" };
        let mut check = |what: &str, path: &str, arguments: &[&str], code: &str, says: &str| {
            let outcome = ask(site, path, &[&[flag], arguments].concat()).and_then(|answer| {
                let expected = format!("{code} {version}");
                let passed = answer.code_version == expected && answer.body.contains(says);
                let body = answer.body.trim().lines().next().unwrap_or_default();
                judge(passed, format!("{} {body:?}", answer.code_version))
            });
            report.add(STEP, &format!("{what} over {protocol}"), outcome);
        };
        check("GET", "/", &[], "200", "server at port ");
        check("HEAD", "/", &["--head"], "200", "erver: nginx");
        let sent = ["--data", "twelve bytes"];
        check(
            "POST",
            "/swallow",
            &sent,
            "200",
            "POST of 12 bytes at port ",
        );
        check("404 of the server", "/absent", &[], "404", "nginx");
    }
    let outcome = wait_for("every replica to be probed", STATUS_MAX, || {
        // Queries trigger probes.
        ask(site, "/", &[])?;
        let status = site.status()?;
        Ok(is_probed(&status).then(|| probing(&status)))
    });
    report.add(
        STEP,
        "/status: every replica answers probes over UDP",
        outcome,
    );
    report.add(
        STEP,
        "/status: picks by their reasons",
        site.status().and_then(|it| reasons(&it)),
    );
}

struct Answer {
    /// Status and version, as in `200 1.1`.
    code_version: String,
    body: String,
}

fn ask(site: &Site<'_>, path: &str, arguments: &[&str]) -> Result<Answer, String> {
    let mut command = Command::new(&site.tools.curl);
    command
        .args(["--silent", "--show-error", "--max-time", "5"])
        .args(["--write-out", "\n%{http_code} %{http_version}"])
        .args(arguments)
        .arg(site.url(path));
    let ended = site.processes.run("curl", &mut command, CURL_MAX)?;
    if !ended.status.success() {
        return Err(format!(
            "curl {path}: {}: {}",
            ended.status,
            ended.err.trim()
        ));
    }
    let (body, code_version) = ended.out.rsplit_once('\n').unwrap_or_default();
    Ok(Answer {
        code_version: code_version.to_owned(),
        body: body.to_owned(),
    })
}

/// Whether each replica has its own report in a pool, and none is unprobed.
fn is_probed(status: &Value) -> bool {
    let replicas = status["replicas"].as_array().map_or(&[][..], Vec::as_slice);
    let is_probed = |replica| has_own_report(status, replica);
    replicas.len() == REPLICAS && replicas.iter().all(is_probed)
}

fn probing(status: &Value) -> String {
    let probes = &status["counts"]["probes"];
    format!(
        "reports of all {REPLICAS} pooled, none unprobed; probes sent {}, answered {}, lost {}",
        probes["sent"], probes["answered"], probes["lost"]
    )
}

/// Every reason has its count, and their sum is the number of requests that were sent.
fn reasons(status: &Value) -> Result<String, String> {
    let picks = status["counts"]["picks"].as_object();
    let picks = picks.ok_or("no counts.picks in the status")?;
    let counted: u64 = picks.values().filter_map(Value::as_u64).sum();
    let replicas = status["replicas"].as_array().into_iter().flatten();
    let sent: u64 = replicas
        .filter_map(|replica| replica["requests"]["sent"].as_u64())
        .sum();
    let each: Vec<_> = picks
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    let numbers = format!("{}; sum {counted}, requests sent {sent}", each.join(", "));
    judge(counted == sent && counted > 0, numbers)
}
