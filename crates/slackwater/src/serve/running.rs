//! The proxy at work: its listeners, its workers, and what they work by.
//!
//! [`start`] is the proxy without any state of the process, so that `demo` can run two of them. How it comes from one
//! configuration to another is in `reload`.

use super::counts::DoorCounts;
use super::handed_over;
use super::orders::Orders;
use super::service::{Followed, ServiceView, WorkerPlace};
use super::status::{ServiceParts, Workers};
use super::tls::Tls;
use super::worker::{self, Command, Door, DoorPlan, Plan, ServicePlan, WorkerParts};
use crate::access_log::Switch;
use crate::admin::{self, AdminServer, AdminThread, Control, Controlled};
use crate::decisions::{self, Archive};
use crate::discovery::Discovery;
use crate::forward::{Phase, listen};
use crate::health::{Health, HealthThread, ServiceChecks};
use crate::process::advice_on_port;
use crate::record::Recorder;
use crate::supervisor::Pulse;
use crate::traces;
use crate::upgrade::{Inherited, Passed};
use crate::worker_threads::WorkerThreads;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use slackwater_config::Fault;
use slackwater_config::routes::Route;
use slackwater_config::tls::Client;
use slackwater_config::{Config, ListenerConfig, ServiceConfig};
use slackwater_telemetry::facts::{Lifecycle, StatusSource};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokio::sync::{Semaphore, mpsc, watch};

/// The proxy at work. Dropping it stops it at once.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) config: Arc<Config>,
    pub(super) listeners: Listeners,
    /// One for each worker.
    pub(super) commands: Vec<mpsc::UnboundedSender<Command>>,
    pub(super) lifecycle: Lifecycle,
    pub(super) status: Arc<Workers>,
    pub(super) tls: Tls,
    /// The checks of replicas.
    pub(super) checks: HealthThread,
    /// `None`: no decisions are kept.
    archive: Option<Arc<Archive>>,
    /// The admin server's socket, and where it was to be, for a successor.
    admin: Option<(SocketAddr, TcpListener)>,
    pub(super) threads: WorkerThreads,
}

/// What a proxy has from outside; by default nothing.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Sockets that listen already.
    pub(crate) inherited: Inherited,
    /// Where requests are logged.
    pub(crate) access_log: Option<Switch>,
    /// Where spans go.
    pub(crate) spans: Option<traces::Switch>,
    /// Whom workers show signs of life.
    pub(crate) pulse: Pulse,
    /// Where what policies are told and say is written down.
    pub(crate) recorder: Option<Recorder>,
    /// What is wanted of single replicas from the start on, by service.
    pub(crate) orders: BTreeMap<String, Orders>,
    /// Another admin server than its own tells of it.
    pub(crate) is_told_of: bool,
}

impl Outside {
    /// For decisions, if anybody can ask for them.
    fn archive(&self, config: &Config) -> Option<Arc<Archive>> {
        let is_told = config.admin.listen.is_some() || self.is_told_of;
        let archive = is_told.then(|| Archive::new(&config.decisions, config.workers.get().into()));
        archive.flatten()
    }

    pub(super) fn admin(&mut self, address: SocketAddr) -> Result<TcpListener, Fault> {
        match self.inherited.admin(address) {
            Some(listener) => Ok(listener),
            None => admin::bind(address),
        }
    }
}

