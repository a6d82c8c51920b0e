//! Responses that arrive before their requests are complete: the handling of the rest of an upload.

use crate::clients::{self, Client};
use crate::proxy::{PATIENCE, Proxy};
use crate::replicas::{self, Replica};
use bytes::Bytes;
use core::net::SocketAddr;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_large_upload_that_is_answered_early_is_cut_off_after_the_answer() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        connection
            .send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nno!")
            .await;
        // None of the body is read, and the connection stays open.
        core::future::pending::<()>().await;
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let stream = TcpStream::connect(proxy.address).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let sending = tokio::spawn(async move {
        let length = 1_u64 << 30;
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        let _ = write.write_all(head.as_bytes()).await;
        let piece = vec![0; 1 << 16];
        // Until the proxy stops reading.
        while write.write_all(&piece).await.is_ok() {}
    });
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    while !answer.ends_with(b"no!") {
        let length = tokio::time::timeout(PATIENCE, read.read(&mut piece)).await;
        let length = length.unwrap().unwrap();
        assert_ne!(length, 0, "{answer:?}");
        answer.extend_from_slice(&piece[..length]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{answer:?}");
    tokio::time::timeout(PATIENCE, sending)
        .await
        .unwrap()
        .unwrap();
    proxy.settled().await;
}

#[tokio::test]
async fn upload_is_read_while_the_early_response_is_sent() {
    const LENGTH: usize = 32 << 20;
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        connection.send(&head).await;
        let piece = "x".repeat(1 << 20);
        for _ in 0..LENGTH >> 20 {
            connection.send(&piece).await;
        }
        while connection.more().await > 0 {
            connection.unread.clear();
        }
    })
    .await;
    let toml = format!(
        "[services.web]\npolicy = \"random\"\nreplicas = [\"{}\"]\n\
         [[routes]]\nservice = \"web\"\nlimits.body_bytes_max = 1000\n",
        replica.address
    );
    let proxy = Proxy::of_file(&toml);
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 200 "));
    // More than is allowed, so it is not drained; and more than fits between client and proxy.
    let chunk = format!("100000\r\n{}\r\n", "y".repeat(1 << 20));
    let sending = async {
        for _ in 0..LENGTH >> 20 {
            client.send(&chunk).await;
        }
        client.send("0\r\n\r\n").await;
    };
    tokio::time::timeout(PATIENCE, sending)
        .await
        .expect("the proxy reads on");
    assert_eq!(client.exactly(LENGTH).await.len(), LENGTH);
}

/// An HTTP/2 replica that answers at once, never reads a body and never resets a stream. Its
/// response to POST ends at once if `ends` is true, and otherwise never.
async fn reads_nothing(ends: bool) -> SocketAddr {
    let kept: Arc<Mutex<Vec<Incoming>>> = Arc::default();
    replicas::http2(move |request: Request<Incoming>| {
        let is_endless = *request.method() == Method::POST && !ends;
        kept.lock().unwrap().push(request.into_body());
        async move {
            if !is_endless {
                return Response::new(clients::empty());
            }
            let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from("x")))]);
            let frames = futures_util::StreamExt::chain(first, futures_util::stream::pending());
            Response::new(StreamBody::new(frames).boxed_unsync())
        }
    })
    .await
}

const H2C: &str = "[replica]\nprotocol = \"h2c\"\n[timeouts]\ndrain = \"100ms\"";

#[tokio::test]
async fn the_socket_of_a_client_that_was_answered_early_is_closed() {
    let proxy = Proxy::start(&[reads_nothing(true).await], H2C);
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\nhello")
        .await;
    assert_eq!(client.answer().await.status, 200);
    client.leave().await;
    proxy.settled().await;
}

#[tokio::test]
async fn bidirectional_request_is_cut_off_at_the_end_of_the_drain() {
    let mut proxy = Proxy::start(&[reads_nothing(false).await], H2C);
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    proxy.signal("TERM");
    assert!(client.rest().await.ends_with(b"1\r\nx\r\n"));
    assert!(proxy.ended().await.success());
}
