//! Responses before the final one: any number of early hints from replicas, and 100 to a client
//! that waits for it.

use crate::clients::{Answer, Client, get};
use crate::proxy::{PATIENCE, Proxy};
use crate::replicas::{self, Replica};
use bytes::Bytes;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::Poll;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::timeout;

async fn client(proxy: &Proxy) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

async fn next_interim(response: &mut ResponseFuture) -> Option<Response<()>> {
    let next = poll_fn(|cx| response.poll_informational(cx)).await;
    next.map(Result::unwrap)
}

/// A replica over HTTP/2 that sends a hint, an unsolicited 100, and the answer.
async fn hinting() -> SocketAddr {
    replicas::http2_streams(move |_, mut respond| {
        let hint = Response::builder().status(103).header("link", "</a>");
        let hint = hint.header("x-slackwater-error", "broken");
        respond.send_informational(hint.body(()).unwrap()).unwrap();
        let unasked = Response::builder().status(100).body(()).unwrap();
        respond.send_informational(unasked).unwrap();
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(Bytes::from_static(b"ok"), true).unwrap();
    })
    .await
}

#[tokio::test]
async fn early_hints_of_http1_and_http2_replicas_reach_http2_clients() {
    let http1 = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            let hint =
                "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nconnection: x-hop\r\nx-hop: 1\r\n\r\n";
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            connection.send(&format!("{hint}{answer}")).await;
        }
    })
    .await;
    for (replica, protocol) in [(http1.address, "http1"), (hinting().await, "h2c")] {
        let settings = format!("[replica]\nprotocol = \"{protocol}\"");
        let proxy = Proxy::start(&[replica], &settings);
        let mut client = client(&proxy).await;
        for _ in 0..2 {
            let request = Request::get("http://x/").body(()).unwrap();
            let (mut response, _) = client.send_request(request, true).unwrap();
            let hint = next_interim(&mut response).await.expect("a hint");
            assert_eq!(hint.status(), StatusCode::EARLY_HINTS, "{protocol}");
            let fields: Vec<_> = hint.headers().iter().collect();
            assert_eq!(fields.len(), 1, "{fields:?}");
            assert_eq!(hint.headers()["link"], "</a>");
            let answer = response.await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            let body = answer.into_body().data().await;
            assert_eq!(body.unwrap().unwrap(), "ok");
        }
        drop(client);
        proxy.settled().await;
    }
}

/// A replica over HTTP/2 that refuses the first request of each path except `/`. If the next one is
/// the same, it sends a hint before the answer, which has as many octets as the request lengths.
async fn refusing_once() -> SocketAddr {
    let mut refused: HashMap<String, (Method, HeaderMap)> = HashMap::new();
    replicas::http2_streams(move |request, mut respond| {
        let (head, _) = request.into_parts();
        let path = head.uri.path().to_owned();
        let lengths = head.headers.get_all(header::CONTENT_LENGTH).iter().count();
        let fields = (head.method, head.headers);
        if path == "/" {
            respond.send_response(Response::new(()), true).unwrap();
            return;
        }
        let Some(before) = refused.remove(&path) else {
            refused.insert(path, fields);
            respond.send_reset(h2::Reason::REFUSED_STREAM);
            return;
        };
        assert_eq!(before, fields);
        let hint = Response::builder().status(103).body(()).unwrap();
        respond.send_informational(hint).unwrap();
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        body.send_data(vec![b'x'; lengths].into(), true).unwrap();
    })
    .await
}

#[tokio::test]
async fn early_hints_of_a_request_that_is_sent_again_reach_the_client() {
    let proxy = Proxy::start(&[refusing_once().await], "[replica]\nprotocol = \"h2c\"");
    // Only requests on a kept connection are sent again.
    assert_eq!(get(proxy.address, "/").await.status, 200);
    let mut http2 = client(&proxy).await;
    for (method, lengths) in [(Method::GET, 0), (Method::POST, 1)] {
        let request = Request::builder()
            .method(&method)
            .uri(format!("http://x/{method}"));
        let (mut response, _) = http2.send_request(request.body(()).unwrap(), true).unwrap();
        let hint = next_interim(&mut response).await.expect("a hint");
        assert_eq!(hint.status(), StatusCode::EARLY_HINTS, "{method}");
        let answer = response.await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{method}");
        let mut body = answer.into_body();
        let mut octets = 0;
        while let Some(piece) = body.data().await {
            octets += piece.unwrap().len();
        }
        assert_eq!(octets, lengths, "{method}");
    }
    drop(http2);
    let (hints, answer) = hints_and_answer(&proxy, "/http1").await;
    assert_eq!((hints, answer.status), (1, 200));
    proxy.settled().await;
}

