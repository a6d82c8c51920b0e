//! A worker's part of a fleet: who is in it, and what happens when somebody joins or leaves.
//!
//! Whoever leaves is not chosen any more from that moment on; its requests run to their end on the connections that they
//! have, idle connections are closed, and with the last request its memory goes. Whoever joins warms up, unless it left a
//! moment ago: then it takes up its counts again, and all of its share. One that is only probed elsewhere keeps its
//! connections; its policy knows it anew. One whose certificate is to be for another name keeps all but the connections
//! that were made under the old one.
//!
//! To the policy a member is as many replicas as its weight says (`weights`), and none at all with a weight of 0; another
//! weight adds or removes some, and the others stay what they were. Of several tiers one is in use (`tiers`).

use super::absent::Absent;
use super::flight::Member;
use super::orders::Orders;
use super::room::Rooms;
use super::tiers::{self, Standing, TierInUse};
use super::weights;
use crate::discovery::Fleet;
use crate::forward::{Deadlines, Replica, ReplicaCounts, ReplicaOptions, Target};
use crate::health::{Health, Verdict};
use crate::tls::Connector;
use core::cell::{Cell, RefCell};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_config::ReplicaAddress;
use slackwater_config::ReplicaConfig;
use slackwater_config::tls::Client;
use slackwater_core::ReplicaId;
use slackwater_core::policy::Explanation;
use slackwater_recording::Stream;
use slackwater_tower::client::{Balancer, ReplicaAddrs};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// A replica that comes back within this time is no new one.
const RETURN_MAX: Duration = Duration::from_mins(1);

/// What the admin server may know of the members: looked at and changed only when somebody asks, or the fleet changes.
pub(super) type Roster = Arc<Mutex<BTreeMap<SocketAddr, Seat>>>;

/// A member, as others than the worker know it.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// What the policy calls its parts.
    pub(super) ids: Vec<ReplicaId>,
    pub(super) counts: Arc<ReplicaCounts>,
}

/// A part's name, and whose part it is.
type Named = Option<(ReplicaId, Rc<Member>)>;

/// Where requests that belong together may go.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) address: SocketAddr,
    /// What the policy calls its parts; at least one.
    pub(super) parts: Vec<ReplicaId>,
    /// It is of the tier in use, and not drained.
    pub(super) is_in_use: bool,
}

/// The members of a worker's part of a service.
#[derive(Debug)]
pub(super) struct Members {
    balancer: Balancer,
    options: Rc<ReplicaOptions>,
    deadlines: Rc<Deadlines>,
    warm_up: Cell<Duration>,
    by_address: RefCell<BTreeMap<SocketAddr, Rc<Member>>>,
    /// By the index of their parts.
    by_index: RefCell<Vec<Named>>,
    roster: Roster,
    health: watch::Receiver<Health>,
    orders: watch::Receiver<Arc<Orders>>,
    /// Anybody in the fleet is drained.
    any_drained: Cell<bool>,
    /// `None`: replicas are spoken to in the clear.
    tls: Option<watch::Receiver<Client>>,
    /// Those that left a moment ago, and when.
    left: RefCell<BTreeMap<SocketAddr, (Instant, Arc<ReplicaCounts>)>>,
    /// `None`: there is room for everybody everywhere.
    rooms: Option<Rc<Rooms>>,
    /// What is told of the parts is written down there.
    recording: Option<Stream>,
    /// The highest tier that there is.
    tier_max: Cell<u8>,
    /// When that may have changed.
    tiers_told: Notify,
    /// The tier in use; `None`: any.
    tier: Arc<TierInUse>,
    /// Those that are down or drained, for whoever asks why a replica was picked.
    absent: RefCell<Absent>,
}

