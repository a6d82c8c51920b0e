//! Bodies are streamed: the first bytes arrive before the last are sent, in both directions and
//! with both protocols.

use crate::clients::{self, Client, empty};
use crate::proxy::{PATIENCE, Proxy};
use crate::replicas::{self, Replica};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

#[tokio::test]
async fn response_is_streamed_to_the_client() {
    let go_on = Arc::new(Notify::new());
    let wait = Arc::clone(&go_on);
    let replica = Replica::scripted(move |mut connection| {
        let wait = Arc::clone(&wait);
        async move {
            connection.head().await;
            connection
                .send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst")
                .await;
            wait.notified().await;
            connection.send("-last").await;
            connection.more().await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    client.head().await;
    assert_eq!(client.exactly(5).await, b"first");
    assert_eq!(
        proxy.sum("/in_flight").await,
        1,
        "it runs until its last byte"
    );
    go_on.notify_one();
    assert_eq!(client.exactly(5).await, b"-last");
    proxy.settled().await;
}

#[tokio::test]
async fn request_is_streamed_to_the_replica() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let replica = Replica::scripted(move |mut connection| {
        let tell = tell.clone();
        async move {
            connection.head().await;
            for _ in 0..2 {
                let piece = connection.body(5).await.unwrap();
                tell.send(String::from_utf8(piece).unwrap()).unwrap();
            }
            connection.answer("ok").await;
            connection.more().await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nfirst")
        .await;
    assert_eq!(
        timeout(PATIENCE, told.recv()).await.unwrap().unwrap(),
        "first"
    );
    client.send("-last").await;
    assert_eq!(
        timeout(PATIENCE, told.recv()).await.unwrap().unwrap(),
        "-last"
    );
    assert_eq!(client.answer().await.text(), "ok");
}

#[tokio::test]
async fn a_client_that_expects_100_continue_receives_it() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        .await;
    let go_on = client.head().await;
    assert!(go_on.starts_with("HTTP/1.1 100 "), "{go_on}");
    client.send("hello").await;
    assert!(client.answer().await.text().ends_with("hello"));
}

#[tokio::test]
async fn http2_body_and_response_stream_simultaneously() {
    let address = replicas::http2(async |request: Request<hyper::body::Incoming>| {
        Response::new(request.into_body().boxed_unsync())
    })
    .await;
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut client = clients::http2(proxy.address).await;
    let (say, said) = mpsc::unbounded_channel::<Bytes>();
    let frames = futures_util::stream::unfold(said, async |mut said| {
        let piece = said.recv().await?;
        Some((Ok(Frame::data(piece)), said))
    });
    let request = Request::post("http://x/")
        .body(StreamBody::new(frames).boxed_unsync())
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    let mut echo = response.into_body();
    for word in ["one", "two", "three"] {
        say.send(word.into()).unwrap();
        let frame = timeout(PATIENCE, echo.frame())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(frame.into_data().unwrap(), word);
    }
    drop(say);
    let rest = timeout(PATIENCE, echo.collect()).await.unwrap().unwrap();
    assert!(rest.to_bytes().is_empty());
    proxy.settled().await;
}

#[tokio::test]
async fn unread_stream_blocks_no_other_stream() {
    let address = replicas::http2(async |request: Request<hyper::body::Incoming>| {
        let pieces = if request.uri().path() == "/endless" {
            1 << 20
        } else {
            1
        };
        let frames = futures_util::stream::iter(
            (0..pieces).map(|_| Ok(Frame::data(Bytes::from_static(&[0; 1024])))),
        );
        Response::new(StreamBody::new(frames).boxed_unsync())
    })
    .await;
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut slow = clients::http2(proxy.address).await;
        let request = Request::get("http://x/endless").body(empty()).unwrap();
        let response = slow.send_request(request).await.unwrap();
        clients.push((slow, response));
    }
    let mut quick = clients::http2(proxy.address).await;
    for _ in 0..20 {
        let request = Request::get("http://x/").body(empty()).unwrap();
        let response = timeout(PATIENCE, quick.send_request(request))
            .await
            .unwrap()
            .unwrap();
        let body = timeout(PATIENCE, response.into_body().collect())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(body.to_bytes().len(), 1024);
    }
    drop(clients);
    proxy.settled().await;
}
