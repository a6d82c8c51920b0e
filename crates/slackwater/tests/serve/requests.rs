//! Normal exchanges: both protocols on both sides, heads, methods, balancing, reuse of connections.

use crate::clients::{self, Client, empty, full, get};
use crate::proxy::{PATIENCE, Proxy, until};
use crate::replicas::{self, AnyBody, Replica};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};

#[tokio::test]
async fn requests_alternate_between_replicas_and_reuse_connections() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let proxy = Proxy::start(&[one.address, two.address], "");
    let mut client = Client::connect(proxy.address).await;
    let mut names = Vec::new();
    for turn in 0..6 {
        let answer = client.get(&format!("/{turn}")).await;
        assert_eq!(answer.status, 200);
        names.push(answer.text().lines().next().unwrap().to_owned());
    }
    for pair in names.chunks(2) {
        assert_ne!(pair[0], pair[1], "{names:?}");
    }
    assert_eq!((one.connections(), two.connections()), (1, 1));
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/responses_2xx").await, 6);
}

#[tokio::test]
async fn the_replica_receives_the_request_and_the_address_of_the_client() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send(
            "POST /path?query=1 HTTP/1.1\r\nHost: shop.example\r\nX-Own: a\r\nConnection: x-hop\r\n\
             X-Hop: 1\r\nUpgrade: websocket\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 5\r\n\r\nhello",
        )
        .await;
    let answer = client.answer().await;
    let seen = answer.text();
    assert!(
        seen.starts_with("r\nPOST /path?query=1 HTTP/1.1\r\n"),
        "{seen}"
    );
    for line in [
        "host: shop.example",
        "x-own: a",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-proto: http",
    ] {
        assert!(seen.contains(&format!("{line}\r\n")), "{seen}");
    }
    for name in ["x-hop", "upgrade", "connection:"] {
        assert!(!seen.contains(name), "{seen}");
    }
    assert!(seen.ends_with("\r\n\r\nhello"), "{seen}");
}

#[tokio::test]
async fn head_and_bodiless_statuses_keep_the_connection() {
    let replica = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            let status = if head.starts_with("HEAD") {
                "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"
            } else if head.starts_with("GET /204") {
                "HTTP/1.1 204 No Content\r\n\r\n"
            } else {
                "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n"
            };
            connection.send(status).await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for (request, status, length) in [
        ("HEAD / HTTP/1.1\r\nhost: x\r\n\r\n", "200", true),
        ("GET /204 HTTP/1.1\r\nhost: x\r\n\r\n", "204", false),
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", "103", false),
        ("", "304", false),
    ] {
        client.send(request).await;
        let head = client.head().await;
        assert_eq!(&head[9..12], status, "{head}");
        assert_eq!(head.contains("content-length: 1000"), length, "{head}");
    }
    assert_eq!(replica.connections(), 1);
    proxy.settled().await;
}

#[tokio::test]
async fn chunked_bodies_are_forwarded_in_both_directions() {
    let replica = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            assert!(head.contains("transfer-encoding: chunked"), "{head}");
            while !connection.unread.ends_with(b"0\r\n\r\n") {
                assert_ne!(connection.more().await, 0);
            }
            assert_eq!(connection.unread, b"5\r\nhello\r\n0\r\n\r\n");
            connection.unread.clear();
            connection
                .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
                .await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..2 {
        client
            .send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
            .await;
        let head = client.head().await;
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        assert_eq!(client.exactly(13).await, b"3\r\nabc\r\n0\r\n\r\n");
    }
    assert_eq!(replica.connections(), 1);
}

/// A replica that answers each chunked request with the request's body as received, and any other
/// one with "no body".
async fn chunks() -> Replica {
    Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            if !head.contains("transfer-encoding: chunked\r\n") {
                connection.answer("no body").await;
                continue;
            }
            while !connection.unread.ends_with(b"0\r\n\r\n") {
                assert_ne!(connection.more().await, 0);
            }
            let body = String::from_utf8(core::mem::take(&mut connection.unread)).unwrap();
            connection.answer(&body).await;
        }
    })
    .await
}

