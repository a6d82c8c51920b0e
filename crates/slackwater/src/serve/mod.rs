//! The sub-command `slackwater serve`: a balancing proxy for HTTP/1.1 and HTTP/2.
//!
//! [`run`] is the command: configuration, signals, exit code. [`start`] is the proxy itself, without any state of the
//! process, so that `demo` can run two of them. Requests are carried by `worker`s over the machinery in
//! [`forward`](crate::forward); which service gets one is decided in `routing`, which replica in
//! `service`.

mod routing;
mod service;
mod silence;
mod status;
mod tls;
mod worker;

use crate::access_log::{AccessLog, Switch};
use crate::admin::{self, AdminServer, AdminThread, Lifecycle, StatusSource};
use crate::config::{Config, ListenerConfig, Loaded, Overrides, ReplicaConfig, ServiceConfig};
use crate::fault::Fault;
use crate::forward::{Phase, listen};
use crate::health::{Checked, HealthThread, ServiceChecks};
use crate::process::{Signals, Wish, Wishes, advice_on_port, run_configured};
use crate::supervisor::{self, Pulse};
use crate::upgrade::{Inherited, Passed, Program, Upgrade};
use crate::worker_threads::WorkerThreads;
use core::net::SocketAddr;
use service::WorkerPlace;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use tls::Tls;
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
    run_configured(
        &config.log,
        &remarks,
        config.limits.connections_max,
        serve(&config),
    )
}

async fn serve(config: &Config) -> Result<(), Fault> {
    let mut signals = Signals::new()?;
    let mut wishes = Wishes::new()?;
    let program = Program::of_this_process();
    let mut outside = Outside {
        inherited: Inherited::take()?,
        ..Outside::default()
    };
    let access_log = AccessLog::start(&config.access_log)?;
    outside.access_log = access_log.as_ref().map(|log| log.switch().clone());
    // Before anything is served: whoever asked for an admin server wants to look at what happens.
    let admin_listener = config.admin.listen.map(|address| outside.admin(address));
    let admin_listener = admin_listener.transpose()?;
    let mut running = start(config, &mut outside)?;
    let mut admin = admin_listener
        .map(|listener| running.run_admin(config, listener))
        .transpose()?;
    let announce = outside.inherited.finish()?;
    for service in &config.services {
        tracing::info!(
            service = service.name,
            replicas = service.replicas.len(),
            policy = service.policy.name,
            "balancing"
        );
    }
    for address in running.addresses() {
        tracing::info!(%address, workers = config.workers, "serving");
    }
    match announce {
        Some(announce) => announce.serving(),
        None => supervisor::ready("serving"),
    }
    tokio::spawn(silence::watch(Arc::downgrade(&running.status)));
    tokio::spawn(outside.pulse.watch());

    let mut upgrade = Upgrade::default();
    let succeeded = loop {
        tokio::select! {
            () = signals.next() => break false,
            fault = running.threads.unasked_end() => return Err(fault),
            wish = wishes.next() => match wish {
                Wish::Reopen => outside.access_log.iter().for_each(Switch::reopen),
                Wish::Upgrade => upgrade.begin(&program, running.passed()),
            },
            succeeded = upgrade.ended() => if succeeded {
                break true;
            },
        }
    };
    if succeeded {
        // Its successor answers at the same address; what waits there is its.
        let admin = admin.take();
        tokio::task::spawn_blocking(move || drop(admin));
    } else {
        tracing::info!(drain = ?config.timeouts.drain, "stopping; once more to stop at once");
        supervisor::stopping("finishing what runs");
    }
    running.drain();
    tokio::select! {
        () = signals.next() => running.stop(),
        ended = running.threads.ended() => ended?,
    }
    running.threads.ended().await?;
    drop(admin);
    upgrade.give_up().await;
    tracing::info!("stopped");
    Ok(())
}

/// What a proxy has from outside; by default nothing.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Sockets that listen already.
    pub(crate) inherited: Inherited,
    /// Where requests are logged.
    pub(crate) access_log: Option<Switch>,
    /// Whom workers show signs of life.
    pub(crate) pulse: Pulse,
}

impl Outside {
    fn admin(&mut self, address: SocketAddr) -> Result<TcpListener, Fault> {
        match self.inherited.admin(address) {
            Some(listener) => Ok(listener),
            None => admin::bind(address),
        }
    }

    /// For each worker, its sockets for requests at an address.
    fn requests(
        &mut self,
        address: SocketAddr,
        workers: usize,
    ) -> io::Result<Vec<Vec<TcpListener>>> {
        if let Some(inherited) = self.inherited.requests(address, workers)? {
            return Ok(inherited);
        }
        let opened = listen(address, workers)?;
        Ok(opened.into_iter().map(|listener| vec![listener]).collect())
    }
}

