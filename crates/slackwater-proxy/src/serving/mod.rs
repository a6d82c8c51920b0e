//! The proxy at work: its listeners, its workers, and what they work by.
//!
//! [`Proxy::start`] is the proxy without any state of the process, so that a program can run
//! several. How it comes from one configuration to another is in `reload`, where its fleets come
//! from in `sources`, what is told of it in `status`.

mod entry;
mod reload;
mod same_listeners;
mod sources;
mod status;
mod tls;
mod worker;

pub use reload::Reloaded;
pub use sources::{find, lists};
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
use slackwater_config::Fault;
use slackwater_config::routes::Route;
use slackwater_config::tls::Client;
use slackwater_config::{Config, ListenerConfig, ServiceConfig};
use slackwater_discovery::Discovery;
use slackwater_telemetry::facts::Lifecycle;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tls::Tls;
use tokio::sync::{Semaphore, mpsc, watch};
use worker::{Command, ListenerPlan, Plan, ServicePlan, WorkerListener, WorkerParts};

/// The proxy at work. Dropping it stops it at once.
#[derive(Debug)]
pub struct Proxy {
    config: Arc<Config>,
    listeners: Listeners,
    /// One for each worker.
    commands: Vec<mpsc::UnboundedSender<Command>>,
    lifecycle: Lifecycle,
    status: Arc<Workers>,
    tls: Tls,
    /// The checks of replicas.
    checks: HealthThread,
    /// `None`: no decisions are kept.
    archive: Option<Arc<Archive>>,
    threads: WorkerThreads,
}

/// What a proxy has from outside; by default nothing.
#[derive(Debug, Default)]
pub struct Outside {
    /// Where requests are logged.
    pub access_log: Option<Switch>,
    /// Where spans go.
    pub spans: Option<traces::Switch>,
    /// Who notices that a worker shows no sign of life.
    pub watchdog: Watchdog,
    /// Where what policies are told and say is written down.
    pub recorder: Option<Recorder>,
    /// What is wanted of single replicas from the start on, by service.
    pub orders: BTreeMap<String, Orders>,
    /// Whether decisions are kept: an admin server, or other code of the program, reads them. What
    /// the configuration says of an admin server does not count here, since the proxy starts none.
    pub keeps_decisions: bool,
}

impl Outside {
    /// For decisions, if they are kept.
    fn archive(&self, config: &Config) -> Option<Arc<Archive>> {
        self.keeps_decisions
            .then(|| Archive::new(&config.decisions, config.workers.get().into()))?
    }
}

/// Sockets that listen already, such as those that a process hands to its successor.
pub trait OpenSockets {
    /// Those at `address`, shared out to so many workers, each at least one; `None`: there are
    /// none, and they are opened.
    ///
    /// # Errors
    ///
    /// The process has no descriptor left for a socket that several workers share.
    fn take(
        &mut self,
        address: SocketAddr,
        workers: usize,
    ) -> io::Result<Option<Vec<Vec<TcpListener>>>>;
}

/// No socket listens already: each is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenedAnew;

impl OpenSockets for OpenedAnew {
    fn take(&mut self, _: SocketAddr, _: usize) -> io::Result<Option<Vec<Vec<TcpListener>>>> {
        Ok(None)
    }
}

/// What all workers know of a service's replicas.
#[derive(Debug)]
struct ServiceSource {
    /// Of the service that the workers have.
    number: u64,
    discovery: Arc<Discovery>,
    health: watch::Receiver<Health>,
    orders: watch::Sender<Arc<Orders>>,
}

/// What the next service that begins is known by, in the whole process: `demo` has two proxies in
/// it.
fn next_number() -> u64 {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    BEGUN.fetch_add(1, Relaxed)
}

