//! Replicas that refuse connections, hang, close early or send half a response; clients that leave.
//! The client receives the right error, and no request stays in flight.

use crate::clients::{self, Client, empty, full, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{self, Replica, unused_address};
use bytes::Bytes;
use core::net::SocketAddr;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use slackwater_discovery::testing::sharing;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

#[tokio::test]
async fn refused_connections_are_retried_without_the_client_noticing() {
    let well = Replica::echo("well").await;
    let proxy = Proxy::start(
        &[unused_address().await, well.address, unused_address().await],
        "",
    );
    let mut client = Client::connect(proxy.address).await;
    for index in 0..9 {
        client
            .send(&format!(
                "POST /{index} HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
            ))
            .await;
        let answer = client.answer().await;
        assert!(answer.text().starts_with("well\n") && answer.text().ends_with("hello"));
    }
    proxy.settled().await;
    assert!(proxy.sum("/requests/connect_failures").await > 0);
    assert_eq!(
        proxy.sum("/requests/retries").await,
        proxy.sum("/requests/sent").await - 9
    );
}

#[tokio::test]
async fn one_refusing_replica_of_two_fails_no_request() {
    let well = Replica::echo("well").await;
    let proxy = Proxy::start(&[unused_address().await, well.address], "");
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 200);
    }
    proxy.settled().await;
    let refused = proxy.sum("/requests/connect_failures").await;
    assert!(refused > 0);
    assert_eq!(proxy.sum("/requests/retries").await, refused);
}

/// A replica that answers every request with 503.
async fn unavailable() -> Replica {
    Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            connection
                .send("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    })
    .await
}

#[tokio::test]
async fn a_503_of_the_application_itself_is_forwarded() {
    let (busy, other) = (unavailable().await, unavailable().await);
    let proxy = Proxy::start(
        &[busy.address, other.address],
        "[retries]\nmethods = \"none\"",
    );
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 503);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/retries").await, 0);
}

#[tokio::test]
async fn refusals_are_retried_for_http2_replicas_too() {
    let address = replicas::http2(async |_| Response::new(full("well"))).await;
    let proxy = Proxy::start(
        &[unused_address().await, address],
        "[replica]\nprotocol = \"h2c\"",
    );
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..4 {
        assert_eq!(client.get("/").await.text(), "well");
    }
    proxy.settled().await;
}

#[tokio::test]
async fn error_states_the_reason_if_no_replica_accepts_connections() {
    let proxy = Proxy::start(&[unused_address().await, unused_address().await], "");
    let answer = get(proxy.address, "/").await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.field("x-slackwater-error"), Some("no_connection"));
    assert_eq!(
        answer.text(),
        "no connection to a replica: connection refused\n"
    );
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/connect_failures").await, 2);
}

#[tokio::test]
async fn a_connection_that_the_replica_closed_while_idle_is_no_error() {
    // Every second request gets a pooled connection that the replica closes without an answer, as
    // when the request and a replica's idle timeout cross on the wire.
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        connection.answer("ok").await;
        connection.head().await;
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for index in 0..10 {
        assert_eq!(client.get(&format!("/{index}")).await.text(), "ok");
    }
    assert!(replica.connections() >= 5);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/broken").await, 0);
}

#[tokio::test]
async fn a_request_that_may_have_had_an_effect_is_not_sent_twice() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        if connection.index == 0 {
            connection.answer("ok").await;
            connection.head().await;
            // Closed after the request was read: the application may have acted on it.
        } else {
            connection.answer("twice").await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.text(), "ok");
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.field("x-slackwater-error"), Some("broken"));
    assert_eq!(replica.connections(), 1);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/broken").await, 1);
}

#[tokio::test]
async fn a_request_that_may_have_been_received_is_not_retried() {
    // The port is held, so that no server is there afterwards.
    let held = sharing(SocketAddr::from(([127, 0, 0, 1], 0)));
    let address = held.local_addr().unwrap();
    let listener = sharing(address).listen(8).unwrap();
    // It answers once, reads a second request, and is permanently gone.
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let mut unread = [0; 4096];
        assert_ne!(stream.read(&mut unread).await.unwrap(), 0);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        stream.write_all(answer).await.unwrap();
        assert_ne!(stream.read(&mut unread).await.unwrap(), 0);
    });
    let well = Replica::echo("well").await;
    let proxy = Proxy::start(&[address, well.address], "[retries]\nmethods = \"none\"");
    let mut client = Client::connect(proxy.address).await;
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(client.get("/").await.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 502]);
    proxy.settled().await;
}

