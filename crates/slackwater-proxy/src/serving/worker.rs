//! A worker: one thread with its own runtime, listeners, services and connections.
//!
//! Workers share nothing that a request touches; the admin server reads its data from each. Each
//! listener has its own [`AcceptLoop`], and the worker ends with the last of them. A new
//! configuration takes effect in two steps: it is prepared, which may fail and changes nothing, and
//! then committed, which cannot fail.

use super::tls::Tls;
use crate::access_log::Switch;
use crate::decisions::Archive;
use crate::forward::{
    AcceptLoop, BoundListener, ClientSettings, Clients, Deadlines, Memory, Phase, Rules,
};
use crate::record::Recorder as PolicyRecorder;
use crate::request_record::ids::Ids;
use crate::request_record::{Consumer, RequestRecorder, Tracing};
use crate::routing::{ListenerCounts, Routing, Table};
use crate::seed::draw_seed;
use crate::service::{InFlightCounts, Service, ServiceUpdates, ServiceView, WorkerIndex};
use crate::spans;
use crate::tls::Handshakes;
use crate::traces;
use crate::watchdog::Watchdog;
use crate::worker_threads::Started;
use core::cell::RefCell;
use core::pin::Pin;
use core::time::Duration;
use futures_util::stream::{FuturesUnordered, StreamExt};
use slackwater_config::Fault;
use slackwater_config::routes::Route;
use slackwater_config::{Config, ListenerConfig, ServiceConfig};
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// The parts from which a worker is made.
#[derive(Debug)]
pub(crate) struct WorkerParts {
    /// Index of the worker.
    pub(crate) place: WorkerIndex,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) counts: ListenerCounts,
    /// `None` if there is no access log.
    pub(crate) access_log: Option<Switch>,
    /// `None` if no decisions are kept.
    pub(crate) archive: Option<Arc<Archive>>,
    /// `None` if tracing is off.
    pub(crate) spans: Option<traces::Switch>,
    pub(crate) watchdog: Watchdog,
    /// `None` if the policies' inputs are not recorded.
    pub(crate) policy_recorder: Option<PolicyRecorder>,
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    /// The initial configuration.
    pub(crate) plan: Plan,
}

/// A command to a worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// Prepare another configuration, and report whether that succeeded.
    Prepare(Box<Plan>, oneshot::Sender<Result<Vec<ServiceView>, Fault>>),
    /// Switch to the prepared configuration.
    Commit,
    /// Discard the prepared configuration.
    Abandon,
}

/// A configuration, and which parts of it exist already.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: Arc<Config>,
    pub(crate) tls: Tls,
    /// Routes of [`Self::config`], with the numbers of listeners in place of their indices.
    pub(crate) routes: Vec<Route>,
    /// In the order of the configuration.
    pub(crate) services: Vec<ServicePlan>,
    /// All listeners.
    pub(crate) listeners: Vec<ListenerPlan>,
}

/// Origin of a service.
#[derive(Debug)]
pub(crate) enum ServicePlan {
    /// The service at this index of the previous configuration.
    Keep(usize),
    /// The service is started.
    Start(ServiceUpdates),
}

/// A listener in a worker.
#[derive(Debug)]
pub(crate) enum ListenerPlan {
    /// It stays open.
    Keep(usize),
    /// It is opened.
    Open(Box<WorkerListener>),
}

/// Sockets from which connections are accepted.
#[derive(Debug)]
pub(crate) struct WorkerListener {
    /// Unique among the listeners of the process, also over time.
    pub(crate) number: usize,
    pub(crate) config: ListenerConfig,
    /// Index in the configuration.
    pub(crate) place: usize,
    pub(crate) sockets: Vec<std::net::TcpListener>,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// Runs a worker on this thread until it has stopped.
///
/// # Errors
///
/// The worker did not start.
pub(crate) fn run(parts: WorkerParts, started: Started<Vec<ServiceView>>) -> Result<(), Fault> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|error| Fault::runtime(format!("no runtime for a worker: {error}")))?;
    runtime.block_on(async {
        let WorkerParts {
            place,
            connections,
            counts,
            access_log,
            archive,
            spans,
            watchdog,
            policy_recorder,
            commands,
            plan,
        } = parts;
        tokio::task::spawn_local(watchdog.heartbeat());
        let mut worker = Worker {
            place,
            connections,
            counts,
            recorder: recorder(
                &plan.config,
                access_log.as_ref(),
                archive.as_deref(),
                spans.as_ref(),
                policy_recorder.as_ref(),
            ),
            policy_recorder,
            // Preparing a configuration shortens them.
            deadlines: Deadlines::new(Duration::MAX),
            memory: Memory::of_worker(place.workers),
            in_flight: InFlightCounts::default(),
            table: Rc::new(RefCell::new(Rc::new(Table::new(&[], Vec::new())))),
            listeners: Vec::new(),
            accept_loops: FuturesUnordered::new(),
        };
        let prepared = worker.prepare(plan)?;
        started.report(prepared.views());
        worker.take(prepared);
        worker.serve(commands).await;
        Ok(())
    })
}

