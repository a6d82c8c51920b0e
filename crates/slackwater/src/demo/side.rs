//! One side of the demo: a fleet, the proxy of `slackwater serve` before it, and the load that is
//! sent to it.
//!
//! The proxy is the real one, in this process on a thread of its own, configured by the text of a
//! file: everything at its default but what the demo has to choose. Both sides are made alike; only
//! the policy differs.

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

/// Idle connections that a proxy keeps to each replica: fewer than by default, because the
/// replicas, the proxies and the load generators all share the descriptors of one process.
const IDLE_CONNECTIONS_MAX: u32 = 16;

/// Connections are kept for as long as a demo can last: one that is closed for having been idle, in
/// the moment in which a request is sent over it, would be counted as that policy's error.
const IDLE: &str = "24h";

/// Requests that take so long are kept, with why they went where they went; those that fail are,
/// too.
const SLOW: &str = "250ms";

/// Longest time that a request may take: long enough that a replica slowed for 3 s shows as
/// latency, not as errors.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a fleet may take to end once nobody sends any more.
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
    /// What the proxy's service is called.
    service: String,
    fleet: Fleet,
    proxy: Proxy,
    live: Live,
    run: Option<load::Run>,
}

/// The load of a side, under way. Dropping it ends it.
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

    /// Why it picked the replicas that it did.
    pub(super) const fn archive(&self) -> Option<&Arc<Archive>> {
        self.proxy.archive()
    }

    /// What there is to see of this side.
    pub(super) fn handles(&self) -> Handles {
        Handles {
            service: self.service.clone(),
            policy: self.policy,
            live: self.live.clone(),
            fleet: self.fleet.watcher(),
            proxy: Arc::clone(self.proxy.status()) as Arc<dyn StatusSource>,
        }
    }

    /// Begins to send, in a task of the current runtime; `stop` ends the schedule early. `None` if
    /// it began before.
    pub(super) fn drive(&mut self, stop: &CancellationToken) -> Option<Driven> {
        let driven = self.run.take()?.drive(stop.clone());
        Some(AbortOnDropHandle::new(tokio::spawn(driven)))
    }

    /// Who balances.
    pub(super) const fn policy(&self) -> &'static PolicyEntry {
        self.policy
    }

    /// What the proxy's service is called.
    pub(super) fn service(&self) -> &str {
        &self.service
    }

    /// Has somebody else balance from now on, by a service of this name: the proxy reads another
    /// configuration. Requests that run stay where they are.
    ///
    /// # Errors
    /// The proxy cannot; then nothing has changed.
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

    /// How far the load has come.
    pub(super) fn elapsed(&self) -> Duration {
        self.live.elapsed()
    }

    /// Asks for another rate from this offset of the load on.
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

/// What a side's service is called: by its policy, told apart from the other side's where that is
/// called so.
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
    // The number decides what a request costs: both sides get the same work.
    plan.number_header = Some(REQUEST_NUMBER);
    load::Run::prepare(plan, RECENT_SECONDS).await
}

/// Read from the text of a file for `slackwater serve`.
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
    // A request that fails is one more in the picture, not a second one elsewhere.
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
