//! A service as one worker has it: its fleet, the balancer that chooses from it, and connections.
//!
//! A request waits at the `gate` until there is room for it; its `attempts` are each a `flight` to one replica, and
//! `retries` says whether there may be another one. A service is made from its configuration alone and shares nothing with others, so
//! that one can be put in another's place between requests; those that run keep the one that they began with.

mod attempts;
mod availability;
mod counts;
mod flight;
mod gate;
mod prober;
mod retries;
mod sticky;

use crate::config::{Limits, ReplicaConfig, ReplicaProtocol, ServiceConfig};
use crate::fault::Fault;
use crate::forward::{
    Deadlines, Origin, Replica, ReplicaAddress, ReplicaCounts, ReplicaOptions, Target,
};
use crate::health::Health;
use crate::tls::{Client, Connector};
use availability::Availability;
use bytes::Bytes;
use core::future::poll_fn;
use core::net::IpAddr;
use core::time::Duration;
use counts::ServiceCounts;
use flight::Member;
use gate::Gate;
use http::HeaderMap;
use retries::Retries;
use slackwater_core::ReplicaId;
use slackwater_core::policy::Query;
use slackwater_tower::client::{
    Balancer, DriveGuard, InsertError, Lease, Picked, ReplicaAddrs, Round,
};
use std::rc::Rc;
use std::sync::Arc;
use sticky::Sticky;
use tokio::sync::watch;

pub(super) use flight::Flight;

/// What the admin server may look at of one worker's part of a service.
#[derive(Debug)]
pub(super) struct ServiceView {
    pub(super) balancer: Balancer,
    /// What the policy calls each replica, in the order of the configuration.
    pub(super) ids: Vec<ReplicaId>,
    pub(super) counts: Arc<[ReplicaCounts]>,
    pub(super) admission: Arc<ServiceCounts>,
}

/// Which of how many workers this is, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkerPlace {
    pub(super) index: u16,
    pub(super) workers: u16,
}

/// A worker's part of a service.
#[derive(Debug)]
pub(super) struct Service {
    name: Rc<str>,
    balancer: Balancer,
    /// By `id`, lowest first, which is also the order of the configuration.
    members: Vec<Rc<Member>>,
    protocol: ReplicaProtocol,
    /// Absent: there is room for everybody.
    gate: Option<Rc<Gate>>,
    counts: Arc<ServiceCounts>,
    retries: Retries,
    /// Absent: each request stands for itself.
    sticky: Option<Sticky>,
    /// From a request's dispatch to the head of its response, all tries together.
    first_byte: Duration,
    /// Takes replicas that are down out of the choice.
    _availability: Availability,
    /// Sends probes as long as it is there.
    _drive: DriveGuard,
}

impl Service {
    /// A service at work, on the current runtime.
    ///
    /// # Errors
    ///
    /// The system gives no socket for probes, the probes' key or a replica's address cannot be used.
    pub(super) fn start(
        config: &ServiceConfig,
        limits: &Limits,
        deadlines: &Rc<Deadlines>,
        tls: Option<&watch::Receiver<Client>>,
        worker: WorkerPlace,
        health: watch::Receiver<Health>,
    ) -> Result<(Self, ServiceView), Fault> {
        let policy = (config.policy.build)(&config.policy_settings);
        let balancer = Balancer::new(policy, prober::new(config, tls)?);
        let counts: Arc<[ReplicaCounts]> = (config.replicas.iter())
            .map(|_| ReplicaCounts::default())
            .collect();
        let options = ReplicaOptions::new(&config.replica, &config.timeouts, limits);
        let members = members(
            config,
            &Rc::new(options),
            &balancer,
            deadlines,
            &counts,
            tls,
        );
        let members = members.map_err(|error| Fault::usage(error.to_string()))?;
        let availability = Availability::follow(health, balancer.clone(), members.clone());
        let admission = Arc::<ServiceCounts>::default();
        let gate = Gate::new(&config.queue, worker, &admission);
        let retries = Retries::new(&config.retries, draw_seed(), &admission);
        let homes = members.iter().map(|member| (member.id, member.address));
        let sticky = Sticky::new(&config.sticky, homes);
        let view = ServiceView {
            balancer: balancer.clone(),
            ids: members.iter().map(|member| member.id).collect(),
            counts,
            admission: Arc::clone(&admission),
        };
        let service = Self {
            name: config.name.as_str().into(),
            members,
            protocol: config.replica.protocol,
            gate,
            counts: admission,
            retries,
            sticky,
            first_byte: config.timeouts.first_byte,
            _availability: availability,
            _drive: balancer.spawn_drive(),
            balancer,
        };
        Ok((service, view))
    }

