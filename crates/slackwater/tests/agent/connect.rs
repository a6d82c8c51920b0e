//! CONNECT: a tunnel through a server that opens tunnels.

use crate::client::Client;
use crate::process::{Agent, until};
use crate::server::Server;

const CONNECT: &str = "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n\r\n";

#[tokio::test]
async fn a_tunnel_is_rejected_by_default_and_counts_while_it_is_open() {
    let server = Server::tcp().await;
    let refusing = Agent::start(&server.to, &[]).await;
    let mut client = Client::connect(refusing.address).await;
    client.write(CONNECT).await;
    assert_eq!(client.answer().await.unwrap().status, 501);

    let file = std::env::temp_dir().join(format!("slackwater-tunnel-{}.toml", std::process::id()));
    std::fs::write(&file, "connect = \"pass\"\n").unwrap();
    let agent = Agent::start(&server.to, &["--config", file.to_str().unwrap()]).await;
    std::fs::remove_file(&file).unwrap();
    let mut client = Client::connect(agent.address).await;
    client.write(CONNECT).await;
    let mut exchange = server.request().await;
    assert!(
        (exchange.head).starts_with("CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n"),
        "{}",
        exchange.head
    );
    exchange.write("HTTP/1.1 200 OK\r\n\r\nhello").await;
    assert_eq!(client.head().await.status, 200);
    let mut bytes = [0; 5];
    tokio::io::AsyncReadExt::read_exact(&mut client.stream, &mut bytes)
        .await
        .unwrap();
    assert_eq!(bytes, *b"hello");
    client.write("to it").await;
    assert_eq!(exchange.read(&mut bytes).await, 5);
    assert_eq!(bytes, *b"to it");
    assert_eq!(agent.rif().await, 1);
    drop(client);
    until("nothing is in flight", async || agent.rif().await == 0).await;
}
