//! Retries: which requests, when, how often, and the client's response in the end.

mod bodies;

use crate::clients::{self, Client, empty, full, get};
use crate::proxy::Proxy;
use crate::replicas::{self, Replica, unused_address};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Frame;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A replica that reads each request completely and answers it with `status`, `fields` and its
/// name.
async fn says(name: &'static str, status: u16, fields: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while let Some(head) = connection.head().await {
            if let Some(length) = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
            {
                connection.body(length.trim().parse().unwrap()).await;
            }
            let length = name.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{fields}\r\n");
            connection.send(&format!("{head}{name}")).await;
        }
    })
    .await
}

/// A replica that never answers.
async fn hangs() -> Replica {
    Replica::scripted(|mut connection| async move { while connection.more().await > 0 {} }).await
}

/// Sends requests one after the other, and returns their statuses; `head` lacks only the end of a
/// head.
async fn statuses(proxy: &Proxy, head: &str, requests: usize) -> Vec<u16> {
    let mut client = Client::connect(proxy.address).await;
    let mut statuses = Vec::new();
    for _ in 0..requests {
        client.send(&format!("{head}host: x\r\n\r\n")).await;
        statuses.push(client.answer().await.status);
    }
    statuses
}

#[tokio::test]
async fn a_retryable_status_is_retried_if_that_is_safe() {
    let (bad, well) = (says("bad", 503, "").await, Replica::echo("well").await);
    let toml = "error_aversion.enabled = false";
    let proxy = Proxy::start(&[bad.address, well.address], toml);
    for (head, is_retried) in [
        ("GET / HTTP/1.1\r\n", true),
        ("DELETE / HTTP/1.1\r\ncontent-length: 0\r\n", true),
        ("POST / HTTP/1.1\r\ncontent-length: 0\r\n", false),
        (
            "POST / HTTP/1.1\r\ncontent-length: 0\r\nidempotency-key: 1\r\n",
            true,
        ),
        ("PATCH / HTTP/1.1\r\ncontent-length: 0\r\n", false),
    ] {
        let mut found = statuses(&proxy, head, 2).await;
        found.sort_unstable();
        let expected = if is_retried { [200, 200] } else { [200, 503] };
        assert_eq!(found, expected, "{head}");
    }
    proxy.settled().await;
    let retries = proxy.sum("/requests/retries").await;
    let refused = proxy.sum("/requests/responses_5xx").await;
    assert!(retries > 0);
    assert_eq!(refused, retries + 2, "two were passed on");
    assert_eq!(
        proxy.sum("/requests/client_gone").await,
        0,
        "no client left"
    );
}

#[tokio::test]
async fn other_statuses_are_not_retried() {
    for status in [200, 404, 429, 500, 501] {
        let bad = [says("bad", status, "").await, says("bad", status, "").await];
        let proxy = Proxy::start(&bad.each_ref().map(|it| it.address), "");
        assert_eq!(get(proxy.address, "/").await.status, status);
        proxy.settled().await;
        assert_eq!(proxy.sum("/requests/retries").await, 0);
    }
    let busy = [says("busy", 429, "").await, says("busy", 429, "").await];
    let proxy = Proxy::start(
        &busy.each_ref().map(|it| it.address),
        "[retries]\nstatuses = 429",
    );
    assert_eq!(get(proxy.address, "/").await.status, 429);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/retries").await, 1, "as configured");
}

#[tokio::test]
async fn each_attempt_goes_to_another_replica_last_answer_is_forwarded() {
    let bad = [
        says("one", 503, "").await,
        says("two", 503, "").await,
        says("three", 503, "").await,
        says("four", 503, "").await,
    ];
    let addresses = bad.each_ref().map(|replica| replica.address);
    for (attempts_max, tries) in [(1, 1), (2, 2), (4, 4), (10, 4)] {
        let toml = format!("[retries]\nattempts_max = {attempts_max}");
        let proxy = Proxy::start(&addresses, &toml);
        let answer = get(proxy.address, "/").await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.field("x-slackwater-error"), None, "a replica's own");
        proxy.settled().await;
        assert_eq!(proxy.sum("/requests/sent").await, tries);
        let status = proxy.status().await;
        let replicas = status["replicas"].as_array().unwrap().iter();
        let most = replicas
            .map(|replica| replica["requests"]["sent"].as_u64().unwrap())
            .max();
        assert_eq!(most, Some(1), "no replica twice");
    }
}

