//! A worker's part of a fleet: who is in it, and what happens when somebody joins or leaves.
//!
//! Whoever leaves is not chosen any more from that moment on; its requests run to their end on the connections that they
//! have, idle connections are closed, and with the last request its memory goes. Whoever joins warms up, unless it left a
//! moment ago: then it takes up its counts again, and all of its share. One that is only probed elsewhere keeps its
//! connections; its policy knows it anew. One whose certificate is to be for another name keeps its counts, but no
//! connection that was made under the old one.

use super::flight::Member;
use crate::config::ReplicaConfig;
use crate::discovery::Fleet;
use crate::forward::{Deadlines, Replica, ReplicaAddress, ReplicaCounts, ReplicaOptions, Target};
use crate::health::{Health, Verdict};
use crate::tls::{Client, Connector};
use core::cell::{Cell, RefCell};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_core::ReplicaId;
use slackwater_tower::client::{Balancer, ReplicaAddrs};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio::time::Instant;

/// A replica that comes back within this time is no new one.
const RETURN_MAX: Duration = Duration::from_mins(1);

/// What the admin server may know of the members: looked at and changed only when somebody asks, or the fleet changes.
pub(super) type Roster = Arc<Mutex<BTreeMap<SocketAddr, Seat>>>;

/// A member, as others than the worker know it.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) id: ReplicaId,
    pub(super) counts: Arc<ReplicaCounts>,
}

/// The members of a worker's part of a service.
#[derive(Debug)]
pub(super) struct Members {
    balancer: Balancer,
    options: Rc<ReplicaOptions>,
    deadlines: Rc<Deadlines>,
    warm_up: Cell<Duration>,
    fleet: RefCell<Arc<Fleet>>,
    /// By the index of their ids.
    by_index: RefCell<Vec<Option<Rc<Member>>>>,
    roster: Roster,
    health: watch::Receiver<Health>,
    /// `None`: replicas are spoken to in the clear.
    tls: Option<watch::Receiver<Client>>,
    /// Those that left a moment ago, and when.
    left: RefCell<BTreeMap<SocketAddr, (Instant, Arc<ReplicaCounts>)>>,
}

impl Members {
    /// None yet.
    pub(super) fn new(
        balancer: Balancer,
        options: ReplicaOptions,
        deadlines: &Rc<Deadlines>,
        health: watch::Receiver<Health>,
        tls: Option<watch::Receiver<Client>>,
    ) -> Self {
        Self {
            balancer,
            options: Rc::new(options),
            deadlines: Rc::clone(deadlines),
            warm_up: Cell::default(),
            fleet: RefCell::default(),
            by_index: RefCell::default(),
            roster: Roster::default(),
            health,
            tls,
            left: RefCell::default(),
        }
    }

    pub(super) fn roster(&self) -> Roster {
        Arc::clone(&self.roster)
    }

    /// For whoever joins from now on.
    pub(super) fn set_warm_up(&self, span: Duration) {
        self.warm_up.set(span);
    }

    /// The member of that name, while it is in the fleet.
    #[inline]
    pub(super) fn find(&self, id: ReplicaId) -> Option<Rc<Member>> {
        let by_index = self.by_index.borrow();
        let member = by_index.get(id.index())?.as_ref()?;
        (member.id == id).then(|| Rc::clone(member))
    }

    /// Nobody is chosen any more.
    pub(super) fn retire(&self) {
        for member in self.by_index.borrow().iter().flatten() {
            member.replica.retire();
        }
    }

    /// Takes those that are down out of the choice, and the others back into it.
    pub(super) fn hear(&self, health: &Health) {
        for member in self.by_index.borrow().iter().flatten() {
            let may_be_chosen = !is_down(health, member.address);
            self.balancer.set_available(member.id, may_be_chosen);
        }
    }

    /// Each with its address, in the order of their ids.
    pub(super) fn homes(&self) -> Vec<(ReplicaId, SocketAddr)> {
        let members = self.by_index.borrow();
        let members = members.iter().flatten();
        members.map(|member| (member.id, member.address)).collect()
    }

    /// How many there are now.
    pub(super) fn count(&self) -> usize {
        self.fleet.borrow().len()
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        for member in self.by_index.borrow().iter().flatten() {
            member.replica.sweep();
        }
    }

    /// Makes the members those of `next`.
    pub(super) fn become_fleet(&self, next: &Arc<Fleet>) {
        let before = self.fleet.replace(Arc::clone(next));
        let change = before.change_to(next);
        let now = Instant::now();
        let mut left = self.left.borrow_mut();
        left.retain(|_, (since, _)| now.saturating_duration_since(*since) < RETURN_MAX);
        for address in &change.left {
            if let Some(member) = self.remove(*address) {
                member.replica.retire();
                left.insert(*address, (now, Arc::clone(&member.counts)));
            }
        }
        let replicas = next.replicas();
        for replica in change
            .altered
            .iter()
            .filter_map(|&place| replicas.get(place))
        {
            if let Some(member) = self.remove(replica.address) {
                let is_same = self.tls.is_none() || member.server_name == replica.server_name;
                let connections = if is_same {
                    Rc::clone(&member.replica)
                } else {
                    member.replica.retire();
                    self.connections(replica)
                };
                let parts = (connections, Arc::clone(&member.counts));
                self.add(replica, Duration::ZERO, parts);
            }
        }
        for replica in change
            .joined
            .iter()
            .filter_map(|&place| replicas.get(place))
        {
            let connections = self.connections(replica);
            let (warm_up, counts) = match left.remove(&replica.address) {
                Some((_, counts)) => (Duration::ZERO, counts),
                None => (self.warm_up.get(), Arc::default()),
            };
            self.add(replica, warm_up, (connections, counts));
        }
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

    fn add(
        &self,
        replica: &ReplicaConfig,
        warm_up: Duration,
        (connections, counts): (Rc<Replica>, Arc<ReplicaCounts>),
    ) {
        let addrs = ReplicaAddrs {
            query: replica.address,
            probe: replica.probe_address,
        };
        let added = self
            .balancer
            .insert_warming(addrs, NonZeroU32::MIN, warm_up);
        let id = match added.map(|parts| parts.first().copied()) {
            Ok(Some(id)) => id,
            Ok(None) => return,
            // A fleet has no address twice, and is smaller than what a balancer takes.
            Err(error) => return tracing::error!(%error, "a replica is left out"),
        };
        if is_down(&self.health.borrow(), replica.address) {
            self.balancer.set_available(id, false);
        }
        let seat = Seat {
            id,
            counts: Arc::clone(&counts),
        };
        let member = Member {
            id,
            name: replica.name.clone(),
            address: replica.address,
            server_name: replica.server_name.clone(),
            replica: connections,
            counts,
        };
        let mut by_index = self.by_index.borrow_mut();
        if by_index.len() <= id.index() {
            by_index.resize_with(id.index() + 1, || None);
        }
        by_index[id.index()] = Some(Rc::new(member));
        lock(&self.roster).insert(replica.address, seat);
    }

    fn remove(&self, address: SocketAddr) -> Option<Rc<Member>> {
        let Seat { id, .. } = lock(&self.roster).remove(&address)?;
        self.balancer.remove(id);
        self.by_index.borrow_mut().get_mut(id.index())?.take()
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
