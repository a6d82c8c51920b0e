//! A worker: one thread with a runtime, listeners, a balancer and connections of its own.
//!
//! Workers share nothing that a request touches; what the admin server wants to know it reads from each
//! ([`WorkerView`]). How a worker ends is [`Intake`]'s.

use super::balancing::Balancing;
use crate::config::{Config, ProbeTransport};
use crate::fault::Fault;
use crate::forward::{
    ClientSettings, Clients, Deadlines, Intake, Listening, Phase, ReplicaCounts, ReplicaOptions,
};
use crate::tls::{Handshakes, Server};
use slackwater_core::ReplicaId;
use slackwater_tower::client::{
    Balancer, HttpProber, HttpProberConfig, NoProber, Prober, UdpProber, UdpProberConfig,
};
use slackwater_tower::wire::ProbeKey;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, watch};

/// What the admin server may look at.
#[derive(Debug)]
pub(super) struct WorkerView {
    pub(super) balancer: Balancer,
    pub(super) ids: Vec<ReplicaId>,
    pub(super) counts: Arc<[ReplicaCounts]>,
}

/// What a worker is made of.
#[derive(Debug)]
pub(super) struct WorkerParts {
    pub(super) config: Arc<Config>,
    pub(super) listeners: Vec<std::net::TcpListener>,
    /// What they serve TLS by; `None`: they are plain.
    pub(super) tls: Option<watch::Receiver<Server>>,
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
    balancer: Balancer,
    balancing: Rc<Balancing>,
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
    let timeouts = &config.timeouts;
    let shortest = timeouts.first_byte.min(timeouts.head).min(timeouts.idle);
    let deadlines = Deadlines::new(shortest);
    let policy = (config.policy.build)(&config.policy_settings);
    let balancer = Balancer::new(policy, prober(&config)?);
    let counts: Arc<[ReplicaCounts]> = config
        .replicas
        .iter()
        .map(|_| ReplicaCounts::default())
        .collect();
    let options = Rc::new(ReplicaOptions::new(
        &config.replica,
        &config.timeouts,
        &config.limits,
    ));
    let balancing = Balancing::new(&config, &options, balancer.clone(), &deadlines, &counts)
        .map_err(|error| Fault::usage(error.to_string()))?;
    let view = WorkerView {
        balancer: balancer.clone(),
        ids: balancing.ids(),
        counts,
    };
    let settings = ClientSettings {
        tells_certificates: (config.tls.as_ref()).is_some_and(|tls| tls.pass_client_certificate),
        ..ClientSettings::new(&config.timeouts, &config.limits)
    };
    let worker = Worker {
        clients: Clients::new(&settings, &deadlines),
        parts,
        listeners,
        balancer,
        balancing: Rc::new(balancing),
        deadlines,
    };
    Ok((worker, view))
}

fn prober(config: &Config) -> Result<Box<dyn Prober>, Fault> {
    let settings = &config.probe;
    match settings.transport {
        ProbeTransport::None => Ok(Box::new(NoProber)),
        ProbeTransport::Http => Ok(Box::new(HttpProber::new(HttpProberConfig {
            path: settings.path.clone(),
            ..HttpProberConfig::default()
        }))),
        ProbeTransport::Udp => {
            let key = settings
                .key
                .as_ref()
                .map(|key| ProbeKey::from_bytes(key.as_bytes()));
            let key = key.transpose().map_err(|error| {
                Fault::usage(format!("the key for probes cannot be used: {error}"))
            })?;
            let prober = UdpProber::bind(&UdpProberConfig {
                key,
                ..UdpProberConfig::default()
            });
            let prober =
                prober.map_err(|error| Fault::runtime(format!("no socket for probes: {error}")))?;
            Ok(Box::new(prober))
        }
    }
}

/// For one listener.
fn handshakes(config: &Config, server: Option<&watch::Receiver<Server>>) -> Option<Rc<Handshakes>> {
    let (tls, server) = config.tls.as_ref().zip(server)?;
    Some(Rc::new(Handshakes::new(
        server.clone(),
        tls.handshakes_max as usize,
        tls.pass_client_certificate,
        Arc::default(),
    )))
}

impl Worker {
    async fn serve(self) {
        let _drive = self.balancer.spawn_drive();
        let (deadlines, balancing) = (Rc::clone(&self.deadlines), Rc::clone(&self.balancing));
        tokio::task::spawn_local(async move { deadlines.run(|| balancing.sweep()).await });

        let intake = Intake {
            clients: self.clients,
            handler: self.balancing,
            connections: self.parts.connections,
            phase: self.parts.phase,
            drain: self.parts.config.timeouts.drain,
        };
        let config = &self.parts.config;
        let listeners = self.listeners.into_iter().map(|listener| Listening {
            listener,
            handshakes: handshakes(config, self.parts.tls.as_ref()),
        });
        intake.serve(listeners.collect()).await;
    }
}