impl Members {
    /// None yet.
    pub(super) fn new(
        balancer: Balancer,
        options: ReplicaOptions,
        deadlines: &Rc<Deadlines>,
        (health, orders): (watch::Receiver<Health>, watch::Receiver<Arc<Orders>>),
        tls: Option<watch::Receiver<Client>>,
        rooms: Option<Rc<Rooms>>,
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
            any_drained: Cell::default(),
            tls,
            left: RefCell::default(),
            rooms,
            recording,
            tier_max: Cell::default(),
            tiers_told: Notify::new(),
            tier: Arc::default(),
            absent: RefCell::default(),
        }
    }

    pub(super) fn roster(&self) -> Roster {
        Arc::clone(&self.roster)
    }

    pub(super) fn tier(&self) -> Arc<TierInUse> {
        Arc::clone(&self.tier)
    }

    /// What is told of the parts is written down there.
    pub(super) const fn recording(&self) -> Option<&Stream> {
        self.recording.as_ref()
    }

    /// For whoever joins from now on.
    pub(super) fn set_warm_up(&self, span: Duration) {
        self.warm_up.set(span);
    }

    /// The member that has a part of that name, while it is in the fleet.
    #[inline]
    pub(super) fn find(&self, id: ReplicaId) -> Option<Rc<Member>> {
        let by_index = self.by_index.borrow();
        let (named, member) = by_index.get(id.index())?.as_ref()?;
        (*named == id).then(|| Rc::clone(member))
    }

    /// What the policy calls a part of the member there.
    pub(super) fn part_at(&self, address: SocketAddr) -> Option<ReplicaId> {
        let by_address = self.by_address.borrow();
        by_address.get(&address)?.parts.first().copied()
    }

    /// Nobody is chosen any more.
    pub(super) fn retire(&self) {
        for member in self.by_address.borrow().values() {
            member.replica.retire();
        }
    }

    /// Takes those that are down, or of a tier that is not in use, out of the choice, and the others back into it. Whether
    /// another tier is in use now.
    pub(super) fn hear(&self) -> bool {
        let is_new = self.choose_tier();
        self.settle_all();
        is_new
    }

    /// Whether another tier is in use now, because of what replicas say or don't say.
    pub(super) fn look_at_tiers(&self) -> bool {
        let is_new = self.choose_tier();
        if is_new {
            self.settle_all();
        }
        is_new
    }

    /// Waits until there are several tiers.
    pub(super) async fn several_tiers(&self) {
        while self.tier_max.get() == 0 {
            self.tiers_told.notified().await;
        }
    }

    fn settle_all(&self) {
        let by_address = self.by_address.borrow();
        let mut absent = self.absent.borrow_mut();
        absent.clear();
        for member in by_address.values() {
            self.settle(member);
            absent.add(&member.parts, self.why_absent(&member.config));
        }
    }

    /// Why the operator, or a check, has taken a replica out of the choice; `None` if neither has.
    fn why_absent(&self, replica: &ReplicaConfig) -> Option<&'static str> {
        if is_down(&self.health.borrow(), replica.address) {
            Some("down")
        } else {
            self.is_drained(replica).then_some("drained")
        }
    }

    /// Says why those could not be chosen that were taken out of the choice here.
    pub(super) fn tell_absent(&self, told: &mut Explanation) {
        self.absent.borrow().tell(told);
    }

    fn settle(&self, member: &Member) {
        let may_be_chosen = self.may_choose(member);
        for &part in &member.parts {
            self.balancer.set_available(part, may_be_chosen);
        }
    }

    /// Whether it is none of those that nobody is to be sent to.
    pub(super) fn may_choose(&self, member: &Member) -> bool {
        let tier = self.tier.read();
        let is_in_use = tier.is_none_or(|tier| tier == member.config.tier);
        is_in_use && self.why_absent(&member.config).is_none()
    }

    /// Whether the operator wants it to get no new requests. While nobody is drained this is a look at a flag.
    #[inline]
    pub(super) fn is_drained(&self, replica: &ReplicaConfig) -> bool {
        self.any_drained.get() && self.orders.borrow().is_drained(replica)
    }

    /// What the policy calls the parts of those that are drained.
    pub(super) fn drained_parts(&self) -> Vec<ReplicaId> {
        let by_address = self.by_address.borrow();
        let drained = by_address
            .values()
            .filter(|member| self.is_drained(&member.config));
        drained.flat_map(|member| member.parts.clone()).collect()
    }

    /// Whether another tier is in use now.
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
            .map(|member| {
                let views = || member.parts.iter().filter_map(|part| views.get(part));
                Standing {
                    tier: member.config.tier,
                    is_down: is_down(&health, member.config.address),
                    is_draining: self.is_drained(&member.config)
                        || views().any(|view| view.draining),
                    is_lost: views().all(|view| view.lost),
                }
            })
            .collect();
        self.tier.set(tiers::active(&standings))
    }

    /// Each that has a weight, in the order of their addresses.
    pub(super) fn homes(&self) -> Vec<Home> {
        let by_address = self.by_address.borrow();
        let weighted = by_address.values().filter(|it| !it.parts.is_empty());
        let tier = self.tier.read();
        weighted
            .map(|member| Home {
                address: member.config.address,
                parts: member.parts.clone(),
                is_in_use: tier.is_none_or(|tier| tier == member.config.tier)
                    && !self.is_drained(&member.config),
            })
            .collect()
    }

    /// How many there are now that have a weight.
    pub(super) fn count(&self) -> usize {
        let by_address = self.by_address.borrow();
        by_address
            .values()
            .filter(|it| !it.parts.is_empty())
            .count()
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        for member in self.by_address.borrow().values() {
            member.replica.sweep();
        }
    }

    /// Makes the members those of `next`, as the operator wants them.
    pub(super) fn become_fleet(&self, next: &Fleet) {
        let now = Instant::now();
        let mut left = self.left.borrow_mut();
        left.retain(|_, (since, _)| now.saturating_duration_since(*since) < RETURN_MAX);
        let orders = Arc::clone(&self.orders.borrow());
        let replicas = orders.weighted(next);
        let is_drained = |replica: &ReplicaConfig| orders.is_drained(replica);
        self.any_drained.set(replicas.iter().any(is_drained));
        let kept: BTreeSet<_> = replicas.iter().map(|replica| replica.address).collect();
        let gone = self.by_address.borrow().keys().copied().collect::<Vec<_>>();
        for address in gone.into_iter().filter(|address| !kept.contains(address)) {
            if let Some(member) = self.by_address.borrow_mut().remove(&address) {
                self.set_parts(&member, 0, Duration::ZERO);
                lock(&self.roster).remove(&address);
                member.replica.retire();
                left.insert(address, (now, Arc::clone(&member.counts)));
            }
        }
        let weights: Vec<_> = replicas.iter().map(|replica| replica.weight).collect();
        for (replica, parts) in replicas.iter().zip(weights::parts(&weights)) {
            let before = self
                .by_address
                .borrow()
                .get(&replica.address)
                .map(Rc::clone);
            match before {
                Some(member) => self.alter(&member, replica, parts, now),
                None => self.join(replica, parts, left.remove(&replica.address)),
            }
        }
        let tiers = replicas.iter().filter(|replica| replica.weight > 0);
        self.tier_max
            .set(tiers.map(|replica| replica.tier).max().unwrap_or(0));
        self.tiers_told.notify_one();
        self.hear();
    }

    fn join(
        &self,
        replica: &ReplicaConfig,
        parts: u32,
        returned: Option<(Instant, Arc<ReplicaCounts>)>,
    ) {
        let (warm_up, counts) = match returned {
            Some((_, counts)) => (Duration::ZERO, counts),
            None => (self.warm_up.get(), Arc::default()),
        };
        let member = Member {
            config: replica.clone(),
            parts: Vec::new(),
            replica: self.connections(replica),
            counts,
            room: (self.rooms.as_ref()).map(|rooms| rooms.room(replica.address)),
            resting_since: None,
        };
        let parts = self.set_parts(&member, parts, warm_up);
        self.seat(Member { parts, ..member });
    }

    /// What is known of it is kept, but for what is not the same replica to the policy any more.
    fn alter(&self, before: &Rc<Member>, replica: &ReplicaConfig, parts: u32, now: Instant) {
        if before.config == *replica && before.parts.len() == parts as usize {
            return;
        }
        // What was made under another name would go on trusting that one.
        let is_same = self.tls.is_none() || before.config.server_name == replica.server_name;
        let connections = if is_same {
            Rc::clone(&before.replica)
        } else {
            before.replica.retire();
            self.connections(replica)
        };
        let mut member = Member {
            config: replica.clone(),
            parts: before.parts.clone(),
            replica: connections,
            counts: Arc::clone(&before.counts),
            room: before.room.clone(),
            resting_since: before.resting_since,
        };
        if before.config.probe_address != replica.probe_address {
            member.parts = self.set_parts(&member, 0, Duration::ZERO);
        }
        // One that had no weight for a moment only need not warm up again.
        let warm_up = match before.resting_since {
            Some(since) if now.saturating_duration_since(since) >= RETURN_MAX => self.warm_up.get(),
            _ => Duration::ZERO,
        };
        member.parts = self.set_parts(&member, parts, warm_up);
        let rests = member.parts.is_empty();
        member.resting_since = rests.then(|| before.resting_since.unwrap_or(now));
        self.seat(member);
    }

    /// None yet, to a replica.
    fn connections(&self, replica: &ReplicaConfig) -> Rc<Replica> {
        let target = self.target(replica);
        Rc::new(Replica::new(target, &self.options, &self.deadlines))
    }

    /// Where a replica is, and what is spoken there: TLS under the name that its certificate is to be for.
    fn target(&self, replica: &ReplicaConfig) -> Target {
        let connector = self.tls.as_ref().map(|client| {
            let alpn = self.options.protocol.alpn();
            Connector::new(client.clone(), replica.server_name.clone(), alpn)
        });
        Target::new(ReplicaAddress::Tcp(replica.address), connector)
            .with_proxy_protocol(self.options.proxy_protocol)
    }

    /// Makes the member one of so many parts to the policy; all of them.
    fn set_parts(&self, member: &Member, wanted: u32, warm_up: Duration) -> Vec<ReplicaId> {
        let before = &member.parts;
        let parts = match (NonZeroU32::new(wanted), before.first()) {
            (Some(wanted), _) if before.len() == wanted.get() as usize => return before.clone(),
            (Some(wanted), Some(&part)) => self.balancer.set_weight(part, wanted),
            (Some(wanted), None) => {
                let addrs = ReplicaAddrs {
                    query: member.config.address,
                    probe: member.config.probe_address,
                };
                let added = self.balancer.insert_warming(addrs, wanted, warm_up);
                // A fleet has no address twice, and is smaller than what a balancer takes.
                added
                    .inspect_err(|error| tracing::error!(%error, "a replica is left out"))
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
        let mut by_index = self.by_index.borrow_mut();
        for gone in before.iter().filter(|part| !parts.contains(part)) {
            // Its place may have been given to another one already.
            if let Some(place) = by_index.get_mut(gone.index())
                && place.as_ref().is_some_and(|(id, _)| id == gone)
            {
                *place = None;
            }
        }
        parts
    }

    /// The member is what is found from now on.
    fn seat(&self, member: Member) {
        let (address, member) = (member.config.address, Rc::new(member));
        let mut by_index = self.by_index.borrow_mut();
        for &part in &member.parts {
            if by_index.len() <= part.index() {
                by_index.resize_with(part.index() + 1, || None);
            }
            let before = by_index[part.index()].as_ref();
            if let Some(stream) = &self.recording
                && before.is_none_or(|(id, _)| *id != part)
            {
                stream.name(part, &member.config.name);
            }
            by_index[part.index()] = Some((part, Rc::clone(&member)));
        }
        let seat = Seat {
            ids: member.parts.clone(),
            counts: Arc::clone(&member.counts),
        };
        lock(&self.roster).insert(address, seat);
        self.by_address.borrow_mut().insert(address, member);
    }
}

fn is_down(health: &Health, address: SocketAddr) -> bool {
    let found = health.get(&address);
    found.is_some_and(|found| found.verdict == Verdict::Down)
}

/// A panic while it was held leaves it as good as it was.
pub(super) fn lock(
    roster: &Mutex<BTreeMap<SocketAddr, Seat>>,
) -> std::sync::MutexGuard<'_, BTreeMap<SocketAddr, Seat>> {
    roster.lock().unwrap_or_else(PoisonError::into_inner)
}
