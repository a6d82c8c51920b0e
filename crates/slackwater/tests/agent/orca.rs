//! Responses with load reports.

use crate::arguments::assert_fails;
use crate::client::Client;
use crate::process::{Agent, soon, until};
use crate::server::Server;
use std::path::PathBuf;
use tokio::io::AsyncReadExt;

/// A file with this one key, which the test removes.
fn saying(orca: &str) -> PathBuf {
    let name = format!("slackwater-orca-{}-{orca}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, format!("orca = \"{orca}\"\n")).unwrap();
    file
}

/// Returns the report for a request with the fields `asks`, and the head that the server received;
/// the server's response has `fields`.
async fn report(
    agent: &Agent,
    server: &Server,
    asks: &str,
    fields: &str,
) -> (Option<String>, String) {
    let mut client = Client::connect(agent.address).await;
    client
        .write(format!("GET / HTTP/1.1\r\nhost: x\r\n{asks}\r\n"))
        .await;
    let mut exchange = server.request().await;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n{fields}\r\n");
    exchange.write(head).await;
    let answer = client.head().await;
    let found = answer.header("endpoint-load-metrics").map(str::to_owned);
    (found, exchange.head)
}

#[tokio::test]
async fn requested_reports_are_sent_and_the_request_field_is_removed() {
    let server = Server::tcp().await;
    let file = saying("asked");
    let agent = Agent::start(&server.to, &["--config", file.to_str().unwrap()]).await;
    std::fs::remove_file(&file).unwrap();
    let asks = "endpoint-load-metrics-format: text\r\n";
    let (told, heard) = report(&agent, &server, asks, "").await;
    // The request itself is still in flight.
    let told = told.unwrap();
    assert!(told.contains("named_metrics.rif=1"));
    assert!(!told.contains("cpu_utilization"), "unknown: {told}");
    assert!(!heard.contains("endpoint-load-metrics"), "{heard}");
    let json = "endpoint-load-metrics-format: json\r\n";
    let (told, _) = report(&agent, &server, json, "").await;
    assert!(told.unwrap().starts_with("JSON {"));
    let (told, _) = report(&agent, &server, "", "").await;
    assert_eq!(told, None);
    let own = "endpoint-load-metrics: TEXT rps_fractional=1\r\n";
    let (told, _) = report(&agent, &server, asks, own).await;
    assert_eq!(told.unwrap(), "TEXT rps_fractional=1");
}

#[tokio::test]
async fn all_responses_carry_reports_if_configured_and_none_by_default() {
    let server = Server::tcp().await;
    let file = saying("bin");
    let agent = Agent::start(&server.to, &["--config", file.to_str().unwrap()]).await;
    std::fs::remove_file(&file).unwrap();
    let (told, _) = report(&agent, &server, "", "").await;
    assert!(told.unwrap().starts_with("BIN "));

    let silent = Agent::start(&server.to, &[]).await;
    let asks = "endpoint-load-metrics-format: text\r\n";
    let (told, heard) = report(&silent, &server, asks, "").await;
    assert_eq!(told, None);
    assert!(
        heard.contains("endpoint-load-metrics-format: text"),
        "{heard}"
    );
}

#[tokio::test]
async fn cpu_utilization_is_reported_if_the_process_is_known() {
    let server = Server::tcp().await;
    let file = |suffix: &str, text: String| {
        let name = format!("slackwater-orca-{}-{suffix}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let pid_file = file("pid", std::process::id().to_string());
    let keys = format!(
        "orca = \"text\"\n[replica]\npid_file = \"{}\"\n",
        pid_file.display()
    );
    let keys = file("cpu.toml", keys);
    let agent = Agent::start(&server.to, &["--config", keys.to_str().unwrap()]).await;
    std::fs::remove_file(&keys).unwrap();
    until("it has read twice", async || {
        let (told, _) = report(&agent, &server, "", "").await;
        told.unwrap().contains("cpu_utilization=")
    })
    .await;
    std::fs::remove_file(&pid_file).unwrap();
}

#[tokio::test]
async fn grpc_reports_are_in_the_trailers() {
    let server = Server::tcp().await;
    let file = saying("text");
    let agent = Agent::start(&server.to, &["--config", file.to_str().unwrap()]).await;
    std::fs::remove_file(&file).unwrap();
    let mut client = Client::connect(agent.address).await;
    let asks = "host: x\r\nte: trailers\r\nconnection: te\r\n";
    client.write(format!("GET / HTTP/1.1\r\n{asks}\r\n")).await;
    let mut exchange = server.request().await;
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ntransfer-encoding: chunked\r\n";
    let body = "1\r\nx\r\n0\r\ngrpc-status: 0\r\n\r\n";
    exchange.write(format!("{head}\r\n{body}")).await;
    let head = client.head().await;
    assert!(head.header("endpoint-load-metrics").is_none());
    // A byte in a chunk, the last chunk, and what comes then.
    let mut chunks = [0; "1\r\nx\r\n0\r\n".len()];
    client.stream.read_exact(&mut chunks).await.unwrap();
    let mut trailers = String::new();
    while !trailers.ends_with("\r\n\r\n") {
        trailers.push(
            soon("trailers", client.stream.read_u8())
                .await
                .unwrap()
                .into(),
        );
    }
    assert!(trailers.contains("grpc-status: 0\r\n"), "{trailers}");
    assert!(
        trailers.contains("endpoint-load-metrics-bin: "),
        "{trailers}"
    );
}

#[test]
fn invalid_orca_value_is_reported() {
    let file = saying("yes");
    let arguments = ["--to", "127.0.0.1:1", "--listen", "127.0.0.1:0"];
    let arguments = [&arguments[..], &["--config", file.to_str().unwrap()]].concat();
    assert_fails(
        &arguments,
        2,
        "orca: found \"yes\", expected one of \"none\", \"asked\", \"text\", \"json\", \"bin\"",
    );
    std::fs::remove_file(&file).unwrap();
}
