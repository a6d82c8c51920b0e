//! The queue before a service: which requests wait, which are rejected, and that each permit is
//! returned.

use crate::clients::{self, Client, ask, empty, get};
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;
use core::time::Duration;
use http::Request;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Notify, Semaphore};

/// A replica that answers with the request's path, each request after the test has released it.
pub(crate) async fn held() -> (Replica, Arc<Semaphore>, Arc<Notify>) {
    let (go, came) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let (wait, tell) = (Arc::clone(&go), Arc::clone(&came));
    let replica = Replica::scripted(move |mut connection| {
        let (wait, tell) = (Arc::clone(&wait), Arc::clone(&tell));
        async move {
            while let Some(head) = connection.head().await {
                tell.notify_one();
                wait.acquire().await.unwrap().forget();
                connection.answer(head.split(' ').nth(1).unwrap()).await;
            }
        }
    })
    .await;
    (replica, go, came)
}

async fn queue_count(proxy: &Proxy, name: &str) -> u64 {
    let metrics = proxy.admin_page("/metrics").await;
    let prefix = format!("slackwater_{name}");
    let mut lines = metrics.lines().filter(|line| line.starts_with(&prefix));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("no {prefix} in {metrics}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Waits until this many requests have had to wait.
async fn queued(proxy: &Proxy, requests: u64) {
    until("they wait in line", async || {
        (queue_count(proxy, "queued_total").await == requests).then_some(())
    })
    .await;
}

#[tokio::test]
async fn requests_beyond_the_limit_wait_in_order() {
    let (replica, go, came) = held().await;
    let proxy = Proxy::start(
        &[replica.address],
        "[queue]\nrequests_max = 1\nwait_max = \"20s\"",
    );
    let first = ask(proxy.address, "/first");
    came.notified().await;
    let second = ask(proxy.address, "/second");
    queued(&proxy, 1).await;
    let third = ask(proxy.address, "/third");
    queued(&proxy, 2).await;
    assert_eq!(proxy.sum("/in_flight").await, 1);
    assert_eq!(queue_count(&proxy, "queue_inside_requests").await, 1);
    assert_eq!(queue_count(&proxy, "queue_waiting_requests").await, 2);
    for (waiting, path) in [(first, "/first"), (second, "/second"), (third, "/third")] {
        go.add_permits(1);
        assert_eq!(
            waiting.await.unwrap().text(),
            path,
            "first come, first served"
        );
    }
    proxy.settled().await;
    assert_eq!(queue_count(&proxy, "queue_inside_requests").await, 0);
    assert_eq!(queue_count(&proxy, "queue_waiting_requests").await, 0);
}

#[tokio::test]
async fn a_full_queue_is_a_503_with_retry_after() {
    let (replica, go, came) = held().await;
    let toml = "[queue]\nrequests_max = 1\nwaiting_max = 1\nwait_max = \"20s\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let first = ask(proxy.address, "/first");
    came.notified().await;
    let second = ask(proxy.address, "/second");
    queued(&proxy, 1).await;
    let third = get(proxy.address, "/third").await;
    assert_eq!(third.status, 503);
    assert_eq!(third.field("x-slackwater-error"), Some("queue_full"));
    assert_eq!(third.field("retry-after"), Some("1"));
    assert_eq!(
        queue_count(
            &proxy,
            "shed_total{service=\"default\",reason=\"queue_full\"}"
        )
        .await,
        1
    );
    go.add_permits(2);
    assert_eq!(first.await.unwrap().text(), "/first");
    assert_eq!(second.await.unwrap().text(), "/second");
    proxy.settled().await;
    assert_eq!(
        proxy.sum("/requests/sent").await,
        2,
        "it reached no replica"
    );
}

#[tokio::test]
async fn expired_queue_wait_is_a_503() {
    let (replica, go, came) = held().await;
    let toml = "[queue]\nrequests_max = 1\nwait_max = \"1200ms\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let first = ask(proxy.address, "/first");
    came.notified().await;
    let began = Instant::now();
    let second = get(proxy.address, "/second").await;
    // More than the default.
    assert!(began.elapsed() >= Duration::from_millis(1200));
    assert_eq!(second.status, 503);
    assert_eq!(second.field("x-slackwater-error"), Some("queue_wait_over"));
    assert_eq!(
        queue_count(
            &proxy,
            "shed_total{service=\"default\",reason=\"wait_over\"}"
        )
        .await,
        1
    );
    go.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "/first");
    proxy.settled().await;
}

#[tokio::test]
async fn no_queue_holds_a_request_beyond_its_clients_deadline() {
    for queue in [
        "[queue]\nrequests_max = 1\nwait_max = \"1h\"",
        "[replica]\nconnections_max = 1\n[timeouts]\nconnect = \"1m\"",
    ] {
        let (replica, go, came) = held().await;
        let proxy = Proxy::start(&[replica.address], queue);
        let first = ask(proxy.address, "/first");
        came.notified().await;
        let mut second = Client::connect(proxy.address).await;
        let head = "GET / HTTP/1.1\r\nhost: x\r\nx-slackwater-timeout-ms: 100\r\n\r\n";
        second.send(head).await;
        let answer = second.answer().await;
        assert_eq!(answer.status, 504, "{queue}");
        assert_eq!(answer.field("x-slackwater-error"), Some("deadline"));
        let shed = "shed_total{service=\"default\",reason=\"deadline\"}";
        assert_eq!(queue_count(&proxy, shed).await, 1);
        go.add_permits(1);
        assert_eq!(first.await.unwrap().text(), "/first");
        proxy.settled().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_takes_no_permit() {
    let (replica, go, came) = held().await;
    let proxy = Proxy::start(
        &[replica.address],
        "[queue]\nrequests_max = 1\nwait_max = \"20s\"",
    );
    let first = ask(proxy.address, "/first");
    came.notified().await;
    let mut leaves = Client::connect(proxy.address).await;
    leaves.send("GET /leaves HTTP/1.1\r\nhost: x\r\n\r\n").await;
    queued(&proxy, 1).await;
    let third = ask(proxy.address, "/third");
    queued(&proxy, 2).await;
    drop(leaves);
    go.add_permits(2);
    assert_eq!(first.await.unwrap().text(), "/first");
    assert_eq!(third.await.unwrap().text(), "/third");
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/sent").await, 2);
}

#[tokio::test]
async fn permit_is_held_to_the_end_of_the_response() {
    let replica = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            connection
                .send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
                .await;
            connection.more().await;
        }
    })
    .await;
    let toml = "[queue]\nrequests_max = 1\nwaiting_max = 0";
    let proxy = Proxy::start(&[replica.address], toml);
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    client.head().await;
    assert_eq!(get(proxy.address, "/").await.status, 503);
    drop(client);
    proxy.settled().await;
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(
        client.head().await.starts_with("HTTP/1.1 200"),
        "the place is free again"
    );
}

#[tokio::test]
async fn http2_streams_wait_in_the_queue_individually() {
    let (replica, go, came) = held().await;
    let toml = "[queue]\nrequests_max = 2\nwait_max = \"20s\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let mut client = clients::http2(proxy.address).await;
    let mut responses = Vec::new();
    for _ in 0..5 {
        let request = Request::get("http://x/path").body(empty()).unwrap();
        responses.push(tokio::spawn(client.send_request(request)));
    }
    came.notified().await;
    queued(&proxy, 3).await;
    go.add_permits(5);
    for response in responses {
        let body = response.await.unwrap().unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "/path");
    }
    proxy.settled().await;
}
