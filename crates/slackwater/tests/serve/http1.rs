//! HTTP/1.1 connections: which stay open and which end, and what is sent before the response.

use crate::clients::{self, Client, empty};
use crate::proxy::{PATIENCE, Proxy, before, until};
use crate::replicas::Replica;
use http::Request;
use slackwater_config::Timeouts;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// A replica that answers each request with exactly `response`.
async fn saying(response: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            connection.send(response).await;
        }
    })
    .await
}

/// A replica that answers each request with `response`, and closes the connection.
async fn saying_once(response: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        connection.head().await;
        connection.send(response).await;
    })
    .await
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    let post = "POST /2 HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello";
    let get = |index| format!("GET /{index} HTTP/1.1\r\nhost: x\r\n\r\n");
    client
        .send(&format!("{}{post}\r\n{}", get(1), get(3)))
        .await;
    for (line, end) in [
        ("GET /1 ", "\r\n"),
        ("POST /2 ", "hello"),
        ("GET /3 ", "\r\n"),
    ] {
        let answer = client.answer().await;
        let seen = answer.text().strip_prefix("r\n").unwrap();
        assert!(seen.starts_with(line) && seen.ends_with(end), "{seen}");
    }
    proxy.settled().await;
}

#[tokio::test]
async fn request_may_arrive_byte_by_byte() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client.stream.set_nodelay(true).unwrap();
    let request = "POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
                   5;e=1\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n";
    for byte in request.bytes() {
        client.stream.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    // The echo supports only bodies with a length.
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn an_http10_client_can_keep_its_connection() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..2 {
        client
            .send("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
            .await;
        let answer = client.answer().await;
        assert!(answer.head.starts_with("HTTP/1.0 200 OK\r\n"), "{answer:?}");
        assert_eq!(answer.field("connection"), Some("keep-alive"));
    }
}

#[tokio::test]
async fn http10_client_gets_a_body_ended_by_close_instead_of_chunks() {
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let replica = saying(chunks).await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        .await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(!answer.contains("transfer-encoding"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    proxy.settled().await;
    assert_eq!(replica.connections(), 1);
}

#[tokio::test]
async fn truncated_response_resets_the_connection_of_an_http10_client() {
    let replica =
        saying_once("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut read = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut read)).await;
    let error = ended.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_response_without_a_length_ends_with_its_connection() {
    let replica = saying_once("HTTP/1.1 200 OK\r\n\r\nhello").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..2 {
        client.send(GET).await;
        let head = client.head().await;
        assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
        assert_eq!(client.exactly(15).await, b"5\r\nhello\r\n0\r\n\r\n");
    }
    proxy.settled().await;
    assert_eq!(replica.connections(), 2);
}

#[tokio::test]
async fn early_hints_reach_clients_that_support_them() {
    let replica = saying(
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nconnection: close, x-hop\r\n\
         x-hop: 1\r\nkeep-alive: timeout=5\r\nupgrade: h2c\r\nx-slackwater-error: broken\r\nlink: </a>\r\n\r\n\
         HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    )
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client.send(GET).await;
    assert_eq!(client.head().await, "HTTP/1.1 102 Processing\r\n\r\n");
    assert_eq!(
        client.head().await,
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    );
    // It did not wait for the 100.
    assert_eq!(client.answer().await.text(), "ok");
    client.send("GET / HTTP/1.0\r\n\r\n").await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");

    let mut client = clients::http2(proxy.address).await;
    let request = Request::get("http://x/").body(empty()).unwrap();
    assert_eq!(client.send_request(request).await.unwrap().status(), 200);
    assert_eq!(replica.connections(), 1);
}

#[tokio::test]
async fn proxy_sends_100_continue_to_a_client_that_expects_it() {
    let replica = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            assert!(!head.contains("expect:"), "{head}");
            connection.send("HTTP/1.1 100 Continue\r\n\r\n").await;
            connection.body(5).await;
            connection.answer("ok").await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..2 {
        client
            .send("PUT / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
            .await;
        assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send("hello").await;
        assert_eq!(client.answer().await.text(), "ok");
    }
}

#[tokio::test]
async fn refused_request_keeps_the_connection_if_its_body_has_arrived() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    let refused = "POST / HTTP/1.1\r\nhost: x\r\nexpect: tea\r\ncontent-length: 5\r\n\r\n";
    client.send(&format!("{refused}hello{GET}")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.field("connection")), (417, None));
    assert_eq!(client.answer().await.status, 200);
    client.send(refused).await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.field("connection")),
        (417, Some("close")),
        "what comes next could be the body or a request"
    );
    assert!(client.rest().await.is_empty());
}

#[tokio::test]
async fn head_started_with_the_previous_request_has_the_head_timeout() {
    let replica = Replica::echo("r").await;
    let toml = "[timeouts]\nhead = \"100ms\"\nidle = \"1h\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let mut client = Client::connect(proxy.address).await;
    client.send(&format!("{GET}GET / HT")).await;
    assert_eq!(client.answer().await.status, 200);
    let ended = before(Timeouts::default().head, client.rest());
    assert!(ended.await.is_empty());
}

#[tokio::test]
async fn request_sent_while_the_connection_closes_causes_no_reset() {
    let go_on = Arc::new([Notify::new(), Notify::new()]);
    let told = Arc::clone(&go_on);
    let replica = Replica::scripted(move |mut connection| {
        let told = Arc::clone(&told);
        async move {
            while let Some(head) = connection.head().await {
                match head.split(' ').nth(1) {
                    Some("/0") => told[0].notified().await,
                    Some("/1") => told[1].notified().await,
                    _ => (),
                }
                connection.answer("ok").await;
            }
        }
    })
    .await;
    let proxy = Proxy::start(
        &[replica.address],
        "workers = 1\n[timeouts]\ndrain_idle = \"10ms\"",
    );
    let mut idle = Client::connect(proxy.address).await;
    assert_eq!(idle.get("/").await.status, 200);
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /0 HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut after = Client::connect(proxy.address).await;
    after.send("GET /1 HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("both are at the replica", async || {
        (proxy.sum("/in_flight").await == 2).then_some(())
    })
    .await;
    proxy.signal("TERM");
    assert!(idle.rest().await.is_empty());
    go_on[0].notify_one();
    let answer = client.answer().await;
    assert_eq!(answer.field("connection"), Some("close"));
    // When the only worker has answered the next client, it has finished all work for this one.
    go_on[1].notify_one();
    assert_eq!(after.answer().await.status, 200);
    for _ in 0..2 {
        client.send(GET).await;
    }
    assert!(client.stream.take_error().unwrap().is_none());
}

#[tokio::test]
async fn server_sent_events_are_forwarded_immediately() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        connection
            .send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            .await;
        // Each event is sent after the client has received the previous one.
        while connection.more().await > 0 {
            connection.unread.clear();
            connection.send("9\r\ndata: x\n\n\r\n").await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let head = client.head().await;
    assert!(
        head.contains("content-type: text/event-stream\r\n"),
        "{head}"
    );
    for _ in 0..5 {
        client.send("1\r\n.\r\n").await;
        assert_eq!(client.exactly(14).await, b"9\r\ndata: x\n\n\r\n");
    }
}

#[tokio::test]
async fn malformed_response_is_a_502() {
    for bad in [
        "HTTP/1.1 200 OK\ncontent-length: 0\n\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\na: b\r\n c\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/3.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let replica = saying(bad).await;
        let proxy = Proxy::start(&[replica.address], "");
        let mut client = Client::connect(proxy.address).await;
        assert_eq!(client.get("/").await.status, 502, "{bad:?}");
        proxy.settled().await;
    }
}

#[tokio::test]
async fn surplus_response_is_discarded_with_its_connection() {
    // The second response belongs to no request: a client that received it would get the response
    // of another one.
    let once = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let twice: &'static str = format!("{once}{}", once.replace("ok", "no")).leak();
    let replica = saying(twice).await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.text(), "ok");
    }
    assert_eq!(replica.connections(), 3);
}

