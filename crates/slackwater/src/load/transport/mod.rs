//! Sends one request to the target and reads its answer to the last byte.
//!
//! Connections are opened on demand, are never shared between runs, and have `TCP_NODELAY` set. The
//! caller ([`super::generator`]) limits the concurrent requests; this module limits connections, by
//! construction. Redirects, cookies and decompression are absent on purpose: the generator measures
//! the target, not a browser.

mod http1;
mod http2;

use super::outcome::{Answer, Failure};
use super::plan::{Plan, Protocol};
use bytes::Bytes;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use http::header::{HOST, HeaderValue, USER_AGENT};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use slackwater_config::tls::HttpVersion;
use std::io;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::either::Either;

type Body = Full<Bytes>;

/// A connection, plain or with TLS.
type Stream = Either<TcpStream, TlsStream<TcpStream>>;

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;

/// The transport to the target over one protocol.
#[derive(Debug)]
pub(super) enum Transport {
    Http1(http1::Transport),
    Http2(http2::Transport),
}

/// A connection that can carry the next request once the previous answer has been recorded.
#[derive(Debug)]
pub(super) struct Kept(http1::Connection);

impl Transport {
    /// Resolves the target's name. The addresses are kept for the whole run.
    pub(super) async fn new(plan: &Plan) -> io::Result<Self> {
        let target = Target::new(plan).await?;
        Ok(match plan.protocol {
            Protocol::Http1 => Self::Http1(http1::Transport::new(target)),
            Protocol::Http2 { .. } => Self::Http2(http2::Transport::new(target, plan.connections)),
        })
    }

    /// Sends the plan's request as the arrival of this number, and reads the answer. It has no
    /// deadline of its own: the caller drops it when the time is up, which also cancels the
    /// exchange.
    pub(super) async fn exchange(&self, number: u64) -> Result<(Answer, Option<Kept>), Failure> {
        match self {
            Self::Http1(transport) => {
                let (answer, connection) = transport.exchange(number).await?;
                Ok((answer, Some(Kept(connection))))
            }
            Self::Http2(transport) => Ok((transport.exchange(number).await?, None)),
        }
    }

    /// Takes back a connection for later requests. A connection that is closing is dropped.
    pub(super) async fn keep(&self, kept: Kept) {
        if let Self::Http1(transport) = self {
            transport.keep(kept.0).await;
        }
    }

    /// Connections opened so far.
    pub(super) fn connections_opened(&self) -> u64 {
        let target = match self {
            Self::Http1(transport) => transport.target(),
            Self::Http2(transport) => transport.target(),
        };
        target.connections_opened.load(Ordering::Relaxed)
    }
}

/// The target's addresses, and the request.
#[derive(Debug)]
struct Target {
    /// Addresses that are tried in order for each connection.
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
    connections_opened: AtomicU64,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    number_header: Option<HeaderName>,
    body: Bytes,
}

/// TLS with the target.
struct Tls {
    connector: TlsConnector,
    /// The name that its certificate must be for.
    name: ServerName<'static>,
    /// The version that ALPN must negotiate.
    version: HttpVersion,
}

impl core::fmt::Debug for Tls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}

impl Tls {
    fn new(plan: &Plan, host: &str) -> io::Result<Option<Self>> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        if plan.target.scheme_str() != Some("https") {
            return Ok(None);
        }
        let config = plan.tls.clone();
        let config = config.ok_or_else(|| invalid("https needs settings of TLS".to_owned()))?;
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| invalid(format!("no certificate is for the host {host:?}")))?;
        Ok(Some(Self {
            connector: TlsConnector::from(config),
            name,
            version: plan.protocol.alpn(),
        }))
    }

    async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let stream = self.connector.connect(self.name.clone(), stream).await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        // A server without ALPN speaks HTTP/1.1.
        if self.version == HttpVersion::Http2 && agreed != Some(self.version.alpn()) {
            let message = "the target does not offer HTTP/2 by ALPN; use --http 1";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(stream)
    }
}

