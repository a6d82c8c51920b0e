//! An axum server that reports its load to clients that balance.
//!
//! `cargo run -p slackwater-tower --example axum_server` serves at a free port, sends itself
//! requests and shuts down. With an address, it serves there until it is interrupted.
//!
//! ```text
//! serving requests and probes over HTTP, and probes over UDP, at 127.0.0.1:40151
//! 8 requests are in flight, a probe reports x-prequal-rif: 8
//! 8 requests have ended, a probe reports x-prequal-latency-us: 51114
//! draining, a probe reports x-slackwater-draining: 1
//! ended: Load { rif: Rif(0), draining: true, counts: LoadCounts { … }, .. }
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let argument = std::env::args().nth(1);
    let address = argument.as_deref().unwrap_or("127.0.0.1:0");
    let listener = TcpListener::bind(address).await?;
    let at = listener.local_addr()?;

    // Counts requests in flight and measures their latency. Clones share the counts.
    let load = Load::new();
    // Clients probe over UDP at the port of the requests, which is cheaper than over HTTP.
    let probes = UdpSocket::bind(at).await?;
    tokio::spawn(respond_udp(probes, load.clone(), None));
    let app = Router::new()
        .route("/", get(hello))
        // The outermost layer, so that time spent in other layers counts. It answers probes over
        // HTTP itself, at `/prequal/probe`.
        .layer(LoadLayer::new(load.clone()));

    println!("serving requests and probes over HTTP, and probes over UDP, at {at}");
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(server.into_future());
    if argument.is_some() {
        tokio::signal::ctrl_c().await?;
        load.set_draining(true);
        // Until the next probes, clients send requests, which are still served.
        tokio::time::sleep(Duration::from_secs(1)).await;
    } else {
        try_out(at, &load).await?;
    }
    drop(stop);
    server.await??;
    println!("ended: {load:?}");
    Ok(())
}

async fn hello() -> &'static str {
    tokio::time::sleep(Duration::from_millis(50)).await;
    "hello after 50 ms\n"
}

/// Shows what the server reports while it is busy, afterwards, and while it drains.
async fn try_out(at: SocketAddr, load: &Load) -> Result<(), AnyError> {
    let requests: Vec<_> = (0..8).map(|_| tokio::spawn(fetch(at, "/"))).collect();
    while load.rif().count() < 8 && !requests.iter().any(tokio::task::JoinHandle::is_finished) {
        tokio::task::yield_now().await;
    }
    show("8 requests are in flight", "x-prequal-rif", at).await?;
    for request in requests {
        request.await??;
    }
    show("8 requests have ended", "x-prequal-latency-us", at).await?;
    load.set_draining(true);
    show("draining", "x-slackwater-draining", at).await
}

async fn show(when: &str, field: &str, at: SocketAddr) -> Result<(), AnyError> {
    let report = fetch(at, "/prequal/probe").await?;
    let value = report
        .get(field)
        .map_or("-", |it| it.to_str().unwrap_or("?"));
    println!("{when}, a probe reports {field}: {value}");
    Ok(())
}

async fn fetch(at: SocketAddr, path: &str) -> Result<HeaderMap, AnyError> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::get(format!("http://{at}{path}")).body(Body::empty())?;
    let (head, body) = client.request(request).await?.into_parts();
    body.collect().await?;
    Ok(head.headers)
}
