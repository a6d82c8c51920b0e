//! The running proxy: its listeners, its workers, and their configuration.
//!
//! [`Proxy::start`] is the proxy without any process-wide state, so that a program can run several.
//! `reload` changes the configuration, `sources` opens the sources of fleets, and `status` reports
//! the state.

mod entry;
mod reload;
mod same_listeners;
mod sources;
mod status;
mod tls;
mod worker;

pub use reload::Reloaded;
pub use sources::{find, first_answers, lists};
pub use status::{ServiceParts, Workers};

use crate::access_log::Switch;
use crate::decisions::Archive;
use crate::forward::{Phase, advice_on_port, listen};
use crate::health::{Health, HealthThread, ServiceChecks};
use crate::record::Recorder;
use crate::routing::ListenerCounts;
use crate::service::orders::Orders;
use crate::service::{ServiceUpdates, ServiceView, WorkerIndex};
use crate::traces;
use crate::watchdog::Watchdog;
use crate::worker_threads::WorkerThreads;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use futures_util::future::join_all;
use slackwater_config::Fault;
use slackwater_config::routes::Route;
use slackwater_config::tls::Client;
use slackwater_config::{Config, ListenerConfig, ServiceConfig};
use slackwater_discovery::Discovery;
use slackwater_telemetry::facts::{self, Lifecycle};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use tls::Tls;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use worker::{Command, ListenerPlan, Plan, ServicePlan, WorkerListener, WorkerParts};

/// The running proxy. Dropping it stops it immediately.
#[derive(Debug)]
pub struct Proxy {
    config: Arc<Config>,
    listeners: Listeners,
    /// One sender for each worker.
    commands: Vec<mpsc::UnboundedSender<Command>>,
    lifecycle: Lifecycle,
    /// Waits for the first answers of sources of pods.
    awaited: Option<AbortOnDropHandle<()>>,
    status: Arc<Workers>,
    tls: Tls,
    /// Runs the health checks.
    checks: HealthThread,
    /// `None` if no decisions are kept.
    archive: Option<Arc<Archive>>,
    threads: WorkerThreads,
}

/// What the program provides to a proxy; by default nothing.
#[derive(Debug, Default)]
pub struct Outside {
    /// Access log.
    pub access_log: Option<Switch>,
    /// Exporter of spans.
    pub spans: Option<traces::Switch>,
    /// Watchdog that detects workers which no longer run.
    pub watchdog: Watchdog,
    /// Recorder of the policies' inputs and outputs.
    pub recorder: Option<Recorder>,
    /// Initial orders for single replicas, by service.
    pub orders: BTreeMap<String, Orders>,
    /// Whether decisions are kept, because an admin server or other code of the program reads them.
    /// An admin server in the configuration does not count here, because the proxy starts none.
    pub keeps_decisions: bool,
}

impl Outside {
    /// Makes the archive of decisions, if they are kept.
    fn archive(&self, config: &Config) -> Option<Arc<Archive>> {
        self.keeps_decisions
            .then(|| Archive::new(&config.decisions, config.workers.get().into()))?
    }
}

/// Sockets that listen already, such as those that a process passes to its successor.
pub trait OpenSockets {
    /// Returns the sockets at `address`, distributed over `workers`, at least one for each. `None`
    /// if there are none, so that new ones are opened.
    ///
    /// # Errors
    ///
    /// Fails if the process has no descriptor left for a socket that several workers share.
    fn take(
        &mut self,
        address: SocketAddr,
        workers: usize,
    ) -> io::Result<Option<Vec<Vec<TcpListener>>>>;
}

/// No sockets listen already; all are opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenedAnew;

impl OpenSockets for OpenedAnew {
    fn take(&mut self, _: SocketAddr, _: usize) -> io::Result<Option<Vec<Vec<TcpListener>>>> {
        Ok(None)
    }
}

/// Shared state of a service's replicas, for all workers.
#[derive(Debug)]
struct ServiceSource {
    /// Number of the service that the workers run.
    number: u64,
    discovery: Arc<Discovery>,
    health: watch::Receiver<Health>,
    orders: watch::Sender<Arc<Orders>>,
}

/// Returns the next service number, unique in the whole process: `demo` runs two proxies.
fn next_number() -> u64 {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    BEGUN.fetch_add(1, Relaxed)
}

