//! SIGTERM: first probes report draining while requests are still served, then the listeners close,
//! then running requests finish.

use crate::client::Client;
use crate::process::{Agent, until};
use crate::server::Server;
use slackwater_config::Timeouts;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn probes_report_draining_before_the_listener_closes() {
    let server = Server::tcp().await;
    let more = ["--drain-delay", "1m", "--drain-timeout", "1h"];
    let mut agent = Agent::start(&server.to, &more).await;
    agent.terminate();
    until("probes say draining", async || {
        agent.report().await.draining
    })
    .await;
    assert!(agent.http_report().await.draining);
    assert_eq!(
        crate::client::fetch(agent.admin, "/readyz").await.status,
        503
    );
    let mut client = Client::send(agent.address, "GET", "/").await;
    server.request().await.answer("still here").await;
    assert_eq!(client.answer().await.unwrap().text(), "still here");
    let _running = Client::send(agent.address, "GET", "/").await;
    let _exchange = server.request().await;
    // A second signal skips the rest of the minute, and the hour for the request.
    agent.terminate();
    assert_eq!(agent.ended().await.code(), Some(0));
}

#[tokio::test]
async fn running_requests_finish_after_the_listener_has_closed() {
    let server = Server::tcp().await;
    let mut agent = Agent::start(&server.to, &["--drain-delay", "0s"]).await;
    let mut client = Client::send(agent.address, "GET", "/").await;
    let mut exchange = server.request().await;
    agent.terminate();
    until("nothing listens", async || {
        TcpStream::connect(agent.address).await.is_err()
    })
    .await;
    let report = agent.report().await;
    assert!(
        report.draining && report.rif.count() == 1,
        "probes are answered to the end"
    );
    exchange.answer("finished").await;
    assert_eq!(client.answer().await.unwrap().text(), "finished");
    assert_eq!(agent.ended().await.code(), Some(0));
}

#[tokio::test]
async fn second_signal_ends_the_drain() {
    let server = Server::tcp().await;
    let more = ["--drain-delay", "0s", "--drain-timeout", "1h"];
    let mut agent = Agent::start(&server.to, &more).await;
    let _running = Client::send(agent.address, "GET", "/").await;
    let _exchange = server.request().await;
    agent.terminate();
    until("nothing listens", async || {
        TcpStream::connect(agent.address).await.is_err()
    })
    .await;
    agent.terminate();
    assert_eq!(agent.ended().await.code(), Some(0));
}

#[tokio::test]
async fn unfinished_requests_are_cut_off_at_the_drain_timeout() {
    let server = Server::tcp().await;
    let more = ["--drain-delay", "0s", "--drain-timeout", "10ms"];
    let mut agent = Agent::start(&server.to, &more).await;
    let mut client = Client::send(agent.address, "GET", "/").await;
    let _exchange = server.request().await;
    agent.terminate();
    // By default, the agent would drain for longer than this.
    let ended = timeout(Timeouts::default().drain / 2, agent.ended()).await;
    assert_eq!(ended.expect("in time").code(), Some(0));
    let mut rest = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut client.stream, &mut rest).await;
    assert!(read.is_err() || rest.is_empty());
}

#[tokio::test]
async fn other_signals_do_not_end_the_agent() {
    let server = Server::tcp().await;
    let mut agent = Agent::start(&server.to, &["--drain-delay", "0s"]).await;
    for (name, answer) in [("HUP", "SIGHUP ignored"), ("USR1", "SIGUSR1 ignored")] {
        agent.signal(name);
        until("the signal has been handled", async || {
            agent.times_said(answer) == 1
        })
        .await;
    }
    let mut client = Client::send(agent.address, "GET", "/").await;
    server.request().await.answer("still here").await;
    assert_eq!(client.answer().await.unwrap().text(), "still here");
    agent.terminate();
    assert_eq!(agent.ended().await.code(), Some(0));
}
