//! Replacing a running agent by a new one, and sockets that systemd has opened.

use crate::client::Client;
use crate::process::{Agent, until};
use crate::server::Server;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;

/// A successor. It is not a child of the test, and it is killed when this is dropped.
struct Successor(String);

impl Successor {
    /// The process that has taken over from this agent.
    async fn of(agent: &Agent) -> Self {
        const WORDS: &str = "upgrade complete: finishing running requests here process=";
        until("another process has taken over", async || {
            agent.log().contains(WORDS)
        })
        .await;
        let log = agent.log();
        let number = log.split_once(WORDS).unwrap().1;
        Self(number.split_whitespace().next().unwrap().to_owned())
    }

    fn signal(&self, signal: &str) -> bool {
        let sent = Command::new("kill").args([signal, &self.0]).output();
        sent.unwrap().status.success()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.signal("-KILL");
    }
}

#[tokio::test]
async fn new_agent_serves_while_the_old_one_finishes_its_requests() {
    let server = Server::tcp().await;
    let mut agent = Agent::start(&server.to, &["--workers", "2"]).await;
    let mut busy = Client::send(agent.address, "GET", "/busy").await;
    let mut exchange = server.request().await;
    let old = agent.report().await;
    assert_eq!(old.rif.count(), 1);

    agent.signal("USR2");
    let successor = Successor::of(&agent).await;
    until("probes are the successor's to answer", async || {
        agent.report().await.incarnation != old.incarnation
    })
    .await;
    let report = agent.report().await;
    assert!(report.incarnation != old.incarnation && !report.draining);
    assert_eq!(report.rif.count(), 0, "it counts its own requests");
    let mut client = Client::send(agent.address, "GET", "/new").await;
    server.request().await.answer("new").await;
    assert_eq!(client.answer().await.unwrap().text(), "new");

    exchange.answer("finished").await;
    assert_eq!(busy.answer().await.unwrap().text(), "finished");
    assert_eq!(agent.ended().await.code(), Some(0));
    assert!(!agent.report().await.draining);
    assert!(successor.signal("-TERM"));
    until("the successor has ended", async || !successor.signal("-0")).await;
}

#[tokio::test]
async fn reload_signal_is_ignored_and_refers_to_an_upgrade() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    agent.signal("HUP");
    until("it says how", async || {
        agent.log().contains("SIGUSR2 replaces it")
    })
    .await;
    assert_eq!(agent.rif().await, 0);
}

/// Starts an agent as systemd would, with a listening and a datagram socket.
fn activated(listener: TcpListener, probes: UdpSocket, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=http:probes exec \"$0\" agent {} 3<&0 4<&1 </dev/null >/dev/null",
        arguments.join(" ")
    );
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_slackwater")])
        .env_remove("RUST_LOG")
        .stdin(OwnedFd::from(listener))
        .stdout(OwnedFd::from(probes));
    command
}

#[tokio::test]
async fn sockets_that_systemd_opened_are_used_for_requests_and_probes() {
    let server = Server::tcp().await;
    // Both sockets have the same port, as the agent itself would choose it.
    let (listener, probes) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(probes) = UdpSocket::bind(listener.local_addr().unwrap()) {
            break (listener, probes);
        }
    };
    let address = listener.local_addr().unwrap();
    // It waits in the socket already, and is not rejected.
    let mut early = Client::send(address, "GET", "/early").await;
    let (to, listen) = (server.to.as_str(), address.to_string());
    let arguments = [
        "--to",
        to,
        "--listen",
        &listen,
        "--admin",
        "127.0.0.1:0",
        "--workers",
        "2",
    ];
    let agent = Agent::spawn(&mut activated(listener, probes, &arguments)).await;
    assert_eq!((agent.address, agent.probes), (address, address));
    server.request().await.answer("served").await;
    assert_eq!(early.answer().await.unwrap().text(), "served");
    assert_eq!(agent.rif().await, 0);
}

#[test]
fn a_datagram_socket_that_is_not_served_is_rejected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let probes = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (listen, lost) = (listener.local_addr().unwrap(), probes.local_addr().unwrap());
    let listen = listen.to_string();
    let arguments = [
        "--to",
        "127.0.0.1:9",
        "--listen",
        &listen,
        "--probe-listen",
        "127.0.0.1:0",
    ];
    let output = activated(listener, probes, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = format!("systemd passed a datagram socket at {lost}");
    assert!(error.contains(&expected), "{error}");
}
