//! Requests to an API server: HTTP/1.1, with or without TLS, each with a deadline and a bounded
//! response.
//!
//! Credentials are read for each request and each connection, so a replaced token or authority
//! counts from the next one on. They are never part of a message. What the server says of an error
//! is quoted, and cut.

use super::slices::Object;
use crate::tcp;
use bytes::Bytes;
use core::time::Duration;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use slackwater_config::ClusterAccess;
use slackwater_config::tls::HttpVersion;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Deadline of a connection, with its handshake.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Deadline of a response's head.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Deadline of a response's body, if the response is not a watch.
const BODY_MAX: Duration = Duration::from_secs(30);
/// The longest list, in bytes: a page of slices, each with 1,000 endpoints at most.
const LIST_BYTES_MAX: usize = 16 << 20;
/// The longest body of an error that is read, in bytes.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// How much of a server's words is shown, in characters.
const QUOTE_MAX: usize = 300;

/// A peer that disappeared is noticed after half a minute.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

const OWN_NAME: HeaderValue =
    HeaderValue::from_static(concat!("slackwater/", env!("CARGO_PKG_VERSION")));

/// A connection to a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection for requests, one at a time.
pub(super) type Connection = SendRequest<Empty<Bytes>>;

/// Opens connections.
pub(super) type Dial = Box<
    dyn Fn(Arc<ClusterAccess>) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> + Send + Sync,
>;

/// Why a request gave nothing.
#[derive(Debug)]
pub(super) enum ApiError {
    /// The version that was asked for is too old (410): everything must be listed again.
    Outdated,
    /// The server refuses the parameters of the request.
    Unsupported,
    /// Any other reason.
    Failed(String),
}

/// An API server.
pub(super) struct Api {
    access: Arc<ClusterAccess>,
    dial: Dial,
    /// The connection of the last response that was read to its end.
    idle: Option<Connection>,
}

impl core::fmt::Debug for Api {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (f.debug_struct("Api").field("access", &self.access)).finish_non_exhaustive()
    }
}

impl Api {
    pub(super) fn new(access: ClusterAccess) -> Self {
        Self::over(access, Box::new(|access| Box::pin(dial(access))))
    }

    pub(super) fn over(access: ClusterAccess, dial: Dial) -> Self {
        Self {
            access: Arc::new(access),
            dial,
            idle: None,
        }
    }

    pub(super) fn access(&self) -> &ClusterAccess {
        &self.access
    }

    /// Reads a whole response of a `list`.
    pub(super) async fn list(&mut self, path: &str) -> Result<Bytes, ApiError> {
        let (sender, response) = self.get(path, "list").await?;
        let body = Limited::new(response.into_body(), LIST_BYTES_MAX).collect();
        let body = match timeout(BODY_MAX, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => return Err(self.failed(&format!("sent no whole list: {error}"))),
            Err(_) => {
                let told = format!("sent no whole list within {BODY_MAX:?}");
                return Err(self.failed(&told));
            }
        };
        self.idle = Some(sender);
        Ok(body)
    }

    /// Begins a `watch`.
    pub(super) async fn watch(&mut self, path: &str) -> Result<(Connection, Incoming), ApiError> {
        let (connection, response) = self.get(path, "watch").await?;
        Ok((connection, response.into_body()))
    }

    /// An error with the server's URL before it.
    pub(super) fn failed(&self, told: &str) -> ApiError {
        ApiError::Failed(format!("{} {told}", self.access.server.authority()))
    }