impl Target {
    async fn new(plan: &Plan) -> io::Result<Self> {
        let invalid = |message: &str| io::Error::new(io::ErrorKind::InvalidInput, message);
        let authority = plan
            .target
            .authority()
            .ok_or_else(|| invalid("the target has no host"))?;
        let default_port = match plan.target.scheme_str() {
            Some("https") => HTTPS_PORT,
            _ => HTTP_PORT,
        };
        let port = authority.port_u16().unwrap_or(default_port);
        // An IPv6 address has brackets in a URL, but none in a socket address.
        let host = authority.host().trim_matches(['[', ']']);
        let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
        if addresses.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the name has no address",
            ));
        }
        let tls = Tls::new(plan, host)?;
        let (uri, headers) = request_head(plan, authority)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self {
            addresses,
            tls,
            connections_opened: AtomicU64::new(0),
            method: plan.method.clone(),
            uri,
            headers,
            number_header: plan.number_header.clone(),
            body: plan.body.clone(),
        })
    }

    async fn connect(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect(&self.addresses[..]).await?;
        stream.set_nodelay(true)?;
        let stream = match &self.tls {
            None => Either::Left(stream),
            Some(tls) => Either::Right(tls.connect(stream).await?),
        };
        self.connections_opened.fetch_add(1, Ordering::Relaxed);
        Ok(stream)
    }

    fn request(&self, number: u64) -> Request<Body> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        if let Some(name) = &self.number_header {
            let number = HeaderValue::from(number);
            request.headers_mut().insert(name, number);
        }
        request
    }
}

/// Returns the request's target and headers in the form of its protocol: HTTP/1.1 names the host in
/// a header, HTTP/2 in the `:authority` of the target. A `host` header from the user replaces the
/// address's in both.
fn request_head(plan: &Plan, authority: &Authority) -> Result<(Uri, HeaderMap), http::Error> {
    let path = plan.target.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let mut headers = plan.headers.clone();
    headers
        .entry(USER_AGENT)
        .or_insert(HeaderValue::from_static(concat!(
            "slackwater-load/",
            env!("CARGO_PKG_VERSION")
        )));
    let uri = match plan.protocol {
        Protocol::Http1 => {
            let host = HeaderValue::from_str(authority.as_str())?;
            headers.entry(HOST).or_insert(host);
            Uri::builder().path_and_query(path).build()?
        }
        Protocol::Http2 { .. } => {
            let named = headers.remove(HOST);
            let named = named
                .as_ref()
                .map_or(authority.as_str().as_bytes(), HeaderValue::as_bytes);
            Uri::builder()
                .scheme(plan.target.scheme_str().unwrap_or("http"))
                .authority(named)
                .path_and_query(path)
                .build()?
        }
    };
    Ok((uri, headers))
}

/// Reads the body to its end. Its bytes are counted and dropped.
async fn read_to_end(response: Response<Incoming>) -> Result<Answer, Failure> {
    let status = response.status();
    let mut body = response.into_body();
    let mut body_bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::exchange(&error))?;
        body_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(Answer {
        status,
        body_bytes,
        ended: Instant::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroUsize;
    use core::time::Duration;

    fn head(
        protocol: Protocol,
        target: &'static str,
        host: Option<&'static str>,
    ) -> (Uri, HeaderMap) {
        let mut plan = Plan::new(Uri::from_static(target), 1.0, Duration::ZERO);
        plan.protocol = protocol;
        if let Some(host) = host {
            plan.headers.insert(HOST, HeaderValue::from_static(host));
        }
        let authority = plan.target.authority().unwrap().clone();
        request_head(&plan, &authority).unwrap()
    }

    const H2: Protocol = Protocol::Http2 {
        streams_per_connection: NonZeroUsize::MIN,
    };

    #[test]
    fn http1_names_the_host_in_a_header_and_http2_in_the_target() {
        let (uri, headers) = head(Protocol::Http1, "http://a.test:81/x?y=1", None);
        assert_eq!(
            (uri.to_string().as_str(), &headers[HOST]),
            ("/x?y=1", &"a.test:81".parse().unwrap())
        );
        let (uri, headers) = head(H2, "http://a.test:81/x?y=1", None);
        assert_eq!(uri, "http://a.test:81/x?y=1");
        assert!(!headers.contains_key(HOST));
    }

    #[test]
    fn a_host_header_replaces_the_address_in_both_protocols() {
        let (_, headers) = head(Protocol::Http1, "http://127.0.0.1:81", Some("b.test"));
        assert_eq!(headers[HOST], "b.test");
        assert_eq!(
            head(H2, "http://127.0.0.1:81", Some("b.test")).0,
            "http://b.test/"
        );
    }
}
