//! The queue before the server: the order of requests, requests that are never started, and what is
//! reported about them.

use crate::client::{Answer, Client};
use crate::process::{Agent, until};
use crate::server::{Exchange, Server};
use std::time::Instant;

/// An agent whose server takes one request at a time. Its directory is removed with the test.
async fn agent(name: &str, server: &Server, keys: &str, more: &[&str]) -> Agent {
    let name = format!("slackwater-agent-queue-{}-{name}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, format!("[queue]\nrequests_max = 1\n{keys}\n")).unwrap();
    let path = file.to_str().unwrap().to_owned();
    let agent = Agent::start(&server.to, &[&["--config", &path], more].concat()).await;
    std::fs::remove_file(file).unwrap();
    agent
}

async fn send(agent: &Agent, path: &str, fields: &str) -> Client {
    let mut client = Client::connect(agent.address).await;
    client
        .write(format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"))
        .await;
    client
}

/// A request that is queued behind the earlier ones.
async fn wait(agent: &Agent, path: &str, fields: &str) -> Client {
    let before = waiting(agent).await;
    let client = send(agent, path, fields).await;
    until("it waits", async || waiting(agent).await == before + 1).await;
    client
}

async fn waiting(agent: &Agent) -> u64 {
    let status = agent.status().await;
    let waiting = status["own_queue"]["waiting"].as_object().unwrap();
    waiting.values().map(|count| count.as_u64().unwrap()).sum()
}

async fn shed(agent: &Agent, reason: &str) -> u64 {
    let status = agent.status().await;
    status["own_queue"]["shed"][reason].as_u64().unwrap()
}

fn path(exchange: &Exchange) -> &str {
    exchange.head.split(' ').nth(1).unwrap()
}

#[track_caller]
fn assert_shed(answer: &Answer, reason: &str) {
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("x-slackwater-error"), Some(reason));
    assert_eq!(answer.header("retry-after"), Some("1"));
}

async fn is_empty(agent: &Agent) {
    until("nothing is in flight", async || agent.rif().await == 0).await;
    let status = agent.status().await;
    assert_eq!(status["own_queue"]["rif"], 0);
    assert_eq!(waiting(agent).await, 0);
}

#[tokio::test]
async fn higher_priorities_go_first_and_queued_requests_count_as_rif() {
    let server = Server::tcp().await;
    let agent = agent("order", &server, "", &["--workers", "2"]).await;
    let mut first = send(&agent, "/first", "").await;
    let mut exchange = server.request().await;
    let clients = [
        wait(&agent, "/shadow", "x-slackwater-priority: shadow\r\n").await,
        wait(&agent, "/batch", "x-slackwater-priority: batch\r\n").await,
        wait(&agent, "/one", "").await,
        wait(&agent, "/two", "x-slackwater-priority: interactive\r\n").await,
    ];
    assert_eq!(agent.rif().await, 5, "what waits is load, too");
    assert_eq!(agent.count("sent").await, 1);
    let status = agent.status().await;
    assert_eq!(status["replicas"][0]["in_flight"], 5);
    assert_eq!(status["services"][0]["name"], "(agent)");
    exchange.answer("first").await;
    assert_eq!(first.answer().await.unwrap().text(), "first");
    // Each worker has its own connections.
    let mut order = Vec::new();
    for _ in 0..4 {
        exchange = tokio::select! {
            anew = server.request() => anew,
            again = exchange.next() => again,
        };
        order.push(path(&exchange).to_owned());
        exchange.answer("next").await;
    }
    assert_eq!(order, ["/one", "/two", "/batch", "/shadow"]);
    for mut client in clients {
        assert_eq!(client.answer().await.unwrap().text(), "next");
    }
    is_empty(&agent).await;
    assert_eq!(agent.status().await["own_queue"]["queued"], 4);
}

#[tokio::test]
async fn an_expired_request_is_never_started() {
    let server = Server::tcp().await;
    let agent = agent("deadline", &server, "", &[]).await;
    let mut first = send(&agent, "/first", "").await;
    let mut exchange = server.request().await;
    let began = Instant::now();
    let mut late = send(&agent, "/late", "x-slackwater-timeout-ms: 80\r\n").await;
    assert_shed(&late.answer().await.unwrap(), "shed_deadline");
    let took = began.elapsed();
    assert!(took.as_millis() >= 80, "{took:?}");
    let call = "grpc-timeout: 1n\r\ncontent-type: application/grpc\r\n";
    let mut call = send(&agent, "/call", call).await;
    let answer = call.head().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("grpc-status"), Some("4"));
    assert_eq!(answer.header("grpc-retry-pushback-ms"), Some("1000"));
    assert_eq!(answer.header("x-slackwater-error"), Some("shed_deadline"));
    assert_eq!(shed(&agent, "deadline").await, 2);
    let mut next = wait(&agent, "/next", "x-slackwater-timeout-ms: 60000\r\n").await;
    exchange.answer("first").await;
    first.answer().await.unwrap();
    let mut exchange = exchange.next().await;
    assert_eq!(
        path(&exchange),
        "/next",
        "the server saw none of the others"
    );
    let left = exchange
        .head
        .split("x-slackwater-timeout-ms: ")
        .nth(1)
        .unwrap();
    let left: u64 = left.split("\r\n").next().unwrap().parse().unwrap();
    assert!((1..60_000).contains(&left), "{left}: less its wait");
    exchange.answer("next").await;
    next.answer().await.unwrap();
    is_empty(&agent).await;
    assert_eq!(agent.report().await.error_millionths.unwrap_or(0), 0);
}