#[tokio::test]
async fn http2_client_receives_100_continue_when_the_body_is_read() {
    let replica = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            assert!(!head.contains("expect:"), "{head}");
            connection.body(5).await;
            connection.answer("ok").await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = client(&proxy).await;
    let request = Request::put("http://x/")
        .header("expect", "100-continue")
        .header("content-length", "5")
        .body(())
        .unwrap();
    let (mut response, mut body) = client.send_request(request, false).unwrap();
    // None of the body is sent before.
    let told = next_interim(&mut response).await.expect("100");
    assert_eq!(told.status(), StatusCode::CONTINUE);
    body.send_data(Bytes::from_static(b"hello"), true).unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
    proxy.settled().await;
}

/// Number of hints before the response to such a request; `None`: there is no end of them.
fn hints_for(path: &str) -> Option<usize> {
    match path {
        "/endless" => None,
        path => Some(path[1..].parse().unwrap()),
    }
}

/// A replica over HTTP/1.1 that sends as many hints as the path requests, and notifies when it
/// cannot send any more.
async fn hinting_http1(refused: &Arc<Notify>) -> Replica {
    let refused = Arc::clone(refused);
    Replica::scripted(move |mut connection| {
        let refused = Arc::clone(&refused);
        async move {
            while let Some(head) = connection.head().await {
                let hint = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
                if let Some(hints) = hints_for(head.split(' ').nth(1).unwrap()) {
                    connection.send(&hint.repeat(hints)).await;
                } else {
                    let hints = hint.repeat(100);
                    while connection.stream.write_all(hints.as_bytes()).await.is_ok() {}
                    refused.notify_one();
                    return;
                }
                connection.answer("ok").await;
            }
        }
    })
    .await
}

/// A replica like [`hinting_http1`], over HTTP/2.
async fn hinting_http2(refused: &Arc<Notify>) -> SocketAddr {
    let refused = Arc::clone(refused);
    replicas::http2_streams(move |request, mut respond| {
        let refused = Arc::clone(&refused);
        tokio::spawn(async move {
            // Unwritten hints are buffered, so their number must be limited here.
            let hints = hints_for(request.uri().path());
            for _ in 0..hints.unwrap_or(100_000) {
                let hint = Response::builder().status(103).body(()).unwrap();
                let _ = respond.send_informational(hint);
                tokio::task::yield_now().await;
                if poll_fn(|cx| Poll::Ready(respond.poll_reset(cx).is_ready())).await {
                    if hints.is_none() {
                        refused.notify_one();
                    }
                    return;
                }
            }
            let answer = Response::builder().header("content-length", "2");
            let answer = answer.body(()).unwrap();
            let Ok(mut body) = respond.send_response(answer, false) else {
                return;
            };
            let _ = body.send_data(Bytes::from_static(b"ok"), true);
        });
    })
    .await
}

/// Returns the number of hints, and the final answer.
async fn hints_and_answer(proxy: &Proxy, path: &str) -> (usize, Answer) {
    let mut client = Client::connect(proxy.address).await;
    let mut answer = client.get(path).await;
    let mut hints = 0;
    while answer.status == 103 {
        hints += 1;
        answer = client.answer().await;
    }
    (hints, answer)
}

#[tokio::test]
async fn more_than_32_early_hints_are_a_502() {
    let refused = Arc::new(Notify::new());
    let http1 = hinting_http1(&refused).await;
    for (replica, protocol) in [
        (http1.address, "http1"),
        (hinting_http2(&refused).await, "h2c"),
    ] {
        let settings = format!("[replica]\nprotocol = \"{protocol}\"");
        let proxy = Proxy::start(&[replica], &settings);
        let (_, answer) = hints_and_answer(&proxy, "/32").await;
        assert_eq!((answer.status, answer.text()), (200, "ok"), "{protocol}");
        for path in ["/33", "/endless"] {
            let (hints, answer) = hints_and_answer(&proxy, path).await;
            assert!(hints <= 32, "{protocol}: {hints}");
            assert_eq!(answer.status, 502, "{protocol}");
            assert_eq!(answer.field("x-slackwater-error"), Some("broken"));
        }
        timeout(PATIENCE, refused.notified()).await.expect(protocol);
        assert_eq!(get(proxy.address, "/0").await.status, 200, "{protocol}");
        proxy.settled().await;
        assert_eq!(proxy.sum("/requests/broken").await, 2, "{protocol}");
    }
}
