//! Large bodies are streamed in both directions at once, and the agent buffers only a little of
//! them.

use crate::client::Client;
use crate::process::{Agent, soon, until};
use crate::server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BYTES: usize = 96 << 20;
const CHUNK: usize = 64 << 10;

/// Peak memory of the process, in bytes.
#[cfg(target_os = "linux")]
fn memory_peak_bytes(id: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn large_bodies_stream_both_ways_within_bounded_memory() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    let before = memory_peak_bytes(agent.id());
    let mut client = Client::connect(agent.address).await;
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {BYTES}\r\n\r\n");
    client.write(head).await;
    let mut exchange = server.request().await;

    // The reader starts late, so that all buffers in between fill up first.
    let (mut reader, mut writer) = client.stream.into_split();
    let upload = tokio::spawn(async move {
        let chunk = vec![7; CHUNK];
        for _ in 0..BYTES / CHUNK {
            writer.write_all(&chunk).await.unwrap();
        }
        writer
    });
    let mut piece = vec![0; CHUNK];
    let mut received = 0;
    while received < BYTES {
        let bytes = exchange.read(&mut piece).await;
        assert!(bytes > 0, "the upload broke off at {received}");
        received += bytes;
    }
    let _writer = soon("the upload's end", upload).await.unwrap();

    let download = tokio::spawn(async move {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BYTES}\r\n\r\n");
        exchange.write(head).await;
        let chunk = vec![9; CHUNK];
        for _ in 0..BYTES / CHUNK {
            exchange.write(&chunk).await;
        }
        exchange
    });
    let mut received = 0;
    while received < BYTES {
        let bytes = soon("the download", reader.read(&mut piece)).await.unwrap();
        assert!(bytes > 0, "the download broke off at {received}");
        received += bytes;
    }
    let _exchange = soon("the download's end", download).await.unwrap();

    until("nothing is in flight", async || agent.rif().await == 0).await;
    let grown = memory_peak_bytes(agent.id()) - before;
    // A body that is held back would show in full; what remains is buffers, and memory that the
    // allocator keeps of them.
    assert!(grown < BYTES / 3, "{grown} bytes more than before");
}

#[tokio::test]
async fn body_pieces_are_forwarded_immediately() {
    let server = Server::tcp().await;
    let agent = Agent::start(&server.to, &[]).await;
    let mut client = Client::connect(agent.address).await;
    client
        .write("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let mut exchange = server.request().await;
    exchange
        .write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    client.head().await;
    // Each piece waits until the previous one has come back, so nothing may be buffered until there
    // is more.
    for round in 0..3 {
        client.write("4\r\nping\r\n").await;
        let mut up = Vec::new();
        while !up.ends_with(b"ping\r\n") {
            let mut byte = [0];
            assert_eq!(exchange.read(&mut byte).await, 1, "round {round}");
            up.push(byte[0]);
        }
        exchange.write("4\r\npong\r\n").await;
        let mut down = [0; 9];
        soon("a piece", client.stream.read_exact(&mut down))
            .await
            .unwrap();
        assert_eq!(&down, b"4\r\npong\r\n");
        assert_eq!(agent.rif().await, 1);
    }
    client.write("0\r\n\r\n").await;
    exchange.write("0\r\n\r\n").await;
    until("nothing is in flight", async || agent.rif().await == 0).await;
}