#[tokio::test]
async fn request_to_a_full_queue_is_rejected_immediately() {
    let server = Server::tcp().await;
    let agent = agent("full", &server, "waiting_max = 1", &[]).await;
    let mut first = send(&agent, "/first", "").await;
    let mut exchange = server.request().await;
    let mut batch = wait(&agent, "/batch", "x-slackwater-priority: batch\r\n").await;
    let mut shadow = send(&agent, "/shadow", "x-slackwater-priority: shadow\r\n").await;
    assert_shed(&shadow.answer().await.unwrap(), "shed_full");
    let mut urgent = send(&agent, "/urgent", "").await;
    assert_shed(&batch.answer().await.unwrap(), "shed_full");
    assert_eq!(shed(&agent, "full").await, 2);
    assert_eq!(agent.rif().await, 2);
    exchange.answer("first").await;
    first.answer().await.unwrap();
    let mut exchange = exchange.next().await;
    exchange.answer("urgent").await;
    assert_eq!(urgent.answer().await.unwrap().text(), "urgent");
    is_empty(&agent).await;
    assert_eq!(agent.count("sent").await, 2);
    assert_eq!(agent.count("client_gone").await, 0);
    // The wait is bounded, and a 503 of a full queue is no sign of a fast replica.
    let agent = self::agent("wait", &server, "wait_max = \"50ms\"", &[]).await;
    let _first = send(&agent, "/first", "").await;
    let _exchange = server.request().await;
    let mut waits = send(&agent, "/waits", "").await;
    assert_shed(&waits.answer().await.unwrap(), "shed_wait_over");
    assert_eq!(agent.report().await.rif.count(), 1);
}

#[tokio::test]
async fn a_request_that_leaves_the_queue_is_never_started() {
    let server = Server::tcp().await;
    let agent = agent("leaves", &server, "", &[]).await;
    let mut first = send(&agent, "/first", "").await;
    let mut exchange = server.request().await;
    let leaves = wait(&agent, "/leaves", "").await;
    let mut last = wait(&agent, "/last", "").await;
    drop(leaves);
    until("it has left", async || waiting(&agent).await == 1).await;
    assert_eq!(agent.rif().await, 2);
    exchange.answer("first").await;
    first.answer().await.unwrap();
    let mut exchange = exchange.next().await;
    assert_eq!(path(&exchange), "/last");
    exchange.answer("last").await;
    last.answer().await.unwrap();
    is_empty(&agent).await;
}

