//! Targets that fail, and the kind of error that each of them causes.

use super::targets::{answering, gated, http, ok, raw};
use super::{H2, drive, plan};
use crate::load::Protocol;
use core::time::Duration;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

#[tokio::test]
async fn a_refused_connection_is_a_connect_error() {
    // It never listens, and no other process can at its port.
    let held = TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = held.local_addr().unwrap();
    for protocol in [Protocol::Http1, H2] {
        let mut plan = plan(address, 5, Duration::from_millis(50));
        plan.protocol = protocol;
        let summary = drive(plan).await;
        assert_eq!(
            (summary.requests, summary.errors_by_kind.of("connect")),
            (5, 5),
            "{summary}"
        );
        assert!(
            summary.first_failures["connect"].contains("refused"),
            "{summary}"
        );
        assert!((summary.without_errors.max_ms, summary.connections_opened) == (0.0, 0));
    }
}

#[tokio::test]
async fn connection_closed_before_the_full_answer_is_a_closed_error() {
    let at_once = raw(|stream| async move { drop(stream) }).await;
    let after_the_request = answering(b"").await;
    let in_the_head = answering(b"HTTP/1.1 200 OK\r\ncontent-le").await;
    let in_the_body = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
    for address in [at_once, after_the_request, in_the_head, in_the_body] {
        let summary = drive(plan(address, 5, Duration::from_millis(50))).await;
        assert_eq!(
            (summary.requests, summary.errors_by_kind.of("closed")),
            (5, 5),
            "{summary}"
        );
        assert_eq!(summary.statuses.of("2xx"), 0, "half an answer is none");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_another_error() {
    let address = answering(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
    let summary = drive(plan(address, 3, Duration::from_millis(30))).await;
    assert_eq!(
        (summary.requests, summary.errors_by_kind.of("other")),
        (3, 3),
        "{summary}"
    );
}

#[tokio::test]
async fn missing_answer_counts_with_the_full_timeout() {
    let silent = raw(|mut stream| async move {
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink).await;
    })
    .await;
    let half_a_body = raw(|mut stream| async move {
        let mut sink = vec![0; 4_096];
        let _ = stream.read(&mut sink).await;
        let half = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
        let _ = stream.write_all(half).await;
        let _ = stream.read_to_end(&mut sink).await;
    })
    .await;
    let (h2_without_answers, _gate, _) = gated().await;
    for (address, protocol) in [
        (silent, Protocol::Http1),
        (silent, H2),
        (half_a_body, Protocol::Http1),
        (h2_without_answers, H2),
    ] {
        let mut plan = plan(address, 5, Duration::from_millis(50));
        plan.protocol = protocol;
        plan.timeout = Duration::from_millis(60);
        let summary = drive(plan).await;
        assert_eq!(
            (summary.requests, summary.errors_by_kind.of("timeout")),
            (5, 5),
            "{summary}"
        );
        assert_eq!(summary.latency.p50_ms.to_bits(), 60_f64.to_bits());
        assert_eq!(summary.latency.max_ms.to_bits(), 60_f64.to_bits());
    }
}

#[tokio::test]
async fn statuses_from_500_are_errors_and_others_are_not() {
    for (status, errors) in [
        (StatusCode::SERVICE_UNAVAILABLE, 4),
        (StatusCode::NOT_FOUND, 0),
    ] {
        let address = http(move |_| async move {
            let mut response = ok();
            *response.status_mut() = status;
            response
        })
        .await;
        let summary = drive(plan(address, 4, Duration::from_millis(40))).await;
        assert_eq!((summary.requests, summary.errors), (4, errors), "{summary}");
        assert_eq!(summary.errors_by_kind.of("status_5xx"), errors);
        assert_eq!(summary.statuses.of("5xx"), errors);
        assert_eq!(summary.statuses.of("4xx"), 4 - errors);
        assert_eq!(
            summary.body_bytes, 20,
            "an error's body is read to its end, too"
        );
    }
}
