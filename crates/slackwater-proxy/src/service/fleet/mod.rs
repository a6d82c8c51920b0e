//! The replicas of a service in one worker: which ones the policy may pick, and what happens when
//! one joins or leaves.
//!
//! A replica that leaves is not picked from that moment on. Its requests run to their end on their
//! connections, idle connections are closed, and its memory is freed with the last request. A
//! replica that joins warms up, unless it left a moment ago; in that case it gets its counts and
//! its whole share back. If only the probe address changes, or if its zone becomes the own one, the
//! replica keeps its connections but is new to the policy. If the name in its certificate changes,
//! it keeps everything except its connections.
//!
//! The policy sees a replica as a number of parts, given by its weight (`weights`); with a weight
//! of 0 there is none. A change of the weight adds or removes some parts, and the other parts keep
//! their state. Of several tiers, one is in use (`tiers`).
//!
//! | | file |
//! |---|---|
//! | one replica | `replica` |
//! | weights, tiers | `weights`, `tiers` |
//! | orders of the operator: drained, another weight | `orders` |
//! | which replicas may be picked, and why others may not | `availability`, `absent` |
//! | sticky requests | `sticky` |
//! | requests in flight, whatever the policy knows of them | `in_flight` |
//! | transport of probes | `prober` |

mod absent;
pub(crate) mod availability;
mod in_flight;
pub mod orders;
pub(crate) mod prober;
mod replica;
mod sticky;
mod tiers;
mod weights;

pub(crate) use in_flight::InFlightCounts;
pub(crate) use replica::FleetReplica;
pub(crate) use sticky::Sticky;
pub(crate) use tiers::TierInUse;

use crate::forward::{Deadlines, Replica, ReplicaCounts, ReplicaOptions, Target};
use crate::health::{Health, Verdict};
use crate::service::admission::{ReplicaLimiters, ServiceCounts};
use crate::tls::Connector;
use absent::AbsentReplicas;
use core::cell::{Cell, RefCell};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use orders::Orders;
use slackwater_config::ReplicaAddress;
use slackwater_config::ReplicaConfig;
use slackwater_config::ZoneSettings;
use slackwater_config::tls::Client;
use slackwater_core::ReplicaId;
use slackwater_core::policy::Explanation;
use slackwater_discovery::Fleet;
use slackwater_recording::Stream;
use slackwater_tower::client::{Balancer, ReplicaAddrs};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use tiers::TierCandidate;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A replica that returns within this time does not count as new.
const RETURN_MAX: Duration = Duration::from_mins(1);

/// The replicas for the admin server. Locked only when it asks, or when the fleet changes.
pub(crate) type Roster = Arc<Mutex<BTreeMap<SocketAddr, RosterEntry>>>;

/// A replica for the admin server.
#[derive(Clone, Debug)]
pub(crate) struct RosterEntry {
    /// The policy's ids of its parts.
    pub(crate) ids: Vec<ReplicaId>,
    pub(crate) counts: Arc<ReplicaCounts>,
}

/// A part's id, and its replica.
type Named = Option<(ReplicaId, Rc<FleetReplica>)>;

/// A replica that sticky requests may go to.
#[derive(Clone, Debug)]
pub(crate) struct StickyTarget {
    pub(crate) address: SocketAddr,
    /// The policy's ids of its parts; at least one.
    pub(crate) parts: Vec<ReplicaId>,
    /// Whether its tier is in use, and it is not drained.
    is_in_use: bool,
}

/// The replicas of a worker's part of a service.
#[derive(Debug)]
pub(crate) struct WorkerFleet {
    balancer: Balancer,
    options: Rc<ReplicaOptions>,
    deadlines: Rc<Deadlines>,
    warm_up: Cell<Duration>,
    by_address: RefCell<BTreeMap<SocketAddr, Rc<FleetReplica>>>,
    /// By the index of their parts.
    by_index: RefCell<Vec<Named>>,
    roster: Roster,
    health: watch::Receiver<Health>,
    orders: watch::Receiver<Arc<Orders>>,
    /// The zone of this process.
    zone: ZoneSettings,
    /// Counts of the service's requests, among them those that leave the zone.
    admission: Arc<ServiceCounts>,
    in_flight: InFlightCounts,
    /// Whether any replica of the fleet is drained.
    any_drained: Cell<bool>,
    /// `None` if connections are plain.
    tls: Option<watch::Receiver<Client>>,
    /// Replicas that left a moment ago.
    left: RefCell<BTreeMap<SocketAddr, Left>>,
    /// `None` if requests at single replicas are not limited.
    replica_limiters: Option<Rc<ReplicaLimiters>>,
    /// The recording of the policy's inputs.
    recording: Option<Stream>,
    /// The highest tier of the fleet.
    tier_max: Cell<u8>,
    /// Notified when `tier_max` may have changed.
    tiers_changed: Notify,
    /// The tier in use; `None` for any.
    tier: Arc<TierInUse>,
    /// Replicas that are down or drained, to explain picks.
    absent: RefCell<AbsentReplicas>,
}

