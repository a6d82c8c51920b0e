//! Fleets of a control plane: the process follows a resource over a real stream, and outlives the
//! control plane. The protocol as a whole is shown against go-control-plane, in `go/grpc/xdstest`.

mod policies;

use crate::clients::get;
use crate::proxy::{Proxy, until};
use crate::reload::Written;
use crate::replicas::Replica;
use bytes::Bytes;
use core::net::SocketAddr;
use http::Response;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// A control plane that sends the responses of a test, and ends its stream when told.
pub(crate) struct ControlPlane {
    pub(crate) address: SocketAddr,
    /// `None` ends the connection.
    orders: UnboundedSender<Option<Bytes>>,
    /// All that its clients have sent.
    requests: Arc<Mutex<Vec<u8>>>,
}

impl ControlPlane {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (orders, mut received) = unbounded_channel();
        let requests = Arc::default();
        let taken = Arc::clone(&requests);
        tokio::spawn(async move { while stream(&listener, &mut received, &taken).await {} });
        Self {
            address,
            orders,
            requests,
        }
    }

    /// A control plane that sends this resource on each of its streams.
    async fn of_all(type_url: &str, resource: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let plane = Self {
            address: listener.local_addr().unwrap(),
            orders: unbounded_channel().0,
            requests: Arc::default(),
        };
        let message = response("1", type_url, &[resource]);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (orders, mut received) = unbounded_channel();
                orders.send(Some(message.clone())).unwrap();
                tokio::spawn(async move {
                    stream_on(socket, &mut received, &Mutex::default()).await;
                    drop(orders);
                });
            }
        });
        plane
    }

    /// Sends the resource `web` with these replicas, as this version.
    pub(crate) fn send(&self, version: &str, replicas: &[&Replica]) {
        self.respond(version, EDS, &assignment(replicas));
    }

    /// Sends a resource of this type, as this version.
    fn respond(&self, version: &str, type_url: &str, resource: &[u8]) {
        self.respond_all(version, type_url, &[resource]);
    }

    /// Sends all resources of this type, as this version.
    fn respond_all(&self, version: &str, type_url: &str, resources: &[&[u8]]) {
        let message = response(version, type_url, resources);
        self.orders.send(Some(message)).unwrap();
    }

    /// Whether a client has sent this text.
    fn has_received(&self, text: &str) -> bool {
        let requests = self.requests.lock().unwrap();
        requests
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }

    /// Ends the stream; the next one is accepted.
    pub(crate) fn end(&self) {
        self.orders.send(None).unwrap();
    }
}

/// Serves one stream. Returns false if the test has ended.
async fn stream(
    listener: &TcpListener,
    orders: &mut UnboundedReceiver<Option<Bytes>>,
    requests: &Mutex<Vec<u8>>,
) -> bool {
    let (socket, _) = listener.accept().await.unwrap();
    stream_on(socket, orders, requests).await
}

async fn stream_on(
    socket: TcpStream,
    orders: &mut UnboundedReceiver<Option<Bytes>>,
    requests: &Mutex<Vec<u8>>,
) -> bool {
    let mut connection = h2::server::handshake(socket).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    let path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
    assert_eq!(request.uri().path(), path);
    let mut sent = request.into_body();
    let head = Response::builder().header("content-type", "application/grpc");
    let mut body = respond
        .send_response(head.body(()).unwrap(), false)
        .unwrap();
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Some(message)) => body.send_data(message, false).unwrap(),
                Some(None) => return true,
                None => return false,
            },
            Some(Ok(part)) = sent.data() => {
                sent.flow_control().release_capacity(part.len()).unwrap();
                requests.lock().unwrap().extend(part);
            }
            other = connection.accept() => {
                assert!(other.is_none(), "one stream for all services");
                return true;
            }
        }
    }
}

/// The EDS resource `web` with these replicas.
fn assignment(replicas: &[&Replica]) -> Vec<u8> {
    let mut locality = Vec::new();
    for replica in replicas {
        let address = replica.address;
        let mut socket = field(2, address.ip().to_string().as_bytes());
        socket.extend([3 << 3]);
        socket.extend(number(u32::from(address.port())));
        let address = field(1, &socket);
        let endpoint = field(1, &address);
        locality.extend(field(2, &field(1, &endpoint)));
    }
    [field(1, b"web"), field(2, &locality)].concat()
}

/// A message of gRPC with a `DiscoveryResponse` of these resources.
fn response(version: &str, type_url: &str, resources: &[&[u8]]) -> Bytes {
    let resources = resources.iter().map(|resource| {
        let any = [field(1, type_url.as_bytes()), field(2, resource)].concat();
        field(2, &any)
    });
    let response = [
        field(1, version.as_bytes()),
        resources.collect::<Vec<_>>().concat(),
        field(4, type_url.as_bytes()),
        field(5, version.as_bytes()),
    ];
    let response = response.concat();
    let length = u32::try_from(response.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &response].concat().into()
}

/// A field of bytes, in protobuf.
fn field(tag: u32, value: &[u8]) -> Vec<u8> {
    let length = number(u32::try_from(value.len()).unwrap());
    [&number(tag << 3 | 2), &length[..], value].concat()
}

/// A number in protobuf: seven bits in each byte, the lowest first.
fn number(mut value: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

pub(crate) fn config(plane: &ControlPlane) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"round_robin\"\n\
         probe.transport = \"none\"\ndiscovery = {{ xds = \"web\", warm_up = 0 }}\n\
         xds.server = \"http://{}\"\n",
        plane.address
    )
}

async fn answered_by(proxy: &Proxy, name: &str) {
    until("this replica alone answers", async || {
        for _ in 0..4 {
            let answer = get(proxy.address, "/").await;
            if answer.text().lines().next() != Some(name) {
                return None;
            }
        }
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_follows_its_resource_and_outlives_the_control_plane() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let plane = ControlPlane::start().await;
    let written = Written::new("xds", &config(&plane));
    plane.send("1", &[&one]);
    let proxy = written.serve(&[]);
    answered_by(&proxy, "one").await;
    plane.send("2", &[&two]);
    answered_by(&proxy, "two").await;

    // A resource without endpoints, and a control plane that is away, change nothing.
    plane.send("3", &[]);
    proxy.log_line("discovery failed, fleet unchanged");
    plane.end();
    until("the status says that the stream has ended", async || {
        let found = proxy.status().await;
        let discovery = &found["services"][0]["discovery"];
        assert_eq!(discovery["source"], json!("xds web"));
        (discovery["xds"]["streams"].as_u64() > Some(1)).then_some(())
    })
    .await;
    answered_by(&proxy, "two").await;
    plane.send("4", &[&one]);
    answered_by(&proxy, "one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_ready_after_the_control_planes_first_answer() {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let written = Written::new("xds-start", &config(&plane));
    let proxy = written.serve(&[]);
    assert_eq!(proxy.admin_page("/readyz").await.trim(), "starting");
    plane.send("1", &[&one]);
    until("it is ready", async || {
        (proxy.admin_page("/readyz").await.trim() == "serving").then_some(())
    })
    .await;
    answered_by(&proxy, "one").await;
}
