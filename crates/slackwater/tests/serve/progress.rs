//! A client that makes no progress is cut off, whatever else it sends. A request that waits for a
//! full replica waits no longer than its timeout.

use crate::clients::{Client, ask, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{self, Replica};
use crate::room::in_flight;
use bytes::Bytes;
use core::net::SocketAddr;
use h2::client::SendRequest;
use http::Request;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// An HTTP/2 client with this window, and its connection, which returns why it ended. The client
/// sends a PING as soon as the previous one is answered.
async fn pinging(
    address: SocketAddr,
    stream_window: u32,
) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(stream_window);
    let (send, mut connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let pinging =
        tokio::spawn(async move { while pings.ping(h2::Ping::opaque()).await.is_ok() {} });
    let ended = tokio::spawn(async move {
        let ended = connection.await;
        pinging.abort();
        ended
    });
    (send, ended)
}

fn request(path: &str) -> Request<()> {
    Request::get(format!("http://x{path}")).body(()).unwrap()
}

/// A replica that answers `/large` with a mebibyte, and other requests with a few bytes.
async fn replica() -> Replica {
    Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            if head.starts_with("GET /large") {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1 << 20);
                connection.send(&head).await;
                connection.send(&"x".repeat(1 << 20)).await;
            } else {
                connection.answer("little").await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn http2_client_that_reads_nothing_is_cut_off_despite_pings() {
    let replica = replica().await;
    let proxy = Proxy::start(&[replica.address], "[timeouts]\nstall = \"300ms\"");
    let (send, ended) = pinging(proxy.address, 0).await;
    let mut send = send.ready().await.unwrap();
    let mut responses = Vec::new();
    for _ in 0..3 {
        let (response, _) = send.send_request(request("/large"), true).unwrap();
        responses.push(response.await.unwrap());
    }
    // PINGs are answered until then.
    ended.await.unwrap().ok();
    for response in responses {
        assert!(response.into_body().data().await.unwrap().is_err());
    }
    proxy.settled().await;
    let ended = until("it is counted", async || {
        let page = proxy.admin_page("/metrics").await;
        page.lines()
            .find(|line| line.contains("connections_ended_total") && line.contains("stalled"))
            .map(str::to_owned)
            .filter(|line| line.ends_with(" 1"))
    });
    ended.await;
}

#[tokio::test]
async fn unread_http2_response_is_reset_while_others_are_read() {
    let replica = replica().await;
    let proxy = Proxy::start(&[replica.address], "[timeouts]\nstall = \"300ms\"");
    let (send, _ended) = pinging(proxy.address, 1000).await;
    let mut send = send.ready().await.unwrap();
    let (response, _) = send.send_request(request("/large"), true).unwrap();
    let mut untaken = response.await.unwrap().into_body();
    let first = untaken.data().await.unwrap().unwrap();
    assert!(first.len() <= 1000);
    // Other responses are requested and read, until the first one is cut off.
    let lost = tokio::spawn(async move { untaken.data().await });
    while !lost.is_finished() {
        send = send.ready().await.unwrap();
        let (response, _) = send.send_request(request("/"), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        while let Some(data) = body.data().await {
            body.flow_control()
                .release_capacity(data.unwrap().len())
                .unwrap();
        }
    }
    // Data that was on its way before is complete, and then the reset follows.
    let lost = lost.await.unwrap().unwrap().unwrap_err();
    assert_eq!(lost.reason(), Some(h2::Reason::CANCEL));
    proxy.settled().await;
}

#[tokio::test]
async fn wait_for_a_free_stream_ends_at_the_clients_deadline() {
    let go = Arc::new(Semaphore::new(0));
    let address = replicas::http2_held(&go).await;
    let toml = "[replica]\nprotocol = \"h2c\"\nconnections_max = 1\n[limits]\nstreams_max = 1\n\
                [timeouts]\nconnect = \"1m\"";
    let proxy = Proxy::start(&[address], toml);
    let first = ask(proxy.address, "/");
    in_flight(&proxy, 1).await;
    let mut second = Client::connect(proxy.address).await;
    let head = "GET / HTTP/1.1\r\nhost: x\r\nx-slackwater-timeout-ms: 100\r\n\r\n";
    second.send(head).await;
    let answer = second.answer().await;
    assert_eq!(answer.status, 504);
    assert_eq!(answer.field("x-slackwater-error"), Some("deadline"));
    go.add_permits(1);
    assert_eq!(first.await.unwrap().status, 200);
    proxy.settled().await;
}

#[tokio::test]
async fn wait_for_a_free_stream_ends_with_503_replicas_full() {
    let go = Arc::new(Semaphore::new(0));
    let address = replicas::http2_held(&go).await;
    let toml = "[replica]\nprotocol = \"h2c\"\nconnections_max = 1\n[limits]\nstreams_max = 2\n\
                [timeouts]\nconnect = \"200ms\"";
    let proxy = Proxy::start(&[address], toml);
    let first = [ask(proxy.address, "/"), ask(proxy.address, "/")];
    in_flight(&proxy, 2).await;
    let third = get(proxy.address, "/").await;
    assert_eq!(third.status, 503);
    assert_eq!(third.field("x-slackwater-error"), Some("replicas_full"));
    assert_eq!(third.field("retry-after"), Some("1"));
    let metrics = proxy.admin_page("/metrics").await;
    let shed = metrics
        .lines()
        .find(|line| line.contains("shed_total") && line.contains("replicas_full"));
    assert!(shed.is_some_and(|line| line.ends_with(" 1")), "{shed:?}");
    // A waiting request gets the slot that becomes free.
    let fourth = ask(proxy.address, "/");
    go.add_permits(3);
    for answer in first {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert_eq!(fourth.await.unwrap().status, 200);
    proxy.settled().await;
}
