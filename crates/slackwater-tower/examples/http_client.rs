//! An HTTP client over three servers, by hyper-util: kept connections, retries at another replica
//! within a budget, and a deadline.
//!
//! `cargo run -p slackwater-tower --example http_client` starts the servers in this process, of
//! which one fails every request, and sends 500 requests and one that is too slow.
//!
//! ```text
//! 500 requests: 500 answered, 3 retries
//! 127.0.0.1:38655  248 requests, 5 connections
//! 127.0.0.1:38657  252 requests, 5 connections
//! 127.0.0.1:38659  3 requests, 2 connections, fails
//! a slow request: request timed out
//! Balancer {
//!     policy: "shortest_expected_delay",
//!     in_flight: 0,
//!     replicas: {
//!         127.0.0.1:38655: available, 0 in flight,
//!         127.0.0.1:38657: available, 0 in flight,
//!         127.0.0.1:38659: ejected, 0 in flight,
//!     },
//!     …
//! }
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt;
use bytes::Bytes;
use core::error::Error;
use core::future::{Ready, ready};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use slackwater_tower::client::balance::Copies;
use slackwater_tower::client::{Balance, Balancer, ReplicaAddrs};
use slackwater_tower::server::{Load, LoadLayer, respond_udp};
use std::sync::Arc;
use tokio::net::{TcpListener, UdpSocket};
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// The longest that a caller waits, for all attempts together.
const DEADLINE: Duration = Duration::from_millis(1_500);
/// The longest of one attempt, so that a replica that hangs leaves time for another one.
const ATTEMPT: Duration = Duration::from_secs(1);
const RETRIES_MAX: u32 = 2;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let servers = [
        Server::start(StatusCode::OK).await?,
        Server::start(StatusCode::OK).await?,
        Server::start(StatusCode::SERVICE_UNAVAILABLE).await?,
    ];

    // One client for all replicas. It keeps the connections to each of them.
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_millis(200)));
    let connections = Client::builder(TokioExecutor::new()).build(connector);
    let replicas = servers.iter().map(|server| {
        let at = server.addrs.query;
        let replica = ServiceBuilder::new()
            .timeout(ATTEMPT)
            .map_request(move |request| send_to(at, request))
            .service(connections.clone());
        (server.addrs, replica)
    });

    // The default policy with probes over UDP.
    let balancer = Balancer::probing_udp()?;
    let balance = Balance::over(balancer.clone(), replicas)?;

    // Around it the layers that see a request once, whatever number of attempts it takes.
    let retries = Retries::default();
    let client = ServiceBuilder::new()
        .timeout(DEADLINE)
        // Remembers where the attempts of a request went, so that each goes to another replica.
        .map_request(|mut request: Request<Full<Bytes>>| {
            request.extensions_mut().insert(Copies::for_retries());
            request
        })
        .retry(retries.clone())
        .service(balance);

    let callers = (0..5).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut answered = 0;
            for _ in 0..100 {
                let request = Request::get("/hello").body(Full::default())?;
                let response = client.clone().oneshot(request).await?;
                answered += u32::from(response.status().is_success());
                // The request is in flight, and its connection in use, until the body has ended.
                response.into_body().collect().await?;
            }
            Ok::<_, BoxError>(answered)
        })
    });
    let mut answered = 0;
    for caller in callers.collect::<Vec<_>>() {
        answered += caller.await??;
    }
    let count = retries.made.load(Relaxed);
    println!("500 requests: {answered} answered, {count} retries");
    for server in &servers {
        server.show();
    }

    let request = Request::get("/slow").body(Full::default())?;
    if let Err(error) = client.oneshot(request).await {
        println!("a slow request: {error}");
    }
    println!("{balancer:#?}");
    Ok(())
}

/// Sends a request that has a path alone to one replica.
fn send_to(at: SocketAddr, request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    if let Ok(uri) = format!("http://{at}{path}").parse() {
        head.uri = uri;
    }
    Request::from_parts(head, body)
}

/// When a failed request is sent again.
#[derive(Clone)]
struct Retries {
    left: u32,
    /// Shared by all requests: a fleet that is overloaded must not get more requests for it.
    /// Tower's default allows retries of 20 % of the requests, and ten a second.
    budget: Arc<TpsBudget>,
    made: Arc<AtomicU64>,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            left: RETRIES_MAX,
            budget: Arc::default(),
            made: Arc::default(),
        }
    }
}

impl<RB> Policy<Request<Full<Bytes>>, Response<RB>, BoxError> for Retries {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _request: &mut Request<Full<Bytes>>,
        result: &mut Result<Response<RB>, BoxError>,
    ) -> Option<Ready<()>> {
        let has_failed = (result.as_ref()).is_ok_and(|it| it.status().is_server_error());
        if result.is_ok() && !has_failed {
            self.budget.deposit();
            return None;
        }
        if self.left == 0 || !self.budget.withdraw() {
            return None;
        }
        self.left -= 1;
        self.made.fetch_add(1, Relaxed);
        // At once: the next attempt goes to another replica.
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Request<Full<Bytes>>) -> Option<Request<Full<Bytes>>> {
        // Others may have had an effect although they failed.
        request.method().is_idempotent().then(|| request.clone())
    }
}

/// A server in this process, which counts what comes.
struct Server {
    addrs: ReplicaAddrs,
    status: StatusCode,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
}

impl Server {
    async fn start(status: StatusCode) -> std::io::Result<Self> {
        let (listener, probes) = (
            TcpListener::bind("127.0.0.1:0").await?,
            UdpSocket::bind("127.0.0.1:0").await?,
        );
        let server = Self {
            addrs: ReplicaAddrs {
                query: listener.local_addr()?,
                probe: probes.local_addr()?,
            },
            status,
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        let hello = async move || {
            requests.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
            status
        };
        let load = Load::new();
        tokio::spawn(respond_udp(probes, load.clone(), None));
        let app = Router::new()
            .route("/hello", get(hello))
            .route(
                "/slow",
                get(async || tokio::time::sleep(Duration::from_mins(1)).await),
            )
            .layer(LoadLayer::new(load));
        let listener = listener.tap_io(move |_| {
            connections.fetch_add(1, Relaxed);
        });
        tokio::spawn(axum::serve(listener, app).into_future());
        Ok(server)
    }

    fn show(&self) {
        let (requests, connections) = (&self.requests, &self.connections);
        let (requests, connections) = (requests.load(Relaxed), connections.load(Relaxed));
        let fails = if self.status.is_success() {
            ""
        } else {
            ", fails"
        };
        let at = self.addrs.query;
        println!("{at}  {requests} requests, {connections} connections{fails}");
    }
}
