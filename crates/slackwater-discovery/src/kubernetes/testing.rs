//! An API server for tests: a real HTTP/1.1 server that answers each request as the test says.
//!
//! It serves over TCP on loopback, or over pipes in memory, for tests whose time is paused.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test may panic"
)]

use crate::testing::sharing;
use bytes::Bytes;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A server, which stops when it is dropped.
#[derive(Debug)]
pub struct ApiServer {
    /// Where it listens; `None` in memory.
    pub address: Option<SocketAddr>,
    requests: mpsc::UnboundedReceiver<Asked>,
    task: JoinHandle<()>,
}

/// A port of loopback at which servers come and go. It is held meanwhile, so that no other process
/// gets it, and refuses connections.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    /// It never listens.
    _held: TcpSocket,
}

impl Port {
    /// Holds a port of the system's choice.
    pub fn hold() -> Self {
        let held = sharing(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = held.local_addr().expect("bound");
        Self {
            address,
            _held: held,
        }
    }

    /// Starts a server at the port. The one before must have stopped.
    pub fn start(&self) -> ApiServer {
        let listener = sharing(self.address).listen(128).expect("a listener");
        ApiServer::serve(listener, None)
    }
}

/// A request that waits for its response.
#[derive(Debug)]
pub struct Asked {
    /// Path and query.
    pub target: String,
    /// The field `authorization`.
    pub authorization: Option<String>,
    answer: oneshot::Sender<(StatusCode, Pieces)>,
}

/// The body of a response that is being sent. When it is dropped, the body ends.
#[derive(Debug)]
pub struct Sending(mpsc::UnboundedSender<Result<Bytes, io::Error>>);

/// A body of pieces that a test sends.
#[derive(Debug)]
struct Pieces(mpsc::UnboundedReceiver<Result<Bytes, io::Error>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

impl ApiServer {
    /// Serves on loopback.
    pub async fn start() -> Self {
        Self::serve(Self::listen().await, None)
    }

    /// Serves on loopback over TLS.
    pub async fn start_tls(config: Arc<ServerConfig>) -> Self {
        Self::serve(Self::listen().await, Some(TlsAcceptor::from(config)))
    }

    async fn listen() -> TcpListener {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        TcpListener::bind(any).await.expect("a socket")
    }

    fn serve(listener: TcpListener, tls: Option<TlsAcceptor>) -> Self {
        let address = listener.local_addr().expect("bound");
        let (sender, requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let (sender, tls) = (sender.clone(), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, sender).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, sender).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address: Some(address),
            requests,
            task,
        }
    }

    /// Serves the pipes that arrive in a channel.
    pub fn in_memory(mut pipes: mpsc::UnboundedReceiver<DuplexStream>) -> Self {
        let (sender, requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Some(stream) = pipes.recv().await {
                connections.spawn(serve(stream, sender.clone()));
            }
        });
        Self {
            address: None,
            requests,
            task,
        }
    }

    /// Waits for the next request.
    pub async fn asked(&mut self) -> Asked {
        self.requests.recv().await.expect("the server runs")
    }
}

