//! A worker: one thread with a runtime, listeners, a balancer and connections of its own.
//!
//! Workers share nothing that a request touches; what the admin server wants to know it reads from each
//! ([`WorkerView`]). A worker stops in order: it takes what still waits to be accepted, closes its listeners, lets
//! requests finish until the drain is over, and cuts off the rest.

use super::balancing::Balancing;
use super::counts::ReplicaCounts;
use crate::config::{Config, ProbeTransport};
use crate::fault::Fault;
use crate::forward::{ClientSettings, Clients, Deadlines, Phase, ReplicaOptions};
use core::net::SocketAddr;
use core::time::Duration;
use http::uri::Authority;
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

/// For which a response's body, or a client's connection in the midst of a request, may show no sign of life.
const STALL_MAX: Duration = Duration::from_mins(5);

/// Between the last accept and the close of idle connections: what has arrived by then is a request, and is served.
const LAST_LOOK: Duration = Duration::from_millis(5);

/// After an accept failed for lack of something, mostly file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    let options = Rc::new(replica_options(&config));
    let balancing = Balancing::new(&config, &options, balancer.clone(), &deadlines, &counts)
        .map_err(|error| Fault::usage(error.to_string()))?;
    let view = WorkerView {
        balancer: balancer.clone(),
        ids: balancing.ids(),
        counts,
    };
    let worker = Worker {
        clients: Clients::new(&client_settings(&config), &deadlines),
        parts,
        listeners,
        balancer,
        balancing: Rc::new(balancing),
        deadlines,
    };
    Ok((worker, view))
}

fn prober(config: &Config) -> Result<Box<dyn Prober>, Fault> {
    let needs_probes = config.policy.name.starts_with("prequal");
    Ok(match config.probe.transport {
        ProbeTransport::Udp if needs_probes => {
            let mut options = UdpProberConfig::default();
            options.key = match &config.probe.key {
                Some(key) => Some(ProbeKey::from_bytes(key.as_bytes()).map_err(|error| {
                    Fault::usage(format!("the key for probes cannot be used: {error}"))
                })?),
                None => None,
            };
            let prober = UdpProber::bind(&options)
                .map_err(|error| Fault::runtime(format!("no socket for probes: {error}")))?;
            Box::new(prober)
        }
        ProbeTransport::Http if needs_probes => {
            let mut options = HttpProberConfig::default();
            options.path = config.probe.path.clone();
            Box::new(HttpProber::new(options))
        }
        _ => Box::new(NoProber),
    })
}

fn replica_options(config: &Config) -> ReplicaOptions {
    ReplicaOptions {
        protocol: config.replica.protocol,
        connect: config.timeouts.connect,
        first_byte: config.timeouts.first_byte,
        stall: STALL_MAX,
        idle: config.timeouts.idle,
        idle_connections_max: config.replica.idle_connections_max as usize,
        streams_max: config.limits.streams_max as usize,
        head_bytes_max: config.limits.head_bytes_max as usize,
        head_fields_max: config.limits.head_fields_max as usize,
    }
}

fn client_settings(config: &Config) -> ClientSettings {
    ClientSettings {
        idle: config.timeouts.idle,
        head: config.timeouts.head,
        stall: STALL_MAX,
        streams_max: config.limits.streams_max,
        head_bytes_max: config.limits.head_bytes_max,
        head_fields_max: config.limits.head_fields_max,
    }
}

impl Worker {
    async fn serve(self) {
        let _drive = self.balancer.spawn_drive();
        let (deadlines, balancing) = (Rc::clone(&self.deadlines), Rc::clone(&self.balancing));
        tokio::task::spawn_local(async move { deadlines.run(|| balancing.sweep()).await });

        let mut phase = self.parts.phase.clone();
        let accepting: Vec<_> = self
            .listeners
            .into_iter()
            .map(|listener| {
                let acceptor = Acceptor {
                    listener,
                    clients: Rc::clone(&self.clients),
                    balancing: Rc::clone(&self.balancing),
                    connections: Arc::clone(&self.parts.connections),
                    phase: phase.clone(),
                };
                tokio::task::spawn_local(acceptor.run())
            })
            .collect();
        for acceptor in accepting {
            // Ends when the drain begins.
            let _ = acceptor.await;
        }
        tokio::time::sleep(LAST_LOOK).await;
        self.clients.enter(Phase::Draining);
        let drained = async {
            tokio::select! {
                () = self.clients.gone() => (),
                // An error means that whoever could say "stop" is gone.
                _ = phase.wait_for(|phase| *phase >= Phase::Stopped) => (),
            }
        };
        let _ = tokio::time::timeout(self.parts.config.timeouts.drain, drained).await;
        let left = self.clients.open();
        if left > 0 {
            tracing::warn!(
                connections = left,
                "the drain is over; what still runs is cut off"
            );
        }
        self.clients.enter(Phase::Stopped);
        self.clients.gone().await;
    }
}

/// Takes connections from one listener.
struct Acceptor {
    listener: TcpListener,
    clients: Rc<Clients>,
    balancing: Rc<Balancing>,
    connections: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

impl Acceptor {
    async fn run(mut self) {
        let Some(local) = self.local() else { return };
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = self.phase.wait_for(|phase| *phase >= Phase::Draining) => break,
            };
            self.take(accepted, &local).await;
        }
        // Whoever is connected already would otherwise be turned away when the listener closes.
        while let Some(accepted) = futures_util::FutureExt::now_or_never(self.listener.accept()) {
            if accepted.is_err() {
                break;
            }
            self.take(accepted, &local).await;
        }
    }

    fn local(&self) -> Option<Authority> {
        let address = self.listener.local_addr().ok()?;
        Authority::try_from(address.to_string()).ok()
    }

    async fn take(
        &mut self,
        accepted: io::Result<(tokio::net::TcpStream, SocketAddr)>,
        local: &Authority,
    ) {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                return;
            }
        };
        let permit = tokio::select! {
            permit = Arc::clone(&self.connections).acquire_owned() => permit,
            _ = self.phase.wait_for(|phase| *phase >= Phase::Draining) => return,
        };
        let (clients, balancing) = (Rc::clone(&self.clients), Rc::clone(&self.balancing));
        let local = local.clone();
        tokio::task::spawn_local(async move {
            let _permit = permit;
            clients.carry(stream, peer, local, balancing).await;
        });
    }
}

/// The client left before it was accepted; the listener is well.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
