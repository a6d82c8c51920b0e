//! Mistakes of a user, and obstacles on the machine, are reported before anything starts.

use crate::client::Client;
use crate::process::{Agent, command, until};
use crate::server::Server;
use core::time::Duration;
use std::net::{TcpListener, UdpSocket};
use std::time::Instant;

pub(crate) fn assert_fails(arguments: &[&str], code: i32, complaint: &str) {
    let output = command(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    assert!(stderr.contains(complaint), "{arguments:?}: {stderr}");
}

#[test]
fn mistakes_name_the_flag_and_the_expected_value() {
    let to = ["--to", "127.0.0.1:80"];
    let with = |more: &[&'static str]| [&to[..], &["--listen", "127.0.0.1:0"], more].concat();
    for (arguments, complaint) in [
        (vec![], "listen: is missing"),
        (vec!["--listen", "127.0.0.1:0"], "to: is missing"),
        (
            with(&["--workers", "0"]),
            "--workers: found 0, expected a number from 1 to 1,024",
        ),
        (
            with(&["--protocol", "h3"]),
            "--protocol: found \"h3\", expected one of",
        ),
        (
            with(&["--drain-delay", "2m"]),
            "--drain-delay: found \"2m\", expected from 0s to 1m",
        ),
        (with(&["--check-interval", "0"]), "--check-interval"),
        (
            with(&["--probe-path", "/p?q"]),
            "expected a path without a query",
        ),
        (
            with(&["--probe-listen", "host:1"]),
            "--probe-listen: found the host name \"host:1\"",
        ),
        (
            with(&["--key-file", "/nonexistent/key"]),
            "there is no such file",
        ),
    ] {
        assert_fails(&arguments, 2, complaint);
    }
    for (to, complaint) in [
        ("127.0.0.1", "expected a port"),
        ("http://127.0.0.1:80", "not a URL"),
        ("0.0.0.0:80", "every address of this machine"),
        ("127.0.0.1:9", "where the agent itself listens"),
        ("unix:app.sock", "expected an absolute path"),
        (&format!("unix:/{}", "x".repeat(200)), "at most 103 bytes"),
    ] {
        assert_fails(&["--listen", "127.0.0.1:9", "--to", to], 2, complaint);
    }
}

#[test]
fn ports_in_use_are_named_with_their_protocol() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = tcp.local_addr().unwrap().to_string();
    for workers in ["1", "2"] {
        let arguments = [
            "--listen",
            &taken,
            "--to",
            "127.0.0.1:1",
            "--workers",
            workers,
        ];
        assert_fails(&arguments, 1, &format!("cannot listen at TCP {taken}"));
    }
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = udp.local_addr().unwrap().to_string();
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--to",
        "127.0.0.1:1",
        "--probe-listen",
        &taken,
    ];
    assert_fails(
        &arguments,
        1,
        &format!("cannot answer probes at UDP {taken}"),
    );
}

#[tokio::test]
async fn flags_override_the_same_keys_in_the_file() {
    let server = Server::tcp().await;
    let file = std::env::temp_dir().join(format!("slackwater-agent-{}.toml", std::process::id()));
    let text = "listen = \"127.0.0.1:0\"\nto = \"127.0.0.1:1\"\ndrain_delay = \"0s\"\n\
                [probe]\npath = \"/load\"\n";
    std::fs::write(&file, text).unwrap();
    let agent = Agent::start(&server.to, &["--config", file.to_str().unwrap()]).await;
    assert_eq!(
        agent.fetch("/load").await.header("x-prequal-rif"),
        Some("0")
    );

    std::fs::write(
        &file,
        "listen = \"127.0.0.1:0\"\nto = \"127.0.0.1:1\"\nreplicas = []\n",
    )
    .unwrap();
    let name = file.to_str().unwrap();
    assert_fails(&["--config", name], 2, ":3:1: replicas: unknown key");
    std::fs::remove_file(&file).unwrap();
}

#[tokio::test]
async fn latency_is_reported_up_to_its_configured_maximal_age() {
    let server = Server::tcp().await;
    let file = std::env::temp_dir().join(format!("slackwater-age-{}.toml", std::process::id()));
    std::fs::write(&file, "sample_age_max = \"1ms\"\n").unwrap();
    let agent = Agent::start(&server.to, &["--config", file.to_str().unwrap()]).await;
    let mut client = Client::send(agent.address, "GET", "/").await;
    server.request().await.answer("x").await;
    assert_eq!(client.answer().await.unwrap().text(), "x");
    let answered = Instant::now();
    until("the sample is old", async || {
        answered.elapsed() > Duration::from_millis(1)
    })
    .await;
    // The default keeps a latency in reports for three seconds.
    assert_eq!(agent.report().await.latency, None);

    std::fs::write(&file, "sample_age_max = \"0s\"\n").unwrap();
    let arguments = ["--to", "127.0.0.1:1", "--listen", "127.0.0.1:0"];
    let arguments = [&arguments[..], &["--config", file.to_str().unwrap()]].concat();
    assert_fails(&arguments, 2, "sample_age_max: found");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn every_flag_is_documented() {
    let help = command(&["--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/agent.md");
    let document = std::fs::read_to_string(document).unwrap();
    let flags: Vec<&str> = (help.lines())
        .filter_map(|line| line.trim_start().strip_prefix("--"))
        .map(|flag| flag.split([' ', ',']).next().unwrap())
        .collect();
    assert!(flags.len() > 10, "{help}");
    for flag in flags {
        assert!(document.contains(&format!("`--{flag} ")), "--{flag}");
    }
}