#[tokio::test]
async fn refused_connections_cost_no_budget_but_count_as_attempts() {
    let replicas = [
        unused_address().await,
        unused_address().await,
        unused_address().await,
    ];
    for (attempts_max, tries) in [(1, 1), (2, 2), (3, 3)] {
        let toml = format!(
            "[retries]\nattempts_max = {attempts_max}\nbudget_share = 0\nbudget_min = 0\nbackoff_base = \"1m\"\nbackoff_max = \"1m\""
        );
        let proxy = Proxy::start(&replicas, &toml);
        // This method is not retried once a replica may have received it.
        let head = "POST / HTTP/1.1\r\ncontent-length: 0\r\n";
        assert_eq!(statuses(&proxy, head, 1).await, [502]);
        proxy.settled().await;
        assert_eq!(proxy.sum("/requests/connect_failures").await, tries);
    }
}

#[tokio::test]
async fn a_broken_connection_is_retried_elsewhere_if_configured() {
    let (bad, well) = (Replica::closing().await, Replica::echo("well").await);
    let replicas = [bad.address, well.address];
    for (toml, expected) in [
        ("", [200, 200, 200, 200]),
        ("[retries]\non = \"timeout\"", [200, 200, 502, 502]),
        ("[retries]\nmethods = \"none\"", [200, 200, 502, 502]),
    ] {
        let proxy = Proxy::start(&replicas, toml);
        let mut found = statuses(&proxy, "GET / HTTP/1.1\r\n", 4).await;
        found.sort_unstable();
        assert_eq!(found, expected, "{toml}");
        proxy.settled().await;
    }
    let proxy = Proxy::start(&replicas, "");
    let mut found = statuses(&proxy, "POST / HTTP/1.1\r\ncontent-length: 0\r\n", 2).await;
    found.sort_unstable();
    assert_eq!(found, [200, 502], "it may have had an effect");
}

#[tokio::test]
async fn attempt_that_times_out_is_retried_elsewhere() {
    let (slow, well) = (hangs().await, Replica::echo("well").await);
    let toml = "[retries]\nattempt_timeout = \"500ms\"\n[timeouts]\nfirst_byte = \"1m\"";
    let proxy = Proxy::start(&[slow.address, well.address], toml);
    assert_eq!(statuses(&proxy, "GET / HTTP/1.1\r\n", 4).await, [200; 4]);
    proxy.settled().await;
    let timeouts = proxy.sum("/requests/timeouts").await;
    assert!(timeouts > 0, "the slow one had its turn");
    assert_eq!(proxy.sum("/requests/retries").await, timeouts);
}

#[tokio::test]
async fn attempt_timeout_excludes_time_spent_waiting_for_the_client() {
    let (slow, well) = (hangs().await, Replica::echo("well").await);
    let toml = "[retries]\nattempt_timeout = \"500ms\"\n[timeouts]\nfirst_byte = \"1m\"";
    let proxy = Proxy::start(&[slow.address, well.address], toml);
    for _ in 0..4 {
        let mut client = Client::connect(proxy.address).await;
        client
            .send("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\nhell")
            .await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        client.send("o!!!").await;
        assert_eq!(client.answer().await.status, 200);
    }
    proxy.settled().await;
    let timeouts = proxy.sum("/requests/timeouts").await;
    assert!(
        timeouts > 0,
        "the slow one had its turn, and no more time than a try"
    );
    assert_eq!(proxy.sum("/requests/retries").await, timeouts);
}

#[tokio::test]
async fn first_byte_timeout_covers_all_attempts_together() {
    let slow = [hangs().await, hangs().await, hangs().await];
    let addresses = slow.each_ref().map(|replica| replica.address);
    for (toml, tries) in [
        // The first attempt uses up the time.
        ("[timeouts]\nfirst_byte = \"300ms\"", 1),
        (
            "[retries]\nattempt_timeout = \"100ms\"\nattempts_max = 10\n[timeouts]\nfirst_byte = \"2s\"",
            3,
        ),
    ] {
        let proxy = Proxy::start(&addresses, toml);
        let began = Instant::now();
        assert_eq!(get(proxy.address, "/").await.status, 504);
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        proxy.settled().await;
        assert_eq!(proxy.sum("/requests/sent").await, tries);
    }
}