/// Starts the proxy: when this returns, it takes connections. `fleets` are those of the configuration's services, in its
/// order.
///
/// # Errors
///
/// A port is in use or not allowed; the system gives no thread or socket.
pub(crate) fn start(
    config: &Config,
    fleets: Vec<Arc<Discovery>>,
    outside: &mut Outside,
) -> Result<Running, Fault> {
    let config = Arc::new(config.clone());
    let workers = config.workers.get();
    let mut listeners = Listeners::new(usize::from(workers));
    for listener in &config.listeners {
        let opened = listeners.open(listener, &mut outside.inherited)?;
        listeners.open.push(opened);
    }
    let tls = Tls::read(&config)?;
    let connections = Arc::new(Semaphore::new(config.limits.connections_max as usize));
    let mut running = Running {
        listeners,
        commands: Vec::new(),
        lifecycle: Lifecycle::default(),
        status: Arc::default(),
        tls: tls.clone(),
        admin: None,
        checks: HealthThread::default(),
        archive: outside.archive(&config),
        threads: WorkerThreads::default(),
        config: Arc::clone(&config),
    };
    let mut sources = Vec::with_capacity(fleets.len());
    for ((place, service), discovery) in config.services.iter().enumerate().zip(fleets) {
        let health = running.check(service, &discovery, tls.client(place))?;
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
        let doors = running.listeners.open.iter();
        let doors = doors.enumerate().map(|(place, listener)| {
            let door = listener.door(usize::from(index), place);
            door.map(Box::new).map(DoorPlan::Open)
        });
        let subscribe = |source: &ServiceSource| {
            ServicePlan::Start(Followed {
                fleets: source.discovery.fleets().subscribe(),
                health: source.health.clone(),
                orders: source.orders.subscribe(),
            })
        };
        let plan = Plan {
            tls: tls.clone(),
            routes: running.listeners.routes(&config.routes),
            services: sources.iter().map(subscribe).collect(),
            doors: doors.collect::<Result<_, _>>()?,
            config: Arc::clone(&config),
        };
        let (commands, told) = mpsc::unbounded_channel();
        running.commands.push(commands);
        let counted = DoorCounts::default();
        counts.push(counted.clone());
        views.push(running.spawn(WorkerParts {
            place: WorkerPlace { index, workers },
            connections: Arc::clone(&connections),
            counts: counted,
            access_log: outside.access_log.clone(),
            archive: running.archive.clone(),
            spans: outside.spans.clone(),
            pulse: outside.pulse.clone(),
            policy_recorder: outside.recorder.clone(),
            commands: told,
            plan,
        })?);
    }
    running.status = Arc::new(Workers::new(
        counts,
        outside.access_log.clone(),
        outside.spans.clone(),
        outside.recorder.clone(),
    ));
    running.status.set_tls(&tls, &config);
    running.status.set_services(parts(&config, sources, &views));
    running.lifecycle.set_serving();
    Ok(running)
}

/// What all workers know of a service's replicas.
#[derive(Debug)]
pub(super) struct ServiceSource {
    /// Of the service that the workers have.
    pub(super) number: u64,
    pub(super) discovery: Arc<Discovery>,
    pub(super) health: watch::Receiver<Health>,
    pub(super) orders: watch::Sender<Arc<Orders>>,
}

/// What the next service that begins is known by, in the whole process: `demo` has two proxies in it.
pub(super) fn next_number() -> u64 {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    BEGUN.fetch_add(1, Relaxed)
}

