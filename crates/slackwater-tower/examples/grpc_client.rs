//! A tonic client that balances over replicas: the client of `docs/tutorials/rust-library.md`.
//!
//! `cargo run -p slackwater-tower --example grpc_client -- 127.0.0.1:50051 127.0.0.1:50052` makes
//! 1,000 calls, four at a time, and prints how many went to each replica.

use core::error::Error;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use slackwater_core::policy::{DEFAULT_POLICY, PolicySettings};
use slackwater_tower::client::{Balance, Balancer, ReplicaAddrs, UdpProber, UdpProberConfig};
use std::io::{Write, stdout};
use std::sync::Arc;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::discover::Change;
use tower::{BoxError, ServiceBuilder};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let replicas: Result<Vec<SocketAddr>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let replicas = replicas?;
    let calls: Vec<Arc<AtomicU64>> = replicas.iter().map(|_| Arc::default()).collect();

    // The default policy, with probes over UDP to the address of each replica.
    let policy = (DEFAULT_POLICY.build)(&PolicySettings::default());
    let prober = UdpProber::bind(&UdpProberConfig::default())?;
    let balancer = Balancer::new(policy, prober);
    let _drive = balancer.spawn_drive();

    // One channel for each replica. It keeps its connection, and opens it again when it breaks.
    let changes = replicas.iter().zip(&calls).map(|(&replica, calls)| {
        let channel = Endpoint::from_shared(format!("http://{replica}"))?.connect_lazy();
        let calls = Arc::clone(calls);
        let counted = ServiceBuilder::new()
            .map_request(move |request| {
                calls.fetch_add(1, Relaxed);
                request
            })
            .service(channel);
        Ok::<_, BoxError>(Change::Insert(replica, counted))
    });
    let changes: Vec<_> = changes.collect();
    let (balance, membership) =
        Balance::new(balancer, futures_util::stream::iter(changes), |&replica| {
            ReplicaAddrs::from(replica)
        });
    // This list of replicas ends; spawn the future where replicas come and go.
    membership.await?;

    // Any client that tonic generates takes the balanced service in place of a channel.
    let client = HealthClient::new(balance);
    let callers = (0..4).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move {
            for _ in 0..250 {
                client.check(HealthCheckRequest::default()).await?;
            }
            Ok::<_, tonic::Status>(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await??;
    }

    for (replica, calls) in replicas.iter().zip(&calls) {
        writeln!(stdout(), "{replica}  {} calls", calls.load(Relaxed))?;
    }
    Ok(())
}
