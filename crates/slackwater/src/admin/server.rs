//! The admin server itself: a handful of paths over HTTP/1.1, one request for each connection.
//!
//! Everything is bounded: connections at once, bytes and time of a head, time of a whole connection, and the time that the
//! source may take. Only GET and HEAD are answered, and no request may have a body. The owner may add paths of its own
//! (the demo has a page), under the same bounds.

use super::facts::{Facts, Lifecycle, Phase, StatusSource};
use super::metrics::Metrics;
use super::status::Status;
use crate::fault::Fault;
use bytes::Bytes;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::time::Duration;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::{Semaphore, oneshot};

/// A request's head has to be here by then.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The source has to have gathered its facts by then.
const FACTS_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection is closed by then, whatever it is doing.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Size of a head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Connections that are open when the server is stopped have so long to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// After an accept that failed (no file descriptor left), the next one waits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const TEXT: &str = "text/plain; charset=utf-8";
const PATHS: [&str; 4] = ["/status", "/metrics", "/healthz", "/readyz"];

/// An answer with its whole body.
pub(crate) type Reply = Response<Full<Bytes>>;

type Handler = Box<dyn Fn() -> BoxFuture<'static, Reply> + Send + Sync>;

/// An admin server that is not running yet.
pub(crate) struct AdminServer {
    source: Arc<dyn StatusSource>,
    lifecycle: Lifecycle,
    connections_max: usize,
    routes: Vec<(&'static str, Handler)>,
    metrics: Metrics,
    started_at: Instant,
}

impl fmt::Debug for AdminServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminServer")
            .field("paths", &self.paths())
            .field("connections_max", &self.connections_max)
            .finish_non_exhaustive()
    }
}

/// Opens the admin server's listener.
///
/// # Errors
///
/// The address is taken, or not this machine's.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).map_err(|error| {
        let why = match error.kind() {
            ErrorKind::AddrInUse => {
                "is in use by another process; choose another one with --admin or admin.listen, or \"none\""
                    .to_owned()
            }
            _ => format!("cannot be listened at: {error}"),
        };
        Fault::runtime(format!("admin server: {address} {why}"))
    })
}

/// An answer of the owner's own.
pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

impl AdminServer {
    /// A server that tells of `source` and `lifecycle`, for `connections_max` (at least 1) connections at once.
    pub(crate) fn new(
        source: Arc<dyn StatusSource>,
        lifecycle: Lifecycle,
        connections_max: u32,
    ) -> Self {
        Self {
            source,
            lifecycle,
            connections_max: usize::try_from(connections_max.max(1)).unwrap_or(1),
            routes: Vec::new(),
            metrics: Metrics::default(),
            started_at: Instant::now(),
        }
    }

    /// So many replicas have series of their own in the metrics; 1,000 unless this is said.
    #[must_use]
    pub(crate) fn metrics_replicas_max(self, replicas_max: u32) -> Self {
        self.metrics.set_replicas_max(replicas_max);
        self
    }

    /// Adds a path of the owner's own, made anew for each request. The server's own paths cannot be replaced.
    #[must_use]
    pub(crate) fn route(
        mut self,
        path: &'static str,
        handler: impl Fn() -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        self.routes.push((path, Box::new(handler)));
        self
    }

    /// Adds a page that never changes.
    #[must_use]
    pub(crate) fn page(
        self,
        path: &'static str,
        content_type: &'static str,
        body: &'static str,
    ) -> Self {
        self.route(path, move || {
            Box::pin(async move { reply(StatusCode::OK, content_type, body) })
        })
    }

