//! Durations and results of requests in the status.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use core::time::Duration;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, Semaphore};

/// A replica whose answer depends on the path.
async fn versatile() -> Replica {
    Replica::scripted(|mut connection| async move {
        while let Some(head) = connection.head().await {
            match head.split(' ').nth(1).unwrap() {
                "/empty" => connection.send("HTTP/1.1 204 No Content\r\n\r\n").await,
                "/moved" => {
                    let moved = "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n";
                    connection.send(moved).await;
                }
                "/absent" => {
                    let absent = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno";
                    connection.send(absent).await;
                }
                "/failing" => {
                    let failing = "HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno";
                    connection.send(failing).await;
                }
                "/breaking" => {
                    let half = "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhalf";
                    return connection.send(half).await;
                }
                _ => connection.answer("yes").await,
            }
        }
    })
    .await
}

/// Number of requests by class.
fn classes(status: &Value) -> BTreeMap<String, u64> {
    let latency = status["services"][0]["latency"].as_array().unwrap();
    let each = latency.iter().map(|it| {
        let class = it["class"].as_str().unwrap().to_owned();
        (class, it["requests"].as_u64().unwrap())
    });
    each.collect()
}

async fn becomes(proxy: &Proxy, expected: &[(&str, u64)]) {
    let expected: BTreeMap<_, _> = (expected.iter())
        .map(|&(class, requests)| (class.to_owned(), requests))
        .collect();
    let mut found = BTreeMap::new();
    until(&format!("{expected:?}"), async || {
        found = classes(&proxy.status().await);
        (found == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn each_request_is_counted_once_by_its_outcome() {
    let replica = versatile().await;
    let proxy = Proxy::start(&[replica.address], "");
    becomes(&proxy, &[]).await;
    for path in ["/", "/empty", "/moved", "/absent", "/failing"] {
        get(proxy.address, path).await;
    }
    let expected = [("2xx", 2), ("3xx", 1), ("4xx", 1), ("5xx", 1)];
    becomes(&proxy, &expected).await;
    let mut client = Client::connect(proxy.address).await;
    let breaking = "GET /breaking HTTP/1.1\r\nhost: x\r\n\r\n";
    client.send(breaking).await;
    assert!(client.rest().await.ends_with(b"half"));
    let expected = [&expected[..], &[("broken", 1)]].concat();
    becomes(&proxy, &expected).await;
    // An error response of the proxy itself counts as an answer, too.
    replica.stop();
    until("the replica is gone", async || {
        (get(proxy.address, "/").await.status == 502).then_some(())
    })
    .await;
    let after = classes(&proxy.status().await);
    assert!(after["5xx"] > 1, "{after:?}");
    assert_eq!(after["2xx"], 2);
}

/// The sum over all ticks of the service.
async fn told(proxy: &Proxy, what: &str) -> u64 {
    let history = proxy.admin_page("/history?service=default").await;
    let history: Value = serde_json::from_str(&history).unwrap_or_default();
    let requests = history[what].as_array().into_iter().flatten();
    requests.filter_map(Value::as_u64).sum()
}

#[tokio::test]
async fn live_counts_miss_no_request_when_a_service_is_rebuilt() {
    let replica = versatile().await;
    let config = |first_byte: &str| {
        let replica = replica.address;
        format!(
            "listen = \"127.0.0.1:0\"\nreplicas = [\"{replica}\"]\ntimeouts.first_byte = \"{first_byte}\"\n"
        )
    };
    let written = Written::new("anew", &config("20s"));
    let proxy = written.serve(&[]);
    until("it looks", async || {
        proxy
            .admin_page("/history?service=default")
            .await
            .contains("\"requests\":[0")
            .then_some(())
    })
    .await;
    for _ in 0..2 {
        get(proxy.address, "/").await;
    }
    until("they are reported", async || {
        (told(&proxy, "requests").await == 2).then_some(())
    })
    .await;
    written.become_text(&config("21s"));
    reload(&proxy);
    // Wait for more than there were before, so that the next sample sees no smaller count. A worker
    // may switch to the new service a moment later than the status does.
    let counted = async || {
        let counted = classes(&proxy.status().await);
        counted.get("2xx").copied().unwrap_or_default()
    };
    until("three are counted again", async || {
        get(proxy.address, "/").await;
        (counted().await >= 3).then_some(())
    })
    .await;
    let expected = 2 + counted().await;
    until("all are reported", async || {
        (told(&proxy, "requests").await == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_is_no_failure() {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "late").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("it is on its way", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    becomes(&proxy, &[]).await;
    drop(client);
    becomes(&proxy, &[("client_gone", 1)]).await;
    let first_byte = &proxy.status().await["services"][0]["latency"][0]["first_byte_us"];
    assert!(
        first_byte["p50"].is_u64(),
        "how long it waited: {first_byte}"
    );
    until("it is reported", async || {
        (told(&proxy, "requests").await == 1).then_some(())
    })
    .await;
    assert_eq!(told(&proxy, "failed").await, 0);
}

#[tokio::test]
async fn client_that_leaves_the_queue_is_no_failure() {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "late").await;
    let toml = "[queue]\nrequests_max = 1\nwait_max = \"20s\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let mut first = Client::connect(proxy.address).await;
    first.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("it is on its way", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    let mut second = Client::connect(proxy.address).await;
    second.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("it waits", async || {
        let waiting = &proxy.status().await["services"][0]["line"]["waiting"];
        (*waiting == 1).then_some(())
    })
    .await;
    drop(second);
    becomes(&proxy, &[("client_gone", 1)]).await;
    until("it is reported", async || {
        (told(&proxy, "requests").await == 1).then_some(())
    })
    .await;
    assert_eq!(told(&proxy, "failed").await, 0);
}

#[tokio::test]
async fn the_time_to_the_head_and_to_the_end_are_distinguished() {
    let (head, rest) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let came = Arc::new(Notify::new());
    let (wait_head, wait_rest, tell) = (Arc::clone(&head), Arc::clone(&rest), Arc::clone(&came));
    let replica = Replica::scripted(move |mut connection| {
        let (head, rest, tell) = (
            Arc::clone(&wait_head),
            Arc::clone(&wait_rest),
            Arc::clone(&tell),
        );
        async move {
            connection.head().await;
            tell.notify_one();
            head.acquire().await.unwrap().forget();
            connection
                .send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha")
                .await;
            rest.acquire().await.unwrap().forget();
            connection.send("lf").await;
            let _ = connection.stream.flush().await;
            core::future::pending::<()>().await;
        }
    })
    .await;
    let proxy = Proxy::start(&[replica.address], "");
    let began = Instant::now();
    let asking = tokio::spawn(get(proxy.address, "/"));
    came.notified().await;
    let head_since = Instant::now();
    let us = |status: &Value, what: &str| {
        let latency = &status["services"][0]["latency"][0];
        latency[what]["p50"].as_u64().unwrap_or_default()
    };
    // The status is read again and again, until the head has been delayed long enough to be
    // distinguished from the rest.
    until("the head is late", async || {
        let seen = proxy.status().await;
        assert_eq!(classes(&seen).len(), 0);
        (head_since.elapsed() > Duration::from_millis(20)).then_some(())
    })
    .await;
    let head_late = head_since.elapsed();
    head.add_permits(1);
    until("the head is here", async || {
        (us(&proxy.status().await, "first_byte_us") > 0).then_some(())
    })
    .await;
    let rest_since = Instant::now();
    until("the rest is late", async || {
        assert_eq!(
            us(&proxy.status().await, "total_us"),
            0,
            "it is not complete"
        );
        (rest_since.elapsed() > 4 * head_late).then_some(())
    })
    .await;
    let rest_late = rest_since.elapsed();
    rest.add_permits(1);
    assert_eq!(asking.await.unwrap().text(), "half");
    becomes(&proxy, &[("2xx", 1)]).await;
    let whole = began.elapsed();
    let most = whole.saturating_sub(rest_late);
    let status = proxy.status().await;
    let within = |found_us: u64, least: Duration, most: Duration| {
        let found = Duration::from_micros(found_us);
        assert!(
            found > least * 3 / 4 && found < most * 5 / 4,
            "{found:?}: {least:?} to {most:?}"
        );
    };
    within(us(&status, "first_byte_us"), head_late, most);
    within(us(&status, "total_us"), head_late + rest_late, whole);
    let seen = status["replicas"][0]["head_us"]["p99"].as_u64().unwrap();
    within(seen, head_late, most);
}