#[tokio::test]
async fn last_attempt_may_use_all_of_the_remaining_time() {
    let slow = [hangs().await, hangs().await];
    let two = slow.each_ref().map(|replica| replica.address);
    let body = format!("content-length: 2000\r\n\r\n{}", "x".repeat(2000));
    for (addresses, keys, head) in [
        (&two[..1], "", "GET / HTTP/1.1\r\nhost: x\r\n"),
        (
            &two[..],
            "on = [\"reset\"]\n",
            "GET / HTTP/1.1\r\nhost: x\r\n",
        ),
        (
            &two[..],
            "body_max = \"1KiB\"\n",
            "PUT / HTTP/1.1\r\nhost: x\r\n",
        ),
    ] {
        let toml =
            format!("[retries]\nattempt_timeout = \"50ms\"\n{keys}[timeouts]\nfirst_byte = \"1s\"");
        let proxy = Proxy::start(addresses, &toml);
        let mut client = Client::connect(proxy.address).await;
        let began = Instant::now();
        let rest = if head.starts_with("PUT") {
            &body
        } else {
            "\r\n"
        };
        client.send(&format!("{head}{rest}")).await;
        assert_eq!(client.answer().await.status, 504, "{head}{keys}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{head}{keys}");
        assert_eq!(proxy.sum("/requests/sent").await, 1, "{head}{keys}");
    }
}

/// A listener at which connections are neither accepted nor refused, until the second value is
/// dropped.
async fn stuffed() -> (TcpListener, impl Sized) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    loop {
        let connecting = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(500), connecting).await {
            Ok(connected) => waiting.push(connected.unwrap()),
            Err(_) => return (listener, waiting),
        }
    }
}

#[tokio::test]
async fn time_spent_on_connecting_does_not_shorten_the_next_attempt() {
    let (listener, _stuffed) = stuffed().await;
    let nowhere = listener.local_addr().unwrap();
    let slow = hangs().await;
    let toml = "[timeouts]\nconnect = \"1200ms\"\nfirst_byte = \"800ms\"";
    let proxy = Proxy::start(&[nowhere, slow.address], toml);
    let mut longest = Duration::ZERO;
    for _ in 0..2 {
        let began = Instant::now();
        assert_eq!(get(proxy.address, "/").await.status, 504);
        longest = longest.max(began.elapsed());
    }
    assert!(proxy.sum("/requests/connect_failures").await > 0);
    // More than with the default.
    assert!(longest >= Duration::from_secs(2), "{longest:?}");
}

#[tokio::test]
async fn a_request_that_expires_while_connecting_is_not_sent() {
    for protocol in ["http1", "h2c"] {
        let (listener, stuffed) = stuffed().await;
        let toml = format!(
            "replica.protocol = \"{protocol}\"\nprobe.transport = \"none\"\nreplicas = [\"{}\"]\n\
             [timeouts]\nconnect = \"1m\"\n[[routes]]\nservice = \"default\"\n\
             timeouts.total = \"300ms\"\n",
            listener.local_addr().unwrap()
        );
        let proxy = Proxy::of_file(&toml);
        let began = Instant::now();
        let answer = get(proxy.address, "/").await;
        assert_eq!(answer.status, 504);
        assert_eq!(answer.field("x-slackwater-error"), Some("deadline"));
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "the connect's own"
        );
        assert_eq!(proxy.sum("/requests/connect_failures").await, 1);
        assert_eq!(proxy.sum("/requests/retries").await, 0);
        let admission = &proxy.status().await["services"][0]["admission"];
        assert_eq!(admission["shed_deadline"], 1);
        if protocol == "h2c" {
            // The connection is opened for later requests.
            drop(stuffed);
            let mut preface = [0; 14];
            while &preface != b"PRI * HTTP/2.0" {
                let (mut opened, _) = listener.accept().await.unwrap();
                let _ = opened.read_exact(&mut preface).await;
            }
        }
    }
}