/// Makes the recorder for the consumers of request records.
fn recorder(
    config: &Config,
    access_log: Option<&Switch>,
    archive: Option<&Archive>,
    switch: Option<&traces::Switch>,
    policy_recorder: Option<&PolicyRecorder>,
) -> Rc<RequestRecorder> {
    let lines = access_log.map(|log| Box::new(log.lines()) as Box<dyn Consumer>);
    let keeper = archive.map(|archive| Box::new(archive.keeper()) as Box<dyn Consumer>);
    let requests = policy_recorder.and_then(PolicyRecorder::requests);
    let requests = requests.map(|requests| Box::new(requests) as Box<dyn Consumer>);
    let tracing = switch.map(|switch| Tracing {
        tracer: switch.tracer(),
        export: spans::finish,
    });
    RequestRecorder::new(
        [lines, keeper, requests],
        Ids::new(&config.request_id),
        tracing,
    )
}

/// Returns the shortest timeout, which determines the precision of deadlines.
fn shortest_timeout(config: &Config) -> Duration {
    let own = config.timeouts.shortest();
    let of_service = |service: &ServiceConfig| {
        let of_try = service.retries.rules.attempt_timeout;
        let of_all = service.timeouts.first_byte;
        of_try.map_or(of_all, |of_try| of_all.min(of_try))
    };
    let of_services = config.services.iter().map(of_service);
    let of_routes = config
        .routes
        .iter()
        .filter_map(|route| route.then.shortest_timeout());
    of_services.chain(of_routes).fold(own, Duration::min)
}

/// Whether any listener forwards client certificates. If so, no client of another listener may set
/// those fields.
pub(crate) fn forwards_certificates(config: &Config) -> bool {
    let mut tls = config.listeners.iter().filter_map(|it| it.tls.as_ref());
    tls.any(|tls| tls.pass_client_certificate)
}

/// An accept loop, which returns the number of its listener at its end.
type Serving = Pin<Box<dyn Future<Output = usize>>>;

struct Worker {
    place: WorkerIndex,
    connections: Arc<Semaphore>,
    counts: ListenerCounts,
    recorder: Rc<RequestRecorder>,
    /// `None` if the policies' inputs are not recorded.
    policy_recorder: Option<PolicyRecorder>,
    deadlines: Rc<Deadlines>,
    memory: Rc<Memory>,
    in_flight: InFlightCounts,
    /// The current table, for the sweeper.
    table: Rc<RefCell<Rc<Table>>>,
    /// Listeners that accept connections, with their routing. A listener that closes keeps its
    /// routing for its existing connections.
    listeners: Vec<(usize, Rc<Routing>)>,
    accept_loops: FuturesUnordered<Serving>,
}

/// A prepared configuration.
struct Prepared {
    config: Arc<Config>,
    table: Rc<Table>,
    kept_listeners: Vec<usize>,
    new_listeners: Vec<OpeningListener>,
}

/// Sockets that are registered with this worker's runtime.
struct OpeningListener {
    number: usize,
    handshakes: Option<Rc<Handshakes>>,
    config: ListenerConfig,
    sockets: Vec<TcpListener>,
    phase: watch::Receiver<Phase>,
}

impl Prepared {
    fn views(&self) -> Vec<ServiceView> {
        let services = self.table.services().iter();
        services.map(|service| service.view()).collect()
    }
}

