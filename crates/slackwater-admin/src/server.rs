//! The admin server itself: HTTP/1.1 connections, whose requests the [`Router`] answers.
//!
//! Health checks are always answered: if there are too many connections, the one that has been idle
//! longest is closed, and a few descriptors are reserved.
//!
//! Everything is bounded: the number of connections and of streams among them, bytes and time of a
//! head and of a body, the time of a whole connection, and the time that the source may take. A
//! connection carries one request, unless its client sends `connection: keep-alive` (browsers do).

use super::asset::Asset;
use super::dashboard::ASSETS;
use super::idle::{Carrying, Idle, LastPart};
use super::live::{Extra, Live};
use super::metrics::Metrics;
use super::openapi;
use super::readiness;
use super::reply::{Reply, TEXT, reply, unwritten};
use super::reserve::{Reserve, is_lack_of_descriptors};
use super::router::{Asked, Connection, Router};
use super::status::Status;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use slackwater_config::Fault;
use slackwater_telemetry::facts::{Facts, Lifecycle, StatusSource};
use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

/// Timeout for a request's head, and for the next request on a kept connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Age after which a connection without a stream accepts no further request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Time from then until it is closed, whatever it is doing.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest head, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Time that open connections have to end when the server stops.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after an accept that failed, for example without a free file descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Time between two ticks of the live data.
const TICK: Duration = Duration::from_secs(1);

/// An admin server that is not running yet.
#[derive(Debug)]
pub struct AdminServer {
    router: Router,
    live: Arc<Live>,
    connections_max: usize,
    metrics: Arc<Metrics>,
}

/// The data behind the server's own paths.
#[derive(Clone)]
struct OwnPaths {
    source: Arc<dyn StatusSource>,
    lifecycle: Lifecycle,
    started_at: Instant,
    metrics: Arc<Metrics>,
}