/// The services as the status has them; `views` are those of each worker, in the order of the
/// configuration.
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
    /// Starts the proxy: when this returns, it takes connections. `fleets` are those of the
    /// configuration's services, in its order: [`find`] finds them. To be called in a runtime of
    /// tokio, which follows fleets that change.
    ///
    /// # Errors
    ///
    /// A port is in use or not allowed; the system gives no thread or socket.
    pub fn start(
        config: &Config,
        fleets: Vec<Arc<Discovery>>,
        mut outside: Outside,
        sockets: &mut dyn OpenSockets,
    ) -> Result<Self, Fault> {
        let config = Arc::new(config.clone());
        let workers = config.workers.get();
        let mut listeners = Listeners::new(usize::from(workers));
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
            views.push(proxy.spawn(WorkerParts {
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
            })?);
        }
        proxy.status = Arc::new(Workers::new(
            counts,
            outside.access_log.clone(),
            outside.spans.clone(),
            outside.recorder.clone(),
        ));
        proxy.status.set_tls(&tls, &config);
        proxy.status.set_services(parts(&config, sources, &views));
        proxy.lifecycle.set_serving();
        Ok(proxy)
    }

    fn spawn(&mut self, parts: WorkerParts) -> Result<Vec<ServiceView>, Fault> {
        let (ready, began) = sync_channel(1);
        self.threads.spawn(move || {
            worker::run(parts, move |views| {
                let _ = ready.send(views);
            });
            Ok(())
        })?;
        began
            .recv()
            .map_err(|_| Fault::runtime("a worker ended before it began"))?
    }

    /// Checks whoever is in a service's fleet, if that is to be done, as long as anybody wants to
    /// know.
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

    /// The sockets that take requests, each with its address in the configuration, for a successor.
    pub fn sockets(&self) -> impl Iterator<Item = (SocketAddr, &TcpListener)> {
        let open = self.listeners.open.iter();
        open.flat_map(|listener| {
            let sockets = listener.sockets.iter().flatten();
            sockets.map(|socket| (listener.config.address, socket))
        })
    }

    /// Where it listens; port 0 has become the port that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let open = self.listeners.open.iter();
        open.map(|listener| listener.address).collect()
    }

    /// What is known of its workers and services.
    pub const fn status(&self) -> &Arc<Workers> {
        &self.status
    }

    /// The configuration in force.
    pub const fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Waits for the first worker that ends though nobody asked for it; why it did. The others go
    /// on, without its share of the clients: end the process, so that whoever supervises it starts
    /// it anew.
    pub async fn unasked_end(&mut self) -> Fault {
        self.threads.unasked_end().await
    }

    /// Waits until every worker has ended, as they do after [`drain`](Self::drain) or
    /// [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// A worker has failed.
    pub async fn ended(&mut self) -> Result<(), Fault> {
        self.threads.ended().await
    }

    /// Why it picked the replicas that it did; `None`: that is not kept.
    pub const fn archive(&self) -> Option<&Arc<Archive>> {
        self.archive.as_ref()
    }

    /// Where it is in its life.
    pub const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Takes no new connections; requests that run have `timeouts.drain` to finish.
    pub fn drain(&mut self) {
        self.lifecycle.set_draining();
        self.listeners.enter(Phase::Draining);
    }

    /// Cuts off whatever still runs.
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

/// The process's sockets, of which each worker has its own.
#[derive(Debug)]
struct Listeners {
    workers: usize,
    /// In the order of the configuration.
    open: Vec<Listener>,
    /// Those that have been closed, while there may be connections that came in there.
    closed: Vec<watch::Sender<Phase>>,
    next_number: usize,
}

/// Where clients connect.
#[derive(Debug)]
struct Listener {
    /// What routes know it by: no other one of the process ever has it.
    number: usize,
    config: ListenerConfig,
    /// The port is the one that the system chose, where it was to choose.
    address: SocketAddr,
    /// Those of each worker. Kept for a successor, and so that other settings do not take another
    /// socket; connections wait in it as long as anybody has it.
    sockets: Vec<Vec<TcpListener>>,
    phase: watch::Sender<Phase>,
}

impl Listener {
    /// A worker's part of it.
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

    /// Opens sockets at an address, unless some have been passed.
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

    /// The same sockets with other settings.
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

    /// Takes no more connections there; those that came in end in order.
    fn close(&mut self, listener: Listener) {
        self.closed.retain(|phase| !phase.is_closed());
        let Listener { phase, sockets, .. } = listener;
        // First: what waits in a socket is taken by the worker, which is the last to have it then.
        drop(sockets);
        phase.send_replace(Phase::Draining);
        self.closed.push(phase);
    }

    fn enter(&mut self, next: Phase) {
        for listener in &mut self.open {
            // Else connections would go on to be queued in them, for nobody.
            listener.sockets.clear();
        }
        let open = self.open.iter().map(|listener| &listener.phase);
        for phase in open.chain(&self.closed) {
            phase.send_modify(|phase| *phase = (*phase).max(next));
        }
    }

    /// Routes with the numbers of listeners in place of their places in the configuration, which is
    /// that of `open`.
    fn routes(&self, routes: &[Route]) -> Vec<Route> {
        numbered(routes, &self.open)
    }
}

fn clones(sockets: &[TcpListener]) -> io::Result<Vec<TcpListener>> {
    sockets.iter().map(TcpListener::try_clone).collect()
}

/// As [`Listeners::routes`], for listeners that are not all open yet.
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
    fn decisions_are_kept_if_they_are_wanted_whatever_the_file_says_of_an_admin_server() {
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
