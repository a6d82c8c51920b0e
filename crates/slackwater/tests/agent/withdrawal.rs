//! A server that is not there: the agent reports this and rejects requests, and comes back without
//! help.

use crate::client::{Answer, Client, fetch};
use crate::process::{Agent, until};
use crate::server::{Server, socket_path, vacant};

const WITHDRAWN: &str = "server withdrawn: cannot connect";
const BACK: &str = "server restored: connection succeeded";
const DOUBT: &str = "cannot connect to server; checking again";

fn assert_turned_away(answer: &Answer) {
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("x-slackwater-error"), Some("withdrawn"));
}

async fn withdrawn(agent: &Agent, is: bool) {
    let told = format!("probes say draining: {is}");
    until(&told, async || agent.report().await.draining == is).await;
    assert_eq!(agent.http_report().await.draining, is);
    let ready = fetch(agent.admin, "/readyz").await.status;
    assert_eq!(ready, if is { 503 } else { 200 });
    let known = &agent.status().await["replicas"][0];
    assert_eq!(known["available"], !is, "{known}");
}

async fn assert_serves(agent: &Agent, server: &Server) {
    let mut client = Client::send(agent.address, "GET", "/").await;
    // The connection ends here, and the agent must not send another request into it.
    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nthere";
    server.request().await.write(answer).await;
    assert_eq!(client.answer().await.unwrap().text(), "there");
}

#[tokio::test]
async fn agent_waits_for_a_server_that_starts_later() {
    let address = vacant([127, 91, 0, 1]).await;
    let agent = Agent::start(&address.to_string(), &[]).await;
    withdrawn(&agent, true).await;
    assert_turned_away(&agent.fetch("/").await);
    let server = Server::tcp_at(address).await;
    withdrawn(&agent, false).await;
    assert_serves(&agent, &server).await;
    // The log is written asynchronously.
    until("the log says that it is back", async || {
        agent.times_said(BACK) == 1
    })
    .await;
    assert_eq!(agent.times_said(WITHDRAWN), 1);
}

#[tokio::test]
async fn unix_socket_without_a_listener_withdraws_the_agent() {
    let path = socket_path("late");
    let agent = Agent::start(&format!("unix:{}", path.display()), &[]).await;
    withdrawn(&agent, true).await;
    let server = Server::unix(&path);
    withdrawn(&agent, false).await;
    assert_serves(&agent, &server).await;
    // The file stays when its listener is gone.
    drop(server);
    assert!(path.exists());
    withdrawn(&agent, true).await;
    let server = Server::unix(&path);
    withdrawn(&agent, false).await;
    assert_serves(&agent, &server).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn server_crash_without_traffic_is_detected() {
    let server = Server::tcp_at(([127, 91, 0, 2], 0).into()).await;
    let agent = Agent::start(&server.to, &["--check-interval", "50ms"]).await;
    withdrawn(&agent, false).await;
    drop(server);
    withdrawn(&agent, true).await;
    assert_eq!(agent.count("sent").await, 0, "no request was needed");
}

#[tokio::test]
async fn first_failures_withdraw_the_agent_without_further_connects() {
    let server = Server::tcp_at(([127, 91, 0, 3], 0).into()).await;
    let address = server.to.parse().unwrap();
    // The interval is so long that the periodic check cannot be what notices it.
    let agent = Agent::start(&server.to, &["--check-interval", "1m"]).await;
    assert_serves(&agent, &server).await;
    drop(server);
    for _ in 0..50 {
        assert_turned_away(&agent.fetch("/").await);
    }
    assert!(agent.report().await.draining);
    // Three failures are enough; the agent's own checks may be among them.
    let failures = agent.count("connect_failures").await;
    assert!((1..=3).contains(&failures), "{failures}");
    assert_eq!(agent.rif().await, 0);
    let server = Server::tcp_at(address).await;
    withdrawn(&agent, false).await;
    assert_serves(&agent, &server).await;
    // The log is written asynchronously.
    until("the log says that it is back", async || {
        agent.times_said(BACK) == 1
    })
    .await;
    assert_eq!(agent.times_said(WITHDRAWN), 1);
}

#[tokio::test]
async fn unsent_request_logs_one_warning_a_minute() {
    let server = Server::tcp_at(([127, 91, 0, 6], 0).into()).await;
    let address = server.to.parse().unwrap();
    let agent = Agent::start(&server.to, &["--check-interval", "1m"]).await;
    assert_serves(&agent, &server).await;
    drop(server);
    assert_turned_away(&agent.fetch("/").await);
    until("the log warns", async || agent.times_said(DOUBT) == 1).await;
    let log = agent.log();
    let warning = log.lines().find(|line| line.contains(DOUBT)).unwrap();
    for part in [" WARN ", "server=", "error=", "remedy=\"start the server"] {
        assert!(warning.contains(part), "no {part:?} in {warning}");
    }
    withdrawn(&agent, true).await;
    let server = Server::tcp_at(address).await;
    withdrawn(&agent, false).await;
    drop(server);
    assert_turned_away(&agent.fetch("/").await);
    withdrawn(&agent, true).await;
    until("it has withdrawn twice", async || {
        agent.times_said(WITHDRAWN) == 2
    })
    .await;
    assert_eq!(agent.times_said(DOUBT), 1, "not within a minute");
}

#[tokio::test]
async fn responses_of_the_agent_itself_leave_no_latency_sample() {
    let address = vacant([127, 91, 0, 4]).await;
    let agent = Agent::start(&address.to_string(), &[]).await;
    for _ in 0..20 {
        assert_turned_away(&agent.fetch("/").await);
    }
    let report = agent.report().await;
    assert_eq!((report.rif.count(), report.latency), (0, None));
    assert_eq!(agent.count("sent").await, 0);
    assert_eq!(agent.status().await["phase"], "withdrawn");
}

#[tokio::test]
async fn requests_that_the_server_still_answers_are_not_cut_off() {
    let server = Server::tcp_at(([127, 91, 0, 5], 0).into()).await;
    let agent = Agent::start(&server.to, &["--check-interval", "50ms"]).await;
    let mut client = Client::send(agent.address, "GET", "/").await;
    let mut exchange = server.request().await;
    drop(server); // like a server that restarts gracefully
    withdrawn(&agent, true).await;
    assert_eq!(agent.rif().await, 1);
    exchange.answer("last words").await;
    assert_eq!(client.answer().await.unwrap().text(), "last words");
}

#[tokio::test]
async fn withdrawn_header_of_the_server_is_removed() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    let mut client = Client::send(agent.address, "POST", "/").await;
    let mut exchange = server.request().await;
    exchange
        .write("HTTP/1.1 503 No\r\nx-slackwater-error: withdrawn\r\ncontent-length: 4\r\n\r\nbusy")
        .await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.status, answer.text()), (503, "busy"));
    assert_eq!(answer.header("x-slackwater-error"), None);
}
