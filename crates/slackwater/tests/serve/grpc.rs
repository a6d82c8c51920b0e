//! The handling of gRPC statuses, which arrive with HTTP status 200 in any case.

use crate::access_log::Log;
use crate::clients::{Answer, Client};
use crate::proxy::{Proxy, until};
use crate::replicas::{self, Replica, unused_address};
use crate::routes::services;
use http::Response;

/// A replica that answers all requests with the gRPC status: in the head if there is no body,
/// otherwise in the trailers.
pub(crate) async fn says(status: &'static str, has_body: bool) -> Replica {
    let fields = "content-type: application/grpc\r\n";
    let last = format!("grpc-status: {status}\r\n");
    let answer = if has_body {
        format!("{fields}transfer-encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n0\r\n{last}\r\n")
    } else {
        format!("{fields}{last}content-length: 0\r\n\r\n")
    };
    Replica::scripted(move |mut connection| {
        let answer = answer.clone();
        async move {
            while connection.head().await.is_some() {
                connection
                    .send(&format!("HTTP/1.1 200 OK\r\n{answer}"))
                    .await;
            }
        }
    })
    .await
}

/// Makes 100 calls. Returns how many of them the first of two replicas gets, and how many of its
/// failures are counted.
async fn calls(first: &Replica, second: &Replica) -> (u64, u64) {
    let toml = "policy = \"els\"\n[retries]\nattempts_max = 1\n";
    let proxy = Proxy::start(&[first.address, second.address], toml);
    for _ in 0..100 {
        let mut client = Client::connect(proxy.address).await;
        let fields = "host: x\r\nte: trailers\r\nconnection: close, te\r\n";
        client
            .send(&format!("GET / HTTP/1.1\r\n{fields}\r\n"))
            .await;
        let answer = String::from_utf8(client.rest().await).unwrap();
        assert!(answer.contains("grpc-status"), "{answer}");
    }
    proxy.settled().await;
    let status = proxy.status().await;
    let of = |name| {
        let requests = &status["replicas"][0]["requests"];
        requests[name].as_u64().unwrap()
    };
    (of("sent"), of("grpc_failures"))
}

#[tokio::test]
async fn a_status_that_blames_the_server_is_a_failure() {
    for has_body in [false, true] {
        let (bad, well) = (says("13", has_body).await, says("0", has_body).await);
        let (sent, failed) = calls(&bad, &well).await;
        assert!(
            sent < 20,
            "the policy keeps away from it: {sent}, body: {has_body}"
        );
        assert_eq!(failed, sent, "body: {has_body}");
    }
}

#[tokio::test]
async fn a_call_that_fails_is_a_failed_request_of_the_service() {
    for (status, has_body, class) in [
        ("14", false, "grpc_failed"),
        ("14", true, "grpc_failed"),
        ("5", true, "2xx"),
    ] {
        let replica = says(status, has_body).await;
        let proxy = Proxy::start(&[replica.address], "[retries]\nattempts_max = 1\n");
        let mut client = Client::connect(proxy.address).await;
        let fields = "host: x\r\nte: trailers\r\nconnection: close, te\r\n";
        client
            .send(&format!("GET / HTTP/1.1\r\n{fields}\r\n"))
            .await;
        client.rest().await;
        until(class, async || {
            let status = proxy.admin_page("/status").await;
            let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
            // Responses without a body are counted by the status in their head.
            let classes = status["services"][0]["latency"].as_array()?;
            let ended = classes.iter().find(|it| it["requests"] == 1)?;
            assert_eq!(ended["class"], class, "body: {has_body}");
            Some(())
        })
        .await;
    }
}

#[tokio::test]
async fn grpc_status_that_blames_the_caller_is_no_failure() {
    for has_body in [false, true] {
        // Next to a failing replica, whichever is faster.
        let (well, bad) = (says("5", has_body).await, says("13", has_body).await);
        let (sent, failed) = calls(&well, &bad).await;
        assert!(
            sent > 80,
            "the policy keeps to it: {sent}, body: {has_body}"
        );
        assert_eq!(failed, 0);
    }
}

/// A call as gRPC makes it, but over HTTP/1.1 and without a message.
async fn call(proxy: &Proxy, path: &str, content_type: &str) -> Answer {
    let mut client = Client::connect(proxy.address).await;
    let fields = format!("host: x\r\ncontent-type: {content_type}\r\ncontent-length: 0\r\n");
    client
        .send(&format!("POST {path} HTTP/1.1\r\n{fields}\r\n"))
        .await;
    client.answer().await
}

