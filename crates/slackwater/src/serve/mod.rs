//! The sub-command `slackwater serve`: a balancing proxy for HTTP/1.1 and HTTP/2.
//!
//! [`run`] is the command: configuration, signals, exit code. [`start`] is the proxy itself, without any state of the
//! process, so that `demo` can run two of them. Requests are carried by `worker`s over the machinery in
//! [`forward`](crate::forward); which service gets one is decided in `routing`, which replica in
//! `service`.

mod routing;
mod service;
mod silence;
mod sources;
mod status;
mod worker;

use crate::admin::{self, AdminServer, AdminThread, Lifecycle, StatusSource};
use crate::config::{Config, ListenerConfig, Loaded, Overrides};
use crate::discovery::Discovery;
use crate::fault::Fault;
use crate::forward::{Phase, listen};
use crate::process::{Signals, advice_on_port, run_configured};
use crate::worker_threads::WorkerThreads;
use core::net::SocketAddr;
use service::WorkerPlace;
pub(crate) use sources::lists;
use status::ServiceParts;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use tokio::sync::{Semaphore, watch};
use worker::{WorkerParts, WorkerView};

const EXAMPLES: &str = "\
Examples:
  slackwater serve --listen 127.0.0.1:8080 --replicas 10.0.0.1:80,10.0.0.2:80
  slackwater serve --listen '[::]:8080' --replicas a:80,b:80 --policy round_robin --probe none
  slackwater serve --config slackwater.toml --workers 4

Replicas are asked for their load by UDP at their own port; put `slackwater agent` before those that cannot answer.
SIGTERM and SIGINT: takes no new connections, finishes what runs (30 s at most), exits with 0. A second one: at once.";

/// Arguments of `slackwater serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration file; flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Runs `slackwater serve`.
pub(crate) fn run(args: Args) -> Result<(), Fault> {
    let Args { config, overrides } = args;
    let Loaded { config, remarks } = Config::load(config.as_deref(), &overrides)?;
    run_configured(&remarks, config.limits.connections_max, serve(&config))
}

async fn serve(config: &Config) -> Result<(), Fault> {
    let mut signals = Signals::new()?;
    // Before anything is served: whoever asked for an admin server wants to look at what happens.
    let admin_listener = config.admin.listen.map(admin::bind).transpose()?;
    let fleets = sources::find(config).await?;
    let mut running = start(config, fleets)?;
    let _admin = admin_listener
        .map(|listener| run_admin(config, &running, listener))
        .transpose()?;
    for service in running.status.services().iter() {
        tracing::info!(
            service = service.config.name,
            replicas = service.discovery.fleet().len(),
            from = service.discovery.state().source,
            policy = service.config.policy.name,
            "balancing"
        );
    }
    for address in running.addresses() {
        tracing::info!(%address, workers = config.workers, "serving");
    }
    tokio::spawn(silence::watch(Arc::downgrade(&running.status)));
    tokio::select! {
        () = signals.next() => (),
        fault = running.threads.unasked_end() => return Err(fault),
    }
    tracing::info!(drain = ?config.timeouts.drain, "stopping; once more to stop at once");
    running.drain();
    tokio::select! {
        () = signals.next() => running.stop(),
        ended = running.threads.ended() => ended?,
    }
    running.threads.ended().await?;
    tracing::info!("stopped");
    Ok(())
}

fn run_admin(
    config: &Config,
    running: &Running,
    listener: std::net::TcpListener,
) -> Result<AdminThread, Fault> {
    let server = AdminServer::new(
        running.status(),
        running.lifecycle().clone(),
        config.admin.connections_max,
    );
    let thread = server
        .spawn(listener)
        .map_err(|error| Fault::runtime(format!("admin server: {error}")))?;
    tracing::info!(address = %thread.address(), "status and metrics");
    Ok(thread)
}

/// The proxy at work. Dropping it stops it at once.
#[derive(Debug)]
pub(crate) struct Running {
    addresses: Vec<SocketAddr>,
    phase: watch::Sender<Phase>,
    lifecycle: Lifecycle,
    status: Arc<status::Workers>,
    threads: WorkerThreads,
}

/// Starts the proxy: when this returns, it takes connections. `fleets` are those of the configuration's services, in its
/// order.
///
/// # Errors
///
/// A port is in use or not allowed; the system gives no thread or socket.
pub(crate) fn start(config: &Config, fleets: Vec<Arc<Discovery>>) -> Result<Running, Fault> {
    let config = Arc::new(config.clone());
    let worker_count = usize::from(config.workers.get());
    let mut addresses = Vec::new();
    let mut listeners: Vec<Vec<_>> = (0..worker_count).map(|_| Vec::new()).collect();
    for &ListenerConfig { address, .. } in &config.listeners {
        let opened = listen(address, worker_count).map_err(|error| {
            let advice = advice_on_port(&error, "--listen");
            Fault::runtime(format!("cannot listen on {address}: {error}{advice}"))
        })?;
        addresses.extend(
            opened
                .first()
                .and_then(|listener| listener.local_addr().ok()),
        );
        for (mine, listener) in listeners.iter_mut().zip(opened) {
            mine.push(listener);
        }
    }
    let (phase, phases) = watch::channel(Phase::Serving);
    let mut running = Running {
        addresses,
        phase,
        lifecycle: Lifecycle::default(),
        status: Arc::default(),
        threads: WorkerThreads::default(),
    };
    let connections = Arc::new(Semaphore::new(config.limits.connections_max as usize));
    let mut views = Vec::with_capacity(worker_count);
    for (index, listeners) in (0..).zip(listeners) {
        let parts = WorkerParts {
            config: Arc::clone(&config),
            fleets: (fleets.iter())
                .map(|discovery| discovery.fleets().subscribe())
                .collect(),
            listeners,
            place: WorkerPlace {
                index,
                workers: config.workers.get(),
            },
            connections: Arc::clone(&connections),
            phase: phases.clone(),
        };
        views.push(running.spawn(parts)?);
    }
    let services = config.services.iter().zip(fleets).enumerate();
    let services = services.map(|(index, (service, discovery))| ServiceParts {
        config: Arc::new(service.clone()),
        discovery,
        views: (views.iter())
            .filter_map(|view| view.services.get(index).cloned())
            .collect(),
    });
    running.status.set_services(services.collect());
    running.lifecycle.set_serving();
    Ok(running)
}

impl Running {
    fn spawn(&mut self, parts: WorkerParts) -> Result<WorkerView, Fault> {
        let (ready, began) = mpsc::sync_channel(1);
        self.threads.spawn(move || {
            worker::run(parts, move |view| {
                let _ = ready.send(view);
            });
            Ok(())
        })?;
        began
            .recv()
            .map_err(|_| Fault::runtime("a worker ended before it began"))?
    }

    /// Where it listens; port 0 has become the port that the system chose.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What it knows, for the admin server or the dashboard.
    pub(crate) fn status(&self) -> Arc<dyn StatusSource> {
        Arc::clone(&self.status) as Arc<dyn StatusSource>
    }

    /// Where it is in its life.
    pub(crate) const fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Takes no new connections; requests that run have `timeouts.drain` to finish.
    pub(crate) fn drain(&self) {
        self.lifecycle.set_draining();
        self.phase
            .send_modify(|phase| *phase = (*phase).max(Phase::Draining));
    }

    /// Cuts off whatever still runs.
    pub(crate) fn stop(&self) {
        self.lifecycle.set_draining();
        self.phase.send_modify(|phase| *phase = Phase::Stopped);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        self.threads.join();
    }
}