#[tokio::test]
async fn body_of_unknown_length_is_forwarded_for_any_method() {
    let replica = chunks().await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    for method in ["GET", "POST", "DELETE"] {
        client
            .send(&format!(
                "{method} / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            ))
            .await;
        let answer = client.answer().await;
        assert_eq!(answer.text(), "5\r\nhello\r\n0\r\n\r\n", "{method}");
    }
    assert_eq!(client.get("/").await.text(), "no body");

    let mut client = clients::http2(proxy.address).await;
    for method in [Method::GET, Method::PUT] {
        let piece = futures_util::stream::once(async { Ok(Frame::data("hello".into())) });
        let request = Request::builder()
            .method(&method)
            .uri("http://x/")
            .body(StreamBody::new(piece).boxed_unsync())
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "5\r\nhello\r\n0\r\n\r\n", "{method}");
    }
    assert_eq!(replica.connections(), 1);
    proxy.settled().await;
}

#[tokio::test]
async fn http_1_0_clients_are_served() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /old HTTP/1.0\r\n\r\n").await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    let host = format!("host: {}\r\n", proxy.address);
    assert!(
        answer.contains("GET /old HTTP/1.1\r\n") && answer.contains(&host),
        "{answer}"
    );
}

#[tokio::test]
async fn ambiguous_requests_are_refused_and_reach_no_replica() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            400,
        ),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", 501),
        ("nonsense\r\n\r\n", 400),
    ] {
        let mut client = Client::connect(proxy.address).await;
        client.send(request).await;
        assert_eq!(client.answer().await.status, status, "{request:?}");
    }
    let mut client = Client::connect(proxy.address).await;
    let long = "x".repeat(70 << 10);
    client
        .send(&format!(
            "GET / HTTP/1.1\r\nhost: a\r\nx-long: {long}\r\n\r\n"
        ))
        .await;
    assert_eq!(client.answer().await.status, 431);
    assert_eq!(replica.connections(), 0);
    assert_eq!(proxy.sum("/requests/sent").await, 0);
}

#[tokio::test]
async fn http2_clients_reach_http1_replicas() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = clients::http2(proxy.address).await;
    let many = (0..50).map(|index| {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://shop.example/{index}"))
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(full("hello"))
            .unwrap();
        let response = client.send_request(request);
        async move {
            let response = response.await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let seen = String::from_utf8(body.to_vec()).unwrap();
            assert!(
                seen.contains(&format!("POST /{index} HTTP/1.1\r\n")),
                "{seen}"
            );
            assert!(seen.contains("host: shop.example\r\n"), "{seen}");
            assert!(seen.contains("cookie: a=1; b=2\r\n"), "{seen}");
            assert!(seen.ends_with("hello"), "{seen}");
        }
    });
    futures_util::future::join_all(many).await;
    proxy.settled().await;
}

/// Answers with the request's body, and its trailers if it had any.
async fn mirror(request: Request<Incoming>) -> Response<AnyBody> {
    let mut response = Response::builder()
        .header("x-version", format!("{:?}", request.version()))
        .header("x-target", request.uri().to_string());
    if let Some(te) = request.headers().get("te") {
        response = response.header("x-te", te);
    }
    response.body(request.into_body().boxed_unsync()).unwrap()
}

#[tokio::test]
async fn http1_clients_reach_http2_replicas_over_one_connection() {
    let address = replicas::http2(mirror).await;
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let answers = (0..20).map(|index| {
        let address = proxy.address;
        async move {
            let mut client = Client::connect(address).await;
            client
                .send(&format!(
                    "POST /{index} HTTP/1.1\r\nhost: shop.example\r\ncontent-length: 5\r\n\r\nhello"
                ))
                .await;
            client.answer().await
        }
    });
    for (index, answer) in futures_util::future::join_all(answers)
        .await
        .iter()
        .enumerate()
    {
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        assert_eq!(answer.field("x-version"), Some("HTTP/2.0"));
        let target = format!("http://shop.example/{index}");
        assert_eq!(answer.field("x-target"), Some(&*target));
    }
    proxy.settled().await;
}

#[tokio::test]
async fn trailers_are_forwarded_from_http2_to_http2() {
    let address = replicas::http2(mirror).await;
    let proxy = Proxy::start(&[address], "[replica]\nprotocol = \"h2c\"");
    let mut client = clients::http2(proxy.address).await;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [
        Frame::data("hello".into()),
        Frame::trailers(trailers.clone()),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok)));
    let request = Request::builder()
        .method(Method::POST)
        .uri("http://shop.example/service/Method")
        .version(Version::HTTP_2)
        .header("te", "trailers")
        .body(body.boxed_unsync())
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.headers()["x-te"], "trailers");
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "hello");
    proxy.settled().await;
}

