//! `slackwater agent` itself: opens its sockets, starts its workers, and ends in order.
//!
//! The main thread answers UDP probes, looks after the server and waits for signals, so that probes are answered in time
//! however busy the workers are. On a signal the agent first only *says* that it stops; balancers hear it by their next
//! probes, and then the listeners close.

use super::checker;
use super::presence::Presence;
use super::sockets::Sockets;
use super::status::AgentStatus;
use super::tls::Tls;
use super::worker::{self, Shared, WorkerParts};
use crate::admin::{AdminServer, AdminThread, Lifecycle};
use crate::config::{AgentConfig, AgentOverrides};
use crate::fault::Fault;
use crate::forward::{Phase, ReplicaCounts, reach};
use crate::process::{Signals, Wish, Wishes, run_configured};
use crate::supervisor::{self, Pulse};
use crate::worker_threads::WorkerThreads;
use slackwater_tower::server::{Load, TrackerConfig, respond_udp};
use slackwater_tower::wire::ProbeKey;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

const EXAMPLES: &str = "\
Examples:
  slackwater agent --listen 10.0.0.7:8000 --to 127.0.0.1:80
  slackwater agent --listen 10.0.0.7:8000 --to unix:/run/app.sock --key-file probe.key
  slackwater agent --listen '[fd00::7]:8000' --to localhost:50051 --protocol h2c --workers 2
  slackwater agent --listen 10.0.0.7:8000 --to 127.0.0.1:80 --admin 127.0.0.1:9901
  slackwater agent --config agent.toml

Balancers send requests to --listen instead of to the server, and probes, too: by UDP to the same
port, or by HTTP to /prequal/probe. When the server cannot be connected to, probes say so, requests
get 503, and the agent comes back by itself as soon as a connection succeeds.
SIGTERM and SIGINT: says so to probes, serves for --drain-delay, takes no new connections,
finishes what runs (30 s at most), exits with 0. A second one: at once.";

/// Arguments of `slackwater agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration file; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: AgentOverrides,
}

/// Runs `slackwater agent`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let Args { config, overrides } = args;
    let loaded = AgentConfig::load(config.as_deref(), &overrides)?;
    let connections_max = loaded.config.limits.connections_max;
    let log = loaded.config.log.clone();
    run_configured(
        &log,
        &loaded.remarks,
        connections_max,
        serve(Arc::new(loaded.config)),
    )
}

async fn serve(config: Arc<AgentConfig>) -> Result<(), Fault> {
    let mut signals = Signals::new()?;
    tokio::spawn(decline(Wishes::new()?));
    let sockets = Sockets::open(&config)?;
    let tracker = TrackerConfig {
        sample_age_max: config.sample_age_max,
        ..TrackerConfig::default()
    };
    let load = Load::builder().tracker(tracker).build();
    let lifecycle = Lifecycle::default();
    let presence = Presence::new(config.to.clone(), load.clone(), lifecycle.clone());
    let tls = Tls::read(&config)?;
    let target = tls.target(&config);
    let connect = async || reach(&target, config.timeouts.connect).await;
    checker::first_look(&presence, connect).await;

    let key = probe_key(&config)?;
    for socket in sockets.probes {
        let (load, key) = (load.clone(), key.clone());
        tokio::spawn(async move {
            let error = respond_udp(socket, load, key).await;
            tracing::error!(%error, "probes are no longer answered by UDP");
        });
    }
    let pulse = Pulse::default();
    let shared = Shared {
        load: load.clone(),
        probe_key: key.clone(),
        presence: presence.clone(),
        tls: tls.clone(),
        pulse: pulse.clone(),
    };
    let mut workers = Workers::start(&config, sockets.listeners, &shared)?;
    let status = AgentStatus {
        server: config.to.to_string(),
        load,
        counts: workers.counts.clone(),
        tls,
    };
    let _admin = (sockets.admin)
        .map(|listener| serve_admin(listener, status, &lifecycle, &config))
        .transpose()?;
    lifecycle.set_serving();
    for (address, probes) in sockets.addresses {
        tracing::info!(%address, %probes, server = %config.to, "serving");
    }
    supervisor::ready("serving");
    tokio::spawn(pulse.watch());

    tokio::select! {
        () = checker::keep_looking(&presence, config.check_interval, connect) => (),
        () = signals.next() => (),
        fault = workers.threads.unasked_end() => return Err(fault),
    }
    presence.stop();
    supervisor::stopping("finishing what runs");
    tracing::info!(
        delay = ?config.drain_delay,
        drain = ?config.timeouts.drain,
        "stopping: probes say so; once more to stop at once"
    );
    tokio::select! {
        () = checker::keep_looking(&presence, config.check_interval, connect) => (),
        () = tokio::time::sleep(config.drain_delay) => (),
        () = signals.next() => workers.enter(Phase::Stopped),
    }
    workers.enter(Phase::Draining);
    tokio::select! {
        ended = workers.threads.ended() => return ended,
        () = checker::keep_looking(&presence, config.check_interval, connect) => (),
        () = signals.next() => workers.enter(Phase::Stopped),
    }
    workers.threads.ended().await
}