/// The proxy at work. Dropping it stops it at once.
#[derive(Debug)]
pub(crate) struct Running {
    addresses: Vec<SocketAddr>,
    phase: watch::Sender<Phase>,
    lifecycle: Lifecycle,
    status: Arc<status::Workers>,
    /// Clones of all sockets, for a successor; none once the drain has begun.
    passed: Arc<Passed>,
    /// The checks of replicas, and whom they are told to check.
    checks: Option<(HealthThread, Fleets)>,
    threads: WorkerThreads,
}

/// Starts the proxy: when this returns, it takes connections.
///
/// # Errors
///
/// A port is in use or not allowed; the system gives no thread or socket.
pub(crate) fn start(config: &Config, outside: &mut Outside) -> Result<Running, Fault> {
    let config = Arc::new(config.clone());
    let worker_count = usize::from(config.workers.get());
    let mut addresses = Vec::new();
    let mut listeners: Vec<Vec<_>> = (0..worker_count).map(|_| Vec::new()).collect();
    let mut passed = Passed::default();
    for (index, &ListenerConfig { address, .. }) in config.listeners.iter().enumerate() {
        let fault = |error: io::Error| {
            let advice = advice_on_port(&error, "--listen");
            Fault::runtime(format!("cannot listen on {address}: {error}{advice}"))
        };
        let shares = outside.requests(address, worker_count).map_err(fault)?;
        let first = shares.first().and_then(|share| share.first());
        addresses.extend(first.and_then(|listener| listener.local_addr().ok()));
        for (mine, share) in listeners.iter_mut().zip(shares) {
            for listener in share {
                passed.add_requests(address, &listener).map_err(fault)?;
                mine.push((index, listener));
            }
        }
    }
    let tls = Tls::read(&config)?;
    let (phase, phases) = watch::channel(Phase::Serving);
    let mut running = Running {
        addresses,
        phase,
        lifecycle: Lifecycle::default(),
        status: Arc::new(status::Workers {
            config: Arc::clone(&config),
            tls: tls.clone(),
            views: Vec::new(),
            access_log: outside.access_log.clone(),
            health: Vec::new(),
        }),
        passed: Arc::new(passed),
        checks: None,
        threads: WorkerThreads::default(),
    };
    let (fleets, checks) = checks(&config, &tls);
    let (thread, health) = HealthThread::spawn(checks)
        .map_err(|error| Fault::runtime(format!("no thread for health checks: {error}")))?;
    running.checks = Some((thread, fleets));
    let connections = Arc::new(Semaphore::new(config.limits.connections_max as usize));
    let mut views = Vec::with_capacity(worker_count);
    for (index, listeners) in (0..).zip(listeners) {
        let parts = WorkerParts {
            config: Arc::clone(&config),
            listeners,
            tls: tls.clone(),
            access_log: outside.access_log.clone(),
            pulse: outside.pulse.clone(),
            health: health.clone(),
            place: WorkerPlace {
                index,
                workers: config.workers.get(),
            },
            connections: Arc::clone(&connections),
            phase: phases.clone(),
        };
        views.push(running.spawn(parts)?);
    }
    running.status = Arc::new(status::Workers {
        config,
        tls,
        views,
        access_log: outside.access_log.clone(),
        health,
    });
    running.lifecycle.set_serving();
    Ok(running)
}

/// What each service's checks are told of its fleet, in the order of the configuration.
type Fleets = Vec<watch::Sender<Vec<Checked>>>;

/// What is to be checked.
fn checks(config: &Config, tls: &Tls) -> (Fleets, Vec<ServiceChecks>) {
    let checks = |(place, service): (usize, &ServiceConfig)| {
        let checked = |replica: &ReplicaConfig| Checked {
            name: replica.name.clone(),
            address: replica.address,
            server_name: replica.server_name.clone(),
        };
        let fleet = service.replicas.iter().map(checked).collect();
        let (sender, fleet) = watch::channel(fleet);
        let checks = ServiceChecks {
            name: service.name.clone(),
            settings: service.health.clone(),
            protocol: service.replica.protocol,
            tls: tls.client(place),
            fleet,
        };
        (sender, checks)
    };
    config.services.iter().enumerate().map(checks).unzip()
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

    fn run_admin(&mut self, config: &Config, listener: TcpListener) -> Result<AdminThread, Fault> {
        let fault = |error: io::Error| Fault::runtime(format!("admin server: {error}"));
        if let (Some(configured), Some(passed)) =
            (config.admin.listen, Arc::get_mut(&mut self.passed))
        {
            passed.add_admin(configured, &listener).map_err(fault)?;
        }
        let server = AdminServer::new(
            self.status(),
            self.lifecycle().clone(),
            config.admin.connections_max,
        );
        let thread = server.spawn(listener).map_err(fault)?;
        tracing::info!(address = %thread.address(), "status and metrics");
        Ok(thread)
    }

    /// What a successor gets.
    fn passed(&self) -> &Arc<Passed> {
        &self.passed
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
    pub(crate) fn drain(&mut self) {
        // Else the sockets would go on listening when the workers have closed theirs.
        self.passed = Arc::default();
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