#[tokio::test]
async fn only_immediately_closed_idempotent_requests_are_resent() {
    for (method, pause) in [
        ("DELETE", Duration::ZERO),
        ("GET", Duration::from_millis(300)),
    ] {
        let replica = Replica::scripted(move |mut connection| async move {
            connection.head().await;
            connection.answer("ok").await;
            if connection.index == 0 {
                connection.head().await;
                // The time for which a replica might work on the request before it crashes.
                tokio::time::sleep(pause).await;
            }
        })
        .await;
        let proxy = Proxy::start(&[replica.address], "");
        let mut client = Client::connect(proxy.address).await;
        assert_eq!(client.get("/").await.text(), "ok");
        client
            .send(&format!("{method} / HTTP/1.1\r\nhost: x\r\n\r\n"))
            .await;
        assert_eq!(
            client.answer().await.status,
            502,
            "{method} after {pause:?}"
        );
        assert_eq!(replica.connections(), 1);
        proxy.settled().await;
    }
}

#[tokio::test]
async fn an_http2_stream_is_sent_again_only_if_it_was_not_processed() {
    // Each path is answered, except for its first request if the path has a reason for a reset.
    let mut seen = Vec::new();
    let address = replicas::http2_streams(move |request, mut respond| {
        let path = request.uri().path().to_owned();
        let reason = match path.split('/').nth(1) {
            Some("refused") => Some(h2::Reason::REFUSED_STREAM),
            Some("failed") => Some(h2::Reason::INTERNAL_ERROR),
            _ => None,
        };
        match reason.filter(|_| !seen.contains(&path)) {
            Some(reason) => respond.send_reset(reason),
            None => drop(respond.send_response(Response::new(()), true).unwrap()),
        }
        seen.push(path);
    })
    .await;
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut client = Client::connect(proxy.address).await;
    for (request, body, status) in [
        ("GET /", "", 200),
        ("POST /refused", "", 200),
        ("POST /refused/with/body", "hello", 200),
        ("GET /failed", "", 502),
        ("POST /failed/with/body", "hello", 502),
    ] {
        let length = body.len();
        client
            .send(&format!(
                "{request} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
            ))
            .await;
        assert_eq!(client.answer().await.status, status, "{request}");
    }
    proxy.settled().await;
}

#[tokio::test]
async fn a_replica_that_closes_before_it_answers_is_a_502() {
    for nonsense in ["", "HTTP/1.1 200 OK\r\ncontent-", "bananas\r\n\r\n"] {
        let replica = Replica::scripted(move |mut connection| async move {
            connection.head().await;
            connection.send(nonsense).await;
        })
        .await;
        let proxy = Proxy::start(&[replica.address], "");
        let answer = get(proxy.address, "/").await;
        assert_eq!(answer.status, 502, "{nonsense:?}");
        assert_eq!(answer.field("x-slackwater-error"), Some("broken"));
        proxy.settled().await;
    }
}

#[tokio::test]
async fn an_unrequested_change_of_protocol_is_a_502() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
        connection.send(switch).await;
        while connection.more().await > 0 {}
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 502);
    assert_eq!(answer.field("x-slackwater-error"), Some("switched"));
    proxy.settled().await;
}

#[tokio::test]
async fn truncated_response_is_aborted() {
    for (head, body) in [
        ("content-length: 10", "half."),
        ("transfer-encoding: chunked", "5\r\nhalf.\r\n"),
    ] {
        let replica = Replica::scripted(move |mut connection| async move {
            connection.head().await;
            connection
                .send(&format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"))
                .await;
        })
        .await;
        let proxy = Proxy::start(&[replica.address], "");
        let mut client = Client::connect(proxy.address).await;
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let answer = String::from_utf8(client.rest().await).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 OK") && answer.trim_end().ends_with("half."),
            "{answer}"
        );
        assert!(
            !answer.ends_with("0\r\n\r\n"),
            "an aborted response must not look complete"
        );

        let mut client = clients::http2(proxy.address).await;
        let request = Request::get("http://x/").body(empty()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert!(response.into_body().collect().await.is_err());
        proxy.settled().await;
        assert_eq!(proxy.sum("/requests/broken").await, 2);
    }
}

#[tokio::test]
async fn hanging_replica_is_a_504() {
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        connection.more().await;
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "[timeouts]\nfirst_byte = \"200ms\"");
    let answer = get(proxy.address, "/").await;
    assert_eq!(answer.status, 504);
    assert_eq!(
        answer.field("x-slackwater-error"),
        Some("first_byte_timeout")
    );
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/timeouts").await, 1);
}

/// A configuration with h2c replicas and a short timeout for requests at `path` alone.
fn hasty(path: &str) -> String {
    format!(
        "[replica]\nprotocol = \"h2c\"\n\
         [[routes]]\npath = \"{path}\"\nservice = \"default\"\ntimeouts.first_byte = \"200ms\"\n\
         [[routes]]\nservice = \"default\"\n"
    )
}