impl Worker {
    fn prepare(&self, plan: Plan) -> Result<Prepared, Fault> {
        let config = plan.config;
        self.deadlines.shorten(shortest_timeout(&config));
        let mut services = Vec::with_capacity(plan.services.len());
        let before = Rc::clone(&self.table.borrow());
        for ((place, service), from) in config.services.iter().enumerate().zip(plan.services) {
            services.push(match from {
                ServicePlan::Keep(index) => before.services().get(index).map(Rc::clone),
                ServicePlan::Start(followed) => {
                    let started = Service::start(
                        service,
                        &config.limits,
                        (&self.deadlines, self.in_flight.of_service(&service.name)),
                        plan.tls.client(place),
                        self.place,
                        followed,
                        self.policy_recorder.as_ref(),
                    )?;
                    Some(Rc::new(started))
                }
            });
        }
        let services: Option<Vec<_>> = services.into_iter().collect();
        let services = services
            .ok_or_else(|| Fault::runtime("a worker does not have a service that should stay"))?;
        let (mut kept_listeners, mut new_listeners) = (Vec::new(), Vec::new());
        for listener in plan.listeners {
            match listener {
                ListenerPlan::Keep(number) => kept_listeners.push(number),
                ListenerPlan::Open(listener) => {
                    let sockets = listener.sockets.into_iter().map(TcpListener::from_std);
                    let sockets = sockets.collect::<Result<_, _>>().map_err(|error| {
                        Fault::runtime(format!("cannot watch a listener: {error}"))
                    })?;
                    new_listeners.push(OpeningListener {
                        number: listener.number,
                        handshakes: plan
                            .tls
                            .listener_handshakes(&listener.config, listener.place),
                        config: listener.config,
                        sockets,
                        phase: listener.phase,
                    });
                }
            }
        }
        Ok(Prepared {
            table: Rc::new(Table::new(&plan.routes, services)),
            config,
            kept_listeners,
            new_listeners,
        })
    }

    fn take(&mut self, prepared: Prepared) {
        let Prepared {
            config,
            table,
            kept_listeners,
            new_listeners,
        } = prepared;
        for (service, settings) in table.services().iter().zip(&config.services) {
            service.set_warm_up(settings.clock_warm_up());
        }
        if let Some(tracer) = self.recorder.tracer() {
            tracer.set_rules(&config.tracing);
        }
        let before = self.table.replace(Rc::clone(&table));
        // Hedging classes are numbered by route, so learned latencies would belong to other routes.
        if !table.matches_like(&before) {
            table.services().iter().for_each(|it| it.routes_changed());
        }
        // Requests in flight keep a replaced service alive until they end.
        let is_gone = |service: &&Rc<Service>| {
            let mut staying = table.services().iter();
            !staying.any(|other| Rc::ptr_eq(service, other))
        };
        before
            .services()
            .iter()
            .filter(is_gone)
            .for_each(|it| it.retire());
        self.listeners.retain(|(number, routing)| {
            let stays = kept_listeners.contains(number);
            if stays {
                routing.swap(&table);
            }
            stays
        });
        for listener in new_listeners {
            let OpeningListener {
                number,
                handshakes,
                config: listener,
                sockets,
                phase,
            } = listener;
            let routing = Rc::new(Routing::new(
                Rc::clone(&table),
                draw_seed(),
                Rc::clone(&self.recorder),
                &self.counts,
            ));
            self.listeners.push((number, Rc::clone(&routing)));
            let settings = ClientSettings {
                forwards_certificates: forwards_certificates(&config),
                counts: Arc::clone(&self.counts.connections),
                ..ClientSettings::new(&config.timeouts, &config.limits, &config.upgrade_protocols)
            };
            let accept_loop = AcceptLoop {
                clients: Clients::new(&settings, &self.deadlines, &self.memory),
                handler: routing,
                rules: Rules::of_listener(&config, &listener, &self.counts.proxy_headers_refused),
                connections: Arc::clone(&self.connections),
                phase,
                drain: config.timeouts.drain,
                drain_idle: config.timeouts.drain_idle,
            };
            let serving = async move {
                let listening = sockets.into_iter().map(|listener| BoundListener {
                    index: number,
                    listener,
                    handshakes: handshakes.clone(),
                });
                accept_loop.serve(listening.collect()).await;
                number
            };
            self.accept_loops.push(Box::pin(serving));
        }
    }

    async fn serve(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let (deadlines, table) = (Rc::clone(&self.deadlines), Rc::clone(&self.table));
        let sweep = move || {
            let table = Rc::clone(&table.borrow());
            table.services().iter().for_each(|service| service.sweep());
        };
        tokio::task::spawn_local(async move { deadlines.run(sweep).await });

        let mut prepared = None;
        loop {
            tokio::select! {
                // Commands first, so that a client that connects after a change is reported as done
                // is served by it.
                biased;
                Some(command) = commands.recv() => match command {
                    Command::Prepare(plan, told) => {
                        let result = self.prepare(*plan);
                        let views = result.map(|ready| prepared.insert(ready).views());
                        let _ = told.send(views);
                    }
                    Command::Commit => {
                        if let Some(prepared) = prepared.take() {
                            self.take(prepared);
                        }
                    }
                    Command::Abandon => prepared = None,
                },
                ended = self.accept_loops.next() => match ended {
                    Some(number) => self.listeners.retain(|(open, _)| *open != number),
                    None => return,
                },
            }
        }
    }
}