/// The services as the status has them; `views` are those of each worker, in the order of the configuration.
pub(super) fn parts(
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

impl Running {
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

    /// Checks whoever is in a service's fleet, if that is to be done, as long as anybody wants to know.
    pub(super) fn check(
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

    pub(super) fn run_admin(
        &mut self,
        listener: TcpListener,
        control: &Control,
    ) -> Result<AdminThread, Fault> {
        let fault = |error: io::Error| Fault::runtime(format!("admin server: {error}"));
        if let Some(configured) = self.config.admin.listen {
            self.admin = Some((configured, listener.try_clone().map_err(fault)?));
        }
        let server = AdminServer::new(
            self.status(),
            self.lifecycle().clone(),
            self.config.admin.connections_max,
        );
        let controlled = Arc::clone(&self.status) as Arc<dyn Controlled>;
        let server = server.controlled(controlled, control);
        self.status.set_control(control);
        let server = match self.config.admin.metrics_replicas_max {
            Some(max) => server.metrics_replicas_max(max),
            None => server,
        };
        let server = decisions::add_path(server, self.archive.iter().cloned().collect());
        let thread = server.dashboard().spawn(listener).map_err(fault)?;
        tracing::info!(address = %thread.address(), "status and metrics");
        Ok(thread)
    }

    /// What a successor gets: clones of all sockets, and what is changed at run time.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left, or no memory.
    pub(super) fn passed(&self) -> io::Result<Arc<Passed>> {
        let mut passed = Passed::default();
        for listener in &self.listeners.open {
            for socket in listener.sockets.iter().flatten() {
                passed.add_requests(listener.config.address, socket)?;
            }
        }
        if let Some((configured, socket)) = &self.admin {
            passed.add_admin(*configured, socket)?;
        }
        if let Some(overrides) = handed_over::told(&self.status.overrides()) {
            passed.add_overrides(&overrides)?;
        }
        Ok(Arc::new(passed))
    }

    /// Where it listens; port 0 has become the port that the system chose.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let open = self.listeners.open.iter();
        open.map(|listener| listener.address).collect()
    }

    /// What it knows, for the admin server or the dashboard.
    pub(crate) fn status(&self) -> Arc<dyn StatusSource> {
        Arc::clone(&self.status) as Arc<dyn StatusSource>
    }

    /// Why it picked the replicas that it did; `None`: that is not kept.
    pub(crate) const fn archive(&self) -> Option<&Arc<Archive>> {
        self.archive.as_ref()
    }

    /// Where it is in its life.
    pub(crate) const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Takes no new connections; requests that run have `timeouts.drain` to finish.
    pub(crate) fn drain(&mut self) {
        self.lifecycle.set_draining();
        // Else it would go on listening when the admin server is gone.
        self.admin = None;
        self.listeners.enter(Phase::Draining);
    }

    /// Cuts off whatever still runs.
    pub(crate) fn stop(&mut self) {
        self.lifecycle.set_draining();
        self.listeners.enter(Phase::Stopped);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        self.threads.join();
    }
}

/// The process's sockets, of which each worker has its own.
#[derive(Debug)]
pub(super) struct Listeners {
    workers: usize,
    /// In the order of the configuration.
    pub(super) open: Vec<Listener>,
    /// Those that have been closed, while there may be connections that came in there.
    closed: Vec<watch::Sender<Phase>>,
    next_number: usize,
}

/// Where clients connect.
#[derive(Debug)]
pub(super) struct Listener {
    /// What routes know it by: no other one of the process ever has it.
    pub(super) number: usize,
    pub(super) config: ListenerConfig,
    /// The port is the one that the system chose, where it was to choose.
    pub(super) address: SocketAddr,
    /// Those of each worker. Kept for a successor, and so that other settings do not take another socket; connections wait
    /// in it as long as anybody has it.
    sockets: Vec<Vec<TcpListener>>,
    pub(super) phase: watch::Sender<Phase>,
}

impl Listener {
    /// A worker's part of it.
    pub(super) fn door(&self, worker: usize, place: usize) -> Result<Door, Fault> {
        let sockets = self.sockets.get(worker);
        let sockets = sockets.ok_or_else(|| Fault::runtime("a listener has too few sockets"))?;
        let sockets = clones(sockets).map_err(|error| {
            Fault::runtime(format!("cannot listen on {}: {error}", self.address))
        })?;
        Ok(Door {
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
    pub(super) fn open(
        &mut self,
        config: &ListenerConfig,
        inherited: &mut Inherited,
    ) -> Result<Listener, Fault> {
        let address = config.address;
        let fault = |error: io::Error| {
            let advice = advice_on_port(&error, "--listen");
            Fault::runtime(format!("cannot listen on {address}: {error}{advice}"))
        };
        let passed = inherited.requests(address, self.workers).map_err(fault)?;
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
    pub(super) fn open_anew(
        &mut self,
        place: usize,
        config: &ListenerConfig,
    ) -> Result<Listener, Fault> {
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
    pub(super) fn close(&mut self, listener: Listener) {
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

    /// Routes with the numbers of listeners in place of their places in the configuration, which is that of `open`.
    pub(super) fn routes(&self, routes: &[Route]) -> Vec<Route> {
        numbered(routes, &self.open)
    }
}

fn clones(sockets: &[TcpListener]) -> io::Result<Vec<TcpListener>> {
    sockets.iter().map(TcpListener::try_clone).collect()
}

/// As [`Listeners::routes`], for listeners that are not all open yet.
pub(super) fn numbered<'l>(
    routes: &[Route],
    listeners: impl IntoIterator<Item = &'l Listener>,
) -> Vec<Route> {
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