    /// Runs on a thread of its own, so that status and metrics come however busy the workers are.
    ///
    /// # Errors
    ///
    /// The system has no thread or no descriptor left.
    pub(crate) fn spawn(self, listener: TcpListener) -> io::Result<AdminThread> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let permits = Arc::new(Semaphore::new(self.connections_max));
        let all = u32::try_from(self.connections_max).unwrap_or(u32::MAX);
        let serve = async move {
            tokio::select! {
                () = self.serve(listener, Arc::clone(&permits)) => {}
                // The other end was dropped; nothing is ever sent.
                _ = stopped => {}
            }
            // Whoever was let in gets an answer.
            let _ = tokio::time::timeout(END_TIMEOUT, permits.acquire_many(all)).await;
        };
        let thread = std::thread::Builder::new().name("admin".to_owned());
        let thread = thread.spawn(move || runtime.block_on(serve))?;
        Ok(AdminThread {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Serves for ever, on the current runtime.
    async fn serve(self, listener: tokio::net::TcpListener, permits: Arc<Semaphore>) {
        let server = Arc::new(self);
        // The semaphore is never closed.
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let server = Arc::clone(&server);
                    tokio::spawn(async move {
                        server.serve_connection(stream).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "the admin server could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve_connection(&self, stream: tokio::net::TcpStream) {
        let service = service_fn(move |request: Request<Incoming>| async move {
            Ok::<_, Infallible>(self.answer(&request).await)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "an admin connection broke"),
            Err(_) => tracing::debug!("an admin connection took too long and was closed"),
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Reply {
        if request.body().is_end_stream() {
            let path = request.uri().path();
            self.answer_to(request.method(), path, request.headers())
                .await
        } else {
            let text = "no request here takes a body\n";
            reply(StatusCode::BAD_REQUEST, TEXT, text)
        }
    }

    /// The answer to a request, which has no body.
    pub(super) async fn answer_to(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Reply {
        if !self.paths().contains(&path) {
            let text = format!("there is no {path} here; there are {}\n", self.listing());
            return reply(StatusCode::NOT_FOUND, TEXT, text);
        }
        if ![Method::GET, Method::HEAD].contains(method) {
            let text = format!("only GET and HEAD are answered here: {}\n", self.listing());
            let mut refusal = reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        match path {
            "/healthz" => reply(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" => self.readiness(),
            "/status" => self.with_status(|_, status| json(status)).await,
            "/metrics" => {
                let metrics = |facts: &_, status: &_| self.metrics.reply(facts, status, headers);
                self.with_status(metrics).await
            }
            _ => match self.routes.iter().find(|(own, _)| *own == path) {
                Some((_, handler)) => handler().await,
                None => reply(StatusCode::NOT_FOUND, TEXT, ""),
            },
        }
    }

    fn readiness(&self) -> Reply {
        match self.lifecycle.phase() {
            Phase::Starting => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, "starting\n"),
            Phase::Serving => reply(StatusCode::OK, TEXT, "serving\n"),
            Phase::Withdrawn => reply(
                StatusCode::SERVICE_UNAVAILABLE,
                TEXT,
                "withdrawn: the server that this stands before cannot be connected to\n",
            ),
            Phase::Draining => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n"),
        }
    }

    async fn with_status(&self, answer: impl FnOnce(&Facts, &Status) -> Reply) -> Reply {
        match tokio::time::timeout(FACTS_TIMEOUT, self.source.facts()).await {
            Ok(facts) => {
                let uptime = self.started_at.elapsed();
                let status = Status::new(&facts, self.lifecycle.phase(), uptime);
                answer(&facts, &status)
            }
            Err(_) => reply(
                StatusCode::SERVICE_UNAVAILABLE,
                TEXT,
                format!("the workers did not answer within {FACTS_TIMEOUT:?}\n"),
            ),
        }
    }

    fn paths(&self) -> Vec<&'static str> {
        let own = self.routes.iter().map(|(path, _)| *path);
        PATHS.into_iter().chain(own).collect()
    }

    fn listing(&self) -> String {
        self.paths().join(", ")
    }
}

fn json(status: &Status) -> Reply {
    match serde_json::to_vec_pretty(status) {
        Ok(body) => reply(StatusCode::OK, "application/json", body),
        Err(error) => {
            let text = format!("the status could not be written: {error}\n");
            reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
        }
    }
}

/// A running admin server. Dropping it stops the server and waits for its thread: for connections that are open, at most a
/// second.
#[derive(Debug)]
pub(crate) struct AdminThread {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminThread {
    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was already told by the panic hook.
            let _ = thread.join();
        }
    }
}
