//! curl over each protocol: requests of another client than ours, and its view of the responses.

use super::replica::TEXT;
use super::site::{HOST, Site};
use crate::loopback::http;
use crate::loopback::processes::wait_for;
use crate::report::Report;
use core::time::Duration;
use std::fs;
use std::process::Command;

const STEP: &str = "curl";
const RUN_MAX: Duration = Duration::from_mins(1);

/// Name, curl's flag, whether it is encrypted, and curl's name of the version.
const PROTOCOLS: [(&str, &str, bool, &str); 5] = [
    ("HTTP/1.0", "--http1.0", false, "1"),
    ("HTTP/1.1", "--http1.1", false, "1.1"),
    ("h2c", "--http2-prior-knowledge", false, "2"),
    ("HTTP/1.1 over TLS", "--http1.1", true, "1.1"),
    ("h2", "--http2", true, "2"),
];

struct Answer {
    out: String,
    /// Status, version and length, as curl saw them.
    facts: String,
}

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    for (protocol, flag, is_tls, version) in PROTOCOLS {
        let ask = |path: &str, arguments: &[&str]| ask(site, flag, is_tls, path, arguments);
        let mut check = |what: &str, answer: Result<Answer, String>, says: &str, facts: &str| {
            let outcome = answer.and_then(|answer| {
                let is_right = answer.out.contains(says) && answer.facts == facts;
                let first = answer
                    .out
                    .trim()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .to_owned();
                let found = format!("{} {first:.60}", answer.facts);
                if is_right { Ok(found) } else { Err(found) }
            });
            report.add(STEP, &format!("{what}, {protocol}"), outcome);
        };
        let ok = |bytes: usize| format!("200 {version} {bytes}");
        let (one, ten) = (ok(2), ok(10));
        check("GET", ask("/range", &[]), TEXT, &ten);
        check(
            "HEAD",
            ask("/range", &["--head"]),
            "ontent-length: 10",
            &ok(0),
        );
        let part = format!("206 {version} 3");
        check("a range", ask("/range", &["--range", "2-4"]), "234", &part);
        let nothing = format!("204 {version} 0");
        check("204", ask("/nothing", &[]), "", &nothing);
        check("POST", ask("/length", &["--data", "x"]), "1", &one);
        let expect = ["--data", "x", "--header", "expect: 100-continue"];
        check("Expect: 100-continue", ask("/length", &expect), "1", &one);
        if protocol != "HTTP/1.0" {
            let unsized_body = [
                "--data-binary",
                "x",
                "--header",
                "transfer-encoding: chunked",
            ];
            check(
                "a body of unknown length",
                ask("/length", &unsized_body),
                "1",
                &one,
            );
            let trailers = ask("/trailers", &["--include"]);
            check("trailers", trailers, "x-sum: 42", &ok(6));
        }
        check(
            "64 MiB",
            ask("/large", &["--output", "/dev/null"]),
            "",
            &ok(64 << 20),
        );
        let outcome = events(site, flag, is_tls);
        report.add(STEP, &format!("an event stream, {protocol}"), outcome);
    }
}

fn command(site: &Site<'_>, flag: &str, is_tls: bool, path: &str) -> Command {
    let (scheme, address) = if is_tls {
        ("https", site.tls)
    } else {
        ("http", site.plain)
    };
    let mut command = Command::new(&site.tools.curl);
    command.args(["--silent", "--show-error", "--no-buffer", flag, "--cacert"]);
    command.arg(&site.certificate);
    command.arg("--resolve");
    command.arg(format!("{HOST}:{}:127.0.0.1", address.port()));
    command.arg(format!("{scheme}://{HOST}:{}{path}", address.port()));
    command
}

fn ask(
    site: &Site<'_>,
    flag: &str,
    is_tls: bool,
    path: &str,
    arguments: &[&str],
) -> Result<Answer, String> {
    const MARK: &str = "\nfacts: ";
    let mut command = command(site, flag, is_tls, path);
    command.args([
        "--write-out",
        &format!("{MARK}%{{http_code}} %{{http_version}} %{{size_download}}"),
    ]);
    command.args(arguments);
    let ended = site.processes.run(STEP, &mut command, RUN_MAX)?;
    match ended.out.rsplit_once(MARK) {
        Some((out, facts)) if ended.status.success() => Ok(Answer {
            out: out.to_owned(),
            facts: facts.to_owned(),
        }),
        _ => Err(format!("{}: {}", ended.status, ended.err.trim())),
    }
}

/// The first event must arrive before the replica sends the second.
fn events(site: &Site<'_>, flag: &str, is_tls: bool) -> Result<String, String> {
    let file = site.folder.join("events");
    let _ = fs::remove_file(&file);
    let mut command = command(site, flag, is_tls, "/events");
    command.arg("--output").arg(&file);
    let mut process = site.processes.start(STEP, &mut command)?;
    let until = |text: &str| {
        wait_for("an event", RUN_MAX, || {
            Ok(fs::read_to_string(&file)
                .ok()
                .filter(|events| events.contains(text)))
        })
    };
    let first = until("first")?;
    process.check_running()?;
    if first.contains("second") {
        return Err("both at once".to_owned());
    }
    http::get(site.plain, "/open")?;
    until("second")?;
    Ok("each as it came".to_owned())
}
