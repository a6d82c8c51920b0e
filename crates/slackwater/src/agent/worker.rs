//! A worker: one thread with its own runtime, listeners, and connections. Workers share the load,
//! whose tracker takes no lock, and the server's state, which requests only read. A queue before
//! the server is shared, too: there must be one limit before one server, so a lock guards it for
//! short moments.

use super::handler::AgentHandler;
use super::presence::Presence;
use super::tls::Tls;
use slackwater_config::Fault;
use slackwater_config::{AgentConfig, ForwardedSettings};
use slackwater_proxy::forward::{
    AcceptLoop, BoundListener, ClientSettings, Clients, ConnectionCounts, Deadlines, Memory, Phase,
    Replica, ReplicaCounts, ReplicaEnds, ReplicaOptions, Rules, UnreadableCounts,
};
use slackwater_proxy::watchdog::Watchdog;
use slackwater_proxy::worker_threads::Started;
use slackwater_telemetry::latency_histogram::LatencyHistogram;
use slackwater_tower::server::Load;
use slackwater_tower::server::admission::Admission;
use slackwater_tower::wire::ProbeKey;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, watch};

/// The parts of a worker.
#[derive(Debug)]
pub(super) struct WorkerParts {
    pub(super) config: Arc<AgentConfig>,
    pub(super) listeners: Vec<std::net::TcpListener>,
    pub(super) shared: Shared,
    pub(super) counts: WorkerCounts,
    pub(super) connections: Arc<Semaphore>,
    pub(super) phase: watch::Receiver<Phase>,
}

/// Counters of one worker, shared with the status.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkerCounts {
    pub(super) requests: Arc<ReplicaCounts>,
    /// Why connections to the server ended.
    pub(super) ends: Arc<ReplicaEnds>,
    /// Waiting times in the queue.
    pub(super) waits: Arc<LatencyHistogram>,
    /// Requests that could not be read.
    pub(super) unreadable: Arc<UnreadableCounts>,
    /// Connections of clients.
    pub(super) connections: Arc<ConnectionCounts>,
}

/// The parts that all workers share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) tls: Tls,
    pub(super) load: Load,
    pub(super) admission: Option<Admission>,
    pub(super) probe_key: Option<ProbeKey>,
    pub(super) presence: Presence,
    pub(super) watchdog: Watchdog,
}

/// Runs a worker on this thread until it has stopped.
///
/// # Errors
///
/// The runtime could not be created, or a listener not be watched; the worker did not start.
pub(super) fn run(parts: WorkerParts, started: Started<()>) -> Result<(), Fault> {
    let fault = |error: io::Error| Fault::runtime(format!("cannot start a worker: {error}"));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(fault)?;
    runtime.block_on(serve(parts, started)).map_err(fault)
}

async fn serve(parts: WorkerParts, started: Started<()>) -> io::Result<()> {
    let (config, shared, counts) = (&parts.config, parts.shared, parts.counts);
    let listeners = (parts.listeners.into_iter())
        .enumerate()
        .map(|(index, listener)| Ok((index, TcpListener::from_std(listener)?)))
        .collect::<io::Result<Vec<_>>>()?;
    // Nothing that follows can fail, and clients wait in the listeners until they are accepted.
    started.report(());
    let timeouts = &config.timeouts;
    let deadlines = Deadlines::new(timeouts.shortest());
    let options = Rc::new(ReplicaOptions {
        may_be_agent: false,
        ends: counts.ends,
        ..ReplicaOptions::new(&config.replica, timeouts, &config.limits)
    });
    let server = Replica::new(shared.tls.target(config), &options, &deadlines);
    let handler = Rc::new(AgentHandler {
        server,
        presence: shared.presence,
        load: shared.load,
        admission: shared.admission,
        probe_path: config.probe_path.as_str().into(),
        probe_key: shared.probe_key,
        counts: counts.requests,
        waits: counts.waits,
        unreadable: counts.unreadable,
        connect: config.connect,
        orca: config.orca,
        reports: config.report_with_responses,
    });
    let settings = ClientSettings {
        counts: counts.connections,
        forwards_certificates: (config.tls.as_ref()).is_some_and(|tls| tls.pass_client_certificate),
        ..ClientSettings::new(timeouts, &config.limits, &config.upgrade_protocols)
    };
    let clients = Clients::new(
        &settings,
        &deadlines,
        &Memory::of_worker(config.workers.get()),
    );
    let swept = Rc::clone(&handler);
    tokio::task::spawn_local(shared.watchdog.heartbeat());
    tokio::task::spawn_local(async move { deadlines.run(|| swept.server.sweep()).await });
    let accept_loop = AcceptLoop {
        clients,
        handler,
        rules: Rules::new(&ForwardedSettings::of_agent(), &config.limits),
        connections: parts.connections,
        phase: parts.phase,
        drain: timeouts.drain,
        drain_idle: timeouts.drain_idle,
    };
    let listeners = listeners
        .into_iter()
        .map(|(index, listener)| BoundListener {
            index,
            listener,
            handshakes: shared.tls.accept(config),
        });
    accept_loop.serve(listeners.collect()).await;
    Ok(())
}
