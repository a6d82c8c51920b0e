//! A gRPC server by tonic that reports its load: the replica of `docs/tutorials/rust-library.md`.
//!
//! `cargo run -p slackwater-tower --example grpc_server -- 127.0.0.1:50051 2` serves gRPC's health
//! service at that address, with calls of 2 ms, and answers probes over UDP at the same address.

use core::error::Error;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use tokio::net::UdpSocket;
use tonic::transport::Server;
use tower::util::MapFutureLayer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:50051".to_owned());
    let address: SocketAddr = address.parse()?;
    let millis = arguments.next().unwrap_or("2".to_owned()).parse()?;

    // Counts calls in flight, and how long they take.
    let load = Load::new();
    // Clients probe over UDP, at the port that they call.
    let socket = UdpSocket::bind(address).await?;
    tokio::spawn(respond_udp(socket, load.clone(), None));

    // Any service that tonic generates goes here.
    let (_reporter, service) = tonic_health::server::health_reporter();
    Server::builder()
        .layer(LoadLayer::new(load))
        // Stands for the work of a call. Your server does not have this layer.
        .layer(MapFutureLayer::new(move |call| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            call.await
        }))
        .add_service(service)
        .serve(address)
        .await?;
    Ok(())
}
