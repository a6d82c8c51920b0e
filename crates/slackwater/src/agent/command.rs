//! `slackwater agent` itself: opens its sockets, starts its workers, and shuts down in order.
//!
//! The main thread answers UDP probes, checks the server and waits for signals, so that probes are
//! answered in time however busy the workers are. On a signal the agent first only *reports* that
//! it stops. Balancers receive this in their next probes, and then the listeners close.

use super::checker;
use super::cpu::{learn_from, start_learning};
use super::presence::Presence;
use super::sockets::Sockets;
use super::status::AgentStatus;
use super::tls::Tls;
use super::worker::{self, Shared, WorkerCounts, WorkerParts};
use crate::log::Rounded;
use crate::process::{ProcessSignal, ProcessSignals, Signals, run_configured};
use crate::supervisor;
use crate::upgrade::{Inherited, Program, Upgrade};
use core::pin::{Pin, pin};
use slackwater_admin::{AdminServer, AdminThread};
use slackwater_config::Fault;
use slackwater_config::{AgentConfig, AgentOverrides};
use slackwater_proxy::forward::{Phase, reach};
use slackwater_proxy::worker_threads::WorkerThreads;
use slackwater_telemetry::facts::Lifecycle;
use slackwater_telemetry::state_tracker::StateTracker;
use slackwater_tower::server::admission::{Admission, Peers};
use slackwater_tower::server::{
    HintCache, HintCacheSettings, Load, TrackerConfig, respond_udp, respond_udp_tied,
};
use slackwater_tower::wire::ProbeKey;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

const EXAMPLES: &str = "\
Examples:
  slackwater agent --listen 10.0.0.7:8000 --to 127.0.0.1:80
  slackwater agent --listen 10.0.0.7:8000 --to unix:/run/app.sock --key-file probe.key
  slackwater agent --listen '[fd00::7]:8000' --to localhost:50051 --protocol h2c --workers 2
  slackwater agent --listen 10.0.0.7:8000 --to 127.0.0.1:80 --admin 127.0.0.1:9901
  slackwater agent --config agent.toml