/// A replica that left.
#[derive(Debug)]
struct Left {
    at: Instant,
    /// Since when it had no weight.
    rests_since: Instant,
    counts: Arc<ReplicaCounts>,
}

impl WorkerFleet {
    /// Makes an empty fleet.
    pub(crate) fn new(
        balancer: Balancer,
        options: ReplicaOptions,
        deadlines: &Rc<Deadlines>,
        (health, orders): (watch::Receiver<Health>, watch::Receiver<Arc<Orders>>),
        tls: Option<watch::Receiver<Client>>,
        replica_limiters: Option<Rc<ReplicaLimiters>>,
        recording: Option<Stream>,
    ) -> Self {
        Self {
            balancer,
            options: Rc::new(options),
            deadlines: Rc::clone(deadlines),
            warm_up: Cell::default(),
            by_address: RefCell::default(),
            by_index: RefCell::default(),
            roster: Roster::default(),
            health,
            orders,
            zone: ZoneSettings::default(),
            admission: Arc::default(),
            in_flight: InFlightCounts::default(),
            any_drained: Cell::default(),
            tls,
            left: RefCell::default(),
            replica_limiters,
            recording,
            tier_max: Cell::default(),
            tiers_changed: Notify::new(),
            tier: Arc::default(),
            absent: RefCell::default(),
        }
    }

    /// Puts this process into a zone. Requests that leave it are counted in `admission`.
    pub(crate) fn in_zone(self, zone: &ZoneSettings, admission: &Arc<ServiceCounts>) -> Self {
        Self {
            zone: zone.clone(),
            admission: Arc::clone(admission),
            ..self
        }
    }

    /// Shares its counts of requests in flight with other instances of the service.
    pub(crate) fn counting_in_flight(self, in_flight: InFlightCounts) -> Self {
        Self { in_flight, ..self }
    }

    pub(crate) fn roster(&self) -> Roster {
        Arc::clone(&self.roster)
    }

    pub(crate) fn tier(&self) -> Arc<TierInUse> {
        Arc::clone(&self.tier)
    }

    /// The recording of the policy's inputs.
    pub(crate) const fn recording(&self) -> Option<&Stream> {
        self.recording.as_ref()
    }

    /// Sets the warm-up time of replicas that join from now on.
    pub(crate) fn set_warm_up(&self, span: Duration) {
        self.warm_up.set(span);
    }

    /// Finds the replica that has a part with that id, while it is in the fleet.
    #[inline]
    pub(crate) fn find(&self, id: ReplicaId) -> Option<Rc<FleetReplica>> {
        let by_index = self.by_index.borrow();
        let (named, replica) = by_index.get(id.index())?.as_ref()?;
        (*named == id).then(|| Rc::clone(replica))
    }

    /// Returns the policy's id of a part of the replica at that address.
    pub(crate) fn part_at(&self, address: SocketAddr) -> Option<ReplicaId> {
        let by_address = self.by_address.borrow();
        by_address.get(&address)?.parts.first().copied()
    }

    /// Retires the connections: no replica will be picked any more.
    pub(crate) fn retire(&self) {
        for replica in self.by_address.borrow().values() {
            replica.connections.retire();
        }
    }

    /// Excludes replicas that are down or whose tier is not in use, and includes the others again.
    /// Returns whether another tier is in use now.
    pub(crate) fn update_availability(&self) -> bool {
        let is_new = self.choose_tier();
        self.settle_all();
        is_new
    }

    /// Checks whether another tier is in use now, because of replicas' reports or missing reports.
    fn look_at_tiers(&self) -> bool {
        let is_new = self.choose_tier();
        if is_new {
            self.settle_all();
        }
        is_new
    }

    /// Waits until there are several tiers.
    async fn several_tiers(&self) {
        while self.tier_max.get() == 0 {
            self.tiers_changed.notified().await;
        }
    }