#[tokio::test]
async fn http2_connection_that_times_out_is_not_reused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The first connection accepts requests and never answers; the next one answers.
    tokio::spawn(async move {
        let (silent, _) = listener.accept().await.unwrap();
        let mut silent = h2::server::handshake(silent).await.unwrap();
        let holding = async {
            let mut unanswered = Vec::new();
            while let Some(Ok(request)) = silent.accept().await {
                unanswered.push(request);
            }
        };
        let answering = async {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_response(Response::new(()), true).unwrap();
            }
        };
        tokio::join!(holding, answering);
    });
    let proxy = Proxy::start(&[address], &hasty("/silent"));
    assert_eq!(get(proxy.address, "/silent").await.status, 504);
    assert_eq!(get(proxy.address, "/").await.status, 200);
    proxy.settled().await;
}

#[tokio::test]
async fn http2_connection_that_answers_other_requests_is_kept() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut unanswered = Vec::new();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    if request.uri().path() == "/slow" {
                        unanswered.push(respond);
                    } else {
                        respond.send_response(Response::new(()), true).unwrap();
                    }
                }
            });
        }
    });
    let proxy = Proxy::start(&[address], &hasty("/slow"));
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 200);
    let mut slow = pin!(get(proxy.address, "/slow"));
    let status = loop {
        tokio::select! {
            answer = &mut slow => break answer.status,
            answer = client.get("/") => assert_eq!(answer.status, 200),
        }
    };
    assert_eq!(status, 504);
    assert_eq!(get(proxy.address, "/").await.status, 200);
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
    proxy.settled().await;
}

#[tokio::test]
async fn slow_upload_is_allowed_and_a_stalled_one_is_a_408() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "[timeouts]\nfirst_byte = \"1s\"");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 150\r\n\r\n")
        .await;
    // Each pause is far shorter than the timeout, also on a busy machine, but their sum is longer.
    for _ in 0..150 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        client.send("x").await;
    }
    assert_eq!(client.answer().await.status, 200);
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\nxxx")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 408);
    assert_eq!(answer.field("x-slackwater-error"), Some("client_stalled"));
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/client_gone").await, 1);
}

#[tokio::test]
async fn client_that_disconnects_cancels_its_request_at_the_replica() {
    let gone = Arc::new(Notify::new());
    let tell = Arc::clone(&gone);
    let replica = Replica::scripted(move |mut connection| {
        let tell = Arc::clone(&tell);
        async move {
            let head = connection.head().await.unwrap();
            if head.starts_with("GET /streaming") {
                connection
                    .send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc")
                    .await;
            }
            while connection.more().await > 0 {}
            tell.notify_one();
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    for request in [
        "GET /waiting HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /streaming HTTP/1.1\r\nhost: x\r\n\r\n",
        "POST /uploading HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nabc",
    ] {
        let mut client = Client::connect(proxy.address).await;
        client.send(request).await;
        until("the request is out", async || {
            (proxy.sum("/in_flight").await == 1).then_some(())
        })
        .await;
        if request.contains("streaming") {
            client.head().await;
        }
        drop(client);
        gone.notified().await;
        proxy.settled().await;
    }
    let request = Request::get("http://x/waiting").body(empty()).unwrap();
    let mut client = clients::http2(proxy.address).await;
    let response = tokio::spawn(client.send_request(request));
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    response.abort();
    gone.notified().await;
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/client_gone").await, 4);
}

#[tokio::test]
async fn an_http2_stream_that_is_reset_ends_on_both_sides() {
    let address = replicas::http2(async |_| {
        let endless =
            futures_util::stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[0; 1024]))));
        Response::new(StreamBody::new(endless).boxed_unsync())
    })
    .await;
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut client = clients::http2(proxy.address).await;
    for _ in 0..3 {
        let request = Request::get("http://x/").body(empty()).unwrap();
        let mut body = client.send_request(request).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        drop(body);
    }
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/client_gone").await, 3);
}

#[tokio::test]
async fn early_response_does_not_corrupt_the_connection_pool() {
    let replica = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            connection
                .answer(if head.starts_with("POST") {
                    "early"
                } else {
                    "fine"
                })
                .await;
            if head.starts_with("POST") {
                while connection.more().await > 0 {}
            }
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    for _ in 0..3 {
        let mut client = Client::connect(proxy.address).await;
        client
            .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nabc")
            .await;
        assert_eq!(client.answer().await.text(), "early");
        let _ = client.stream.shutdown().await;
        assert_eq!(get(proxy.address, "/").await.text(), "fine");
    }
    proxy.settled().await;
}

#[tokio::test]
async fn errors_of_the_application_are_forwarded_unchanged() {
    let replica = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            connection
                .send("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nretry-after: 1\r\n\r\nbusy")
                .await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let answer = get(proxy.address, "/").await;
    assert_eq!((answer.status, answer.text()), (503, "busy"));
    assert_eq!(answer.field("retry-after"), Some("1"));
    assert_eq!(answer.field("x-slackwater-error"), None);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/responses_5xx").await, 1);
    let mut client = clients::http2(proxy.address).await;
    let request = Request::get("http://x/").body(empty()).unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}