#[tokio::test]
async fn responses_are_dated() {
    let replica = saying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    let answer = client.get("/").await;
    let date = answer.field("date").unwrap();
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
    let dated = saying(
        "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let proxy = Proxy::start(&[dated.address], "");
    let mut client = Client::connect(proxy.address).await;
    let answer = client.get("/").await;
    assert_eq!(answer.field("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(answer.head.matches("date:").count(), 1);
}

#[tokio::test]
async fn requests_during_shutdown_are_served_and_their_connections_closed() {
    let replica = Replica::echo("r").await;
    let mut proxy = Proxy::start(&[replica.address], "workers = 1");
    let mut slow = Client::connect(proxy.address).await;
    slow.send("GET / HTTP/1.1\r\nhost:").await;
    let mut idle = Client::connect(proxy.address).await;
    assert_eq!(idle.get("/").await.status, 200);
    proxy.signal("TERM");
    assert!(idle.rest().await.is_empty());
    slow.send(" x\r\n\r\n").await;
    let answer = slow.answer().await;
    assert_eq!(
        (answer.status, answer.field("connection")),
        (200, Some("close"))
    );
    assert!(slow.rest().await.is_empty());
    assert!(proxy.ended().await.success());
}

#[tokio::test]
async fn idle_connections_hold_no_buffers() {
    const CONNECTIONS: u64 = 500;
    const BYTES_MAX: u64 = 16 << 10;
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "workers = 1");
    let mut clients = Vec::new();
    // What is allocated only once, such as buffers and tables, exists before the measurement.
    for _ in 0..50 {
        let mut client = Client::connect(proxy.address).await;
        assert_eq!(client.get("/").await.status, 200);
        clients.push(client);
    }
    let before = proxy.resident_bytes();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(proxy.address).await;
        assert_eq!(client.get("/").await.status, 200);
        clients.push(client);
    }
    let each = proxy.resident_bytes().saturating_sub(before) / CONNECTIONS;
    assert!(each <= BYTES_MAX, "{each} bytes for each");
}

#[tokio::test]
async fn idle_connections_closed_by_the_replica_are_closed_here_too() {
    let closed = Arc::new(Notify::new());
    let told = Arc::clone(&closed);
    let replica = Replica::scripted(move |mut connection| {
        let closed = Arc::clone(&told);
        async move {
            let head = connection.head().await.unwrap();
            connection.answer("ok").await;
            connection.stream.shutdown().await.unwrap();
            assert_eq!(connection.more().await, 0);
            // The connection of a probe does not count.
            if head.starts_with("GET / ") {
                closed.notify_one();
            }
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "workers = 1");
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.text(), "ok");
    let waiting = timeout(PATIENCE, closed.notified());
    waiting.await.expect("the proxy closes its side");
    client.leave().await;
}

#[tokio::test]
async fn client_that_leaves_behind_another_request_is_noticed() {
    let left = Arc::new(Notify::new());
    let leaves = Arc::clone(&left);
    let replica = Replica::scripted(move |mut connection| {
        let left = Arc::clone(&leaves);
        async move {
            connection.head().await;
            while connection.more().await > 0 {}
            left.notify_one();
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    for behind in ["GET /next HTTP/1.1\r\nhost: x\r\n\r\n", "\r\n"] {
        let mut client = Client::connect(proxy.address).await;
        client
            .send(&format!("GET / HTTP/1.1\r\nhost: x\r\n\r\n{behind}"))
            .await;
        until("it is in flight", async || {
            (proxy.sum("/in_flight").await == 1).then_some(())
        })
        .await;
        drop(client);
        timeout(PATIENCE, left.notified()).await.unwrap();
    }
}
