//! A small HTTP server with the layer, whose responses a test controls, and clients that can
//! disconnect.

use bytes::Bytes;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use slackwater_tower::server::{Load, LoadLayer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tower::{Layer, service_fn};

/// The next step of a response's body. The end of the channel is the body's end.
pub(crate) enum Step {
    Data(&'static str),
    GrpcStatus(&'static str),
    /// gRPC status 8 with pushback.
    GrpcPushBack,
    Error,
    Panic,
}

pub(crate) type Steps = mpsc::UnboundedSender<Step>;

/// A body that follows the steps it receives.
pub(crate) struct Scripted(pub(crate) mpsc::UnboundedReceiver<Step>);

impl Body for Scripted {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(match ready!(self.0.poll_recv(cx)) {
            None => None,
            Some(Step::Data(text)) => Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
            Some(Step::GrpcStatus(status)) => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", status.parse().unwrap());
                Some(Ok(Frame::trailers(trailers)))
            }
            Some(Step::GrpcPushBack) => {
                let fields = [("grpc-status", "8"), ("grpc-retry-pushback-ms", "20")];
                let fields = fields
                    .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
                Some(Ok(Frame::trailers(HeaderMap::from_iter(fields))))
            }
            Some(Step::Error) => Some(Err(std::io::Error::other("asked for"))),
            Some(Step::Panic) => panic!("asked for, in the body"),
        })
    }
}

/// The server under test. Responses to `/stream` are driven by the senders that `streams` yields,
/// in order.
pub(crate) struct Rig {
    pub(crate) load: Load,
    pub(crate) address: SocketAddr,
    streams: mpsc::UnboundedReceiver<Steps>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with_layer(|layer| layer).await
    }

    pub(crate) async fn with_layer(settings: impl FnOnce(LoadLayer) -> LoadLayer) -> Self {
        let load = Load::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (opened, streams) = mpsc::unbounded_channel();
        let layer = settings(LoadLayer::new(load.clone()));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let opened = opened.clone();
                let app = service_fn(move |request| answer(request, opened.clone()));
                let service = TowerToHyperService::new(layer.layer(app));
                tokio::spawn(async move {
                    // The tests check how a connection ends.
                    let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(socket), service)
                        .await;
                });
            }
        });
        Self {
            load,
            address,
            streams,
        }
    }

    /// The body of the next response to `/stream`.
    pub(crate) async fn next_stream(&mut self) -> Steps {
        self.streams.recv().await.unwrap()
    }

    pub(crate) fn rif(&self) -> u32 {
        self.load.rif().count()
    }

    /// Queries that succeeded, failed, and were cancelled.
    pub(crate) fn ends(&self) -> [u64; 3] {
        let counts = self.load.counts();
        [
            counts.queries_succeeded,
            counts.queries_failed,
            counts.queries_cancelled,
        ]
    }
}

async fn answer(
    request: Request<Incoming>,
    opened: mpsc::UnboundedSender<Steps>,
) -> Result<Response<Scripted>, std::io::Error> {
    let (steps, body) = mpsc::unbounded_channel();
    let mut response = Response::new(Scripted(body));
    match request.uri().path() {
        "/ok" => steps.send(Step::Data("hello")).unwrap(),
        "/sized" => {
            response.headers_mut().insert(CONTENT_LENGTH, 5.into());
            opened.send(steps).unwrap();
        }
        "/stream" => opened.send(steps).unwrap(),
        "/busy" => {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            let later = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, later);
        }
        "/fail" => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
        "/error" => return Err(std::io::Error::other("asked for")),
        "/panic" => panic!("asked for, in the service"),
        "/hang" => core::future::pending().await,
        _ => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}

pub(crate) fn get(path: &str) -> Request<Empty<Bytes>> {
    let uri = format!("http://replica.test{path}");
    Request::get(uri).body(Empty::new()).unwrap()
}

/// The client's end of a connection, to close it whatever is in progress.
pub(crate) struct Line(std::net::TcpStream);

impl Line {
    pub(crate) fn cut(&self) {
        self.0.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

async fn dial(address: SocketAddr) -> (TokioIo<TcpStream>, Line) {
    let socket = TcpStream::connect(address)
        .await
        .unwrap()
        .into_std()
        .unwrap();
    let line = Line(socket.try_clone().unwrap());
    (TokioIo::new(TcpStream::from_std(socket).unwrap()), line)
}

pub(crate) async fn connect_http1(address: SocketAddr) -> (http1::SendRequest<Empty<Bytes>>, Line) {
    let (socket, line) = dial(address).await;
    let (client, connection) = http1::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    (client, line)
}

pub(crate) async fn connect_http2(address: SocketAddr) -> (http2::SendRequest<Empty<Bytes>>, Line) {
    let (socket, line) = dial(address).await;
    let (client, connection) = http2::handshake(TokioExecutor::new(), socket)
        .await
        .unwrap();
    tokio::spawn(connection);
    (client, line)
}