#[tokio::test]
async fn ipv6_works_on_both_sides() {
    let replica = Replica::echo_at("[::1]:0", "six").await;
    let proxy = Proxy::start(&[replica.address], "listen = [\"[::1]:0\"]");
    assert!(proxy.address.is_ipv6());
    let answer = get(proxy.address, "/").await;
    assert!(answer.text().starts_with("six\n"));
    assert!(
        answer.text().contains("x-forwarded-for: ::1\r\n"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn every_policy_serves_requests_with_and_without_probes() {
    let replicas = [
        Replica::echo("one").await,
        Replica::echo("two").await,
        Replica::echo("three").await,
    ];
    let addresses = replicas.each_ref().map(|replica| replica.address);
    for policy in [
        "prequal",
        "prequal_sync",
        "least_loaded",
        "round_robin",
        "random",
    ] {
        for transport in ["udp", "http", "none"] {
            if (policy, transport) == ("prequal_sync", "none") {
                continue;
            }
            let toml =
                format!("policy = \"{policy}\"\nworkers = 2\n[probe]\ntransport = \"{transport}\"");
            let proxy = Proxy::start(&addresses, &toml);
            let mut client = Client::connect(proxy.address).await;
            for _ in 0..10 {
                let answer = tokio::time::timeout(PATIENCE, client.get("/"))
                    .await
                    .unwrap();
                assert_eq!(answer.status, 200, "{policy} over {transport}");
            }
            proxy.settled().await;
        }
    }
}

#[tokio::test]
async fn an_empty_http2_request_stays_empty() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = clients::http2(proxy.address).await;
    let request = Request::get("http://shop.example/").body(empty()).unwrap();
    let response = client.send_request(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let seen = String::from_utf8(body.to_vec()).unwrap();
    assert!(
        !seen.contains("content-length") && !seen.contains("transfer-encoding"),
        "{seen}"
    );
}

#[tokio::test]
async fn replicas_that_answer_no_probes_are_logged_in_one_line() {
    let mut replicas = Vec::new();
    for _ in 0..5 {
        replicas.push(Replica::echo("r").await);
    }
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
    let proxy = Proxy::start(
        &addresses,
        "policy = \"prequal\"\n[probe]\ntransport = \"udp\"",
    );
    let mut client = Client::connect(proxy.address).await;
    let unprobed = |page: &str| page.matches("\"state\": \"unprobed\"").count();
    until("all replicas are unprobed", async || {
        assert_eq!(client.get("/").await.status, 200);
        let status = proxy.admin_page("/status").await;
        (unprobed(&status) == addresses.len()).then_some(())
    })
    .await;
    let line = proxy.log_line("unprobed");
    assert!(
        line.contains("replicas unprobed: no probe answered"),
        "{line}"
    );
    assert!(
        line.contains(" INFO ") && line.contains("replicas=5"),
        "{line}"
    );
    let named = addresses.iter().filter(|it| line.contains(&it.to_string()));
    assert_eq!(named.count(), 3, "{line}");
}

#[tokio::test]
async fn protocol_is_detected_if_the_first_bytes_arrive_in_pieces() {
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], "");
    for pieces in [["P", "UT"], ["PR", "OPFIND"], ["P", "OST"]] {
        let mut client = Client::connect(proxy.address).await;
        client.send(pieces[0]).await;
        // The proxy has only the first piece so far.
        client.is_read().await;
        client
            .send(&format!("{} / HTTP/1.1\r\nhost: x\r\n\r\n", pieces[1]))
            .await;
        let answer = client.answer().await;
        let line = format!("r\n{} / HTTP/1.1\r\n", pieces.concat());
        assert!(answer.text().starts_with(&line), "{}", answer.text());
    }
    let mut client = Client::connect(proxy.address).await;
    client.send("PR").await;
    client.is_read().await;
    client.send("I * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    // An empty SETTINGS frame from the client; the proxy's own begins with its length and the type
    // 4.
    client.send("\0\0\0\x04\0\0\0\0\0").await;
    assert_eq!(client.exactly(4).await[3], 4);
}
