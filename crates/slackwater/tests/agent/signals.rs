//! The agent's data about its server's process, and its reports in responses.

use crate::arguments::assert_fails;
use crate::client::Client;
use crate::http2::{connect, request};
use crate::process::{Agent, soon, until};
use crate::server::Server;
use std::path::PathBuf;

/// A file that is removed at the end.
struct Keys(PathBuf);

impl Keys {
    fn new(name: &str, text: &str) -> Self {
        let name = format!("slackwater-signals-{}-{name}", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, text).unwrap();
        Self(file)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn mistakes_name_the_key() {
    for (number, (keys, complaint)) in [
        (
            "[replica]\ncgroup = \"web.service\"",
            "replica.cgroup: found \"web.service\", expected the cgroup's directory from the root",
        ),
        ("[replica]\ncgroup = 7", "replica.cgroup"),
        ("[replica]\npid_file = true", "replica.pid_file"),
        (
            "[replica]\npid_file = \"a\"\ncgroup = \"/b\"",
            "replica.cgroup: found beside replica.pid_file",
        ),
        ("report_with_responses = \"yes\"", "report_with_responses"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = Keys::new(&format!("bad-{number}.toml"), keys);
        let listen = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"];
        let arguments = [&["--config", file.path()], &listen[..]].concat();
        assert_fails(&arguments, 2, complaint);
    }
}

#[tokio::test]
async fn server_process_is_found_and_logged_once() {
    let server = Server::tcp().await;
    // Relative names are resolved from the file's own directory.
    let pid = Keys::new("server.pid", &format!("{}\n", std::process::id()));
    let name = pid.0.file_name().unwrap().to_str().unwrap();
    let keys = Keys::new("pid.toml", &format!("[replica]\npid_file = \"{name}\"\n"));
    let agent = Agent::start(&server.to, &["--config", keys.path()]).await;
    let said = "learning capacity from the server's CPU";
    until("it has found it", async || agent.times_said(said) > 0).await;
    let log = agent.log();
    assert!(
        log.contains(&format!("process {}", std::process::id())),
        "{log}"
    );
    assert!(log.contains("waited: "), "{log}");
    assert_eq!(agent.times_said(said), 1);
}

#[tokio::test]
async fn server_with_unknown_process_still_gets_requests() {
    let server = Server::tcp().await;
    let keys = "[replica]\ncgroup = \"/sys/fs/cgroup/not/there\"\n";
    let keys = Keys::new("missing.toml", keys);
    let agent = Agent::start(&server.to, &["--config", keys.path()]).await;
    let said = "cannot read the server's CPU";
    until("it has said so", async || agent.times_said(said) > 0).await;
    let told = told(&agent, &server, "").await;
    assert!(told.is_empty(), "there is no report by default");
}

/// The `x-slackwater-load` that a client receives when the server's response has `fields`.
async fn told(agent: &Agent, server: &Server, fields: &str) -> Vec<String> {
    let mut client = Client::send(agent.address, "GET", "/").await;
    let mut exchange = server.request().await;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{fields}\r\n");
    exchange.write(head).await;
    let answer = client.head().await;
    let values = answer.headers.get_all("x-slackwater-load").iter();
    values.map(|it| it.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn responses_report_the_other_requests_in_flight() {
    let server = Server::tcp().await;
    let keys = Keys::new("reports.toml", "report_with_responses = true\n");
    let agent = Agent::start(&server.to, &["--config", keys.path()]).await;
    let _waiting = Client::send(agent.address, "GET", "/").await;
    let _held = server.request().await;
    // A server's own field is about its own view of the load, and probes are answered by the agent.
    // So the agent's value replaces it.
    assert_eq!(
        told(&agent, &server, "x-slackwater-load: 9;;\r\n").await,
        ["1;;"]
    );
}

#[tokio::test]
async fn http2_responses_report_requests_in_flight_too() {
    let server = Server::tcp().await;
    let keys = Keys::new("reports-2.toml", "report_with_responses = true\n");
    let agent = Agent::start(&server.to, &["--config", keys.path()]).await;
    let mut client = connect(&agent).await;
    let waiting = client.send_request(request("/waiting"));
    let _held = server.request().await;
    let sent = client.send_request(request("/"));
    let mut exchange = server.request().await;
    exchange
        .write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-slackwater-load: 9;;\r\n\r\n".to_owned())
        .await;
    let response = soon("a response", sent).await.unwrap();
    let values = response.headers().get_all("x-slackwater-load").iter();
    assert_eq!(values.collect::<Vec<_>>(), ["1;;"]);
    drop(waiting);
}