#[tokio::test]
async fn failed_grpc_call_receives_a_grpc_status() {
    let log = Log::new("grpc");
    let mute = Replica::scripted(|mut connection| async move {
        connection.head().await;
        while connection.more().await > 0 {}
    })
    .await;
    let (mute, gone) = (mute.address, unused_address().await);
    let toml = services(&[("mute", mute), ("gone", gone)])
        + "[[routes]]\npath = \"/mute\"\nservice = \"mute\"\ntimeouts.first_byte = \"100ms\"\n\
           [[routes]]\npath = \"/gone\"\nservice = \"gone\"\nresponse_headers.set = { x-mine = \"1\" }\n\
           [[routes]]\npath = \"/fixed\"\nrespond = { status = 503, body = \"mine\" }\n";
    let proxy = Proxy::of_file(&(toml + &log.toml("")));
    for (path, http, kind, grpc) in [
        ("/mute", 504, "first_byte_timeout", "4"),
        ("/gone", 502, "no_connection", "14"),
        ("/none", 404, "no_route", "12"),
    ] {
        let answer = call(&proxy, path, "application/grpc+proto").await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.field("content-type"), Some("application/grpc"));
        assert_eq!(answer.field("grpc-status"), Some(grpc), "{path}");
        assert_eq!(answer.field("x-slackwater-error"), Some(kind), "{path}");
        assert!(
            answer
                .field("grpc-message")
                .is_some_and(|text| text.len() > 10)
        );
        assert_eq!(answer.body.len(), 0, "{path}");
        let is_routed = answer.field("x-mine") == Some("1");
        assert_eq!(is_routed, path == "/gone", "what its route adds stays");
        let other = call(&proxy, path, "application/grpc-web").await;
        assert_eq!(other.status, http, "{path}: another protocol");
        assert!(!other.body.is_empty(), "{path}");
    }
    // A response from the configuration is sent unchanged.
    let fixed = call(&proxy, "/fixed", "application/grpc").await;
    assert_eq!((fixed.status, fixed.text()), (503, "mine"));
    let lines = log.lines(7).await;
    for (line, status) in lines.iter().step_by(2).zip([4, 14, 12]) {
        assert_eq!(line["status"], 200, "as it was on the wire: {line}");
        assert_eq!(line["grpc_status"], status, "{line}");
        assert_eq!(line["bytes_out"], 0, "{line}");
    }
}

#[tokio::test]
async fn calls_that_an_agent_rejects_go_to_another_replica() {
    let withdrawn = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            let fields = "content-type: application/grpc\r\nx-slackwater-error: withdrawn\r\n\
                grpc-status: 14\r\nretry-after: 1\r\ngrpc-retry-pushback-ms: 1000\r\n\
                grpc-message: the server behind the agent cannot be connected to\r\ncontent-length: 0\r\n";
            connection
                .send(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"))
                .await;
        }
    })
    .await;
    let toml = services(&[("web", withdrawn.address)]) + "[[routes]]\nservice = \"web\"\n";
    let alone = Proxy::of_file(&toml);
    let answer = call(&alone, "/", "application/grpc").await;
    assert_eq!(answer.field("grpc-status"), Some("14"));
    assert_eq!(answer.field("x-slackwater-error"), Some("withdrawn"));
    assert_eq!(answer.field("retry-after"), Some("1"));
    assert_eq!(answer.field("grpc-retry-pushback-ms"), Some("1000"));
    let other = says("0", false).await;
    let proxy = Proxy::start(&[withdrawn.address, other.address], "");
    for _ in 0..4 {
        let answer = call(&proxy, "/", "application/grpc").await;
        assert_eq!(answer.field("grpc-status"), Some("0"));
    }
}

/// A replica over HTTP/2 whose responses have 100 KB of metadata.
async fn verbose_http2() -> core::net::SocketAddr {
    replicas::http2_streams(move |_, mut respond| {
        let mut head = Response::builder();
        for _ in 0..10 {
            head = head.header("x-metadata", "m".repeat(10_000));
        }
        let _ = respond.send_response(head.body(()).unwrap(), true);
    })
    .await
}

#[tokio::test]
async fn oversized_metadata_is_reported_as_not_retryable() {
    let http1 = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            let metadata = format!("x-metadata: {}\r\n", "m".repeat(10_000)).repeat(10);
            let answer = format!("HTTP/1.1 200 OK\r\n{metadata}content-length: 0\r\n\r\n");
            connection.send(&answer).await;
        }
    })
    .await;
    for (replica, protocol) in [(http1.address, "http1"), (verbose_http2().await, "h2c")] {
        let settings = format!("[replica]\nprotocol = \"{protocol}\"");
        let proxy = Proxy::start(&[replica], &settings);
        for (kind, status, grpc_status) in [
            ("application/grpc", 200, Some("8")),
            ("text/plain", 502, None),
        ] {
            let mut client = Client::connect(proxy.address).await;
            let fields = format!("host: x\r\ncontent-type: {kind}\r\ncontent-length: 0\r\n");
            client
                .send(&format!("POST /a HTTP/1.1\r\n{fields}\r\n"))
                .await;
            let answer = client.answer().await;
            assert_eq!(answer.status, status, "{protocol}, {kind}");
            assert_eq!(answer.field("grpc-status"), grpc_status, "{protocol}");
            let error = answer.field("x-slackwater-error");
            assert_eq!(error, Some("response_head_too_large"), "{protocol}");
        }
        proxy.settled().await;
        assert_eq!(proxy.sum("/requests/broken").await, 2, "{protocol}");
    }
}

/// Its own answers are known by that field, so the route's changes come last.
#[tokio::test]
async fn error_reaches_grpc_clients_though_the_route_removes_the_error_field() {
    let gone = unused_address().await;
    let toml = services(&[("gone", gone)])
        + "[[routes]]\nservice = \"gone\"\nresponse_headers.remove = [\"x-slackwater-error\"]\n";
    let proxy = Proxy::of_file(&toml);
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST /a.B/C HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.field("grpc-status")),
        (200, Some("14"))
    );
    assert_eq!(answer.field("x-slackwater-error"), None);
}