/// Opens the admin server's listener.
///
/// # Errors
///
/// Fails if the address is in use, or not this machine's.
pub fn bind(address: SocketAddr) -> Result<TcpListener, Fault> {
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

impl AdminServer {
    /// A server for the status of `source` and `lifecycle`, with at most `connections_max` (at
    /// least 1) concurrent connections, of which half may be streams.
    pub fn new(source: Arc<dyn StatusSource>, lifecycle: Lifecycle, connections_max: u32) -> Self {
        Self::with_extra(source, lifecycle, connections_max, TICK, None)
    }

    /// Like [`Self::new`], with live data every `interval`, and with the owner's data in it.
    pub fn with_extra(
        source: Arc<dyn StatusSource>,
        lifecycle: Lifecycle,
        connections_max: u32,
        interval: Duration,
        extra: Option<Arc<dyn Extra>>,
    ) -> Self {
        let connections_max = usize::try_from(connections_max.max(1)).unwrap_or(1);
        let live = Live::new(
            Arc::clone(&source),
            lifecycle.clone(),
            interval,
            connections_max / 2,
            extra,
        );
        let told = OwnPaths {
            source,
            lifecycle,
            started_at: Instant::now(),
            metrics: Arc::default(),
        };
        Self {
            router: Router::default(),
            live: Arc::new(live),
            connections_max,
            metrics: Arc::clone(&told.metrics),
        }
        .with_own_paths(&told)
    }

    fn with_own_paths(self, told: &OwnPaths) -> Self {
        let (status, metrics, ready) = (told.clone(), told.clone(), told.clone());
        let (events, history) = (Arc::clone(&self.live), Arc::clone(&self.live));
        let live = Arc::clone(&self.live);
        self.get("/status", move |_| {
            at_once(status.status(|_, status| json(status)))
        })
        .get("/metrics", move |asked| {
            let answer =
                |facts: &_, status: &_| metrics.metrics.reply(facts, status, &asked.headers);
            at_once(metrics.status(answer))
        })
        .get("/healthz", |_| at_once(reply(StatusCode::OK, TEXT, "ok\n")))
        .get("/readyz", move |asked| {
            let phase = ready.lifecycle.phase();
            at_once(readiness::answer(phase, &asked.query, &live))
        })
        .get("/events", move |asked| at_once(events.listen(asked)))
        .get("/history", move |asked| {
            at_once(history.history(&asked.query))
        })
        .get("/openapi.json", |_| {
            at_once(reply(StatusCode::OK, "application/json", openapi::DOCUMENT))
        })
    }

    /// Sets how many replicas have their own series in the metrics; default 1,000.
    #[must_use]
    pub fn metrics_replicas_max(self, replicas_max: u32) -> Self {
        self.metrics.set_replicas_max(replicas_max);
        self
    }

    /// Adds a path that reads; its answer is generated for each request. The server's own paths
    /// cannot be replaced.
    #[must_use]
    pub fn get(
        mut self,
        path: &'static str,
        handler: impl Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        self.router.add(Method::GET, path, |_| None, handler);
        self
    }

    /// Adds a path that changes something. `check` sees the request without its body, and returns
    /// the answer if the client may not do that.
    #[must_use]
    pub fn post(
        mut self,
        path: &'static str,
        check: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static,
        handler: impl Fn(Asked) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        self.router.add(Method::POST, path, check, handler);
        self
    }

    /// Adds a file.
    #[must_use]
    pub(super) fn asset(mut self, asset: Asset) -> Self {
        self.router.add_asset(asset);
        self
    }

    /// Adds the dashboard: a page at `/`, and its files. A build without the feature `dashboard`
    /// has none.
    #[must_use]
    pub fn dashboard(self) -> Self {
        ASSETS
            .iter()
            .fold(self, |server, asset| server.asset(*asset))
    }

    /// Runs on a thread of its own, so that status and metrics are answered while the workers are
    /// busy.
    ///
    /// # Errors
    ///
    /// Fails if the system has no thread or no descriptor left.
    pub fn spawn(self, listener: TcpListener) -> io::Result<AdminThread> {
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
        let live = Arc::clone(&self.live);
        let stopping = CancellationToken::new();
        // Descriptors are reserved before any client is served. Once clients have used up all, it
        // is too late.
        let reserve = Arc::<Reserve>::default();
        reserve.refill();
        let serve = async move {
            tokio::select! {
                () = self.serve(listener, Arc::clone(&permits), reserve, &stopping) => {}
                () = live.run() => {}
                // The other end was dropped; it never sends anything.
                _ = stopped => {}
            }
            // Requests on accepted connections still get an answer.
            stopping.cancel();
            live.end();
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

    /// Serves forever, on the current runtime.
    async fn serve(
        self,
        listener: tokio::net::TcpListener,
        permits: Arc<Semaphore>,
        reserve: Arc<Reserve>,
        stopping: &CancellationToken,
    ) {
        let router = Arc::new(self.router);
        let idle = Arc::<Idle>::default();
        loop {
            reserve.refill();
            let mut accepted = listener.accept().await;
            // Several tries: a worker may take the descriptor that was released.
            while (accepted.as_ref()).is_err_and(is_lack_of_descriptors) && reserve.give_up() {
                accepted = listener.accept().await;
            }
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept admin connection");
                    if is_lack_of_descriptors(&error) {
                        idle.close_oldest();
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(permit) = permit(&permits, &idle).await else {
                return;
            };
            let (router, idle) = (Arc::clone(&router), Arc::clone(&idle));
            let reserve = Arc::clone(&reserve);
            let stopping = stopping.clone();
            tokio::spawn(async move {
                let unwanted = CancellationToken::new();
                let carrying = Carrying::nothing(&idle, &unwanted);
                tokio::select! {
                    () = serve_connection(stream, &router, &carrying, &stopping) => (),
                    () = unwanted.cancelled() => {
                        tracing::debug!("admin connection closed: a newer one needed its place");
                    }
                }
                carrying.leave_idle();
                // At once, before clients take the descriptor.
                reserve.refill();
                drop(permit);
            });
        }
    }

    #[cfg(test)]
    pub(super) const fn router(&self) -> &Router {
        &self.router
    }
}

/// Returns a permit for one more connection; `None` if the server is closed. If there is none left,
/// the connection that has been idle longest is closed.
async fn permit(permits: &Arc<Semaphore>, idle: &Idle) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
        return Some(permit);
    }
    let mut waiting = pin!(Arc::clone(permits).acquire_owned());
    loop {
        let makes_room = idle.close_oldest();
        tokio::select! {
            biased;
            permit = &mut waiting => return permit.ok(),
            () = idle.changed.notified(), if !makes_room => (),
        }
    }
}

fn at_once(reply: Reply) -> BoxFuture<'static, Reply> {
    core::future::ready(reply).boxed()
}

async fn serve_connection(
    stream: tokio::net::TcpStream,
    router: &Router,
    carrying: &Carrying,
    stopping: &CancellationToken,
) {
    // Without it, the end of an event waits for the acknowledgement of its beginning. If setting it
    // fails, events are only slower.
    let _ = stream.set_nodelay(true);
    let connection = Connection {
        peer: stream.peer_addr().ok(),
        is_loopback: (stream.local_addr()).is_ok_and(|it| it.ip().to_canonical().is_loopback()),
        carrying: carrying.clone(),
        ..Connection::default()
    };
    let has_asked = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        has_asked.store(true, Relaxed);
        let connection = connection.clone();
        let carrying = carrying.clone();
        async move {
            let is_kept = wants_to_be_kept(request.headers()) && !stopping.is_cancelled();
            let mut reply = router.answer(request, connection).await;
            if !is_kept {
                let close = HeaderValue::from_static("close");
                reply.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(reply.map(|body| LastPart::new(body, carrying)))
        }
    });
    let mut served = pin!(
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut limit = pin!(tokio::time::sleep(CONNECTION_TIMEOUT));
    let mut is_last = false;
    loop {
        tokio::select! {
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "admin connection broke");
                }
                return;
            }
            () = connection.cut.cancelled() => {
                tracing::debug!("events stream closed: reader too slow");
                return;
            }
            () = limit.as_mut(), if !connection.streams.is_cancelled() => {
                if connection.streams.is_cancelled() {
                    continue;
                }
                if is_last {
                    tracing::debug!("admin connection closed: too slow");
                    return;
                }
                is_last = true;
                served.as_mut().graceful_shutdown();
                limit.as_mut().reset(tokio::time::Instant::now() + LAST_ANSWER_TIMEOUT);
            }
            () = stopping.cancelled(), if !is_last => {
                is_last = true;
                // An accepted connection without a request so far may still send one.
                if has_asked.load(Relaxed) {
                    served.as_mut().graceful_shutdown();
                }
                limit.as_mut().reset(tokio::time::Instant::now() + LAST_ANSWER_TIMEOUT);
            }
        }
    }
}