/// Makes the services for the status; `views` has each worker's, in the order of the configuration.
fn parts(
    config: &Config,
    sources: Vec<ServiceSource>,
    views: &[Vec<ServiceView>],
) -> Vec<ServiceParts> {
    let services = config.services.iter().zip(sources).enumerate();
    let parts = services.map(|(index, (service, source))| ServiceParts {
        number: source.number,
        config: Arc::new(service.clone()),
        discovery: source.discovery,
        health: source.health,
        orders: source.orders,
        views: (views.iter())
            .filter_map(|views| views.get(index).cloned())
            .collect(),
    });
    parts.collect()
}

impl Proxy {
    /// Starts the proxy: it accepts connections when this returns. `fleets` are those of the
    /// configuration's services, in its order, as returned by [`find`]. Must be called in a tokio
    /// runtime, which follows fleets that change.
    ///
    /// # Errors
    ///
    /// Fails if a port is in use or not allowed, or if the system cannot provide a thread or a
    /// socket.
    pub fn start(
        config: &Config,
        fleets: Vec<Arc<Discovery>>,
        mut outside: Outside,
        sockets: &mut dyn OpenSockets,
    ) -> Result<Self, Fault> {
        let config = Arc::new(config.clone());
        let workers = config.workers.get();
        let mut listeners = Listeners::new(usize::from(workers));
        // Sockets are opened first, so that a port in use fails before any thread is started.
        for listener in &config.listeners {
            let opened = listeners.open(listener, sockets)?;
            listeners.open.push(opened);
        }
        let tls = Tls::read(&config)?;
        let connections = Arc::new(Semaphore::new(config.limits.connections_max as usize));
        let mut proxy = Self {
            listeners,
            commands: Vec::new(),
            lifecycle: Lifecycle::default(),
            awaited: None,
            status: Arc::default(),
            tls: tls.clone(),
            checks: HealthThread::default(),
            archive: outside.archive(&config),
            threads: WorkerThreads::default(),
            config: Arc::clone(&config),
        };
        let mut sources = Vec::with_capacity(fleets.len());
        for ((place, service), discovery) in config.services.iter().enumerate().zip(fleets) {
            let health = proxy.check(service, &discovery, tls.client(place))?;
            let orders = outside.orders.remove(&service.name).unwrap_or_default();
            sources.push(ServiceSource {
                number: next_number(),
                discovery,
                health,
                orders: watch::Sender::new(Arc::new(orders)),
            });
        }
        let mut views = Vec::with_capacity(usize::from(workers));
        let mut counts = Vec::with_capacity(usize::from(workers));
        for index in 0..workers {
            let worker_listeners = proxy.listeners.open.iter();
            let worker_listeners = worker_listeners.enumerate().map(|(place, listener)| {
                let worker_listener = listener.worker_listener(usize::from(index), place);
                worker_listener.map(Box::new).map(ListenerPlan::Open)
            });
            let subscribe = |source: &ServiceSource| {
                ServicePlan::Start(ServiceUpdates {
                    fleets: source.discovery.fleets().subscribe(),
                    health: source.health.clone(),
                    orders: source.orders.subscribe(),
                })
            };
            let plan = Plan {
                tls: tls.clone(),
                routes: proxy.listeners.routes(&config.routes),
                services: sources.iter().map(subscribe).collect(),
                listeners: worker_listeners.collect::<Result<_, _>>()?,
                config: Arc::clone(&config),
            };
            let (commands, received) = mpsc::unbounded_channel();
            proxy.commands.push(commands);
            let counted = ListenerCounts::default();
            counts.push(counted.clone());
            let parts = WorkerParts {
                place: WorkerIndex { index, workers },
                connections: Arc::clone(&connections),
                counts: counted,
                access_log: outside.access_log.clone(),
                archive: proxy.archive.clone(),
                spans: outside.spans.clone(),
                watchdog: outside.watchdog.clone(),
                policy_recorder: outside.recorder.clone(),
                commands: received,
                plan,
            };
            let started = (proxy.threads).spawn(move |started| worker::run(parts, started));
            views.push(started?);
        }
        proxy.status = Arc::new(Workers::new(
            counts,
            outside.access_log.clone(),
            outside.spans.clone(),
            outside.recorder.clone(),
        ));
        proxy.status.set_tls(&tls, &config);
        proxy.status.set_services(parts(&config, sources, &views));
        proxy.serve_when_found();
        Ok(proxy)
    }

