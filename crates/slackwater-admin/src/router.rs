//! Maps each path of the admin server to its handler.
//!
//! A request that reads is GET (or HEAD) and has no body. A request that changes something is POST
//! and has a body of bounded length, which is read only if its head shows that the client may do
//! that.

use super::asset::{Asset, Tagged};
use super::guard::is_for_this_machine;
use super::idle::Carrying;
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

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Timeout for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A request: its head, and its body once that is read.
#[derive(Debug, Default)]
pub struct Asked {
    /// Its parameters.
    pub query: Query,
    /// Its headers.
    pub headers: HeaderMap,
    /// Whether only the head of the answer is sent.
    pub(super) is_head: bool,
    /// Its body; empty for GET.
    pub body: Bytes,
    /// Its connection.
    pub(super) connection: Connection,
}

/// The parts of a connection that answers may use.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    /// Cancelling it marks the connection as a stream, which may last.
    pub(super) streams: CancellationToken,
    /// Cancelling it closes the connection at once.
    pub(super) cut: CancellationToken,
    /// The peer's address; `None` if it is no socket.
    pub(super) peer: Option<SocketAddr>,
    /// Whether it came in through a loopback address.
    pub(super) is_loopback: bool,
    /// Its idle state. It is idle until its request has been read completely.
    pub(super) carrying: Carrying,
}

impl Asked {
    /// The client's address.
    pub(super) fn peer(&self) -> SocketAddr {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        self.connection.peer.unwrap_or(nobody)
    }
}

type Check = Box<dyn Fn(&Asked) -> Option<Reply> + Send + Sync>;
type Handler = Box<dyn Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync>;

struct Route {
    method: Method,
    path: &'static str,
    check: Check,
    handler: Handler,
}

/// All paths with their handlers.
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
    /// Adds a path whose answer is generated for each request, unless `check` returns one
    /// before the body is read. Of two with the same method and path, the first is used.
    pub(super) fn add(
        &mut self,
        method: Method,
        path: &'static str,
        check: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static,
        handler: impl Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) {
        self.routes.push(Route {
            method,
            path,
            check: Box::new(check),
            handler: Box::new(handler),
        });
    }

    /// Adds a file.
    pub(super) fn add_asset(&mut self, asset: Asset) {
        self.assets.push(Tagged::new(asset));
    }

    /// Answers a request.
    pub(super) async fn answer<B>(&self, request: Request<B>, connection: Connection) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
    {
        let carrying = connection.carrying.clone();
        let read = self.read(request, connection).await;
        // Only now, so that a client that sends no body cannot keep its place.
        carrying.leave_idle();
        match read {
            Ok((route, asked)) => (route.handler)(asked).await,
            Err(answer) => answer,
        }
    }

    /// Reads a request. Returns its route, or the answer if none is needed.
    async fn read<B>(
        &self,
        request: Request<B>,
        connection: Connection,
    ) -> Result<(&Route, Asked), Reply>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        // Over loopback, a page of another site could reach this server by DNS rebinding.
        if connection.is_loopback {
            is_for_this_machine(&head.headers)?;
        }
        let path = head.uri.path();
        let is_path = |own: &str| own == path;
        let asset = self.assets.iter().find(|asset| is_path(asset.path()));
        let routes = || self.routes.iter().filter(|route| is_path(route.path));
        if asset.is_none() && routes().next().is_none() {
            let text = format!("there is no {path} here; there are {}", self.listing());
            return Err(refusal(StatusCode::NOT_FOUND, text));
        }
        let is_head = head.method == Method::HEAD;
        let method = if is_head { Method::GET } else { head.method };
        let route = routes().find(|route| route.method == method);
        // The path exists, but not with this method: 405 lists the methods.
        if route.is_none() && (asset.is_none() || method != Method::GET) {
            let methods = routes().map(|route| &route.method);
            return Err(not_allowed(
                path,
                methods.chain(asset.map(|_| &Method::GET)),
            ));
        }
        if method == Method::GET && !body.is_end_stream() {
            return Err(refusal(StatusCode::BAD_REQUEST, "GET takes no body here"));
        }
        let route = match (asset, route) {
            (None, Some(route)) => route,
            (Some(asset), _) => return Err(asset.answer(&head.headers)),
            (None, None) => return Err(refusal(StatusCode::NOT_FOUND, "")),
        };
        let query = Query::parse(head.uri.query().unwrap_or_default())
            .map_err(|fault| refusal(StatusCode::BAD_REQUEST, fault))?;
        let mut asked = Asked {
            query,
            headers: head.headers,
            is_head,
            body: Bytes::new(),
            connection,
        };
        if let Some(refused) = (route.check)(&asked) {
            return Err(refused);
        }
        asked.body = read_body(body).await?;
        Ok((route, asked))
    }

    /// The paths, without files.
    fn listing(&self) -> String {
        let mut paths: Vec<_> = self.routes.iter().map(|route| route.path).collect();
        paths.dedup();
        paths.join(", ")
    }
}

/// Reads the whole body.
async fn read_body<B>(body: B) -> Result<Bytes, Reply>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>>,
{
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