/// Hears the signals that `serve` knows and an agent does not: left alone they would end it in the midst of its requests.
async fn decline(mut wishes: Wishes) {
    loop {
        match wishes.next().await {
            Wish::Reload => tracing::warn!("an agent reads its configuration once; restart it"),
            Wish::Reopen => tracing::info!("an agent has no files of logs"),
            Wish::Upgrade => tracing::warn!("an agent cannot be upgraded in place; restart it"),
        }
    }
}

fn probe_key(config: &AgentConfig) -> Result<Option<ProbeKey>, Fault> {
    let key = config.probe_key.as_ref();
    key.map(|key| ProbeKey::from_bytes(key.as_bytes()))
        .transpose()
        .map_err(|error| Fault::usage(error.to_string()))
}

fn serve_admin(
    listener: TcpListener,
    status: AgentStatus,
    lifecycle: &Lifecycle,
    config: &AgentConfig,
) -> Result<AdminThread, Fault> {
    let connections_max = config.admin.connections_max;
    let thread = AdminServer::new(Arc::new(status), lifecycle.clone(), connections_max)
        .spawn(listener)
        .map_err(|error| Fault::runtime(format!("admin server: cannot start: {error}")))?;
    tracing::info!(address = %thread.address(), "status and metrics");
    Ok(thread)
}

/// The threads that carry requests.
struct Workers {
    phase: watch::Sender<Phase>,
    counts: Vec<Arc<ReplicaCounts>>,
    threads: WorkerThreads,
}

impl Workers {
    fn start(
        config: &Arc<AgentConfig>,
        listeners: Vec<Vec<TcpListener>>,
        shared: &Shared,
    ) -> Result<Self, Fault> {
        let (phase, phases) = watch::channel(Phase::Serving);
        let connections = Arc::new(Semaphore::new(config.limits.connections_max as usize));
        let mut workers = Self {
            phase,
            counts: Vec::new(),
            threads: WorkerThreads::default(),
        };
        for listeners in listeners {
            let counts = Arc::new(ReplicaCounts::default());
            workers.counts.push(Arc::clone(&counts));
            let parts = WorkerParts {
                config: Arc::clone(config),
                listeners,
                shared: shared.clone(),
                counts,
                connections: Arc::clone(&connections),
                phase: phases.clone(),
            };
            workers.threads.spawn(move || worker::run(parts))?;
        }
        Ok(workers)
    }

    /// Phases only go forward.
    fn enter(&self, phase: Phase) {
        self.phase.send_modify(|now| *now = (*now).max(phase));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.enter(Phase::Stopped);
        self.threads.join();
    }
}
