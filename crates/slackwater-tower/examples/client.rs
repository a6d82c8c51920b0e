//! A balanced client over three servers, all in this process, and why each query goes where it
//! goes.
//!
//! The servers answer probes by themselves, because [`LoadLayer`] is around them. One is busy with
//! other work, one says that it drains; the third is where queries should go.
//!
//! `cargo run -p slackwater-tower --example client` prints (rounds and addresses vary):
//!
//! ```text
//! idle      at 127.0.0.1:40151
//! busy      at 127.0.0.1:34291
//! draining  at 127.0.0.1:42517
//!
//! nothing is known yet:
//!   idle      because fallback, of 0 reports
//! after 3 probes were answered:
//!   idle      because cold, of 2 reports; rif 0, limit 20
//!   idle      because cold, of 2 reports; rif 0, limit 20
//!   idle      because cold, of 2 reports; rif 0, limit 20
//! "hello from idle"
//! ```

use bytes::Bytes;
use core::convert::Infallible;
use core::error::Error;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as http1_client;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slackwater_core::policy::{Outcome, Prequal, PrequalConfig, Query};
use slackwater_tower::client::{
    Balance, Balancer, HttpProber, HttpProberConfig, Lease, ReplicaAddrs,
};
use slackwater_tower::server::{Load, LoadLayer};
use std::io::{Write, stdout};
use tokio::net::{TcpListener, TcpStream};
use tower::discover::Change;
use tower::{BoxError, Layer, ServiceExt, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (idle, busy, draining) = (Load::new(), Load::new(), Load::new());
    let _other_work: Vec<_> = (0..20).map(|_| busy.arrive()).collect();
    draining.set_draining(true);
    let mut servers = Vec::new();
    for (name, load) in [("idle", idle), ("busy", busy), ("draining", draining)] {
        let addr = start_server(name, load).await?;
        writeln!(stdout(), "{name:<9} at {addr}")?;
        servers.push((addr, name));
    }
    let name_of = |addr| {
        let found = servers.iter().find(|&&(server, _)| server == addr);
        found.map_or("?", |&(_, name)| name)
    };

    // Discovery is any stream of changes; this fleet never changes. Probes go where queries go.
    let prober = HttpProber::new(HttpProberConfig::default());
    let policy = Prequal::new(PrequalConfig::default());
    let balancer = Balancer::new(Box::new(policy), prober);
    let _drive = balancer.spawn_drive();
    let changes: Vec<_> = servers
        .iter()
        .map(|&(addr, _)| Ok::<_, BoxError>(Change::Insert(addr, connecting(addr))))
        .collect();
    let (balance, membership) = Balance::new(
        balancer.clone(),
        futures_util::stream::iter(changes),
        |&addr| ReplicaAddrs::from(addr),
    );
    membership.await?;

    writeln!(stdout(), "\nnothing is known yet:")?;
    if let Some(lease) = balancer.choose(Query::first(), None).await {
        explain(name_of(lease.addr()), &lease)?;
        lease.finish(Outcome::Success);
    }
    while balancer.snapshot().pool.len() < 2 || !balancer.snapshot().replicas[2].draining {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let answered = balancer.counters().probes_answered;
    writeln!(stdout(), "after {answered} probes were answered:")?;
    for _ in 0..3 {
        if let Some(lease) = balancer.choose(Query::first(), None).await {
            explain(name_of(lease.addr()), &lease)?;
            lease.finish(Outcome::Success);
        }
        // A report decides a few queries only: probes must have the time to bring new ones.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // The same balancer as a tower service: the query is chosen for, sent, and over with its last
    // byte.
    let response = balance.oneshot(Request::new(Empty::new())).await?;
    let body = response.into_body().collect().await?.to_bytes();
    writeln!(stdout(), "{body:?}", body = String::from_utf8_lossy(&body))?;
    Ok(())
}

/// Why this replica.
fn explain(name: &str, lease: &Lease) -> std::io::Result<()> {
    let view = lease.view();
    let mut out = stdout().lock();
    write!(
        out,
        "  {name:<9} because {}, of {} reports",
        view.reason, view.candidates
    )?;
    if let (Some(report), Some(limit)) = (view.chosen, view.rif_limit) {
        write!(out, "; rif {}, limit {limit}", report.rif)?;
    }
    writeln!(out)
}

/// A service that sends each request on a connection of its own. Real clients keep connections.
fn connecting(
    addr: SocketAddr,
) -> impl tower::Service<
    Request<Empty<Bytes>>,
    Response = Response<Incoming>,
    Error = BoxError,
    Future: Send,
> + Clone {
    service_fn(move |mut request: Request<Empty<Bytes>>| async move {
        let stream = TcpStream::connect(addr).await?;
        let (mut sender, connection) = http1_client::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let host = http::HeaderValue::try_from(addr.to_string())?;
        request.headers_mut().insert(http::header::HOST, host);
        Ok(sender.send_request(request).await?)
    })
}

/// A hyper server that says hello, counts its queries and answers probes.
async fn start_server(name: &'static str, load: Load) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    let hello = service_fn(move |_: Request<Incoming>| async move {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(format!(
            "hello from {name}"
        )))))
    });
    let service = LoadLayer::new(load).layer(hello);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok(addr)
}
