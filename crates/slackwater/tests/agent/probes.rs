//! The addresses at which probes are answered, by UDP and by HTTP, and the senders whose probes
//! are.

use crate::client::{Client, fetch, probe};
use crate::process::{Agent, soon};
use crate::server::Server;
use slackwater_tower::wire::datagram::{DATAGRAM_BYTES_MAX, decode_reply};
use slackwater_tower::wire::{ProbeKey, headers};
use tokio::net::UdpSocket;

#[tokio::test]
async fn probes_share_the_address_of_requests_by_default() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    assert_eq!(agent.probes, agent.address);
    let (udp, http) = (agent.report().await, agent.http_report().await);
    assert_eq!(
        (udp.rif.count(), udp.latency, udp.draining),
        (0, None, false)
    );
    assert_eq!(
        udp.incarnation, http.incarnation,
        "both are the same replica's"
    );
}

#[tokio::test]
async fn probes_not_signed_with_the_key_get_no_answer() {
    let file = std::env::temp_dir().join(format!("slackwater-agent-{}.key", std::process::id()));
    std::fs::write(&file, "07".repeat(32)).unwrap();
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &["--key-file", file.to_str().unwrap()]).await;
    std::fs::remove_file(&file).unwrap();
    let key = ProbeKey::from_bytes(&[7; 32]).unwrap();
    let other = ProbeKey::from_bytes(&[8; 32]).unwrap();

    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(agent.probes).await.unwrap();
    for datagram in [
        probe(1, None),
        probe(2, Some(&other)),
        vec![0; 7],
        probe(3, Some(&key)),
    ] {
        socket.send(&datagram).await.unwrap();
    }
    // They are answered in order, so the first answer shows that the earlier ones got none.
    let mut reply = [0; DATAGRAM_BYTES_MAX];
    let bytes = soon("a reply", socket.recv(&mut reply)).await.unwrap();
    assert_eq!(decode_reply(&reply[..bytes], Some(&key)).unwrap().nonce, 3);
    assert!(!agent.report_with(Some(&key)).await.draining);
}

#[tokio::test]
async fn probe_path_and_address_are_configurable() {
    let server = Server::tcp().await;
    let more = ["--probe-path", "/load", "--probe-listen", "127.0.0.2:0"];
    let agent = Agent::start(&server.to, &more).await;
    assert_eq!(agent.probes.ip().to_string(), "127.0.0.2");
    assert_eq!(agent.rif().await, 0);
    let answer = fetch(agent.address, "/load?of=me").await;
    assert_eq!(
        headers::read_report(&answer.headers).unwrap().rif.count(),
        0
    );

    // The default path now belongs to the server, and so do other methods at the agent's path.
    for (method, path) in [("GET", "/prequal/probe"), ("POST", "/load")] {
        let mut client = Client::send(agent.address, method, path).await;
        let mut exchange = server.request().await;
        assert!(exchange.head.starts_with(&format!("{method} {path} ")));
        // Closed, so that the next request arrives on a new connection.
        exchange
            .write("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            .await;
        assert_eq!(client.head().await.status, 204);
    }
}
