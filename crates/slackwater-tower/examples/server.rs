//! A plain hyper server that counts its load and answers probes over HTTP and UDP.
//!
//! ```text
//! $ cargo run -p slackwater-tower --example server
//! queries and probes over HTTP at http://127.0.0.1:8080, probes over UDP at 127.0.0.1:8080
//! ```
//!
//! In another terminal; `/` takes 50 ms to answer, so the probe after it knows a latency:
//!
//! ```text
//! $ curl http://127.0.0.1:8080/
//! hello after 50 ms
//! $ curl -i http://127.0.0.1:8080/prequal/probe
//! HTTP/1.1 200 OK
//! x-prequal-rif: 0
//! x-prequal-latency-us: 51114
//! x-slackwater-incarnation: 8069164139432917803
//! cache-control: no-store
//! content-length: 0
//! date: …
//! ```
//!
//! Interrupted, it first tells the clients by its reports that it drains, and serves on for a
//! second. With an address as argument it listens there. Limits on connections, logs and TLS are
//! absent on purpose: they are hyper's as ever.

use core::convert::Infallible;
use core::time::Duration;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use std::io::{Write, stdout};
use tokio::net::{TcpListener, UdpSocket};
use tower::{Layer, service_fn};

type Error = Box<dyn core::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:8080");
    let listener = TcpListener::bind(address).await?;
    let at = listener.local_addr()?;
    writeln!(
        stdout(),
        "queries and probes over HTTP at http://{at}, probes over UDP at {at}"
    )?;

    let load = Load::new();
    tokio::spawn(respond_udp(UdpSocket::bind(at).await?, load.clone(), None));
    let app = LoadLayer::new(load.clone()).layer(service_fn(hello));
    tokio::select! {
        served = serve(listener, TowerToHyperService::new(app)) => served,
        drained = drain_when_interrupted(&load) => drained,
    }
}

/// Serves on while the clients learn, by their probes, to go elsewhere.
async fn drain_when_interrupted(load: &Load) -> Result<(), Error> {
    tokio::signal::ctrl_c().await?;
    load.set_draining(true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}

async fn hello(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(Response::new(Full::from("hello after 50 ms\n")))
}

/// One task for each connection, HTTP/1.1 or HTTP/2 as the client speaks.
async fn serve<S>(listener: TcpListener, app: S) -> Result<(), Error>
where
    S: hyper::service::Service<
            Request<Incoming>,
            Response = Response<slackwater_tower::server::TrackedBody<Full<Bytes>>>,
            Error = Infallible,
            Future: Send,
        > + Clone
        + Send
        + 'static,
{
    loop {
        let (socket, _) = listener.accept().await?;
        let app = app.clone();
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            // A connection that breaks is its client's affair.
            drop(server.serve_connection(TokioIo::new(socket), app).await);
        });
    }
}