    /// Ends the phase `starting` once every cluster and control plane has answered: until then,
    /// requests would find no replica. There is no way back, so one that is away later, or a source
    /// that is added later, changes nothing.
    fn serve_when_found(&mut self) {
        drop(self.awaited.take());
        if self.lifecycle.phase() != facts::Phase::Starting {
            return;
        }
        let services = self.status.services();
        let answers = (services.iter()).filter_map(|service| service.discovery.first_answer());
        let answers: Vec<_> = answers.collect();
        if answers.is_empty() {
            return self.lifecycle.set_serving();
        }
        let lifecycle = self.lifecycle.clone();
        let waiting = tokio::spawn(async move {
            join_all(answers).await;
            lifecycle.set_serving();
        });
        self.awaited = Some(AbortOnDropHandle::new(waiting));
    }

    /// Starts the health checks of a service, if configured. They run while the receiver exists.
    fn check(
        &mut self,
        service: &ServiceConfig,
        discovery: &Discovery,
        tls: Option<watch::Receiver<Client>>,
    ) -> Result<watch::Receiver<Health>, Fault> {
        let checks = ServiceChecks {
            name: service.name.clone(),
            settings: service.health.clone(),
            protocol: service.replica.protocol,
            proxy_protocol: service.replica.proxy_protocol,
            tls,
            fleets: discovery.fleets().subscribe(),
        };
        let health = self.checks.check(checks);
        health.map_err(|error| Fault::runtime(format!("no thread for health checks: {error}")))
    }

    /// The listening sockets, each with its address in the configuration, for a successor.
    pub fn sockets(&self) -> impl Iterator<Item = (SocketAddr, &TcpListener)> {
        let open = self.listeners.open.iter();
        open.flat_map(|listener| {
            let sockets = listener.sockets.iter().flatten();
            sockets.map(|socket| (listener.config.address, socket))
        })
    }

    /// The listening addresses, with the system's port in place of port 0.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let open = self.listeners.open.iter();
        open.map(|listener| listener.address).collect()
    }

    /// The status of its workers and services.
    pub const fn status(&self) -> &Arc<Workers> {
        &self.status
    }

    /// The configuration in force.
    pub const fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Waits for the first worker that ends without a request to do so, and returns why. The other
    /// workers continue, without its share of the clients: end the process, so that its supervisor
    /// restarts it.
    pub async fn unasked_end(&mut self) -> Fault {
        self.threads.unasked_end().await
    }

    /// Waits until every worker has ended, after [`drain`](Self::drain) or [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// Fails if a worker has failed.
    pub async fn ended(&mut self) -> Result<(), Fault> {
        self.threads.ended().await
    }

    /// The archive of decisions; `None` if they are not kept.
    pub const fn archive(&self) -> Option<&Arc<Archive>> {
        self.archive.as_ref()
    }

    /// The phase of the proxy.
    pub const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Stops accepting connections. Requests in flight have `timeouts.drain` to finish.
    pub fn drain(&mut self) {
        self.lifecycle.set_draining();
        self.listeners.enter(Phase::Draining);
    }

    /// Stops immediately: all requests in flight are cut off.
    pub fn stop(&mut self) {
        self.lifecycle.set_draining();
        self.listeners.enter(Phase::Stopped);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop();
        self.threads.join();
    }
}

/// The listening sockets; each worker has its own.
#[derive(Debug)]
struct Listeners {
    workers: usize,
    /// In the order of the configuration.
    open: Vec<Listener>,
    /// Phases of closed listeners that may still have connections.
    closed: Vec<watch::Sender<Phase>>,
    next_number: usize,
}

/// A listener with its sockets.
#[derive(Debug)]
struct Listener {
    /// Number of the listener in routes, never reused in this process.
    number: usize,
    config: ListenerConfig,
    /// Listening address, with the system's port in place of port 0.
    address: SocketAddr,
    /// Sockets of each worker. They are kept for a successor, and so that changed settings do not
    /// need another socket. Connections can wait in a socket while any copy of it is open.
    sockets: Vec<Vec<TcpListener>>,
    phase: watch::Sender<Phase>,
}

impl Listener {
    /// Makes a worker's part of the listener.
    fn worker_listener(&self, worker: usize, place: usize) -> Result<WorkerListener, Fault> {
        let sockets = self.sockets.get(worker);
        let sockets = sockets.ok_or_else(|| Fault::runtime("a listener has too few sockets"))?;
        let sockets = clones(sockets).map_err(|error| {
            Fault::runtime(format!("cannot listen on {}: {error}", self.address))
        })?;
        Ok(WorkerListener {
            number: self.number,
            config: self.config.clone(),
            place,
            sockets,
            phase: self.phase.subscribe(),
        })
    }
}