#[tokio::test]
async fn queued_requests_are_rejected_when_the_server_is_lost() {
    let server = Server::tcp_at(([127, 91, 0, 8], 0).into()).await;
    let ties = "[tie]\npeers = [\"127.0.0.0/8\"]";
    let agent = agent("gone", &server, ties, &["--check-interval", "50ms"]).await;
    let _first = send(&agent, "/first", "").await;
    let exchange = server.request().await;
    let tie = "x-slackwater-tie: 00c0ffee00c0ffee; twin=127.0.0.1:1\r\n";
    let mut waits = [
        wait(&agent, "/one", "").await,
        wait(&agent, "/two", tie).await,
    ];
    drop(server);
    until("the agent has withdrawn", async || {
        agent.report().await.draining
    })
    .await;
    drop(exchange);
    for waits in &mut waits {
        let answer = waits.answer().await.unwrap();
        assert_eq!(answer.header("x-slackwater-error"), Some("withdrawn"));
    }
    assert_eq!(agent.count("sent").await, 1, "only the first was");
    let ties = &agent.status().await["own_ties"];
    let notified = (ties["notified"].as_u64(), ties["unnotified"].as_u64());
    assert_eq!(notified, (Some(0), Some(0)), "the other copy goes on");
    is_empty(&agent).await;
}

#[tokio::test]
async fn request_with_a_stalled_body_returns_its_permit() {
    let server = Server::tcp().await;
    let timeout = ["--first-byte-timeout", "1s"];
    let agent = agent("loris", &server, "wait_max = \"20s\"", &timeout).await;
    let mut loris = Client::connect(agent.address).await;
    loris
        .write("POST /loris HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nh")
        .await;
    let _stuck = server.request().await;
    let mut waits = wait(&agent, "/waits", "").await;
    assert_eq!(loris.answer().await.unwrap().status, 408);
    let mut exchange = server.request().await;
    assert_eq!(path(&exchange), "/waits");
    exchange.answer("at last").await;
    assert_eq!(waits.answer().await.unwrap().text(), "at last");
    is_empty(&agent).await;
}

#[tokio::test]
async fn tunnel_holds_no_permit() {
    let server = Server::tcp().await;
    let agent = agent("tunnel", &server, "", &[]).await;
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n";
    let mut tunnel = send(&agent, "/socket", upgrade).await;
    let mut exchange = server.request().await;
    let switched = "HTTP/1.1 101 Now\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    exchange.write(switched).await;
    assert_eq!(tunnel.head().await.status, 101);
    let mut client = send(&agent, "/plain", "").await;
    let mut other = server.request().await;
    other.answer("plain").await;
    assert_eq!(client.answer().await.unwrap().text(), "plain");
    assert_eq!(agent.rif().await, 1, "it is in flight all the same");
}

#[tokio::test]
async fn a_limit_is_learned_and_reported() {
    let server = Server::tcp().await;
    let file =
        std::env::temp_dir().join(format!("slackwater-adaptive-{}.toml", std::process::id()));
    let keys =
        "[queue]\nrequests_max = \"adaptive\"\n[limit]\nmin = 2\nstart = 9\nwindow = \"1ms\"\n";
    std::fs::write(&file, keys).unwrap();
    let agent = Agent::start(&server.to, &["--config", file.to_str().unwrap()]).await;
    std::fs::remove_file(file).unwrap();
    assert_eq!(agent.status().await["own_queue"]["limit"], 2);
    let mut exchange = None::<Exchange>;
    let mut client = Client::connect(agent.address).await;
    // A window ends after 16 requests, if they take a millisecond together.
    until("the limit is learned", async || {
        client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut next = match exchange.take() {
            Some(before) => before.next().await,
            None => server.request().await,
        };
        next.answer("ok").await;
        client.answer().await.unwrap();
        exchange = Some(next);
        agent.status().await["own_queue"]["limit"].as_u64().unwrap() >= 9
    })
    .await;
    let status = agent.status().await;
    assert!(status["own_queue"]["least_latency_us"].is_u64());
    let metrics = crate::client::fetch(agent.admin, "/metrics").await;
    assert!(
        metrics
            .text()
            .contains("slackwater_own_shed_total{reason=\"full\"} 0")
    );
}

#[tokio::test]
async fn queue_is_not_reported_if_there_is_none() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    assert!(agent.status().await["own_queue"].is_null());
    let _both = [send(&agent, "/a", "").await, send(&agent, "/b", "").await];
    let _served = [server.request().await, server.request().await];
    assert_eq!(agent.rif().await, 2);
}
