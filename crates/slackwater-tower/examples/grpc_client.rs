//! A gRPC client by tonic that balances over replicas: the client of
//! `docs/tutorials/rust-library.md`.
//!
//! `cargo run -p slackwater-tower --example grpc_client` starts three servers in this process,
//! whose calls take 2, 2 and 20 ms, and makes 1,000 calls, four at a time. A fourth replica is not
//! there: calls that go to it are made again at another one. With addresses as arguments, it calls
//! the servers there.
//!
//! ```text
//! 127.0.0.1:38655  503 calls
//! 127.0.0.1:38657  493 calls
//! 127.0.0.1:38659  4 calls
//! 127.0.0.1:38661  5 calls
//! 1000 answered, 5 retries
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use core::error::Error;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use slackwater_tower::client::balance::Copies;
use slackwater_tower::client::{Balance, Balancer, ReplicaAddrs};
use slackwater_tower::server::Load;
use std::sync::Arc;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{BoxError, ServiceBuilder};

#[path = "grpc_server.rs"]
#[expect(dead_code, reason = "its `main` is another example")]
mod grpc_server;

/// The longest that one attempt takes. It is sent with the call, so that a server can give up, too.
const TIMEOUT: Duration = Duration::from_secs(1);
const RETRIES_MAX: u32 = 2;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments = std::env::args().skip(1);
    let replicas: Result<Vec<SocketAddr>, _> = arguments.map(|text| text.parse()).collect();
    let mut replicas: Vec<ReplicaAddrs> = replicas?.into_iter().map(ReplicaAddrs::from).collect();
    if replicas.is_empty() {
        replicas = start_servers().await?;
    }
    let calls: Vec<Arc<AtomicU64>> = replicas.iter().map(|_| Arc::default()).collect();

    // One channel for each replica. It keeps its connection, and opens it again when it breaks.
    let channels = replicas.iter().map(|&replica| {
        let endpoint = Endpoint::from_shared(format!("http://{}", replica.query))?;
        Ok::<_, BoxError>((replica, endpoint.connect_lazy()))
    });
    let channels = channels.collect::<Result<Vec<_>, _>>()?;

    // The example counts the calls of each replica. Your client does not need this step.
    let pairs = channels.into_iter().zip(&calls);
    let channels = pairs.map(|((replica, channel), calls)| {
        let calls = Arc::clone(calls);
        let counted = ServiceBuilder::new()
            .map_request(move |request: http::Request<Body>| {
                calls.fetch_add(1, Relaxed);
                request
            })
            .service(channel);
        (replica, counted)
    });

    // The default policy, with probes over UDP to the address of each replica.
    let balance = Balance::over(Balancer::probing_udp()?, channels)?;
    // Any client that tonic generates takes the balanced service in place of a channel.
    let client = HealthClient::new(balance);

    // Retries may be 20 % of the calls, and ten a second, so that a fleet that is overloaded does
    // not get more calls for it.
    let budget = Arc::new(TpsBudget::default());
    let callers = (0..4).map(|_| {
        let (mut client, budget) = (client.clone(), Arc::clone(&budget));
        tokio::spawn(async move {
            let mut retries = 0;
            for _ in 0..250 {
                // Remembers where the attempts went, so that each goes to another replica.
                let copies = Copies::for_retries();
                let mut left = RETRIES_MAX;
                loop {
                    let mut request = Request::new(HealthCheckRequest::default());
                    request.set_timeout(TIMEOUT);
                    request.extensions_mut().insert(copies.clone());
                    let Err(status) = client.check(request).await else {
                        budget.deposit();
                        break;
                    };
                    // This call has no effect. One that has one must not be made again.
                    if status.code() != Code::Unavailable || left == 0 || !budget.withdraw() {
                        return Err(status);
                    }
                    left -= 1;
                    retries += 1;
                }
            }
            Ok(retries)
        })
    });
    let mut retries = 0;
    for caller in callers.collect::<Vec<_>>() {
        retries += caller.await??;
    }

    for (replica, calls) in replicas.iter().zip(&calls) {
        println!("{}  {} calls", replica.query, calls.load(Relaxed));
    }
    println!("1000 answered, {retries} retries");
    Ok(())
}

/// Three servers in this process, and an address where nothing listens.
async fn start_servers() -> std::io::Result<Vec<ReplicaAddrs>> {
    let mut replicas = Vec::new();
    for millis in [2, 2, 20] {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let probes = UdpSocket::bind("127.0.0.1:0").await?;
        replicas.push(ReplicaAddrs {
            query: listener.local_addr()?,
            probe: probes.local_addr()?,
        });
        tokio::spawn(async move {
            let (_stop, stopped) = oneshot::channel();
            grpc_server::serve(listener, probes, millis, Load::new(), stopped).await
        });
    }
    let nothing = TcpListener::bind("127.0.0.1:0").await?;
    replicas.push(nothing.local_addr()?.into());
    Ok(replicas)
}
