//! `/healthz` when all resources are in use: a supervisor without an answer would kill the process.

use crate::clients::{Client, get};
use crate::proxy::{PATIENCE, Proxy, unconfigured};
use crate::replicas::Replica;
use std::process::Command;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn unfinished_heads_do_not_block_health_endpoints() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "[admin]\nconnections_max = 8");
    let mut unfinished = Vec::new();
    for _ in 0..8 {
        let mut client = Client::connect(proxy.admin).await;
        client.send("GET /healthz HTTP/1.1\r\nhost: a").await;
        unfinished.push(client);
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(proxy.admin, path).await.status, 200, "{path}");
    }
    // The oldest connection was closed to make room, not by a timeout: the other ones may continue.
    let oldest = unfinished.remove(0);
    assert!(oldest.rest().await.is_empty());
    for mut client in unfinished {
        client.send("\r\n\r\n").await;
        assert_eq!(client.answer().await.status, 200);
    }
}

#[tokio::test]
async fn exhausted_descriptors_do_not_block_health_endpoints() {
    let replica = Replica::echo("r").await;
    let words = format!(
        "serve --probe none --workers 1 --admin 127.0.0.1:0 --listen 127.0.0.1:0 --replicas {}",
        replica.address
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_slackwater"))
        .args(words.split(' '));
    unconfigured(&mut command);
    let proxy = Proxy::spawn_command(&mut command);
    let mut asks = Client::connect(proxy.address).await;
    let mut clients = Vec::new();
    for _ in 0..80 {
        clients.push(TcpStream::connect(proxy.address).await.unwrap());
    }
    proxy.log_line("cannot accept connections");
    asks.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = asks.answer().await;
    assert_eq!(answer.field("x-slackwater-error"), Some("replicas_full"));
    proxy.log_line(
        "cannot open connections to replicas: if there are too many open files, raise their",
    );
    for path in ["/healthz", "/readyz", "/healthz"] {
        let answer = timeout(PATIENCE / 2, get(proxy.admin, path)).await;
        assert_eq!(answer.expect(path).status, 200, "{path}");
    }
    // Clients have not left meanwhile, neither by themselves nor by an idle timeout.
    assert!(
        clients[0]
            .try_read(&mut [0])
            .is_err_and(|it| it.kind() == std::io::ErrorKind::WouldBlock)
    );
}
