//! One check of one replica, on its own connection.
//!
//! Each check opens a new connection, because it also tests whether the replica accepts
//! connections.

use super::grpc;
use crate::forward::{Stream, Target, connect, is_own_lack};
use bytes::{Bytes, BytesMut};
use core::fmt::Display;
use core::net::SocketAddr;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue, TE, USER_AGENT};
use http::{Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use slackwater_config::{HealthCheck, HealthSettings, ReplicaProtocol};
use slackwater_http::GRPC_STATUS;

const AGENT: HeaderValue = HeaderValue::from_static("slackwater-health");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Returns the scheme of requests to a replica, with or without TLS.
pub(super) const fn scheme(has_tls: bool) -> &'static str {
    if has_tls { "https" } else { "http" }
}

/// Returns the protocol of a check's connection: gRPC needs HTTP/2, whatever protocol requests use.
pub(super) const fn spoken(check: HealthCheck, requests: ReplicaProtocol) -> ReplicaProtocol {
    match check {
        HealthCheck::Grpc => ReplicaProtocol::H2c,
        HealthCheck::None | HealthCheck::Tcp | HealthCheck::Http => requests,
    }
}

/// Checks the replica at `address`, which is `target`'s; the error describes the failure. `None` if
/// this process lacks what a connection needs.
pub(super) async fn check(
    settings: &HealthSettings,
    protocol: ReplicaProtocol,
    (scheme, address): (&str, SocketAddr),
    target: &Target,
) -> Option<Result<(), String>> {
    let checking = async {
        let stream = match connect(target, None, settings.timeout).await {
            Ok(stream) => stream,
            Err(error) if is_own_lack(&error) => return None,
            Err(error) => return Some(Err(format!("no connection: {error}"))),
        };
        Some(match &settings.check {
            HealthCheck::None | HealthCheck::Tcp => Ok(()),
            HealthCheck::Http => ask_http(settings, protocol, (scheme, address), stream).await,
            HealthCheck::Grpc => ask_grpc(settings, (scheme, address), stream).await,
        })
    };
    let checked = tokio::time::timeout(settings.timeout, checking).await;
    checked.unwrap_or_else(|_| Some(Err(format!("no answer within {:?}", settings.timeout))))
}

fn failure_of(what: &str) -> impl Fn(hyper::Error) -> String {
    move |error| format!("{what}: {}", Chain(&error))
}

/// Displays an error with its sources.
struct Chain<'e>(&'e dyn core::error::Error);

impl Display for Chain<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        Display::fmt(self.0, f)?;
        match self.0.source() {
            Some(source) => write!(f, ": {}", Chain(source)),
            None => Ok(()),
        }
    }
}

async fn ask_http(
    settings: &HealthSettings,
    protocol: ReplicaProtocol,
    (scheme, address): (&str, SocketAddr),
    stream: Stream,
) -> Result<(), String> {
    let mut request = Request::new(Full::default());
    request.headers_mut().insert(USER_AGENT, AGENT);
    let host = settings.host.clone().unwrap_or_else(|| address.to_string());
    let response = match protocol {
        ReplicaProtocol::Http1 => {
            *request.uri_mut() = settings.path.clone().into();
            let host = HeaderValue::try_from(host).map_err(|error| error.to_string())?;
            request.headers_mut().insert(HOST, host);
            send_http1(request, stream).await?
        }
        ReplicaProtocol::H2c => {
            *request.uri_mut() = uri(scheme, &host, settings.path.as_str())?;
            *request.version_mut() = Version::HTTP_2;
            send_http2(request, stream).await?
        }
    };
    let status = response.status();
    let is_expected = match settings.statuses.as_slice() {
        [] => status.is_success(),
        statuses => statuses.contains(&status),
    };
    if is_expected {
        Ok(())
    } else {
        Err(format!("status {}", status.as_u16()))
    }
}

async fn ask_grpc(
    settings: &HealthSettings,
    (scheme, address): (&str, SocketAddr),
    stream: Stream,
) -> Result<(), String> {
    let host = settings.host.clone().unwrap_or_else(|| address.to_string());
    let mut request = Request::new(Full::new(grpc::question(&settings.grpc_service)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri(scheme, &host, grpc::PATH)?;
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, AGENT);
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(TE, TRAILERS);
    let response = send_http2(request, stream).await?;
    if !response.status().is_success() {
        return Err(format!("status {}", response.status().as_u16()));
    }
    if let Some(why) = failure_in(response.headers()) {
        return Err(why);
    }
    let (answer, trailers) = read(response.into_body()).await?;
    match trailers.as_ref().and_then(failure_in) {
        Some(why) => Err(why),
        None => grpc::read_answer(&answer),
    }
}

fn failure_in(headers: &HeaderMap) -> Option<String> {
    let status = headers.get(GRPC_STATUS)?;
    grpc::status_name(status.to_str().unwrap_or("?"))
}

async fn read(mut body: Incoming) -> Result<(BytesMut, Option<HeaderMap>), String> {
    let mut answer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame.map_err(failure_of("broke off"))?.into_data() {
            Ok(data) if answer.len() + data.len() <= grpc::ANSWER_BYTES_MAX => {
                answer.extend_from_slice(&data);
            }
            Ok(_) => return Err("the answer is too long for a health status".to_owned()),
            Err(frame) => return Ok((answer, frame.into_trailers().ok())),
        }
    }
    Ok((answer, None))
}

fn uri(scheme: &str, host: &str, path: &str) -> Result<Uri, String> {
    let uri = Uri::builder().scheme(scheme).authority(host);
    let uri = uri.path_and_query(path).build();
    uri.map_err(|error| error.to_string())
}

async fn send_http1(
    request: Request<Full<Bytes>>,
    stream: Stream,
) -> Result<Response<Incoming>, String> {
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(failure_of("no HTTP/1.1"))?;
    // An error of the connection also reaches the waiting request.
    tokio::task::spawn_local(async { drop(connection.await) });
    sender
        .send_request(request)
        .await
        .map_err(failure_of("broke off"))
}

async fn send_http2(
    request: Request<Full<Bytes>>,
    stream: Stream,
) -> Result<Response<Incoming>, String> {
    let handshake = http2::handshake(LocalExecutor, TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(failure_of("no HTTP/2"))?;
    tokio::task::spawn_local(async { drop(connection.await) });
    sender
        .send_request(request)
        .await
        .map_err(failure_of("broke off"))
}

/// Runs hyper's tasks on the worker's own thread.
#[derive(Clone, Copy, Debug, Default)]
struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future<Output: 'static> + 'static,
{
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}
