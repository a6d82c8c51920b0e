//! Trailers, in both directions and between protocols: which are forwarded, and fields that are
//! allowed only in a head.

use crate::clients::{self, Client};
use crate::proxy::Proxy;
use crate::replicas::{self, Replica};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

#[tokio::test]
async fn trailers_are_forwarded_both_ways_and_between_protocols() {
    let replica = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            while !connection.unread.ends_with(b"\r\n\r\n") {
                assert_ne!(connection.more().await, 0);
            }
            let sent = String::from_utf8(core::mem::take(&mut connection.unread)).unwrap();
            assert_eq!(sent, "2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n");
            connection
                .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nho\r\n0\r\nx-sum: 2\r\nset-cookie: a\r\n\r\n")
                .await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 1\r\ncontent-length: 3\r\nx-forwarded-for: 10.0.0.1\r\nhost: y\r\n\r\n")
        .await;
    client.head().await;
    assert_eq!(
        client.exactly(22).await,
        b"2\r\nho\r\n0\r\nx-sum: 2\r\n\r\n"
    );

    let mut client = clients::http2(proxy.address).await;
    let mut trailers = HeaderMap::new();
    for name in [
        "x-sum",
        "host",
        "authorization",
        "x-forwarded-for",
        "client-cert",
    ] {
        trailers.insert(name, HeaderValue::from_static("1"));
    }
    let frames = [Frame::data("hi".into()), Frame::trailers(trailers)];
    let body = StreamBody::new(stream::iter(frames.map(Ok)));
    let request = Request::post("http://x/")
        .body(body.boxed_unsync())
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "2");
    assert_eq!(collected.trailers().unwrap().len(), 1);
    assert_eq!(replica.connections(), 1);
}

#[tokio::test]
async fn an_http1_client_gets_the_trailers_of_an_http2_replica() {
    let address = replicas::http2(async |_| {
        let mut trailers = HeaderMap::new();
        for name in ["x-sum", "set-cookie"] {
            trailers.insert(name, HeaderValue::from_static("1"));
        }
        let frames = [Frame::data("hi".into()), Frame::trailers(trailers)];
        let body = StreamBody::new(stream::iter(frames.map(Ok)));
        Response::new(body.boxed_unsync())
    })
    .await;
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        client.head().await;
        assert_eq!(
            client.exactly(22).await,
            b"2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n"
        );
    }
}