    fn settle_all(&self) {
        let by_address = self.by_address.borrow();
        let mut absent = self.absent.borrow_mut();
        absent.clear();
        for replica in by_address.values() {
            self.settle(replica);
            absent.add(&replica.parts, self.why_absent(&replica.config));
        }
    }

    /// Returns why the operator, or a health check, has excluded a replica; `None` if neither has.
    fn why_absent(&self, config: &ReplicaConfig) -> Option<&'static str> {
        if is_down(&self.health.borrow(), config.address) {
            Some("down")
        } else {
            self.is_drained(config).then_some("drained")
        }
    }

    /// Adds to an explanation why replicas are excluded here.
    pub(crate) fn explain_absent(&self, explanation: &mut Explanation) {
        self.absent.borrow().explain(explanation);
    }

    fn settle(&self, replica: &FleetReplica) {
        let may_be_chosen = self.may_choose(replica);
        for &part in &replica.parts {
            self.balancer.set_available(part, may_be_chosen);
        }
        let was_included = replica.was_included.replace(may_be_chosen);
        if may_be_chosen
            && !was_included
            && !replica.parts.is_empty()
            && let Some(limiter) = &replica.replica_limiter
        {
            limiter.grant_waiting();
        }
    }

    /// Whether a replica is not excluded.
    pub(crate) fn may_choose(&self, replica: &FleetReplica) -> bool {
        let tier = self.tier.read();
        let is_in_use = tier.is_none_or(|tier| tier == replica.config.tier);
        is_in_use && self.why_absent(&replica.config).is_none()
    }

    /// Whether the operator has drained a replica. While none is drained, this only reads a flag.
    #[inline]
    pub(crate) fn is_drained(&self, config: &ReplicaConfig) -> bool {
        self.any_drained.get() && self.orders.borrow().is_drained(config)
    }

    /// The policy's ids of the parts of drained replicas.
    pub(crate) fn drained_parts(&self) -> Vec<ReplicaId> {
        let by_address = self.by_address.borrow();
        let drained = by_address
            .values()
            .filter(|replica| self.is_drained(&replica.config));
        drained.flat_map(|replica| replica.parts.clone()).collect()
    }

    /// Chooses the tier in use. Returns whether it has changed.
    fn choose_tier(&self) -> bool {
        if self.tier_max.get() == 0 {
            return self.tier.set(Some(0));
        }
        let snapshot = self.balancer.snapshot();
        let views: BTreeMap<_, _> = (snapshot.replicas.iter())
            .map(|view| (view.replica, view))
            .collect();
        let health = self.health.borrow();
        let by_address = self.by_address.borrow();
        let weighted = by_address.values().filter(|it| !it.parts.is_empty());
        let standings: Vec<_> = weighted
            .map(|replica| {
                let views = || replica.parts.iter().filter_map(|part| views.get(part));
                TierCandidate {
                    tier: replica.config.tier,
                    is_down: is_down(&health, replica.config.address),
                    is_draining: self.is_drained(&replica.config)
                        || views().any(|view| view.draining),
                    is_lost: views().all(|view| view.lost),
                }
            })
            .collect();
        self.tier.set(tiers::active(&standings))
    }

    /// The replicas that have a weight, in the order of their addresses.
    pub(crate) fn homes(&self) -> Vec<StickyTarget> {
        let by_address = self.by_address.borrow();
        let weighted = by_address.values().filter(|it| !it.parts.is_empty());
        let tier = self.tier.read();
        weighted
            .map(|replica| StickyTarget {
                address: replica.config.address,
                parts: replica.parts.clone(),
                is_in_use: tier.is_none_or(|tier| tier == replica.config.tier)
                    && !self.is_drained(&replica.config),
            })
            .collect()
    }

    /// Number of replicas that have a weight.
    pub(crate) fn count(&self) -> usize {
        let by_address = self.by_address.borrow();
        by_address
            .values()
            .filter(|it| !it.parts.is_empty())
            .count()
    }

    /// Closes connections that have been idle for too long.
    pub(crate) fn sweep(&self) {
        for replica in self.by_address.borrow().values() {
            replica.connections.sweep();
        }
    }

    /// Changes the fleet to the replicas of `next`, with the operator's orders.
    pub(crate) fn apply(&self, next: &Fleet) {
        let now = Instant::now();
        let mut left = self.left.borrow_mut();
        left.retain(|_, left| now.saturating_duration_since(left.at) < RETURN_MAX);
        let orders = Arc::clone(&self.orders.borrow());
        let replicas = orders.weighted(next);
        let is_drained = |config: &ReplicaConfig| orders.is_drained(config);
        self.any_drained.set(replicas.iter().any(is_drained));
        let kept: BTreeSet<_> = replicas.iter().map(|config| config.address).collect();
        let gone = self.by_address.borrow().keys().copied().collect::<Vec<_>>();
        for address in gone.into_iter().filter(|address| !kept.contains(address)) {
            if let Some(replica) = self.by_address.borrow_mut().remove(&address) {
                self.set_parts(&replica, 0, Duration::ZERO);
                lock(&self.roster).remove(&address);
                replica.connections.retire();
                let before = Left {
                    at: now,
                    rests_since: replica.resting_since.unwrap_or(now),
                    counts: Arc::clone(&replica.counts),
                };
                left.insert(address, before);
            }
        }
        let weights: Vec<_> = replicas.iter().map(|config| config.weight).collect();
        for (config, parts) in replicas.iter().zip(weights::parts(&weights)) {
            let before = self.by_address.borrow().get(&config.address).map(Rc::clone);
            match before {
                Some(replica) => self.alter(&replica, config, parts, now),
                None => self.join(config, parts, left.remove(&config.address), now),
            }
        }
        let tiers = replicas.iter().filter(|config| config.weight > 0);
        self.tier_max
            .set(tiers.map(|config| config.tier).max().unwrap_or(0));
        self.in_flight.sweep();
        self.tiers_changed.notify_one();
        self.update_availability();
    }

    fn join(&self, config: &ReplicaConfig, parts: u32, returned: Option<Left>, now: Instant) {
        // A new replica warms up when it gets its first weight.
        let long_ago = now.checked_sub(RETURN_MAX).unwrap_or(now);
        let (rests_since, counts) = if let Some(left) = returned {
            left.counts.evidence.forget();
            (left.rests_since, left.counts)
        } else {
            let in_flight = self.in_flight.of_replica(config.address);
            (long_ago, Arc::new(ReplicaCounts::new(in_flight)))
        };
        let replica = FleetReplica {
            config: config.clone(),
            name: config.name.as_str().into(),
            parts: Vec::new(),
            connections: self.connections(config),
            counts,
            replica_limiter: (self.replica_limiters.as_ref())
                .map(|replica_limiters| replica_limiters.limiter(config.address)),
            far: self.far_counts(config),
            resting_since: (parts == 0).then_some(rests_since),
            was_included: Cell::default(),
        };
        let warm_up = self.warm_up_after(rests_since, now);
        let parts = self.set_parts(&replica, parts, warm_up);
        self.publish(FleetReplica { parts, ..replica });
    }

    /// Changes a replica. Its state is kept, unless it is no longer the same replica to the policy.
    fn alter(&self, before: &Rc<FleetReplica>, config: &ReplicaConfig, parts: u32, now: Instant) {
        if before.config == *config && before.parts.len() == parts as usize {
            return;
        }
        // Connections made under another name would continue to trust that name.
        let is_same = self.tls.is_none() || before.config.server_name == config.server_name;
        let connections = if is_same {
            Rc::clone(&before.connections)
        } else {
            before.connections.retire();
            self.connections(config)
        };
        let mut replica = FleetReplica {
            config: config.clone(),
            name: config.name.as_str().into(),
            parts: before.parts.clone(),
            connections,
            counts: Arc::clone(&before.counts),
            replica_limiter: before.replica_limiter.clone(),
            far: self.far_counts(config),
            resting_since: before.resting_since,
            was_included: Cell::default(),
        };
        // A replica is far until it leaves the policy.
        let is_no_longer_far = before.far.is_some() && replica.far.is_none();
        if before.config.probe_address != config.probe_address || is_no_longer_far {
            replica.parts = self.set_parts(&replica, 0, Duration::ZERO);
        }
        let warm_up = self.warm_up_after(before.resting_since.unwrap_or(now), now);
        replica.parts = self.set_parts(&replica, parts, warm_up);
        let rests = replica.parts.is_empty();
        replica.resting_since = rests.then(|| before.resting_since.unwrap_or(now));
        self.publish(replica);
    }

    /// How long a replica warms up. One that had no weight for only a moment does not need to.
    fn warm_up_after(&self, rests_since: Instant, now: Instant) -> Duration {
        if now.saturating_duration_since(rests_since) < RETURN_MAX {
            return Duration::ZERO;
        }
        self.warm_up.get()
    }

    /// Makes an empty set of connections to a replica.
    fn connections(&self, config: &ReplicaConfig) -> Rc<Replica> {
        let target = self.target(config);
        Rc::new(Replica::new(target, &self.options, &self.deadlines))
    }

    /// Returns a replica's address, with TLS under the name that its certificate must be valid for.
    fn target(&self, config: &ReplicaConfig) -> Target {
        let connector = self.tls.as_ref().map(|client| {
            let alpn = self.options.protocol.alpn();
            Connector::new(client.clone(), config.server_name.clone(), alpn)
        });
        Target::new(ReplicaAddress::Tcp(config.address), connector)
            .with_proxy_protocol(self.options.proxy_protocol)
    }

    /// Gives the replica this many parts in the policy, and returns all of them.
    fn set_parts(&self, replica: &FleetReplica, wanted: u32, warm_up: Duration) -> Vec<ReplicaId> {
        let before = &replica.parts;
        let parts = match (NonZeroU32::new(wanted), before.first()) {
            (Some(wanted), _) if before.len() == wanted.get() as usize => {
                self.set_far(replica, before);
                return before.clone();
            }
            (Some(wanted), Some(&part)) => self.balancer.set_weight(part, wanted),
            (Some(wanted), None) => {
                let addrs = ReplicaAddrs {
                    query: replica.config.address,
                    probe: replica.config.probe_address,
                };
                let added = self.balancer.insert_warming(addrs, wanted, warm_up);
                // This never fails: a fleet has no address twice, and is smaller than the limit of
                // a balancer.
                added
                    .inspect_err(|error| tracing::error!(%error, "replica ignored"))
                    .ok()
            }
            (None, _) => {
                for &part in before {
                    self.balancer.remove(part);
                }
                Some(Vec::new())
            }
        };
        let parts = parts.unwrap_or_else(|| before.clone());
        self.set_far(replica, &parts);
        let mut by_index = self.by_index.borrow_mut();
        for gone in before.iter().filter(|part| !parts.contains(part)) {
            // Its index may already belong to another part.
            if let Some(place) = by_index.get_mut(gone.index())
                && place.as_ref().is_some_and(|(id, _)| id == gone)
            {
                *place = None;
            }
        }
        parts
    }

    /// Counts for the requests to a replica in another zone; `None` for one that is near.
    fn far_counts(&self, config: &ReplicaConfig) -> Option<Arc<ServiceCounts>> {
        let far = self.zone.far(&config.zone);
        far.map(|_| Arc::clone(&self.admission))
    }

    /// Tells the policy how far a replica is, if it is in another zone. Parts that join later by a
    /// change of the weight are as far.
    fn set_far(&self, replica: &FleetReplica, parts: &[ReplicaId]) {
        if let (Some(round_trip), Some(&part)) =
            (self.zone.far(&replica.config.zone), parts.first())
        {
            self.balancer.set_far(part, round_trip);
        }
    }

    /// Makes the replica the one that lookups find.
    fn publish(&self, replica: FleetReplica) {
        let (address, replica) = (replica.config.address, Rc::new(replica));
        let mut by_index = self.by_index.borrow_mut();
        for &part in &replica.parts {
            if by_index.len() <= part.index() {
                by_index.resize_with(part.index() + 1, || None);
            }
            let before = by_index[part.index()].as_ref();
            if let Some(stream) = &self.recording
                && before.is_none_or(|(id, _)| *id != part)
            {
                stream.name(part, &replica.config.name);
            }
            by_index[part.index()] = Some((part, Rc::clone(&replica)));
        }
        let publish = RosterEntry {
            ids: replica.parts.clone(),
            counts: Arc::clone(&replica.counts),
        };
        lock(&self.roster).insert(address, publish);
        self.by_address.borrow_mut().insert(address, replica);
    }
}

fn is_down(health: &Health, address: SocketAddr) -> bool {
    let found = health.get(&address);
    found.is_some_and(|found| found.verdict == Verdict::Down)
}

/// A panic while it was locked does not corrupt it.
pub(crate) fn lock(
    roster: &Mutex<BTreeMap<SocketAddr, RosterEntry>>,
) -> std::sync::MutexGuard<'_, BTreeMap<SocketAddr, RosterEntry>> {
    roster.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
