//! Responses before the final one, to clients over HTTP/2: early hints from replicas, and 100 to who waits for it.

use crate::proxy::Proxy;
use crate::replicas::Replica;
use bytes::Bytes;
use core::net::SocketAddr;
use h2::client::{ResponseFuture, SendRequest};
use http::{Request, Response, StatusCode};

async fn client(proxy: &Proxy) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

async fn next_interim(response: &mut ResponseFuture) -> Option<Response<()>> {
    let next = core::future::poll_fn(|cx| response.poll_informational(cx)).await;
    next.map(Result::unwrap)
}

/// A replica over HTTP/2 that gives a hint, says 100 although nobody asked, and answers.
async fn hinting() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let hint = Response::builder().status(103).header("link", "</a>");
            let hint = hint.header("x-slackwater-error", "broken");
            respond.send_informational(hint.body(()).unwrap()).unwrap();
            let unasked = Response::builder().status(100).body(()).unwrap();
            respond.send_informational(unasked).unwrap();
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data(Bytes::from_static(b"ok"), true).unwrap();
        }
    });
    address
}

#[tokio::test]
async fn early_hints_reach_clients_over_http2_from_replicas_of_either_version() {
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

#[tokio::test]
async fn who_waits_for_100_over_http2_is_told_when_the_body_is_wanted() {
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
    // Nothing of the body is sent before.
    let told = next_interim(&mut response).await.expect("100");
    assert_eq!(told.status(), StatusCode::CONTINUE);
    body.send_data(Bytes::from_static(b"hello"), true).unwrap();
    assert_eq!(response.await.unwrap().status(), StatusCode::OK);
    proxy.settled().await;
}
