//! Large bodies pass through in bounded memory, whichever side is slow.

use crate::clients::Client;
use crate::proxy::Proxy;
use crate::replicas::Replica;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const BODY_BYTES: usize = 64 << 20;
/// Far below a body, far above what buffers need.
const GROWTH_BYTES_MAX: u64 = (BODY_BYTES / 3) as u64;

#[tokio::test]
async fn large_bodies_do_not_stay_in_memory() {
    let replica = Replica::scripted(|mut connection| async move {
        let piece = vec![b'x'; 64 << 10];
        while let Some(head) = connection.head().await {
            if head.starts_with("POST") {
                let mut left = BODY_BYTES - connection.unread.len();
                connection.unread.clear();
                let mut buffer = vec![0; 64 << 10];
                while left > 0 {
                    let read = connection.stream.read(&mut buffer).await.unwrap();
                    assert_ne!(read, 0);
                    left -= read;
                }
                connection.answer("stored").await;
            } else {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
                connection.send(&head).await;
                for _ in 0..BODY_BYTES / piece.len() {
                    connection.stream.write_all(&piece).await.unwrap();
                }
            }
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    client.head().await;
    let before = proxy.resident_bytes();
    let mut most = before;
    for _ in 0..64 {
        client.exactly(BODY_BYTES / 64).await;
        most = most.max(proxy.resident_bytes());
    }
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
    client.send(&head).await;
    let piece = vec![b'x'; BODY_BYTES / 64];
    for _ in 0..64 {
        client.stream.write_all(&piece).await.unwrap();
        most = most.max(proxy.resident_bytes());
    }
    assert_eq!(client.answer().await.text(), "stored");
    assert!(
        most - before < GROWTH_BYTES_MAX,
        "grew by {} KiB",
        (most - before) >> 10
    );
    proxy.settled().await;
}

#[tokio::test]
async fn slow_reader_applies_backpressure_to_the_replica() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        connection
            .send("HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n")
            .await;
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..1024 {
            if connection.stream.write_all(&piece).await.is_err() {
                return;
            }
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let before = proxy.resident_bytes();
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    client.head().await;
    client.exactly(1 << 20).await;
    let after = proxy.resident_bytes();
    assert!(after.saturating_sub(before) < GROWTH_BYTES_MAX);
    drop(client);
    proxy.settled().await;
}
