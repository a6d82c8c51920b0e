//! Hedges over HTTP/2, including gRPC calls: the loser's stream is reset.

use super::{EAGER, metric};
use crate::clients::{self, empty, get};
use crate::proxy::Proxy;
use crate::replicas;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use http::{Request, Response};
use std::sync::Arc;
use tokio::sync::Notify;

/// A replica over HTTP/2 that answers at once, with gRPC's status. The exception is the first late
/// request over all replicas with this count: it is not answered, and `reset` is notified when its
/// stream is reset.
async fn http2_replica(late: &Arc<AtomicUsize>, reset: &Arc<Notify>) -> SocketAddr {
    let (late, reset) = (Arc::clone(late), Arc::clone(reset));
    replicas::http2_streams(move |request, mut respond| {
        let is_late = request.uri().path() == "/late" || request.headers().contains_key("late");
        if is_late && late.fetch_add(1, Ordering::SeqCst) == 0 {
            let reset = Arc::clone(&reset);
            tokio::spawn(async move {
                let reason = core::future::poll_fn(|cx| respond.poll_reset(cx)).await;
                assert_eq!(reason.unwrap(), h2::Reason::CANCEL);
                reset.notify_one();
            });
        } else {
            let response = Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", "0");
            let response = response.body(()).unwrap();
            drop(respond.send_response(response, true).unwrap());
        }
    })
    .await
}

#[tokio::test]
async fn http2_stream_of_the_loser_is_reset() {
    let (late, reset) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let replica = async || http2_replica(&late, &reset).await;
    let addresses = [replica().await, replica().await];
    let toml = format!("{EAGER}[replica]\nprotocol = \"h2c\"");
    let proxy = Proxy::start(&addresses, &toml);
    for _ in 0..2 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    let answer = get(proxy.address, "/late").await;
    assert_eq!(answer.field("x-slackwater-attempt"), Some("2"));
    reset.notified().await;
    // This applies to a client that uses HTTP/2 itself, too.
    late.store(0, Ordering::SeqCst);
    let mut client = clients::http2(proxy.address).await;
    let request = Request::get("http://x/late").body(empty()).unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.headers()["x-slackwater-attempt"], "2");
    reset.notified().await;
}

#[tokio::test]
async fn marked_grpc_call_is_hedged_by_the_latency_of_its_method() {
    let (late, reset) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let replica = async || http2_replica(&late, &reset).await;
    let addresses = [replica().await, replica().await];
    let toml = format!("{EAGER}[replica]\nprotocol = \"h2c\"");
    let proxy = Proxy::start(&addresses, &toml);
    let mut client = clients::http2(proxy.address).await;
    let call = |method: &str, fields: &[(&'static str, &'static str)]| {
        let mut call = Request::post(format!("http://x/shop.Cart/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("idempotency-key", "1");
        for (name, value) in fields {
            call = call.header(*name, *value);
        }
        call.body(clients::full("\0\0\0\0\x02hi")).unwrap()
    };
    // The first call makes the method known.
    for _ in 0..3 {
        let response = client.send_request(call("Get", &[])).await.unwrap();
        assert!(!response.headers().contains_key("x-slackwater-attempt"));
    }
    // The delay of another method is unknown.
    let unknown = "slackwater_hedges_unknown_total{service=\"default\"}";
    let before = metric(&proxy, unknown).await;
    client.send_request(call("Put", &[])).await.unwrap();
    assert_eq!(metric(&proxy, unknown).await, before + 1);

    let late_one = call("Get", &[("late", "1")]);
    let response = client.send_request(late_one).await.unwrap();
    assert_eq!(response.headers()["x-slackwater-attempt"], "2");
    assert_eq!(response.headers()["grpc-status"], "0");
    reset.notified().await;
    assert_eq!(late.load(Ordering::SeqCst), 2);
}
