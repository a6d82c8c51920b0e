//! Which handler answers each path of the admin server.
//!
//! A request that reads is GET (or HEAD) and has no body. A request that changes something is POST,
//! has a body of bounded length, and its handler decides whether the client may do that.

use super::asset::{Asset, Tagged};
use super::guard::is_for_this_machine;
use super::query::Query;
use super::reply::{Reply, refusal};
use bytes::Bytes;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use futures_util::future::BoxFuture;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use tokio_util::sync::CancellationToken;

/// Length of a body.
const BODY_BYTES_MAX: usize = 16 << 10;
/// A body has to be here by then.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A request, read to its end.
#[derive(Debug, Default)]
pub struct Asked {
    /// Its parameters.
    pub query: Query,
    /// Its headers.
    pub headers: HeaderMap,
    /// The head of the answer is enough.
    pub(super) is_head: bool,
    /// Its body; empty for GET.
    pub body: Bytes,
    /// The connection that it came by.
    pub(super) connection: Connection,
}

/// A connection, as far as answers have a say in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    /// It carries a stream, which may last.
    pub(super) streams: CancellationToken,
    /// Cancelled: it is closed in the midst of whatever it carries.
    pub(super) cut: CancellationToken,
    /// Who is at its other end; `None` where it is no socket's.
    pub(super) peer: Option<SocketAddr>,
    /// It came to an address that only this machine has.
    pub(super) is_loopback: bool,
}

impl Asked {
    /// Who asks: the other end of the connection.
    pub(super) fn peer(&self) -> SocketAddr {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        self.connection.peer.unwrap_or(nobody)
    }
}

type Handler = Box<dyn Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync>;

struct Route {
    method: Method,
    path: &'static str,
    handler: Handler,
}

/// Everything that is answered.
#[derive(Default)]
pub(super) struct Router {
    routes: Vec<Route>,
    assets: Vec<Tagged>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("paths", &self.listing())
            .finish_non_exhaustive()
    }
}

impl Router {
    /// Adds a path, made anew for each request. The first of the same method and path is the one
    /// that is asked.
    pub(super) fn add(
        &mut self,
        method: Method,
        path: &'static str,
        handler: impl Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) {
        self.routes.push(Route {
            method,
            path,
            handler: Box::new(handler),
        });
    }

    /// Adds a file.
    pub(super) fn add_asset(&mut self, asset: Asset) {
        self.assets.push(Tagged::new(asset));
    }

    /// The answer to a request.
    pub(super) async fn answer<B>(&self, request: Request<B>, connection: Connection) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        if connection.is_loopback
            && let Err(refused) = is_for_this_machine(&head.headers)
        {
            return refused;
        }
        let path = head.uri.path();
        let is_path = |own: &str| own == path;
        let asset = self.assets.iter().find(|asset| is_path(asset.path()));
        let routes = || self.routes.iter().filter(|route| is_path(route.path));
        if asset.is_none() && routes().next().is_none() {
            let text = format!("there is no {path} here; there are {}", self.listing());
            return refusal(StatusCode::NOT_FOUND, text);
        }
        let is_head = head.method == Method::HEAD;
        let method = if is_head { Method::GET } else { head.method };
        let route = routes().find(|route| route.method == method);
        if route.is_none() && (asset.is_none() || method != Method::GET) {
            let methods = routes().map(|route| &route.method);
            return not_allowed(path, methods.chain(asset.map(|_| &Method::GET)));
        }
        let body = match read(&method, body).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        if let Some(asset) = asset {
            return asset.answer(&head.headers);
        }
        let query = match Query::parse(head.uri.query().unwrap_or_default()) {
            Ok(query) => query,
            Err(fault) => return refusal(StatusCode::BAD_REQUEST, fault),
        };
        let asked = Asked {
            query,
            headers: head.headers,
            is_head,
            body,
            connection,
        };
        match route {
            Some(route) => (route.handler)(asked).await,
            None => refusal(StatusCode::NOT_FOUND, ""),
        }
    }

    /// The paths, but for files.
    fn listing(&self) -> String {
        let mut paths: Vec<_> = self.routes.iter().map(|route| route.path).collect();
        paths.dedup();
        paths.join(", ")
    }
}

/// The whole body, if one may be there.
async fn read<B>(method: &Method, body: B) -> Result<Bytes, Reply>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
    if *method == Method::GET {
        return if body.is_end_stream() {
            Ok(Bytes::new())
        } else {
            Err(refusal(StatusCode::BAD_REQUEST, "GET takes no body here"))
        };
    }
    let whole = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            format_args!("a body has to be complete and of {BODY_BYTES_MAX} bytes at most"),
        )),
        Err(_) => Err(refusal(
            StatusCode::REQUEST_TIMEOUT,
            format_args!("the body was not here within {BODY_TIMEOUT:?}"),
        )),
    }
}

fn not_allowed<'m>(path: &str, methods: impl Iterator<Item = &'m Method>) -> Reply {
    let mut allowed = Vec::new();
    for method in methods {
        allowed.push(method.as_str());
        if *method == Method::GET {
            allowed.push(Method::HEAD.as_str());
        }
    }
    let allowed = allowed.join(", ");
    let why = format!("{path} answers {allowed} only");
    let mut refused = refusal(StatusCode::METHOD_NOT_ALLOWED, why);
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        refused.headers_mut().insert(ALLOW, allowed);
    }
    refused
}
