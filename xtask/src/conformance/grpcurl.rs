//! grpcurl against its own test server: it lists the services by reflection, and makes a call of
//! each kind.

use super::site::{HOST, Site};
use crate::loopback::processes::wait_for;
use crate::report::{Outcome, Report};
use core::time::Duration;
use std::net::TcpStream;
use std::process::Command;

const STEP: &str = "grpcurl";
const CALL_MAX: Duration = Duration::from_secs(20);

/// The calls: method and messages, and how often a text must occur in the answer.
const CALLS: [(&str, &str, &str, (&str, usize)); 5] = [
    (
        "services by reflection",
        "",
        "list",
        ("testing.TestService", 1),
    ),
    (
        "unary",
        r#"{"payload": {"body": "aGVsbG8="}}"#,
        "testing.TestService/UnaryCall",
        ("aGVsbG8=", 1),
    ),
    (
        "server streaming",
        r#"{"response_parameters": [{"size": 5}, {"size": 5}, {"size": 5}]}"#,
        "testing.TestService/StreamingOutputCall",
        ("\"body\"", 3),
    ),
    (
        "client streaming",
        r#"{"payload": {"body": "aGVsbG8="}} {"payload": {"body": "aGVsbG8="}}"#,
        "testing.TestService/StreamingInputCall",
        ("\"aggregatedPayloadSize\": 10", 1),
    ),
    (
        "both ways",
        r#"{"response_parameters": [{"size": 5}]} {"response_parameters": [{"size": 5}]}"#,
        "testing.TestService/FullDuplexCall",
        ("\"body\"", 2),
    ),
];

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let tools = (site.tools.get("testserver")).and_then(|_| site.tools.get("grpcurl"));
    let grpcurl = match tools {
        Ok(grpcurl) => grpcurl,
        Err(why) => return report.add(STEP, "all calls", Outcome::NotRun(why)),
    };
    let listens = wait_for("grpcurl's server to listen", CALL_MAX, || {
        Ok(TcpStream::connect(site.reflection_server).ok().map(drop))
    });
    if let Err(why) = listens {
        return report.add(STEP, "all calls", Outcome::NotRun(why));
    }
    let certificate = site.certificate.display().to_string();
    let tls = ["-cacert", &certificate, "-servername", HOST];
    for (protocol, address, flags) in [
        ("plain (h2c)", site.reflection, &["-plaintext"][..]),
        ("TLS", site.reflection_tls, &tls),
    ] {
        for (what, messages, call, (expected, times)) in CALLS {
            let mut command = Command::new(grpcurl);
            command.args(flags);
            if !messages.is_empty() {
                command.args(["-d", messages]);
            }
            command.args([&address.to_string(), call]);
            let ended = site.processes.run("grpcurl", &mut command, CALL_MAX);
            let outcome = ended.and_then(|ended| {
                let found = ended.out.matches(expected).count();
                if ended.status.success() && found == times {
                    Ok(format!("{found} × {expected}"))
                } else {
                    let said = format!("{} {}", ended.out.trim(), ended.err.trim());
                    Err(format!("{}: {said}", ended.status))
                }
            });
            report.add(STEP, &format!("{what}, {protocol}"), outcome);
        }
    }
}
