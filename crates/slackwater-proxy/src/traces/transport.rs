//! Sends one export, over HTTP/1.1 or as a gRPC call over HTTP/2, on a connection that is kept
//! between exports.
//!
//! The collector's URL selects plain connections or TLS. Files with secrets are read when they are
//! used, so a new token or certificate needs no restart. The exporter sets the deadlines.

use super::verdict::{Refused, Taken, of_grpc, of_http};
use crate::tls::connect_once;
use bytes::Bytes;
use core::fmt;
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE, USER_AGENT};
use http::uri::{PathAndQuery, Uri};
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use slackwater_config::tls::HttpVersion;
use slackwater_config::{CollectorProtocol, Endpoint, TracingSettings};
use slackwater_http::GRPC_STATUS;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Path of the gRPC method for exports.
const GRPC_PATH: PathAndQuery =
    PathAndQuery::from_static("/opentelemetry.proto.collector.trace.v1.TraceService/Export");

const OWN_NAME: HeaderValue =
    HeaderValue::from_static(concat!("slackwater/", env!("CARGO_PKG_VERSION")));

/// Maximum size of a response.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The transport to the collector.
#[derive(Debug)]
pub(super) struct Transport {
    settings: TracingSettings,
    endpoint: Endpoint,
    /// The connection of the previous export, if it can be reused.
    connection: Option<Connection>,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

#[derive(Debug)]
enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    fn is_closed(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_closed(),
            Self::Http2(sender) => sender.is_closed(),
        }
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

impl Transport {
    pub(super) const fn new(settings: TracingSettings, endpoint: Endpoint) -> Self {
        Self {
            settings,
            endpoint,
            connection: None,
        }
    }

    /// Sends a message, without a timeout. If the future is dropped before its end, the next
    /// message uses a new connection.
    pub(super) async fn send(&mut self, head: &[u8], spans: &[u8]) -> Result<Taken, Refused> {
        let request = self.request(head, spans)?;
        let mut connection = match self.connection.take().filter(|it| !it.is_closed()) {
            Some(connection) => connection,
            None => self.connect().await.map_err(Refused::unanswered)?,
        };
        let response = connection.send(request).await;
        let (answer, body) = response.map_err(|error| refusal_of(&error))?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(Refused::unanswered)?;
        self.connection = Some(connection);
        let trailers = body.trailers().cloned();
        let body = body.to_bytes();
        match self.settings.protocol {
            CollectorProtocol::Http => of_http(answer.status, &answer.headers, &body),
            CollectorProtocol::Grpc => {
                // A call that failed immediately has its status in the head.
                let end = trailers.filter(|it| it.contains_key(GRPC_STATUS));
                of_grpc(
                    answer.status,
                    end.as_ref().unwrap_or(&answer.headers),
                    &body,
                )
            }
        }
    }

    fn request(&self, head: &[u8], spans: &[u8]) -> Result<Request<Full<Bytes>>, Refused> {
        let flaw = |flaw: String| Refused {
            may_retry: true,
            after: None,
            why: flaw,
        };
        let own = self.settings.headers.read().map_err(flaw)?;
        let mut body = Vec::with_capacity(5 + head.len() + spans.len());
        let (path, version) = match self.settings.protocol {
            CollectorProtocol::Grpc => {
                // The prefix of a gRPC message: not compressed, and its length.
                let length = u32::try_from(head.len() + spans.len()).unwrap_or(u32::MAX);
                body.push(0);
                body.extend_from_slice(&length.to_be_bytes());
                (GRPC_PATH, Version::HTTP_2)
            }
            CollectorProtocol::Http => (self.endpoint.path(), Version::HTTP_11),
        };
        body.extend_from_slice(head);
        body.extend_from_slice(spans);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.version_mut() = version;
        let authority = self.endpoint.authority();
        *request.uri_mut() = match self.settings.protocol {
            CollectorProtocol::Http => path.into(),
            CollectorProtocol::Grpc => {
                let scheme = if self.endpoint.is_secure() {
                    "https"
                } else {
                    "http"
                };
                let uri = Uri::builder().scheme(scheme).authority(authority);
                let uri = uri.path_and_query(path).build();
                uri.map_err(|error| flaw(error.to_string()))?
            }
        };
        let fields = request.headers_mut();
        fields.extend(own.into_iter().map(|(name, value)| (Some(name), value)));
        self.add_own(fields, authority)?;
        Ok(request)
    }

    fn add_own(&self, fields: &mut HeaderMap, authority: &str) -> Result<(), Refused> {
        fields.insert(USER_AGENT, OWN_NAME);
        match self.settings.protocol {
            CollectorProtocol::Http => {
                let host = HeaderValue::try_from(authority).map_err(Refused::unanswered)?;
                fields.insert(HOST, host);
                fields.insert(
                    CONTENT_TYPE,
                    HeaderValue::from_static("application/x-protobuf"),
                );
            }
            CollectorProtocol::Grpc => {
                let timeout = format!("{}m", self.settings.timeout.as_millis());
                let timeout = HeaderValue::try_from(timeout).map_err(Refused::unanswered)?;
                fields.insert(GRPC_TIMEOUT, timeout);
                fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                fields.insert(TE, HeaderValue::from_static("trailers"));
            }
        }
        Ok(())
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect((self.endpoint.host(), self.endpoint.port())).await?;
        stream.set_nodelay(true)?;
        if !self.endpoint.is_secure() {
            return self.speak(stream).await;
        }
        let client = self.settings.tls.read();
        let client = client.map_err(|flaw| io::Error::other(flaw.to_string()))?;
        let protocol = match self.settings.protocol {
            CollectorProtocol::Http => HttpVersion::Http1,
            CollectorProtocol::Grpc => HttpVersion::Http2,
        };
        let name = self.endpoint.server_name()?;
        self.speak(connect_once(&client, name, protocol, stream).await?)
            .await
    }

    async fn speak<S>(&self, stream: S) -> io::Result<Connection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        Ok(match self.settings.protocol {
            CollectorProtocol::Http => {
                let spoken = http1::handshake(stream).await;
                let (sender, connection) = spoken.map_err(io::Error::other)?;
                tokio::spawn(connection);
                Connection::Http1(sender)
            }
            CollectorProtocol::Grpc => {
                let spoken = http2::handshake(TokioExecutor::new(), stream).await;
                let (sender, connection) = spoken.map_err(io::Error::other)?;
                tokio::spawn(connection);
                Connection::Http2(sender)
            }
        })
    }
}

/// Describes an error of the connection, with its cause.
fn refusal_of(error: &hyper::Error) -> Refused {
    let cause = core::error::Error::source(error);
    let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
    Refused::unanswered(format!("{error}{cause}"))
}