#[tokio::test]
async fn retry_after_is_respected_up_to_a_limit() {
    for (fields, retry_after_max, is_retried) in [
        ("retry-after: 0\r\n", "0s", true),
        ("retry-after: 1\r\n", "1s", true),
        ("retry-after: 1\r\n", "999ms", false),
        ("retry-after: 3600\r\n", "1s", false),
        (
            "retry-after: Sat, 21 Nov 2026 08:49:37 GMT\r\n",
            "1s",
            false,
        ),
    ] {
        let bad = [says("a", 503, fields).await, says("b", 503, fields).await];
        let addresses = bad.each_ref().map(|replica| replica.address);
        let toml = format!("[retries]\nretry_after_max = \"{retry_after_max}\"");
        let proxy = Proxy::start(&addresses, &toml);
        let began = Instant::now();
        let answer = get(proxy.address, "/").await;
        assert_eq!(answer.status, 503);
        assert!(answer.field("retry-after").is_some(), "it is passed on");
        proxy.settled().await;
        let retries = proxy.sum("/requests/retries").await;
        assert_eq!(retries, u64::from(is_retried), "{fields}");
        if fields.contains(": 1\r") && is_retried {
            assert!(began.elapsed() >= Duration::from_secs(1));
        }
    }
}

#[tokio::test]
async fn wait_beyond_the_clients_deadline_is_no_retry() {
    let bad = [
        says("a", 503, "retry-after: 30\r\n").await,
        says("b", 503, "retry-after: 30\r\n").await,
    ];
    let addresses = bad.each_ref().map(|replica| replica.address);
    let proxy = Proxy::start(&addresses, "[retries]\nretry_after_max = \"1m\"");
    let head = "GET / HTTP/1.1\r\nx-slackwater-timeout-ms: 10000\r\n";
    assert_eq!(statuses(&proxy, head, 1).await, [503]);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/retries").await, 0);
}

#[tokio::test]
async fn single_replica_is_not_retried_after_a_wait() {
    let bad = says("bad", 503, "retry-after: 30\r\n").await;
    let toml = "[retries]\nbackoff_base = \"1m\"\nbackoff_max = \"1m\"\nretry_after_max = \"1m\"";
    let proxy = Proxy::start(&[bad.address], toml);
    let began = Instant::now();
    assert_eq!(get(proxy.address, "/").await.text(), "bad");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn without_a_budget_the_first_answer_is_forwarded() {
    let (bad, well) = (says("bad", 503, "").await, Replica::echo("well").await);
    let toml = "[retries]\nbudget_share = 0\nbudget_min = 0";
    let proxy = Proxy::start(&[bad.address, well.address], toml);
    let mut found = statuses(&proxy, "GET / HTTP/1.1\r\n", 4).await;
    found.sort_unstable();
    assert_eq!(found, [200, 200, 503, 503]);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/retries").await, 0);
    let metrics = proxy.admin_page("/metrics").await;
    let count = "slackwater_retries_over_budget_total{service=\"default\"} 2";
    assert!(metrics.contains(count), "{metrics}");
}

/// An HTTP/2 replica that answers each call with only this gRPC status, and counts the calls.
async fn grpc(
    status: &'static str,
    fields: &'static [(&str, &str)],
) -> (SocketAddr, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let address = replicas::http2(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let mut response = Response::new(empty());
            let headers = response.headers_mut();
            headers.insert("content-type", HeaderValue::from_static("application/grpc"));
            headers.insert("grpc-status", HeaderValue::from_static(status));
            for (name, value) in fields {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            response
        }
    })
    .await;
    (address, calls)
}

async fn call(proxy: &Proxy, marked: bool) -> Option<HeaderValue> {
    let mut client = clients::http2(proxy.address).await;
    let mut request = Request::post("http://x/s/m").header("content-type", "application/grpc");
    if marked {
        request = request.header("idempotency-key", "1");
    }
    let request = request.body(full("\0\0\0\0\0")).unwrap();
    let response = client.send_request(request).await.unwrap();
    response.headers().get("grpc-status").cloned()
}

