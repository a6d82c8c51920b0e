//! Active health checks: replicas that are down receive no requests, and receive them again when
//! they recover.

use crate::clients::{Client, full, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{self, Replica, unused_address};
use bytes::Bytes;
use core::sync::atomic::{AtomicU16, Ordering};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use std::sync::Arc;
use tokio::sync::Notify;

/// A replica that answers checks, which have no cookies, with a status that can be changed, and
/// other requests with its name.
pub(crate) async fn checked(name: &'static str, status: u16) -> (Replica, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(status));
    let now = Arc::clone(&status);
    let replica = Replica::scripted(move |mut connection| {
        let now = Arc::clone(&now);
        async move {
            while let Some(head) = connection.head().await {
                if head.starts_with("GET /check ") {
                    assert!(head.contains("user-agent: slackwater-health\r\n"), "{head}");
                    assert!(head.contains("host: checked.example\r\n"), "{head}");
                    let status = now.load(Ordering::SeqCst);
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                    connection.send(&answer).await;
                } else {
                    connection.answer(name).await;
                }
            }
        }
    })
    .await;
    (replica, status)
}

/// A check's timeout is so long that any answer arrives in time, however busy the machine is.
pub(crate) const HTTP: &str = "[health]\ncheck = \"http\"\npath = \"/check\"\nhost = \"checked.example\"\ninterval = \"20ms\"\ntimeout = \"20s\"\n";

/// Waits until the status has these states for the replicas, in their order.
async fn verdicts(proxy: &Proxy, expected: &[&str]) {
    until(&format!("the replicas are {expected:?}"), async || {
        let status = proxy.status().await;
        let replicas = status["replicas"].as_array().unwrap().iter();
        let found: Vec<_> = replicas
            .map(|replica| replica["health"]["verdict"].clone())
            .collect();
        (found == expected).then_some(())
    })
    .await;
}

async fn names(proxy: &Proxy) -> Vec<String> {
    let mut client = Client::connect(proxy.address).await;
    let mut names = Vec::new();
    for _ in 0..6 {
        names.push(client.get("/").await.text().to_owned());
    }
    names.sort();
    names.dedup();
    names
}

#[tokio::test]
async fn replica_that_fails_checks_gets_no_requests_until_it_passes() {
    let (one, _) = checked("one", 200).await;
    let (two, status) = checked("two", 503).await;
    let proxy = Proxy::start(&[one.address, two.address], HTTP);
    verdicts(&proxy, &["up", "down"]).await;
    assert!(
        proxy
            .log_line("replica down: health checks failed")
            .contains("status 503")
    );
    until("the worker has the change", async || {
        (names(&proxy).await == ["one"]).then_some(())
    })
    .await;
    status.store(204, Ordering::SeqCst);
    verdicts(&proxy, &["up", "up"]).await;
    proxy.log_line("replica available");
    until("the worker has the change", async || {
        (names(&proxy).await == ["one", "two"]).then_some(())
    })
    .await;
    status.store(404, Ordering::SeqCst);
    verdicts(&proxy, &["up", "down"]).await;
    until("the worker has the change", async || {
        (names(&proxy).await == ["one"]).then_some(())
    })
    .await;
    let metrics = proxy.admin_page("/metrics").await;
    for (replica, healthy) in [(&one, 1), (&two, 0)] {
        let address = replica.address;
        let line = format!(
            "slackwater_replica_healthy{{service=\"default\",replica=\"{address}\"}} {healthy}"
        );
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test]
async fn all_replicas_get_requests_if_all_are_down() {
    let (one, _) = checked("one", 500).await;
    let (two, _) = checked("two", 500).await;
    let proxy = Proxy::start(&[one.address, two.address], HTTP);
    verdicts(&proxy, &["down", "down"]).await;
    proxy.log_line("requests are still sent to them");
    until("both are asked", async || {
        (names(&proxy).await.len() == 2).then_some(())
    })
    .await;
}

// Replicas answer while the test waits for the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_is_reported_down_only_after_all_checks() {
    let (quick, status) = checked("quick", 200).await;
    let go_on = Arc::new(Notify::new());
    let told = Arc::clone(&go_on);
    let late = Replica::scripted(move |mut connection| {
        let told = Arc::clone(&told);
        async move {
            connection.head().await;
            told.notified().await;
        }
    })
    .await;
    let proxy = Proxy::start(&[quick.address, late.address], HTTP);
    verdicts(&proxy, &["up", "unknown"]).await;
    status.store(500, Ordering::SeqCst);
    let one_is_down = proxy.log_line(" down");
    assert!(one_is_down.contains(&format!("replica=\"{}\"", quick.address)));
    go_on.notify_one();
    proxy.log_line("all replicas down: health checks failed");
    let both_are_down = proxy.log_line("replica down");
    let late = late.address.to_string();
    assert!(both_are_down.contains(&late), "{late}: {both_are_down}");
}

#[tokio::test]
async fn expected_statuses_are_configurable() {
    let (one, _) = checked("one", 200).await;
    let (two, _) = checked("two", 418).await;
    let proxy = Proxy::start(
        &[one.address, two.address],
        &format!("{HTTP}statuses = [418]"),
    );
    verdicts(&proxy, &["down", "up"]).await;
}

#[tokio::test]
async fn a_tcp_check_only_connects() {
    let mute =
        Replica::scripted(|mut connection| async move { while connection.more().await > 0 {} })
            .await;
    let toml = "[health]\ncheck = \"tcp\"\ninterval = \"20ms\"\ntimeout = \"20s\"";
    let proxy = Proxy::start(&[mute.address, unused_address().await], toml);
    verdicts(&proxy, &["up", "down"]).await;
    assert!(
        proxy
            .log_line("replica down: health checks failed")
            .contains("no connection")
    );
}

#[tokio::test]
async fn a_check_has_a_deadline() {
    let mute =
        Replica::scripted(|mut connection| async move { while connection.more().await > 0 {} })
            .await;
    let well = Replica::echo("well").await;
    let toml = "[health]\ncheck = \"http\"\ninterval = \"20ms\"\ntimeout = \"1s\"";
    let proxy = Proxy::start(&[mute.address, well.address], toml);
    verdicts(&proxy, &["down", "up"]).await;
    assert!(
        proxy
            .log_line("replica down: health checks failed")
            .contains("no answer within 1s")
    );
    assert!(get(proxy.address, "/").await.text().starts_with("well\n"));
}

/// A gRPC server that answers `Health/Check` after `service` with this serving status.
async fn grpc(service: &'static str, serving: u8) -> core::net::SocketAddr {
    replicas::http2(move |request: Request<Incoming>| async move {
        if request.uri().path() != "/grpc.health.v1.Health/Check" {
            return Response::new(full("call"));
        }
        assert_eq!(request.headers()["content-type"], "application/grpc");
        let question = request.into_body().collect().await.unwrap().to_bytes();
        let is_asked_for = question.ends_with(service.as_bytes());
        let mut trailers = HeaderMap::new();
        let status = if is_asked_for { "0" } else { "5" };
        trailers.insert("grpc-status", HeaderValue::from_static(status));
        let answer = Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, serving]);
        let frames = [Ok(Frame::data(answer)), Ok(Frame::trailers(trailers))];
        let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
        Response::new(body)
    })
    .await
}

#[tokio::test]
async fn grpc_servers_report_whether_they_serve() {
    let replicas = [
        grpc("shop", 1).await,
        grpc("shop", 2).await,
        grpc("other", 1).await,
    ];
    let toml = "[replica]\nprotocol = \"h2c\"\n[health]\ncheck = \"grpc\"\ngrpc_service = \"shop\"\ninterval = \"20ms\"\ntimeout = \"20s\"";
    let proxy = Proxy::start(&replicas, toml);
    verdicts(&proxy, &["up", "down", "down"]).await;
    let told = [(); 2]
        .map(|()| proxy.log_line("replica down: health checks failed"))
        .join("\n");
    assert!(
        told.contains("NOT_SERVING") && told.contains("NOT_FOUND"),
        "{told}"
    );
}
