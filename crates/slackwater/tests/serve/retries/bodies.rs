//! Bodies of retried requests: they are sent again completely, or the request is not retried.

use super::*;

#[tokio::test]
async fn small_body_is_resent_completely() {
    let (bad, well) = (says("bad", 503, "").await, Replica::echo("well").await);
    let proxy = Proxy::start(&[bad.address, well.address], "[retries]\nbody_max = 10");
    let mut client = Client::connect(proxy.address).await;
    let mut found = Vec::new();
    for body in ["0123456789", "0123456789", "0123456789x", "0123456789x"] {
        let length = body.len();
        let head = format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        client.send(&format!("{head}{body}")).await;
        let answer = client.answer().await;
        if answer.status == 200 {
            assert!(
                answer.text().ends_with(&format!("\r\n\r\n{body}")),
                "{}",
                answer.text()
            );
        }
        found.push(answer.status);
    }
    assert_eq!(found[..2], [200, 200]);
    found[2..].sort_unstable();
    assert_eq!(found[2..], [200, 503]);
    proxy.settled().await;
}

/// A replica that closes the connection after the first piece of a chunked request.
async fn closes_at_first() -> Replica {
    Replica::scripted(async |mut connection| {
        connection.head().await.unwrap();
        while !has_first(&connection.unread) {
            assert_ne!(connection.more().await, 0);
        }
    })
    .await
}

/// A replica that answers a chunked request with the body that it received, and counts the requests
/// whose first piece it has.
async fn takes_chunks() -> (Replica, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let replica = Replica::scripted(move |mut connection| {
        let counted = Arc::clone(&counted);
        async move {
            let head = connection.head().await.unwrap();
            assert!(head.contains("transfer-encoding: chunked"), "{head}");
            while !has_first(&connection.unread) {
                assert_ne!(connection.more().await, 0);
            }
            counted.fetch_add(1, Ordering::SeqCst);
            while !connection.unread.ends_with(b"0\r\n\r\n") {
                assert_ne!(connection.more().await, 0);
            }
            let text = String::from_utf8_lossy(&connection.unread).into_owned();
            let pieces: String = text.split("\r\n").skip(1).step_by(2).collect();
            connection.answer(&format!("well {pieces}")).await;
        }
    })
    .await;
    (replica, begun)
}

fn has_first(unread: &[u8]) -> bool {
    unread.windows(5).any(|part| part == b"first")
}

#[tokio::test]
async fn interrupted_upload_is_replayed_from_its_start_elsewhere() {
    let bad = closes_at_first().await;
    let (well, begun) = takes_chunks().await;
    let proxy = Proxy::start(&[bad.address, well.address], "");
    let (first, second) = ("5\r\nfirst\r\n", "6\r\nsecond\r\n0\r\n\r\n");
    let head = "PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_replayed(&proxy, &begun, [head, first, second], "well firstsecond").await;
}

/// Sends requests until one has gone to a bad replica first, and checks the answers. The second
/// half of a body is sent once the other replica has `begun` to receive its request.
async fn assert_replayed(
    proxy: &Proxy,
    begun: &AtomicUsize,
    [head, first, second]: [&str; 3],
    answer: &str,
) {
    for before in 0..2 {
        let mut client = Client::connect(proxy.address).await;
        client.send(&format!("{head}{first}")).await;
        crate::proxy::until("the replica that stays has the request", async || {
            (begun.load(Ordering::SeqCst) > before).then_some(())
        })
        .await;
        client.send(second).await;
        assert_eq!(client.answer().await.text(), answer);
        if proxy.sum("/requests/retries").await == 1 {
            return;
        }
    }
    panic!("neither of two requests went to the bad one first");
}

#[tokio::test]
async fn http2_retry_resends_body_and_trailers() {
    let bad = replicas::http2(async |request: Request<hyper::body::Incoming>| {
        let _ = request.into_body().collect().await;
        let mut response = Response::new(empty());
        *response.status_mut() = http::StatusCode::BAD_GATEWAY;
        response
    })
    .await;
    let well = replicas::http2(async |request: Request<hyper::body::Incoming>| {
        let body = request.into_body().collect().await.unwrap();
        let sum = body.trailers().unwrap()["sum"].clone();
        let mut response = Response::new(full(body.to_bytes()));
        response.headers_mut().insert("sum", sum);
        response
    })
    .await;
    let proxy = Proxy::start(&[bad, well], "[replica]\nprotocol = \"h2c\"");
    for _ in 0..2 {
        let mut trailers = HeaderMap::new();
        trailers.insert("sum", HeaderValue::from_static("7"));
        let frames = [
            Ok(Frame::data("hello".into())),
            Ok(Frame::trailers(trailers)),
        ];
        let body = http_body_util::StreamBody::new(futures_util::stream::iter(frames));
        let request = Request::put("http://x/").body(body.boxed_unsync()).unwrap();
        let mut client = clients::http2(proxy.address).await;
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.headers()["sum"], "7");
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "hello"
        );
    }
    assert!(proxy.sum("/requests/retries").await > 0);
}

#[tokio::test]
async fn an_upload_that_is_rejected_half_way_is_replayed_from_its_start_over_http2() {
    let bad = replicas::http2(async |request: Request<hyper::body::Incoming>| {
        let first = request.into_body().frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "first");
        let mut response = Response::new(empty());
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        response
    })
    .await;
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let well = replicas::http2(move |request: Request<hyper::body::Incoming>| {
        let counted = Arc::clone(&counted);
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            let body = request.into_body().collect().await.unwrap();
            Response::new(full(body.to_bytes()))
        }
    })
    .await;
    let proxy = Proxy::start(&[bad, well], "[replica]\nprotocol = \"h2c\"");
    let head = "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n";
    assert_replayed(&proxy, &begun, [head, "first", "second"], "firstsecond").await;
}