    async fn get(
        &mut self,
        path: &str,
        verb: &str,
    ) -> Result<(Connection, Response<Incoming>), ApiError> {
        let request = self.request(path).await?;
        let idle = self.idle.take().filter(|sender| !sender.is_closed());
        let mut sender = match idle {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let answer = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let response = match timeout(HEAD_MAX, answer).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.failed(&format!("gave no response: {error}"))),
            Err(_) => {
                return Err(self.failed(&format!("gave no response within {HEAD_MAX:?}")));
            }
        };
        match response.status() {
            StatusCode::OK => Ok((sender, response)),
            status => Err(self.refusal(status, response.into_body(), verb).await),
        }
    }

    async fn request(&self, path: &str) -> Result<Request<Empty<Bytes>>, ApiError> {
        let access = Arc::clone(&self.access);
        // A file system that hangs must not hold up other tasks of this thread.
        let read = tokio::task::spawn_blocking(move || access.authorization()).await;
        let authorization = read
            .unwrap_or_else(|_| Err("the token could not be read".to_owned()))
            .map_err(ApiError::Failed)?;
        let server = &self.access.server;
        let mut request = Request::get(format!("{}{path}", server.base()))
            .header(HOST, server.authority())
            .header(USER_AGENT, OWN_NAME)
            .header(ACCEPT, "application/json")
            .header(ACCEPT_ENCODING, "identity");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::new());
        request.map_err(|error| self.failed(&format!("cannot be asked: {error}")))
    }

    async fn connect(&self) -> Result<Connection, ApiError> {
        let connected = async {
            let stream = (self.dial)(Arc::clone(&self.access)).await?;
            let spoken = http1::handshake(TokioIo::new(stream)).await;
            let (sender, connection) = spoken.map_err(io::Error::other)?;
            tokio::spawn(connection);
            Ok::<_, io::Error>(sender)
        };
        match timeout(CONNECT_MAX, connected).await {
            Ok(Ok(sender)) => Ok(sender),
            Ok(Err(error)) => Err(self.failed(&format!("cannot be reached: {error}"))),
            Err(_) => Err(self.failed(&format!("cannot be reached within {CONNECT_MAX:?}"))),
        }
    }

    /// Explains a status, with what is to do.
    async fn refusal(&self, status: StatusCode, body: Incoming, verb: &str) -> ApiError {
        if status == StatusCode::GONE {
            return ApiError::Outdated;
        }
        let body = timeout(HEAD_MAX, Limited::new(body, ERROR_BYTES_MAX).collect()).await;
        let body = body
            .ok()
            .and_then(Result::ok)
            .map(http_body_util::Collected::to_bytes);
        let said = body.and_then(|body| serde_json::from_slice::<Object>(&body).ok());
        let said = said.and_then(|said| said.message).unwrap_or_default();
        self.refused(status.as_u16(), &said, verb)
    }

    /// Explains the status of an error, which may also be an event of a watch.
    pub(super) fn refused(&self, status: u16, said: &str, verb: &str) -> ApiError {
        let meaning = match status {
            410 => return ApiError::Outdated,
            400 | 422 => return ApiError::Unsupported,
            401 => format!(
                ": it does not accept the credentials of {}; renew the token or the certificate",
                self.access.origin().display()
            ),
            403 => format!(
                ": no right to {verb} endpointslices.discovery.k8s.io; give a Role with the verbs \
                 list and watch in this namespace"
            ),
            404 => ": it has no discovery.k8s.io/v1; the cluster must be Kubernetes 1.21 or later"
                .to_owned(),
            _ => String::new(),
        };
        let said = match quoted(said) {
            said if said.is_empty() => said,
            said => format!(" ({said})"),
        };
        self.failed(&format!("answered {status}{meaning}{said}"))
    }
}

/// A server's words in one line, cut.
fn quoted(said: &str) -> String {
    let shown = said.chars().take(QUOTE_MAX);
    let plain = shown.map(|it| if it.is_control() { ' ' } else { it });
    plain.collect()
}

/// Connects over TCP, and with TLS if the server's URL wants it.
async fn dial(access: Arc<ClusterAccess>) -> io::Result<Box<dyn Stream>> {
    let server = &access.server;
    let stream = tcp::connect(server, KEEPALIVE, KEEPALIVE_INTERVAL).await?;
    if !server.is_secure() {
        return Ok(Box::new(stream));
    }
    let (name, files) = (access.server_name.clone(), Arc::clone(&access));
    let client = tokio::task::spawn_blocking(move || files.tls()).await;
    let client = client
        .map_err(io::Error::other)?
        .map_err(io::Error::other)?;
    let connector = TlsConnector::from(client.with_sessions(HttpVersion::Http1, 1));
    Ok(Box::new(connector.connect(name, stream).await?))
}