Balancers send requests to --listen instead of to the server, and probes, too: by UDP to the same
port, or by HTTP to /prequal/probe. While the agent cannot connect to the server, it answers probes
as draining and requests with 503. It comes back as soon as a connection succeeds.
SIGTERM and SIGINT: reports draining to probes, serves for --drain-delay, stops accepting
connections, finishes running requests (30 s at most), exits with 0. A second one: exits at once.
SIGUSR2: replaces this process with the current binary and configuration; no connection is dropped.";

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
    let mut process_signals = ProcessSignals::new()?;
    let program = Program::of_this_process();
    let mut inherited = Inherited::take()?;
    let sockets = Sockets::open(&config, &mut inherited)?;
    let passed = Arc::new(sockets.passed);
    let load = load_of(&config);
    let lifecycle = Lifecycle::default();
    let presence = Presence::new(config.to.clone(), load.clone(), lifecycle.clone());
    let tls = Tls::read(&config)?;
    let target = tls.target(&config);
    let connect = async || reach(&target, config.timeouts.connect).await;
    // The first check comes before probes are answered, so that a dead server is never reported as
    // available.
    checker::first_look(&presence, connect).await;

    let key = probe_key(&config)?;
    let peers = peers(&config, key.clone(), &sockets.probes)?;
    let admission = admission(&config, peers);
    let responders = answer_probes(sockets.probes, &load, key.as_ref(), admission.as_ref());
    let watchdog = supervisor::watchdog();
    let shared = Shared {
        load: load.clone(),
        admission: admission.clone(),
        probe_key: key.clone(),
        presence: presence.clone(),
        tls: tls.clone(),
        watchdog: watchdog.clone(),
    };
    let mut workers = Workers::start(&config, sockets.listeners, &shared)?;
    start_learning(&config.server_process, load.clone())?;
    let status = AgentStatus {
        server: config.to.to_string(),
        load,
        presence: presence.clone(),
        admission,
        workers: workers.counts.clone(),
        tls,
        states: StateTracker::default(),
    };
    let mut admin = (sockets.admin)
        .map(|listener| serve_admin(listener, status, &lifecycle, &config))
        .transpose()?;
    lifecycle.set_serving();
    for (address, probes) in sockets.addresses {
        tracing::info!(%address, %probes, server = %config.to, "serving");
    }
    match inherited.finish()? {
        Some(announce) => announce.serving(),
        None => supervisor::ready("serving"),
    }
    tokio::spawn(supervisor::watch(watchdog));

    let mut upgrade = Upgrade::default();
    // The checker runs on this thread until the very end, also while connections are drained.
    let mut looking = pin!(checker::keep_looking(
        &presence,
        config.check_interval,
        connect
    ));
    let succeeded = loop {
        tokio::select! {
            () = &mut looking => (),
            () = signals.next() => break false,
            fault = workers.threads.unasked_end() => return Err(fault),
            signal = process_signals.next() => match signal {
                ProcessSignal::Upgrade => upgrade.begin(&program, &passed),
                ProcessSignal::Reload => tracing::warn!("SIGHUP ignored: an agent cannot reload; SIGUSR2 replaces it"),
                ProcessSignal::Reopen => tracing::info!("SIGUSR1 ignored: an agent has no log files"),
            },
            succeeded = upgrade.ended() => if succeeded {
                break true;
            },
        }
    };
    // Otherwise the listeners would go on queueing connections after they are closed.
    drop(passed);
    if succeeded {
        // The successor answers probes now, and serves status and metrics.
        responders.iter().for_each(JoinHandle::abort);
        let admin = admin.take();
        tokio::task::spawn_blocking(move || drop(admin));
    } else {
        upgrade.give_up().await;
        stop_slowly(&config, &presence, &mut signals, &workers, looking.as_mut()).await;
    }
    workers.enter(Phase::Draining);
    // Another signal ends the drain.
    tokio::select! {
        ended = workers.threads.ended() => ended?,
        () = &mut looking => (),
        () = signals.next() => workers.enter(Phase::Stopped),
    }
    workers.threads.ended().await
}

/// The load of the server, with what it has answered lately.
fn load_of(config: &AgentConfig) -> Load {
    let tracker = TrackerConfig {
        sample_age_max: config.sample_age_max,
        ..TrackerConfig::default()
    };
    let mut builder = Load::builder().tracker(tracker);
    if let Some(entries) = config.hint.entries() {
        builder = builder.hint_cache(HintCache::new(HintCacheSettings {
            entries,
            age: config.hint.age,
            scale: config.hint.load_scale(),
        }));
    }
    learn_from(builder, config.server_process.clone()).build()
}

/// Answers the probes that arrive at these sockets, each socket in a task of its own.
fn answer_probes(
    sockets: Vec<UdpSocket>,
    load: &Load,
    key: Option<&ProbeKey>,
    admission: Option<&Admission>,
) -> Vec<JoinHandle<()>> {
    let answer = |socket| {
        let (load, key, admission) = (load.clone(), key.cloned(), admission.cloned());
        tokio::spawn(async move {
            let error = match admission {
                Some(admission) => respond_udp_tied(socket, load, key, admission).await,
                None => respond_udp(socket, load, key).await,
            };
            tracing::error!(%error, "UDP probes no longer answered");
        })
    };
    sockets.into_iter().map(answer).collect()
}

/// Reports in probe answers that the agent leaves, and keeps running long enough for balancers to
/// notice.
async fn stop_slowly(
    config: &AgentConfig,
    presence: &Presence,
    signals: &mut Signals,
    workers: &Workers,
    looking: Pin<&mut impl Future<Output = ()>>,
) {
    presence.stop();
    supervisor::stopping("finishing running requests");
    tracing::info!(
        delay = %Rounded(config.drain_delay),
        drain = %Rounded(config.timeouts.drain),
        "shutting down: probes report draining; signal again to exit immediately"
    );
    tokio::select! {
        () = looking => (),
        () = tokio::time::sleep(config.drain_delay) => (),
        () = signals.next() => workers.enter(Phase::Stopped),
    }
}

