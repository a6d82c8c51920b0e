//! A worker: one thread with a runtime, listeners, services and connections of its own.
//!
//! Workers share nothing that a request touches; what the admin server wants to know it reads from each
//! ([`WorkerView`]). How a worker ends is [`Intake`]'s.

use super::routing::{Routing, Table};
use super::service::{Service, ServiceView, WorkerPlace};
use crate::config::{Config, ServiceConfig};
use crate::discovery::Fleet;
use crate::fault::Fault;
use crate::forward::{ClientSettings, Clients, Deadlines, Intake, Phase, Rules};
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
}

/// What a worker is made of.
#[derive(Debug)]
pub(super) struct WorkerParts {
    pub(super) config: Arc<Config>,
    /// Of each service, in the order of the configuration.
    pub(super) fleets: Vec<watch::Receiver<Arc<Fleet>>>,
    /// In the order of the configuration.
    pub(super) listeners: Vec<std::net::TcpListener>,
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
    listeners: Vec<TcpListener>,
    routing: Rc<Routing>,
    clients: Rc<Clients>,
    deadlines: Rc<Deadlines>,
}

fn begin(mut parts: WorkerParts) -> Result<(Worker, WorkerView), Fault> {
    let config = Arc::clone(&parts.config);
    let listeners = core::mem::take(&mut parts.listeners)
        .into_iter()
        .map(TcpListener::from_std)
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| Fault::runtime(format!("cannot watch a listener: {error}")))?;
    let deadlines = Deadlines::new(shortest_timeout(&config));
    let mut services = Vec::with_capacity(config.services.len());
    let mut views = Vec::with_capacity(config.services.len());
    let fleets = core::mem::take(&mut parts.fleets);
    for (service, fleets) in config.services.iter().zip(fleets) {
        let service = Service::start(service, &config.limits, &deadlines, parts.place, fleets)?;
        views.push(service.view());
        services.push(Rc::new(service));
    }
    let settings = ClientSettings::new(&config.timeouts, &config.limits);
    let worker = Worker {
        clients: Clients::new(&settings, &deadlines),
        parts,
        listeners,
        routing: Rc::new(Routing::new(Table::new(&config.routes, services))),
        deadlines,
    };
    Ok((worker, WorkerView { services: views }))
}

/// The one that deadlines must be exact enough for.
fn shortest_timeout(config: &Config) -> Duration {
    let own = config.timeouts.head.min(config.timeouts.idle);
    let of_service = |service: &ServiceConfig| {
        let of_try = service.retries.attempt_timeout;
        let of_all = service.timeouts.first_byte;
        of_try.map_or(of_all, |of_try| of_all.min(of_try))
    };
    let of_services = config.services.iter().map(of_service);
    of_services.fold(own, Duration::min)
}

impl Worker {
    async fn serve(self) {
        let (deadlines, routing) = (Rc::clone(&self.deadlines), Rc::clone(&self.routing));
        tokio::task::spawn_local(async move { deadlines.run(|| routing.sweep()).await });

        let intake = Intake {
            clients: self.clients,
            handler: self.routing,
            rules: Rules::new(&self.parts.config.forwarded, &self.parts.config.limits),
            connections: self.parts.connections,
            phase: self.parts.phase,
            drain: self.parts.config.timeouts.drain,
        };
        intake.serve(self.listeners).await;
    }
}
