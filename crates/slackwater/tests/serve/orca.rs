//! Replicas that report their load in responses.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;

/// A replica that answers with its name, and with `metrics` in the trailers.
async fn says_last(name: &'static str, metrics: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let body = format!("{:x}\r\n{name}\r\n0\r\n", name.len());
            let trailers = format!("endpoint-load-metrics: {metrics}\r\nsum: 7\r\n\r\n");
            connection.send(&format!("{head}{body}{trailers}")).await;
        }
    })
    .await
}

/// A replica that answers with its name, and with `metrics` in the head.
async fn says(name: &'static str, metrics: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            let length = name.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n");
            let metrics = format!("endpoint-load-metrics: {metrics}\r\n\r\n");
            connection.send(&format!("{head}{metrics}{name}")).await;
        }
    })
    .await
}

const BY_WEIGHT: &str = "policy = \"weighted_round_robin\"\n\
                         [probe]\ntransport = \"udp\"\n\
                         [weighted_round_robin]\nsmoothing = 0\nblackout = 0\nupdate_period = \"100ms\"";
const BUSY: &str = "TEXT cpu_utilization=0.9,rps_fractional=10";
const IDLE: &str = "JSON {\"cpu_utilization\": 0.1, \"rps_fractional\": 10}";

#[tokio::test]
async fn weights_follow_reports_in_responses() {
    let (busy, idle) = (says("busy", BUSY).await, says("idle", IDLE).await);
    let proxy = Proxy::start(&[busy.address, idle.address], BY_WEIGHT);
    let mut client = Client::connect(proxy.address).await;
    until("the idle one gets nine times as many", async || {
        let mut idles = 0;
        for _ in 0..20 {
            let answer = client.get("/").await;
            assert_eq!(
                answer.field("endpoint-load-metrics"),
                None,
                "clients receive no report"
            );
            idles += usize::from(answer.text() == "idle");
        }
        (idles == 18).then_some(())
    })
    .await;
}

#[tokio::test]
async fn weights_follow_reports_in_trailers() {
    let (busy, idle) = (says_last("busy", BUSY).await, says_last("idle", IDLE).await);
    let proxy = Proxy::start(&[busy.address, idle.address], BY_WEIGHT);
    until("the idle one gets nine times as many", async || {
        let mut idles = 0;
        for _ in 0..20 {
            let mut client = Client::connect(proxy.address).await;
            client
                .send("GET / HTTP/1.1\r\nhost: x\r\nte: trailers\r\nconnection: close, te\r\n\r\n")
                .await;
            let answer = String::from_utf8(client.rest().await).unwrap();
            assert!(answer.contains("sum: 7"), "other trailers pass: {answer}");
            assert!(!answer.contains("endpoint-load-metrics"), "{answer}");
            idles += usize::from(answer.contains("idle"));
        }
        (idles == 18).then_some(())
    })
    .await;
}

#[tokio::test]
async fn policies_that_do_not_use_reports_forward_them() {
    let replica = says("replica", "TEXT cpu_utilization=0.9,rps_fractional=10").await;
    let proxy = Proxy::start(&[replica.address], "");
    let answer = get(proxy.address, "/").await;
    assert!(answer.field("endpoint-load-metrics").is_some());
}