fn probe_key(config: &AgentConfig) -> Result<Option<ProbeKey>, Fault> {
    let key = config.probe_key.as_ref();
    key.map(|key| ProbeKey::from_bytes(key.as_bytes()))
        .transpose()
        .map_err(|error| Fault::usage(error.to_string()))
}

/// The queue before the server; `None` if all requests go there at once.
fn admission(config: &AgentConfig, peers: Option<Peers>) -> Option<Admission> {
    let limit = config.queue.concurrency_limit()?;
    let queue = config.queue.queue.clone();
    Some(match peers {
        None => Admission::new(queue, limit),
        Some(peers) => Admission::tied(queue, limit, peers),
    })
}

/// The peers that share tied requests with this agent. Messages to them leave from the sockets that
/// answer probes. `None` if no requests are shared.
fn peers(
    config: &AgentConfig,
    key: Option<ProbeKey>,
    sockets: &[UdpSocket],
) -> Result<Option<Peers>, Fault> {
    if config.peers.is_empty() {
        return Ok(None);
    }
    let networks = config.peers.clone();
    let is_peer = move |address| networks.iter().any(|network| network.contains(address));
    let peers = Peers::new(config.queue.ties(), key, is_peer);
    let peers = sockets.iter().try_fold(peers, Peers::speak_by);
    let fault = |error| Fault::runtime(format!("cannot speak to peers: {error}"));
    peers.map(Some).map_err(fault)
}

fn serve_admin(
    listener: TcpListener,
    status: AgentStatus,
    lifecycle: &Lifecycle,
    config: &AgentConfig,
) -> Result<AdminThread, Fault> {
    let connections_max = config.admin.connections_max;
    let thread = AdminServer::new(Arc::new(status), lifecycle.clone(), connections_max)
        .dashboard()
        .spawn(listener)
        .map_err(|error| Fault::runtime(format!("admin server: cannot start: {error}")))?;
    tracing::info!(address = %thread.address(), "status and metrics");
    Ok(thread)
}

/// The threads that carry requests.
struct Workers {
    phase: watch::Sender<Phase>,
    counts: Vec<WorkerCounts>,
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
            let counts = WorkerCounts::default();
            workers.counts.push(counts.clone());
            let parts = WorkerParts {
                config: Arc::clone(config),
                listeners,
                shared: shared.clone(),
                counts,
                connections: Arc::clone(&connections),
                phase: phases.clone(),
            };
            (workers.threads).spawn(move |started| worker::run(parts, started))?;
        }
        Ok(workers)
    }

    /// Enters a phase. Phases only go forward.
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

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_config::toml_reader::Source;
    use std::fs::File;
    use std::os::fd::OwnedFd;

    /// A socket that no runtime can watch: it is a file.
    fn unwatchable() -> TcpListener {
        let file = File::open("Cargo.toml").expect("the folder of the crate");
        let listener = TcpListener::from(OwnedFd::from(file));
        listener.set_nonblocking(true).expect("a flag");
        listener
    }

    #[tokio::test]
    async fn an_agent_whose_worker_cannot_start_does_not_serve() {
        let text = "listen = '127.0.0.1:1'\nto = '127.0.0.1:2'\n".to_owned();
        let source = Source::new("a.toml".into(), text);
        let loaded = AgentConfig::load_source(Some(&source), &AgentOverrides::default());
        let config = Arc::new(loaded.expect("valid").config);
        let load = load_of(&config);
        let shared = Shared {
            presence: Presence::new(config.to.clone(), load.clone(), Lifecycle::default()),
            load,
            admission: None,
            probe_key: None,
            tls: Tls::read(&config).expect("none"),
            watchdog: supervisor::watchdog(),
        };
        let started = Workers::start(&config, vec![vec![unwatchable()]], &shared);
        let fault = started
            .map(drop)
            .expect_err("its listener cannot be watched");
        assert!(
            fault.to_string().starts_with("cannot start a worker"),
            "{fault}"
        );
    }
}
