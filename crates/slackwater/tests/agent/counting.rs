//! Requests in flight: the number rises when a request is forwarded to the server and falls at the
//! last byte, or however else the request ends.

use crate::client::Client;
use crate::process::{Agent, until};
use crate::server::Server;

/// An agent with one request that the server holds.
async fn holding(server: &Server) -> (Agent, Client, crate::server::Exchange) {
    let agent = Agent::start(&server.to, &[]).await;
    let client = Client::send(agent.address, "GET", "/").await;
    let exchange = server.request().await;
    assert_eq!(agent.rif().await, 1, "in flight while the server has it");
    (agent, client, exchange)
}

async fn settled(agent: &Agent) {
    until("nothing is in flight", async || agent.rif().await == 0).await;
}

#[tokio::test]
async fn request_counts_until_its_last_byte_and_probes_do_not() {
    let server = Server::tcp().await;
    let (agent, mut client, mut exchange) = holding(&server).await;
    assert!(exchange.head.contains("x-forwarded-for: 127.0.0.1\r\n"));
    assert_eq!(agent.http_report().await.rif.count(), 1);
    exchange
        .write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234")
        .await;
    assert_eq!(client.head().await.status, 200);
    let report = agent.report().await;
    assert_eq!(report.rif.count(), 1, "the body is not over");
    assert!(report.latency.is_some(), "the head is");
    exchange.write("56789").await;
    settled(&agent).await;
    assert_eq!(agent.count("responses_2xx").await, 1);

    // The connection to the server is kept, and probes have not been forwarded on it.
    let mut second = Client::send(agent.address, "GET", "/second").await;
    let mut exchange = exchange.next().await;
    assert!(exchange.head.starts_with("GET /second "));
    exchange.answer("again").await;
    assert_eq!(second.answer().await.unwrap().text(), "again");
    assert_eq!(agent.count("sent").await, 2);
}

#[tokio::test]
async fn concurrent_requests_are_all_counted() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &["--workers", "2"]).await;
    let mut held = Vec::new();
    for rif in 1..=20 {
        let client = Client::send(agent.address, "GET", "/").await;
        held.push((client, server.request().await));
        assert_eq!(agent.rif().await, rif);
    }
    for (client, exchange) in &mut held {
        exchange.answer("x").await;
        assert_eq!(client.answer().await.unwrap().text(), "x");
    }
    settled(&agent).await;
    assert_eq!(agent.count("responses_2xx").await, 20, "over both workers");
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request() {
    let server = Server::tcp().await;
    let (agent, client, mut exchange) = holding(&server).await;
    drop(client);
    settled(&agent).await;
    assert_eq!(
        exchange.read(&mut [0]).await,
        0,
        "the server's connection ends"
    );
    assert_eq!(agent.count("client_gone").await, 1);
    assert_eq!(agent.report().await.latency, None, "which is no sample");
}

#[tokio::test]
async fn client_that_leaves_during_the_answer_ends_its_request() {
    let server = Server::tcp().await;
    let (agent, mut client, mut exchange) = holding(&server).await;
    exchange
        .write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234")
        .await;
    client.head().await;
    drop(client);
    settled(&agent).await;
    assert_eq!(agent.count("client_gone").await, 1);
}

#[tokio::test]
async fn client_that_leaves_during_its_upload_ends_its_request() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    let mut client = Client::connect(agent.address).await;
    client
        .write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n01234")
        .await;
    let _exchange = server.request().await;
    assert_eq!(agent.rif().await, 1);
    drop(client);
    settled(&agent).await;
}

#[tokio::test]
async fn broken_connection_fails_one_request_and_withdraws_nothing() {
    let server = Server::tcp().await;
    let (agent, mut client, exchange) = holding(&server).await;
    drop(exchange);
    let answer = client.answer().await.unwrap();
    assert_eq!(answer.status, 502);
    assert_eq!(answer.header("x-slackwater-error"), Some("broken"));
    settled(&agent).await;
    let report = agent.report().await;
    assert!(!report.draining, "it still takes connections");
    assert_eq!(report.latency, None, "a failure is no sample");
    assert_eq!(agent.count("broken").await, 1);
}

#[tokio::test]
async fn truncated_response_is_truncated_for_the_client_too() {
    let server = Server::tcp().await;
    let (agent, mut client, mut exchange) = holding(&server).await;
    exchange
        .write("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n01234")
        .await;
    assert_eq!(client.head().await.status, 200);
    drop((exchange, server));
    let mut body = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut client.stream, &mut body).await;
    assert!(
        read.is_err() || body.len() < 10,
        "the client must see that it is not whole"
    );
    settled(&agent).await;
    assert_eq!(agent.count("broken").await, 1);
}

#[tokio::test]
async fn server_error_is_forwarded_and_leaves_no_latency_sample() {
    let server = Server::tcp().await;
    let (agent, mut client, mut exchange) = holding(&server).await;
    exchange
        .write("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.unwrap().status, 500);
    settled(&agent).await;
    assert_eq!(agent.report().await.latency, None);
    assert_eq!(agent.count("responses_5xx").await, 1);
}

#[tokio::test]
async fn a_grpc_status_in_the_trailers_that_blames_the_server_is_a_failure() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    for (status, failed) in [("5", 0), ("13", 1)] {
        let mut client = Client::send(agent.address, "GET", "/").await;
        let mut exchange = server.request().await;
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        let body = format!("1\r\nx\r\n0\r\ngrpc-status: {status}\r\n\r\n");
        exchange.write(&format!("{head}{body}")).await;
        assert_eq!(client.head().await.status, 200);
        settled(&agent).await;
        assert_eq!(agent.count("grpc_failures").await, failed, "{status}");
    }
    until("reports say that something failed", async || {
        agent.report().await.error_millionths > Some(0)
    })
    .await;
}

#[tokio::test]
async fn malformed_requests_are_counted_by_status_and_not_forwarded() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &["--workers", "2"]).await;
    for (bad, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("bad\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nhost: x\r\n\r\n", 505),
    ] {
        let mut client = Client::connect(agent.address).await;
        client.write(bad).await;
        assert_eq!(client.answer().await.unwrap().status, status);
    }
    let status = agent.status().await;
    let counts = status["unreadable_requests"].as_array().unwrap();
    let count = |of: u64| {
        let mut counts = counts.iter();
        counts.find(|it| it["status"] == of).unwrap()["requests"].as_u64()
    };
    assert_eq!(
        [count(400), count(414), count(505)],
        [Some(2), Some(0), Some(1)]
    );
    assert_eq!(agent.count("sent").await, 0);
}
