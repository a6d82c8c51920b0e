//! A gRPC server by tonic that reports its load: the replica of `docs/tutorials/rust-library.md`.
//!
//! `cargo run -p slackwater-tower --example grpc_server` serves at a free port, calls itself and
//! shuts down. With an address and a number, it serves there until it is interrupted, with calls
//! that take this many milliseconds.
//!
//! ```text
//! serving gRPC, and probes over UDP, at 127.0.0.1:40151
//! 100 calls have ended, a report has latency 2.2 ms
//! ended: Load { rif: Rif(0), draining: true, counts: LoadCounts { … }, .. }
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::util::MapFutureLayer;

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = arguments.first().map_or("127.0.0.1:0", String::as_str);
    let millis = arguments.get(1).map_or("2", String::as_str).parse()?;
    let listener = TcpListener::bind(address).await?;
    let at = listener.local_addr()?;
    // Clients probe over UDP, at the port that they call.
    let probes = UdpSocket::bind(at).await?;
    println!("serving gRPC, and probes over UDP, at {at}");

    let load = Load::new();
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(serve(listener, probes, millis, load.clone(), stopped));
    if arguments.is_empty() {
        call_hundred_times(at).await?;
        let latency = load.report(None).latency.unwrap_or_default();
        println!("100 calls have ended, a report has latency {latency:.1?}");
        load.set_draining(true);
    } else {
        tokio::signal::ctrl_c().await?;
        load.set_draining(true);
        // Until the next probes, clients send calls, which are still served.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    drop(stop);
    server.await??;
    println!("ended: {load:?}");
    Ok(())
}

/// Serves calls of `millis`, and answers probes, until `stopped`.
pub(crate) async fn serve(
    listener: TcpListener,
    probes: UdpSocket,
    millis: u64,
    load: Load,
    stopped: oneshot::Receiver<()>,
) -> Result<(), AnyError> {
    tokio::spawn(respond_udp(probes, load.clone(), None));
    // Any service that tonic generates goes here.
    let (_reporter, service) = tonic_health::server::health_reporter();
    // The first layer counts calls in flight, and how long they take.
    Server::builder()
        .layer(LoadLayer::new(load))
        // Stands for the work of a call. Your server does not have this layer.
        .layer(MapFutureLayer::new(move |call| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            call.await
        }))
        .add_service(service)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), async { drop(stopped.await) })
        .await?;
    Ok(())
}

/// Ten calls at a time.
async fn call_hundred_times(at: SocketAddr) -> Result<(), AnyError> {
    let channel = Endpoint::from_shared(format!("http://{at}"))?.connect_lazy();
    let callers = (0..10).map(|_| {
        let mut client = HealthClient::new(channel.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                client.check(HealthCheckRequest::default()).await?;
            }
            Ok::<_, tonic::Status>(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await??;
    }
    Ok(())
}