fn wants_to_be_kept(headers: &HeaderMap) -> bool {
    let options = headers.get_all(CONNECTION).iter();
    let options = options.filter_map(|options| options.to_str().ok());
    options
        .flat_map(|options| options.split(','))
        .any(|option| option.trim().eq_ignore_ascii_case("keep-alive"))
}

impl OwnPaths {
    fn status(&self, answer: impl FnOnce(&Facts, &Status) -> Reply) -> Reply {
        let facts = self.source.facts();
        let uptime = self.started_at.elapsed();
        let status = Status::new(&facts, self.lifecycle.phase(), uptime);
        answer(&facts, &status)
    }
}

fn json(status: &Status) -> Reply {
    match serde_json::to_vec_pretty(status) {
        Ok(body) => reply(StatusCode::OK, "application/json", body),
        Err(error) => unwritten(&error),
    }
}

/// A running admin server. Dropping it stops the server and waits for its thread, and for open
/// connections at most a second.
#[derive(Debug)]
pub struct AdminThread {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminThread {
    /// The listener's address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{Instant, sleep};

    const KEPT: &str = "GET /ok HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n";
    const NEVER: &str = "GET /never HTTP/1.1\r\nhost: a\r\n\r\n";
    const BODY: &str = "POST /ok HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn connections_end_at_their_time_limits() {
        let mut router = Router::default();
        let ok = |_| at_once(reply(StatusCode::OK, TEXT, "ok\n"));
        router.add(Method::GET, "/ok", |_| None, ok);
        router.add(Method::POST, "/ok", |_| None, ok);
        let never = |_| core::future::pending().boxed();
        router.add(Method::GET, "/never", |_| None, never);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        // What a client sends at first, and then every four seconds.
        for (first, again, ends_s) in [
            ("", "", 5),
            ("GET /", "o", 5),
            (BODY, "x", 5),
            (KEPT, "", 5),
            (KEPT, KEPT, 30),
            (NEVER, "", 35),
        ] {
            let mut client = TcpStream::connect(address).await.expect("it listens");
            let (stream, _) = listener.accept().await.expect("a connection");
            let began = Instant::now();
            let sending = async {
                client
                    .write_all(first.as_bytes())
                    .await
                    .expect("it is read");
                loop {
                    sleep(Duration::from_secs(4)).await;
                    client
                        .write_all(again.as_bytes())
                        .await
                        .expect("it is read");
                }
            };
            let (carrying, stopping) = (Carrying::default(), CancellationToken::new());
            tokio::select! {
                () = serve_connection(stream, &router, &carrying, &stopping) => (),
                () = sending => (),
            }
            let ended = began.elapsed().as_millis();
            assert_eq!(ended / 1000, ends_s, "{first:?}, {again:?}: {ended} ms");
        }
    }
}