    /// What the configuration calls it.
    pub(super) const fn name(&self) -> &Rc<str> {
        &self.name
    }

    /// What happened to its requests before a replica had them.
    pub(super) fn counts(&self) -> &ServiceCounts {
        &self.counts
    }

    /// What its replicas speak.
    pub(super) const fn protocol(&self) -> ReplicaProtocol {
        self.protocol
    }

    /// Whom a request comes from, where that decides who gets it. To be asked before the request is made fit.
    pub(super) fn client(&self, headers: &HeaderMap, origin: &Origin) -> Option<IpAddr> {
        let asks = self.sticky.as_ref().is_some_and(Sticky::is_by_address);
        asks.then(|| origin.client(headers))
    }

    /// Closes connections to replicas that have been idle for too long.
    pub(super) fn sweep(&self) {
        for member in &self.members {
            member.replica.sweep();
        }
    }

    async fn pick(&self, query: Query<'_>) -> Option<Box<Flight>> {
        let lease = match self.balancer.pick(query) {
            Picked::Ready(lease) => lease,
            Picked::NoReplica => return None,
            // In a box, so that the others do not carry its size around.
            Picked::Probing(round) => Box::pin(ask(round, query)).await?,
        };
        let replica = lease.replica();
        let place = self
            .members
            .binary_search_by_key(&replica, |member| member.id);
        let member = Rc::clone(self.members.get(place.ok()?)?);
        Some(Box::new(Flight::new(lease, member)))
    }
}

/// Puts the configured replicas into the balancer, which names them in this order.
fn members(
    config: &ServiceConfig,
    options: &Rc<ReplicaOptions>,
    balancer: &Balancer,
    deadlines: &Rc<Deadlines>,
    counts: &Arc<[ReplicaCounts]>,
    tls: Option<&watch::Receiver<Client>>,
) -> Result<Vec<Rc<Member>>, InsertError> {
    let member = |(index, replica): (usize, &ReplicaConfig)| {
        let id = balancer.insert(ReplicaAddrs {
            query: replica.address,
            probe: replica.probe_address,
        })?;
        Ok(Rc::new(Member {
            id,
            name: replica.name.clone(),
            address: replica.address,
            replica: Replica::new(target(config, replica, tls), options, deadlines),
            counts: Arc::clone(counts),
            index,
        }))
    };
    config.replicas.iter().enumerate().map(member).collect()
}

/// Where a replica is, and what is spoken there: TLS under the name that its certificate is to be for.
fn target(
    config: &ServiceConfig,
    replica: &ReplicaConfig,
    tls: Option<&watch::Receiver<Client>>,
) -> Target {
    let connector = tls.map(|client| {
        Connector::new(
            client.clone(),
            replica.server_name.clone(),
            config.replica.protocol.alpn(),
        )
    });
    Target::new(ReplicaAddress::Tcp(replica.address), connector)
}

/// A start for draws; where the system has no randomness, a fixed one does, for nothing here is a secret.
pub(super) fn draw_seed() -> u64 {
    getrandom::u64().unwrap_or(1)
}

/// Waits for the answers of a synchronous round.
async fn ask(mut round: Round, query: Query<'_>) -> Option<Lease> {
    round.send(&Bytes::new());
    poll_fn(|cx| round.poll_ready(cx)).await;
    round.finish(query)
}
