//! One side of the demo: a fleet, the proxy of `slackwater serve` before it, and the load for it.
//!
//! The proxy is the real one. It runs in this process on its own thread and is configured by the
//! text of a file: everything has its default except what the demo must choose. Both sides are set
//! up in the same way; only the policy differs.

use super::fleet::{Addresses, Fleet};
use super::observe::{Handles, RECENT_SECONDS};
use super::replica::World;
use super::replica::service::REQUEST_NUMBER;
use crate::load::{self, Live, Plan};
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_config::Config;
use slackwater_config::Fault;
use slackwater_core::policy::PolicyEntry;
use slackwater_proxy::decisions::Archive;
use slackwater_proxy::record::Recorder;
use slackwater_proxy::{OpenedAnew, Outside, Proxy, lists};
use slackwater_telemetry::facts::StatusSource;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Idle connections that a proxy keeps to each replica: fewer than by default, because replicas,
/// proxies and load generators all share the descriptors of one process.
const IDLE_CONNECTIONS_MAX: u32 = 16;

/// Idle timeout: as long as a demo can last. If a connection were closed as idle at the moment a
/// request is sent on it, that would count as an error of the policy.
const IDLE: &str = "24h";

/// Requests that take this long or longer are kept with their decisions; so are those that fail.
const SLOW: &str = "250ms";

/// Timeout of a request: long enough that a replica that is slowed for 3 s shows as latency, not as
/// errors.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the fleet's shutdown when no more requests are sent.
const SHUTDOWN_PATIENCE: Duration = Duration::from_millis(200);

/// The load for one side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) rate_per_second: f64,
    pub(super) length: Duration,
    pub(super) seed: u64,
}

/// A side that is ready for its load.
#[derive(Debug)]
pub(super) struct Side {
    policy: &'static PolicyEntry,
    /// The name of the proxy's service.
    service: String,
    fleet: Fleet,
    proxy: Proxy,
    live: Live,
    run: Option<load::Run>,
}

/// The running load of a side. Dropping it ends it.
pub(super) type Driven = AbortOnDropHandle<std::io::Result<load::Summary>>;

impl Side {
    /// Starts the fleet, then the proxy; sends nothing yet.
    ///
    /// # Errors
    /// The machine has no port, thread or descriptor left.
    pub(super) async fn start(
        policy: &'static PolicyEntry,
        name: &str,
        world: &World,
        load: Load,
        recorder: Option<Recorder>,
    ) -> Result<Self, Fault> {
        let fleet = Fleet::start(world).await;
        let fleet =
            fleet.map_err(|error| Fault::runtime(format!("cannot start the replicas: {error}")))?;
        let config = config(policy, name, fleet.addresses())?;
        let outside = Outside {
            keeps_decisions: true,
            recorder,
            ..Outside::default()
        };
        let proxy = Proxy::start(&config, lists(&config), outside, &mut OpenedAnew)?;
        let Some(&address) = proxy.addresses().first() else {
            return Err(Fault::runtime("the proxy has no address"));
        };
        let run = prepare(address, load).await;
        let run = run.map_err(|error| {
            Fault::runtime(format!("cannot prepare the load for {address}: {error}"))
        })?;
        Ok(Self {
            policy,
            service: name.to_owned(),
            fleet,
            proxy,
            live: run.live(),
            run: Some(run),
        })
    }

    /// The decisions that are kept: why replicas were picked.
    pub(super) const fn archive(&self) -> Option<&Arc<Archive>> {
        self.proxy.archive()
    }

    /// Returns the handles to this side's figures.
    pub(super) fn handles(&self) -> Handles {
        Handles {
            service: self.service.clone(),
            policy: self.policy,
            live: self.live.clone(),
            fleet: self.fleet.watcher(),
            proxy: Arc::clone(self.proxy.status()) as Arc<dyn StatusSource>,
        }
    }

