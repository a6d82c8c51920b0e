//! A worker: one thread with a runtime, listeners, services and connections of its own.
//!
//! Workers share nothing that a request touches; what the admin server wants to know it reads from each
//! ([`WorkerView`]). How a worker ends is [`Intake`]'s.

use super::routing::{Routing, Table};
use super::service::{Service, ServiceView, WorkerPlace, draw_seed};
use super::tls::Tls;
use crate::access_log;
use crate::config::{Config, ServiceConfig};
use crate::fault::Fault;
use crate::forward::{ClientSettings, Clients, Count, Deadlines, Intake, Phase, Rules};
use crate::health::Health;
use crate::supervisor::Pulse;
use core::time::Duration;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, watch};

/// What the admin server may look at.
#[derive(Debug)]
pub(super) struct WorkerView {
    /// In the order of the configuration.
    pub(super) services: Vec<ServiceView>,
    /// Connections closed for want of a PROXY header.
    pub(super) proxy_headers_refused: Arc<Count>,
}

/// What a worker is made of.
#[derive(Debug)]
pub(super) struct WorkerParts {
    pub(super) config: Arc<Config>,
    /// Each with its place in the configuration.
    pub(super) listeners: Vec<(usize, std::net::TcpListener)>,
    pub(super) tls: Tls,
    /// `None`: there is none.
    pub(super) access_log: Option<access_log::Switch>,
    pub(super) pulse: Pulse,
    /// Of each service, in the order of the configuration.
    pub(super) health: Vec<watch::Receiver<Health>>,
    /// Which of the workers it is.
    pub(super) place: WorkerPlace,
    pub(super) connections: Arc<Semaphore>,
    pub(super) phase: watch::Receiver<Phase>,
}

/// Runs a worker on this thread until it has stopped. `ready` hears once whether it could begin.
pub(super) fn run(parts: WorkerParts, ready: impl FnOnce(Result<WorkerView, Fault>)) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(async {
            match begin(parts) {
                Ok((worker, view)) => {
                    ready(Ok(view));
                    worker.serve().await;
                }
                Err(fault) => ready(Err(fault)),
            }
        }),
        Err(error) => ready(Err(Fault::runtime(format!(
            "no runtime for a worker: {error}"
        )))),
    }
}

struct Worker {
    parts: WorkerParts,
    listeners: Vec<(usize, TcpListener)>,
    routing: Rc<Routing>,
    clients: Rc<Clients>,
    rules: Rc<Rules>,
    deadlines: Rc<Deadlines>,
}

fn begin(mut parts: WorkerParts) -> Result<(Worker, WorkerView), Fault> {
    let config = Arc::clone(&parts.config);
    let listeners = core::mem::take(&mut parts.listeners)
        .into_iter()
        .map(|(index, listener)| Ok((index, TcpListener::from_std(listener)?)))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| Fault::runtime(format!("cannot watch a listener: {error}")))?;
    let deadlines = Deadlines::new(shortest_timeout(&config));
    let mut services = Vec::with_capacity(config.services.len());
    let mut views = Vec::with_capacity(config.services.len());
    let health = core::mem::take(&mut parts.health);
    for (index, (service, health)) in config.services.iter().zip(health).enumerate() {
        let tls = parts.tls.client(index);
        let (service, view) = Service::start(
            service,
            &config.limits,
            &deadlines,
            tls.as_ref(),
            parts.place,
            health,
        )?;
        services.push(Rc::new(service));
        views.push(view);
    }
    let settings = ClientSettings {
        tells_certificates: (config.listeners.iter())
            .filter_map(|listener| listener.tls.as_ref())
            .any(|tls| tls.pass_client_certificate),
        ..ClientSettings::new(&config.timeouts, &config.limits)
    };
    let recorder = parts.access_log.as_ref();
    let recorder = recorder.map(access_log::Switch::recorder);
    let table = Table::new(&config.routes, services);
    let proxy_headers_refused = Arc::default();
    let worker = Worker {
        rules: Rules::of_config(&config, &proxy_headers_refused),
        clients: Clients::new(&settings, &deadlines),
        parts,
        listeners,
        routing: Rc::new(Routing::new(table, draw_seed(), recorder)),
        deadlines,
    };
    let view = WorkerView {
        services: views,
        proxy_headers_refused,
    };
    Ok((worker, view))
}

/// The one that deadlines must be exact enough for.
fn shortest_timeout(config: &Config) -> Duration {
    let own = (config.timeouts.head.min(config.timeouts.idle)).min(config.timeouts.handshake);
    let of_service = |service: &ServiceConfig| {
        let of_try = service.retries.attempt_timeout;
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

impl Worker {
    async fn serve(self) {
        let (deadlines, routing) = (Rc::clone(&self.deadlines), Rc::clone(&self.routing));
        tokio::task::spawn_local(self.parts.pulse.heart());
        tokio::task::spawn_local(async move { deadlines.run(|| routing.sweep()).await });

        let intake = Intake {
            clients: self.clients,
            handler: self.routing,
            rules: self.rules,
            connections: self.parts.connections,
            phase: self.parts.phase,
            drain: self.parts.config.timeouts.drain,
        };
        let listeners = (self.parts.tls).listening(&self.parts.config, self.listeners);
        intake.serve(listeners).await;
    }
}
