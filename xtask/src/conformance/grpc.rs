//! gRPC's own interop client against its own interop server, with `serve` between them.

use super::site::{HOST, Site};
use crate::loopback::processes::wait_for;
use crate::report::{Outcome, Report};
use core::time::Duration;
use std::net::TcpStream;
use std::process::Command;

const STEP: &str = "gRPC interop";
const CASE_MAX: Duration = Duration::from_secs(30);

/// All cases that the server supports as it is. The others need cloud credentials, ALTS, ORCA
/// reports or a server identity, which need another configuration.
const CASES: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
];

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    let tools = (site.tools.get("interop-server")).and_then(|_| site.tools.get("interop-client"));
    let client = match tools {
        Ok(client) => client,
        Err(why) => return report.add(STEP, "all cases", Outcome::NotRun(why)),
    };
    let listens = wait_for("the gRPC server to listen", CASE_MAX, || {
        Ok(TcpStream::connect(site.grpc_server).ok().map(drop))
    });
    if let Err(why) = listens {
        return report.add(STEP, "all cases", Outcome::NotRun(why));
    }
    let certificate = site.certificate.display().to_string();
    let tls = [
        "-use_tls",
        "-use_test_ca",
        "-ca_file",
        &certificate,
        "-server_host_override",
        HOST,
    ];
    for (protocol, address, flags) in [
        ("plain (h2c)", site.grpc, &[][..]),
        ("TLS", site.grpc_tls, &tls),
    ] {
        for case in CASES {
            let mut command = Command::new(client);
            command.args(["-server_host", "127.0.0.1", "-test_case", case]);
            command.args(["-server_port", &address.port().to_string()]);
            command.args(flags);
            let outcome = site
                .processes
                .run("interop-client", &mut command, CASE_MAX)
                .and_then(|ended| {
                    if ended.status.success() {
                        Ok("as directly".to_owned())
                    } else {
                        let last = ended.err.lines().last().unwrap_or_default();
                        Err(format!("{}: {last}", ended.status))
                    }
                });
            report.add(STEP, &format!("{case}, {protocol}"), outcome);
        }
    }
}