/// A kubeconfig for the server at a URL, with a token in the file `token` beside it.
pub fn kubeconfig(url: &str) -> String {
    format!(
        "current-context: test\n\
         contexts: [{{name: test, context: {{cluster: test, user: test, namespace: shop}}}}]\n\
         clusters: [{{name: test, cluster: {{server: \"{url}\"}}}}]\n\
         users: [{{name: test, user: {{tokenFile: token}}}}]\n"
    )
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Asked {
    /// Whether the request is a watch.
    pub fn is_watch(&self) -> bool {
        self.target.contains("&watch=true")
    }

    /// Whether the request is a streaming list.
    pub fn is_streaming_list(&self) -> bool {
        self.target.contains("&sendInitialEvents=true")
    }

    /// Answers with a whole body.
    pub fn answer(self, status: u16, body: &Value) {
        self.send(status).text(&body.to_string());
    }

    /// Answers an error, as an API server does.
    pub fn refuse(self, status: u16, message: &str) {
        self.answer(
            status,
            &json!({"kind": "Status", "code": status, "message": message}),
        );
    }

    /// Begins an answer.
    pub fn send(self, status: u16) -> Sending {
        let (sender, pieces) = mpsc::unbounded_channel();
        let status = StatusCode::from_u16(status).expect("a status");
        let _ = self.answer.send((status, Pieces(pieces)));
        Sending(sender)
    }
}

impl Sending {
    /// Sends a piece.
    pub fn text(&self, text: &str) {
        let _ = self.0.send(Ok(Bytes::copy_from_slice(text.as_bytes())));
    }

    /// Sends an event.
    pub fn event(&self, kind: &str, object: &Value) {
        self.text(&format!("{}\n", json!({"type": kind, "object": object})));
    }

    /// Sends a bookmark.
    pub fn bookmark(&self, version: u32) {
        let metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        let object = json!({"kind": "EndpointSlice", "metadata": metadata, "endpoints": null});
        self.event("BOOKMARK", &object);
    }

    /// Sends the bookmark that ends the initial events of a streaming list.
    pub fn initial_events_end(&self, version: u32) {
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let metadata = json!({"resourceVersion": version.to_string(), "annotations": annotations});
        let object = json!({"kind": "EndpointSlice", "metadata": metadata, "endpoints": null});
        self.event("BOOKMARK", &object);
    }

    /// Cuts the connection.
    pub fn cut(self) {
        let _ = self.0.send(Err(io::Error::other("cut by the test")));
    }

    /// Waits until the client has closed the connection.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// Serves one connection.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    requests: mpsc::UnboundedSender<Asked>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let requests = requests.clone();
        async move {
            let (answer, answered) = oneshot::channel();
            let authorization = request.headers().get(AUTHORIZATION);
            let authorization = authorization.and_then(|value| value.to_str().ok());
            let asked = Asked {
                target: request.uri().to_string(),
                authorization: authorization.map(str::to_owned),
                answer,
            };
            let _ = requests.send(asked);
            match answered.await {
                Ok((status, pieces)) => {
                    let mut response = Response::new(pieces);
                    *response.status_mut() = status;
                    Ok::<_, Infallible>(response)
                }
                // The test has dropped the request: there is no answer.
                Err(_) => core::future::pending().await,
            }
        }
    });
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// An endpoint of an `EndpointSlice`: a ready pod on node `n1` in zone `a`.
pub fn endpoint(address: &str, pod: &str) -> Value {
    json!({
        "addresses": [address],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": "n1",
        "zone": "a",
        "targetRef": {"kind": "Pod", "namespace": "shop", "name": pod, "uid": "5b0c6c5e"}
    })
}

/// An `EndpointSlice` of the service `web` in the namespace `shop`, with the port `http` at a
/// number, as an API server sends it.
pub fn slice(name: &str, version: u32, port: u16, endpoints: &[Value]) -> Value {
    let is_v6 = endpoints.iter().any(|endpoint| {
        let address = endpoint["addresses"][0].as_str().unwrap_or_default();
        address.contains(':')
    });
    json!({
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": name,
            "generateName": "web-",
            "namespace": "shop",
            "uid": "f2b5f3f9-6f0b-4d0e-9a66-0f0b3c9e9b1d",
            "resourceVersion": version.to_string(),
            "generation": 3,
            "creationTimestamp": "2026-11-23T10:00:00Z",
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": "web"
            },
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-11-23T10:00:00Z"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web",
                "uid": "2f1c7f4b", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update",
                "apiVersion": "discovery.k8s.io/v1", "time": "2026-11-23T10:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:addressType": {}, "f:endpoints": {}}}]
        },
        "addressType": if is_v6 { "IPv6" } else { "IPv4" },
        "endpoints": endpoints,
        "ports": [{"name": "http", "protocol": "TCP", "port": port}]
    })
}

/// A list of slices.
pub fn list(version: u32, items: &[Value]) -> Value {
    json!({
        "kind": "EndpointSliceList",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"resourceVersion": version.to_string()},
        "items": items
    })
}