#[tokio::test]
async fn marked_grpc_calls_are_retried_when_unavailable() {
    let h2c = "[replica]\nprotocol = \"h2c\"\n";
    for (status, fields, marked, toml, tries) in [
        ("14", &[][..], true, "", 2),
        ("14", &[], false, "", 1),
        ("14", &[], false, "[retries]\nmethods = \"all\"", 2),
        ("14", &[], true, "[retries]\non = \"reset\"", 1),
        ("13", &[], true, "", 1),
        ("14", &[("grpc-retry-pushback-ms", "10")], true, "", 2),
        ("14", &[("grpc-retry-pushback-ms", "-1")], true, "", 1),
    ] {
        let (one, one_calls) = grpc(status, fields).await;
        let (two, two_calls) = grpc(status, fields).await;
        let proxy = Proxy::start(&[one, two], &format!("{h2c}{toml}"));
        assert_eq!(call(&proxy, marked).await.unwrap(), status);
        let calls = one_calls.load(Ordering::SeqCst) + two_calls.load(Ordering::SeqCst);
        assert_eq!(calls, tries, "{status} {fields:?} marked: {marked}, {toml}");
    }
}

#[tokio::test]
async fn connections_of_discarded_answers_are_reused() {
    let (bad, well) = (says("bad", 503, "").await, Replica::echo("well").await);
    let proxy = Proxy::start(&[bad.address, well.address], "");
    let found = statuses(&proxy, "GET / HTTP/1.1\r\n", 20).await;
    assert_eq!(found, [200; 20]);
    proxy.settled().await;
    assert!(
        bad.connections() <= 2,
        "{} for 10 answers",
        bad.connections()
    );
}

#[tokio::test]
async fn route_overrides_the_retry_rules_of_its_service() {
    let (bad, well) = (says("bad", 503, "").await, Replica::echo("well").await);
    let (one, other) = (bad.address, well.address);
    let proxy = Proxy::of_file(&format!(
        "[services.web]\nreplicas = [\"{one}\", \"{other}\"]\npolicy = \"round_robin\"\n\
         error_aversion.enabled = false\n\
         [[routes]]\npath = \"/off\"\nservice = \"web\"\nretries.attempts_max = 1\n\
         [[routes]]\npath = \"/all\"\nservice = \"web\"\nretries.methods = \"all\"\n\
         [[routes]]\npath = \"/other\"\nservice = \"web\"\nretries.statuses = [502]\n\
         [[routes]]\npath = \"/small\"\nservice = \"web\"\n\
         retries = {{ methods = \"all\", body_max = 3 }}\n\
         [[routes]]\nservice = \"web\"\n"
    ));
    for (request, is_retried) in [
        ("GET /off HTTP/1.1\r\n", false),
        (
            "POST /off HTTP/1.1\r\nidempotency-key: 1\r\ncontent-length: 0\r\n",
            false,
        ),
        ("POST /all HTTP/1.1\r\ncontent-length: 0\r\n", true),
        ("GET /other HTTP/1.1\r\n", false),
        ("GET / HTTP/1.1\r\n", true),
        ("POST / HTTP/1.1\r\ncontent-length: 0\r\n", false),
    ] {
        let mut found = statuses(&proxy, request, 2).await;
        found.sort_unstable();
        let expected = if is_retried { [200, 200] } else { [200, 503] };
        assert_eq!(found, expected, "{request}");
    }
    for (body, expected) in [("123", [200, 200]), ("1234", [200, 503])] {
        let mut found = Vec::new();
        for _ in 0..2 {
            let mut client = Client::connect(proxy.address).await;
            let length = body.len();
            let head = format!("POST /small HTTP/1.1\r\nhost: x\r\ncontent-length: {length}");
            client.send(&format!("{head}\r\n\r\n{body}")).await;
            found.push(client.answer().await.status);
        }
        found.sort_unstable();
        assert_eq!(found, expected, "{body}");
    }
}

#[tokio::test]
async fn the_attempt_timeout_of_a_route_replaces_that_of_the_service() {
    let (slow, well) = (hangs().await, Replica::echo("well").await);
    let (one, other) = (slow.address, well.address);
    let proxy = Proxy::of_file(&format!(
        "[services.web]\nreplicas = [\"{one}\", \"{other}\"]\npolicy = \"round_robin\"\n\
         [[routes]]\nservice = \"web\"\nretries.attempt_timeout = \"500ms\"\n"
    ));
    assert_eq!(statuses(&proxy, "GET / HTTP/1.1\r\n", 2).await, [200, 200]);
}