    /// Starts the load, in a task of the current runtime; `stop` ends the schedule early. `None` if
    /// it was started before.
    pub(super) fn drive(&mut self, stop: &CancellationToken) -> Option<Driven> {
        let driven = self.run.take()?.drive(stop.clone());
        Some(AbortOnDropHandle::new(tokio::spawn(driven)))
    }

    /// The side's policy.
    pub(super) const fn policy(&self) -> &'static PolicyEntry {
        self.policy
    }

    /// The name of the proxy's service.
    pub(super) fn service(&self) -> &str {
        &self.service
    }

    /// Switches to another policy, with a service of this name, by reconfiguring the proxy. Running
    /// requests stay where they are.
    ///
    /// # Errors
    /// The proxy rejected the configuration; then nothing has changed.
    pub(super) async fn set_policy(
        &mut self,
        policy: &'static PolicyEntry,
        name: &str,
    ) -> Result<(), Fault> {
        let config = config(policy, name, self.fleet.addresses())?;
        self.proxy.change(config).await?;
        self.policy = policy;
        name.clone_into(&mut self.service);
        Ok(())
    }

    /// The time since the start of the load.
    pub(super) fn elapsed(&self) -> Duration {
        self.live.elapsed()
    }

    /// Sets another rate from this offset of the load on.
    pub(super) fn set_rate(&self, from: Duration, per_second: f64) {
        self.live.set_rate(from, per_second);
    }

    /// The replicas.
    pub(super) const fn fleet(&mut self) -> &mut Fleet {
        &mut self.fleet
    }

    /// The figures of the load so far.
    pub(super) fn load_summary(&self) -> load::Summary {
        self.live.summary()
    }

    /// Ends proxy and fleet.
    pub(super) async fn shutdown(self) {
        drop(self.proxy);
        self.fleet.shutdown(SHUTDOWN_PATIENCE).await;
    }
}

/// Returns the name of a side's service: its policy, with a suffix if the other side has the same
/// one.
pub(super) fn service_name(side: usize, policy: &PolicyEntry, other: Option<&str>) -> String {
    if other == Some(policy.name) {
        format!("{}_{}", policy.name, side + 1)
    } else {
        policy.name.to_owned()
    }
}

async fn prepare(proxy: SocketAddr, load: Load) -> std::io::Result<load::Run> {
    let target = format!("http://{proxy}/");
    let target = target.parse().map_err(std::io::Error::other)?;
    let mut plan = Plan::new(target, load.rate_per_second, load.length);
    plan.seed = load.seed;
    plan.timeout = TIMEOUT;
    // The number determines the cost of a request: both sides get the same work.
    plan.number_header = Some(REQUEST_NUMBER);
    load::Run::prepare(plan, RECENT_SECONDS).await
}

/// Returns a configuration, read from the text of a file for `slackwater serve`.
fn config(
    policy: &'static PolicyEntry,
    name: &str,
    replicas: impl Iterator<Item = Addresses>,
) -> Result<Config, Fault> {
    let replicas = replicas.map(|replica| {
        let (address, probe) = (replica.requests, replica.probes);
        format!("{{ address = \"{address}\", probe = \"{probe}\" }}")
    });
    let replicas = replicas.collect::<Vec<_>>().join(", ");
    let policy = policy.name;
    // Failed requests are not retried: each must count as one failure, not as a second request
    // elsewhere.
    let text = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\ntimeouts.idle = \"{IDLE}\"\nadmin.listen = \"none\"\n\
         decisions.slower_than = \"{SLOW}\"\ndecisions.failed = true\n\
         [services.{name}]\npolicy = \"{policy}\"\nreplicas = [{replicas}]\n\
         replica.idle_connections_max = {IDLE_CONNECTIONS_MAX}\nretries.methods = \"none\"\n"
    );
    let mut config = Config::of_text("demo", text)?;
    let replicas = config.services.iter_mut().flat_map(|it| &mut it.replicas);
    for (index, replica) in replicas.enumerate() {
        replica.name = format!("replica {index}");
    }
    Ok(config)
}