impl Listeners {
    const fn new(workers: usize) -> Self {
        Self {
            workers,
            open: Vec::new(),
            closed: Vec::new(),
            next_number: 0,
        }
    }

    /// Opens sockets at an address, unless existing ones were passed.
    fn open(
        &mut self,
        config: &ListenerConfig,
        sockets: &mut dyn OpenSockets,
    ) -> Result<Listener, Fault> {
        let address = config.address;
        let fault = |error: io::Error| {
            let advice = advice_on_port(&error, "--listen");
            Fault::runtime(format!("cannot listen on {address}: {error}{advice}"))
        };
        let passed = sockets.take(address, self.workers).map_err(fault)?;
        let sockets = if let Some(passed) = passed {
            passed
        } else {
            let opened = listen(address, self.workers).map_err(fault)?;
            opened.into_iter().map(|socket| vec![socket]).collect()
        };
        let bound = sockets.iter().flatten().next();
        let bound = bound.and_then(|socket| socket.local_addr().ok());
        Ok(Listener {
            number: self.number(),
            config: config.clone(),
            address: bound.unwrap_or(address),
            sockets,
            phase: watch::Sender::new(Phase::Serving),
        })
    }

    /// Makes a listener with the same sockets and other settings.
    fn open_anew(&mut self, place: usize, config: &ListenerConfig) -> Result<Listener, Fault> {
        let number = self.number();
        let listener = self.open.get(place);
        let listener = listener.ok_or_else(|| Fault::runtime("a listener is lost"))?;
        let sockets = listener.sockets.iter().map(|sockets| clones(sockets));
        let sockets = sockets.collect::<Result<_, _>>().map_err(|error| {
            Fault::runtime(format!("cannot listen on {}: {error}", listener.address))
        })?;
        Ok(Listener {
            number,
            config: config.clone(),
            address: listener.address,
            sockets,
            phase: watch::Sender::new(Phase::Serving),
        })
    }

    fn number(&mut self) -> usize {
        self.next_number += 1;
        self.next_number
    }

    /// Stops accepting connections on the listener. Existing connections end in order. `next` is
    /// [`Phase::Leaving`] if another listener goes on with its sockets.
    fn close(&mut self, listener: Listener, next: Phase) {
        self.closed.retain(|phase| !phase.is_closed());
        let Listener { phase, sockets, .. } = listener;
        // Dropped first: the worker then has the last copy, and accepts the connections that wait.
        drop(sockets);
        phase.send_replace(next);
        self.closed.push(phase);
    }

    fn enter(&mut self, next: Phase) {
        for listener in &mut self.open {
            // Connections would otherwise still be queued in them, and never be accepted.
            listener.sockets.clear();
        }
        let open = self.open.iter().map(|listener| &listener.phase);
        for phase in open.chain(&self.closed) {
            phase.send_modify(|phase| *phase = (*phase).max(next));
        }
    }

    /// Returns the routes with the numbers of listeners in place of their indices in the
    /// configuration, which are the indices in `open`.
    fn routes(&self, routes: &[Route]) -> Vec<Route> {
        numbered(routes, &self.open)
    }
}

fn clones(sockets: &[TcpListener]) -> io::Result<Vec<TcpListener>> {
    sockets.iter().map(TcpListener::try_clone).collect()
}

/// Like [`Listeners::routes`], for listeners that are not all open yet.
fn numbered<'l>(routes: &[Route], listeners: impl IntoIterator<Item = &'l Listener>) -> Vec<Route> {
    let numbers: Vec<_> = listeners
        .into_iter()
        .map(|listener| listener.number)
        .collect();
    let mut routes = routes.to_vec();
    for route in &mut routes {
        let places = core::mem::take(&mut route.when.listeners);
        let places = places.into_iter();
        route.when.listeners = places
            .filter_map(|place| numbers.get(place).copied())
            .collect();
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_kept_only_if_the_caller_requests_them() {
        for admin in ["", "admin.listen = 'none'"] {
            let text = format!("listen = '127.0.0.1:0'\nreplicas = ['127.0.0.1:1']\n{admin}\n");
            let config = Config::of_text("test", text).expect("valid");
            for keeps_decisions in [false, true] {
                let outside = Outside {
                    keeps_decisions,
                    ..Outside::default()
                };
                assert_eq!(
                    outside.archive(&config).is_some(),
                    keeps_decisions,
                    "{admin}"
                );
            }
        }
    }
}
