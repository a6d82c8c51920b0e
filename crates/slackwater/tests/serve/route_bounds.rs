//! The limits of a route, in time and size, and copies of its requests.

use crate::clients::{self, Client, get};
use crate::proxy::{PATIENCE, Proxy, until};
use crate::replicas::{self, Replica};
use crate::routes::{ask, name_in, services};
use core::time::Duration;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn copies_go_to_a_shadow_without_delaying_the_client() {
    let web = Replica::echo("web").await;
    let (seen, mut shadowed) = tokio::sync::mpsc::unbounded_channel();
    let shadow = Replica::scripted(move |mut connection| {
        let seen = seen.clone();
        async move {
            while let Some(head) = connection.head().await {
                let length = if head.contains("content-length: 5") {
                    5
                } else {
                    0
                };
                let body = connection.body(length).await.unwrap();
                let _ = seen.send(format!("{head}{}", String::from_utf8(body).unwrap()));
                if head.starts_with("GET /mute") {
                    // It never answers.
                    while connection.more().await > 0 {}
                    return;
                }
                connection
                    .send("HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n")
                    .await;
            }
        }
    })
    .await;
    let gone = replicas::unused_address().await;
    let named = [
        ("web", web.address),
        ("shadow", shadow.address),
        ("gone", gone),
    ];
    let toml = services(&named)
        + "[[routes]]\npath_prefix = \"/none\"\nservice = \"web\"\nmirror = { service = \"shadow\", share = 0 }\n\
           [[routes]]\npath_prefix = \"/gone\"\nservice = \"web\"\nmirror.service = \"gone\"\n\
           [[routes]]\nservice = \"web\"\nrequest_headers.set = { x-set = \"1\" }\n\
           mirror = { service = \"shadow\", body_bytes_max = 5 }\n\
           [request_id]\nheader = \"x-request-id\"\n";
    let proxy = Proxy::of_file(&toml);
    let post =
        |target: &str, framing: &str| format!("POST {target} HTTP/1.1\r\nhost: a\r\n{framing}");
    for (request, copied) in [
        (
            "GET /one HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            Some(("GET /one ", "")),
        ),
        (
            "GET /mute HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
            Some(("GET /mute ", "")),
        ),
        (
            post("/two", "content-length: 5\r\n\r\nhello"),
            Some(("POST /two ", "hello")),
        ),
        (post("/six", "content-length: 6\r\n\r\nhello!"), None),
        ("GET /none HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), None),
        ("GET /gone HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(), None),
    ] {
        let answer = ask(&proxy, &request).await;
        assert_eq!(answer.status, 200, "{request}");
        assert_eq!(name_in(&answer), "web", "{request}");
        if let Some((start, body)) = copied {
            let copy = tokio::time::timeout(PATIENCE, shadowed.recv()).await;
            let copy = copy.unwrap().unwrap();
            assert!(
                copy.starts_with(start) && copy.ends_with(&format!("\r\n\r\n{body}")),
                "{copy}"
            );
            assert!(copy.contains("x-set: 1\r\n"), "{copy}");
            assert!(copy.contains("x-request-id: "), "{copy}");
        }
    }
    // The request is chunked; its copy has a known length.
    let chunked = "transfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    let mut client = Client::connect(proxy.address).await;
    client.send(&post("/chunked", chunked)).await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    let copy = tokio::time::timeout(PATIENCE, shadowed.recv()).await;
    let copy = copy.unwrap().unwrap();
    assert!(
        copy.starts_with("POST /chunked ") && copy.ends_with("\r\n\r\nhello"),
        "{copy}"
    );
    assert!(!copy.contains("chunked\r\n"), "{copy}");
    let metrics = proxy.admin_page("/metrics").await;
    for line in [
        "slackwater_mirrored_total{service=\"shadow\"} 4",
        "slackwater_mirror_skipped_total{service=\"shadow\"} 1",
        "slackwater_mirrored_total{service=\"web\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn at_most_256_copies_are_in_flight() {
    let web = Replica::echo("web").await;
    let shadow =
        Replica::scripted(async |mut connection| while connection.more().await > 0 {}).await;
    // One copy is at the shadow, which never answers. The others wait for its connection.
    let toml = services(&[("web", web.address), ("shadow", shadow.address)])
        + "replica.connections_max = 1\ntimeouts.connect = \"1m\"\n\
           [[routes]]\nservice = \"web\"\nmirror.service = \"shadow\"\n";
    let proxy = Proxy::of_file(&toml);
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..258 {
        assert_eq!(client.get("/").await.status, 200);
    }
    let metrics = proxy.admin_page("/metrics").await;
    for line in [
        "slackwater_mirrored_total{service=\"shadow\"} 256",
        "slackwater_mirror_skipped_total{service=\"shadow\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// It is read only for the connection's sake, and only so far.
#[tokio::test]
async fn long_response_to_a_copy_counts_as_answered() {
    const LENGTH: usize = 2 << 20;
    let web = Replica::echo("web").await;
    let shadow = Replica::scripted(|mut connection| async move {
        connection.head().await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n");
        connection.send(&head).await;
        connection.send(&"x".repeat(LENGTH)).await;
        while connection.more().await > 0 {}
    })
    .await;
    let toml = services(&[("web", web.address), ("shadow", shadow.address)])
        + "[[routes]]\nservice = \"web\"\nmirror.service = \"shadow\"\n";
    let proxy = Proxy::of_file(&toml);
    let answer = ask(&proxy, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert_eq!(name_in(&answer), "web");
    let counted = "slackwater_request_duration_seconds_count{service=\"shadow\",class=\"";
    let classes = until("the copy has ended", async || {
        let metrics = proxy.admin_page("/metrics").await;
        let classes = metrics
            .lines()
            .filter_map(|line| line.strip_prefix(counted));
        let ended: Vec<_> = classes.filter(|class| !class.ends_with(" 0")).collect();
        (!ended.is_empty()).then(|| ended.join(", "))
    })
    .await;
    assert_eq!(classes, "2xx\"} 1");
    assert_eq!(proxy.sum("/requests/client_gone").await, 0);
}

#[tokio::test]
async fn total_timeout_of_a_route_bounds_its_requests() {
    let web = Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            if head.starts_with("GET /mute") || head.starts_with("POST") {
                // It never answers.
                while connection.more().await > 0 {}
                return;
            }
            let length = if head.starts_with("GET /floods") {
                100_000_000
            } else {
                1_000_000
            };
            let head_of_it = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            connection.send(&head_of_it).await;
            if length > 1_000_000 {
                // More than fits between the replica and the client.
                connection.send(&"x".repeat(length)).await;
            }
            while head.starts_with("GET /drips") {
                // A byte now and then: the response never stalls, and never ends in time.
                connection.send("x").await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            while connection.more().await > 0 {}
        }
    })
    .await;
    let toml = services(&[("web", web.address)])
        + "[[routes]]\npath = \"/mute\"\nservice = \"web\"\ntimeouts.first_byte = \"60ms\"\n\
           [[routes]]\npath = \"/stalls\"\nservice = \"web\"\ntimeouts.stall = \"60ms\"\n\
           [[routes]]\npath = \"/floods\"\nservice = \"web\"\ntimeouts.total = \"1s\"\n\
           [[routes]]\nservice = \"web\"\ntimeouts.total = \"1s\"\n";
    let proxy = Proxy::of_file(&toml);
    let mute = get(proxy.address, "/mute").await;
    assert_eq!(mute.status, 504);
    for (target, after) in [("/stalls", 60), ("/drips", 1_000)] {
        let began = Instant::now();
        let mut client = Client::connect(proxy.address).await;
        client
            .send(&format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"))
            .await;
        assert!(client.head().await.starts_with("HTTP/1.1 200"));
        client.rest().await;
        let elapsed = began.elapsed();
        assert!(
            elapsed >= Duration::from_millis(after),
            "{target}: {elapsed:?}"
        );
        assert!(elapsed < Duration::from_secs(8), "{target}: {elapsed:?}");
    }
    // An endless upload postpones the timeout of the head, but not the total timeout.
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST /up HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let (mut read, mut write) = client.stream.into_split();
    let uploading = tokio::spawn(async move {
        while write.write_all(b"1\r\nx\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let mut answer = vec![0; 12];
    read.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 408", "the client was waited for");
    drop(read);
    uploading.abort();
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/timeouts").await, 3);
    // A client that does not read gets no more time. What fits into the buffers in between has
    // passed long before.
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /floods HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 200"));
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/timeouts").await, 4);
    assert!(client.rest().await.len() < 100_000_000, "it is cut off");
}

#[tokio::test]
async fn a_body_larger_than_its_route_allows_is_refused() {
    let web = Replica::echo("web").await;
    let rpc = replicas::http2(|request| async move {
        let read = request.into_body().collect().await;
        Response::new(clients::full(format!("{}", read.is_ok())))
    })
    .await;
    let toml = services(&[("web", web.address), ("rpc", rpc)])
        + "replica.protocol = \"h2c\"\n\
           [[routes]]\npath = \"/rpc\"\nservice = \"rpc\"\nlimits.body_bytes_max = 5\n\
           [[routes]]\npath = \"/free\"\nservice = \"web\"\n\
           [[routes]]\nservice = \"web\"\nlimits.body_bytes_max = 5\n";
    let proxy = Proxy::of_file(&toml);
    for (target, length, status) in [("/", 5, 200), ("/", 6, 413), ("/free", 6, 200)] {
        let body = "x".repeat(length);
        let answer = ask(
            &proxy,
            &format!("POST {target} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}"),
        )
        .await;
        assert_eq!(answer.status, status, "{target} {length}");
    }
    assert_eq!(
        proxy.sum("/requests/sent").await,
        2,
        "known beforehand, so not sent"
    );
    for target in ["/", "/rpc"] {
        let answer = ask(
            &proxy,
            &format!(
                "POST {target} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
                 3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
            ),
        )
        .await;
        assert_eq!(answer.status, 413, "{target}");
        assert_eq!(answer.field("x-slackwater-error"), Some("too_large"));
    }
    let mut client = clients::http2(proxy.address).await;
    let request = Request::post(format!("http://a/{}", "x"))
        .body(clients::full("123456"))
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    proxy.settled().await;
}
