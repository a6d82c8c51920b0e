//! A collector of spans: it receives them by OTLP, over gRPC and over HTTP, and stores them for
//! inspection.
//!
//! It is for tests and experiments, so it has no bounds. Its messages and its gRPC are those of
//! OpenTelemetry's own crates, so it understands what other collectors understand. A test can make
//! it reject exports, or leave them unanswered.

mod json;
mod span;

pub use span::{Attributes, Event, Kind, Received, Span, Value};

use bytes::Bytes;
use core::net::SocketAddr;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tonic::metadata::MetadataMap;

/// How exports are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// They are accepted.
    #[default]
    Takes,
    /// They are rejected, and may be retried.
    Busy,
    /// They are rejected permanently.
    Refuses,
    /// They are never answered.
    Hangs,
}

/// A running collector; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Collector(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    manner: Manner,
    /// Number of exports, accepted or not.
    exports: usize,
    /// The headers of the last export.
    headers: HeaderMap,
    received: Vec<Received>,
}

impl Collector {
    /// Starts to accept exports by gRPC.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be listened on.
    pub async fn serve_grpc(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let service = TowerToHyperService::new(TraceServiceServer::new(self.clone()));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service.clone());
                tokio::spawn(serving);
            }
        });
        Ok(address)
    }

    /// Starts to accept exports by HTTP, at `/v1/traces`; `GET /traces/ID` returns a trace as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the address cannot be listened on.
    pub async fn serve_http(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let collector = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let collector = collector.clone();
                let service = service_fn(move |request| {
                    let collector = collector.clone();
                    async move { collector.answer(request).await }
                });
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        Ok(address)
    }

    /// Sets how further exports are handled.
    pub fn set_manner(&self, manner: Manner) {
        self.state().manner = manner;
    }

    /// Number of exports so far, accepted or not.
    pub fn exports(&self) -> usize {
        self.state().exports
    }

    /// A header of the last export.
    pub fn header(&self, name: &str) -> Option<String> {
        let state = self.state();
        let value = state.headers.get(name)?;
        value.to_str().ok().map(ToOwned::to_owned)
    }

    /// All spans that were accepted.
    pub fn received(&self) -> Vec<Received> {
        self.state().received.clone()
    }

    /// The spans of a trace, by start time.
    pub fn trace(&self, id: &str) -> Vec<Span> {
        let state = self.state();
        let spans = state.received.iter().map(|received| &received.span);
        let mut spans: Vec<_> = spans.filter(|span| span.trace == id).cloned().collect();
        spans.sort_by_key(|span| span.start_ns);
        spans
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, headers: HeaderMap) -> Manner {
        let mut state = self.state();
        state.exports += 1;
        state.headers = headers;
        state.manner
    }

    fn take(&self, request: &ExportTraceServiceRequest) {
        let received = span::received(request);
        self.state().received.extend(received);
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let (head, body) = request.into_parts();
        if let Some(id) = head.uri.path().strip_prefix("/traces/") {
            let told = json::trace(&self.trace(id)).to_string();
            return Ok(answered(StatusCode::OK, "application/json", told));
        }
        if (head.method, head.uri.path()) != (Method::POST, "/v1/traces") {
            return Ok(answered(
                StatusCode::NOT_FOUND,
                "text/plain",
                "no such page\n",
            ));
        }
        let is_protobuf = (head.headers.get(CONTENT_TYPE)).is_some_and(|it| it == PROTOBUF);
        let manner = self.begin(head.headers);
        let body = body.collect().await?.to_bytes();
        let export = ExportTraceServiceRequest::decode(body);
        Ok(match (manner, export) {
            (Manner::Hangs, _) => core::future::pending().await,
            (Manner::Busy, _) => answered(StatusCode::SERVICE_UNAVAILABLE, PROTOBUF, Bytes::new()),
            (Manner::Takes, Ok(export)) if is_protobuf => {
                self.take(&export);
                let taken = ExportTraceServiceResponse::default().encode_to_vec();
                answered(StatusCode::OK, PROTOBUF, taken)
            }
            _ => answered(StatusCode::BAD_REQUEST, PROTOBUF, Bytes::new()),
        })
    }
}

const PROTOBUF: &str = "application/x-protobuf";

fn answered(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let (metadata, _, export): (MetadataMap, _, _) = request.into_parts();
        match self.begin(metadata.into_headers()) {
            Manner::Takes => {
                self.take(&export);
                Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
            }
            Manner::Busy => Err(tonic::Status::unavailable("busy")),
            Manner::Refuses => Err(tonic::Status::invalid_argument("not these")),
            Manner::Hangs => core::future::pending().await,
        }
    }
}
