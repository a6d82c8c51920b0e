//! Rules of other load balancers, as they were published, to compare ours with: by key here, by
//! zone in [`zones`].
//!
//! No user can select them. Each is a policy of one client, and counts only the queries that this
//! client has in flight, as these balancers do. A query without a key goes to the replica where
//! this client has the fewest.
//!
//! | rule | source |
//! |---|---|
//! | [`PeerRule::Ring`] | nginx: `ngx_http_upstream_hash_module`, `hash … consistent` |
//! | [`PeerRule::RingBounded`] | `HAProxy`: `hash-type consistent`, `hash-balance-factor` |
//! | [`PeerRule::MaglevBounded`] | Envoy: `MaglevLbConfig`, `hash_balance_factor` |
//! | [`PeerRule::Rendezvous`] | Thaler, Ravishankar: "Using name-based mappings …", 1998 |
//! | [`PeerRule::TwoHomes`] | Mitzenmacher: "The power of two choices", of a key's first two |
//! | [`PeerRule::OnePartition`] | "The Tail at Scale", the case without micro-partitions |
//!
//! The arithmetic of the bounds is that of `chash_server_is_eligible` in `HAProxy`'s `lb_chash.c`
//! and of `BoundedLoadHashingLoadBalancer` in Envoy's `thread_aware_lb_impl.cc`.

mod maglev;
mod ring;
#[cfg(test)]
mod tests;
pub(crate) mod zones;

use maglev::Maglev;
use ring::Ring;
use slackwater_core::keys::KeyHash;
use slackwater_core::policy::{
    Counters, DEFAULT_POLICY, Decision, Event, Explanation, Fleet, Outcome, POLICIES, Policy,
    PolicySettings, Probe, ProbeId, Query, Reports, Snapshot, Ticket,
};
use slackwater_core::{Draw, Instant, ReplicaId, SplitMix64, named};

named! {
    /// A rule of another load balancer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PeerRule by name {
        /// A ring of 160 points a replica; the first point after the key's hash.
        Ring = "ring",
        /// A ring of 160 points a replica; the nearest point, and from there on to the next replica
        /// that has fewer queries in flight than 1.25 times the mean, rounded up.
        RingBounded = "ring_bounded",
        /// Maglev's table of 65,537 places; from an overloaded replica on to a permutation that the
        /// hash seeds, until one has at most 1.25 times the mean in flight, rounded up.
        MaglevBounded = "maglev_bounded",
        /// The highest hash of key and replica.
        Rendezvous = "rendezvous",
        /// The one with fewer queries in flight of the key's two highest hashes.
        TwoHomes = "two_homes",
        /// One partition for each replica. The next replica stands in for one that is gone.
        OnePartition = "one_partition",
    }
}

/// The bound of a replica's queries in flight in percent of the mean: the value in the examples of
/// both manuals.
const BALANCE_PERCENT: u32 = 125;

/// Returns a client's policy with this rule.
pub(crate) fn build(rule: PeerRule) -> Box<dyn Policy> {
    // It only charges what the rule chooses, so any policy that sends no probes will do.
    let mut policies = POLICIES.iter();
    let unprobed = policies.find(|entry| entry.reports == Reports::None);
    let entry = unprobed.unwrap_or(&DEFAULT_POLICY);
    Box::new(Peer {
        rule,
        inner: (entry.build)(&PolicySettings::default()),
        names: Vec::new(),
        ever: Vec::new(),
        table: Table::Hashes,
        members: Vec::new(),
        is_stale: false,
        total: 0,
    })
}

/// A replica that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Choosable {
    replica: ReplicaId,
    name: u64,
    /// Queries of this client there.
    in_flight: u32,
}

/// What is computed from the names of the replicas.
#[derive(Debug)]
enum Table {
    Hashes,
    Ring(Ring),
    Maglev(Maglev),
}

/// The policy of one client.
#[derive(Debug)]
struct Peer {
    rule: PeerRule,
    /// Charges what the rule has chosen, and chooses for queries without a key.
    inner: Box<dyn Policy>,
    /// The name of each [`ReplicaId::index`].
    names: Vec<u64>,
    /// The names of all replicas that have ever been there, in order.
    ever: Vec<u64>,
    table: Table,
    /// The replicas that may be chosen, in the order of their names, so that all clients agree.
    members: Vec<Choosable>,
    /// A name has changed since the members were updated.
    is_stale: bool,
    /// Queries of this client in flight at the members.
    total: u32,
}

impl Peer {
    /// Updates the members if others may be chosen than at the last query.
    fn follow_fleet(&mut self) {
        let available = self.inner.fleet().available();
        let is_same = !self.is_stale
            && available.len() == self.members.len()
            && available.iter().all(|id| self.index_of(*id).is_some());
        if is_same {
            return;
        }
        self.is_stale = false;
        let member = |&replica: &ReplicaId| Choosable {
            replica,
            name: self.names.get(replica.index()).copied().unwrap_or_default(),
            in_flight: self
                .index_of(replica)
                .map_or(0, |index| self.members[index].in_flight),
        };
        let mut members: Vec<Choosable> = available.iter().map(member).collect();
        members.sort_by_key(|member| member.name);
        self.members = members;
        self.total = self.members.iter().map(|member| member.in_flight).sum();
        let names: Vec<u64> = self.members.iter().map(|member| member.name).collect();
        self.table = match self.rule {
            PeerRule::Ring | PeerRule::RingBounded => Table::Ring(Ring::new(&names)),
            PeerRule::MaglevBounded => Table::Maglev(Maglev::new(&names)),
            PeerRule::Rendezvous | PeerRule::TwoHomes | PeerRule::OnePartition => Table::Hashes,
        };
    }

    fn index_of(&self, replica: ReplicaId) -> Option<usize> {
        let mut members = self.members.iter();
        members.position(|member| member.replica == replica)
    }

    /// Returns the replica of the key; `None` if there is none.
    fn target(&mut self, key: KeyHash) -> Option<ReplicaId> {
        self.follow_fleet();
        let key = key.to_bits();
        let index = match (&self.table, self.rule) {
            (Table::Ring(ring), PeerRule::RingBounded) => {
                ring.nearest_that(key, |index| self.has_slot(index))
            }
            (Table::Ring(ring), _) => ring.successor(key),
            (Table::Maglev(maglev), _) => maglev.at(key).map(|home| self.jump(key, home)),
            (Table::Hashes, PeerRule::TwoHomes) => self.emptier_of_two(key),
            (Table::Hashes, PeerRule::OnePartition) => self.stand_in(key),
            (Table::Hashes, _) => self.highest(key, None),
        };
        index.map(|index| self.members[index].replica)
    }

    /// Returns the member with the highest hash, other than `but`.
    fn highest(&self, key: u64, but: Option<usize>) -> Option<usize> {
        let members = self.members.iter().enumerate();
        let others = members.filter(|(index, _)| Some(*index) != but);
        let best = others.max_by_key(|(_, member)| mixed(member.name ^ mixed(key)));
        best.map(|(index, _)| index)
    }

    /// Returns the one with fewer queries of the two members with the highest hashes; the first of
    /// them if they have the same number.
    fn emptier_of_two(&self, key: u64) -> Option<usize> {
        let first = self.highest(key, None)?;
        let second = self.highest(key, Some(first)).unwrap_or(first);
        let load = |index: usize| self.members[index].in_flight;
        Some(if load(second) < load(first) {
            second
        } else {
            first
        })
    }

    /// Returns the member of the key's partition, or the next one that is there. Partitions are
    /// those of all replicas that have ever been there.
    fn stand_in(&self, key: u64) -> Option<usize> {
        let partitions = self.ever.len() as u64;
        let partition = key.checked_rem(partitions)?;
        let first = self.ever.get(usize::try_from(partition).ok()?)?;
        let next = self.members.partition_point(|member| member.name < *first);
        (!self.members.is_empty()).then(|| next % self.members.len())
    }

    /// Returns whether a member may have one more query by `HAProxy`'s rule: slots for 1.25 times
    /// the queries in flight, one by one in the order of the members, and one for each at least.
    fn has_slot(&self, index: usize) -> bool {
        let count = count(self.members.len());
        let slots = ((self.total + 1) * BALANCE_PERCENT).div_ceil(100);
        let (each, rest) = (slots / count.max(1), slots % count.max(1));
        let number = self::count(index);
        let extra = (number + 1) * rest / count.max(1) - number * rest / count.max(1);
        self.members[index].in_flight < (each + extra).max(1)
    }

    /// Returns `home`, or if it is overloaded the first member that is not in the permutation that
    /// the hash seeds, or if all are the least overloaded one.
    fn jump(&self, key: u64, home: usize) -> usize {
        let count = count(self.members.len());
        let slots = ((self.total + 1) * BALANCE_PERCENT).div_ceil(100);
        let slots = slots.div_ceil(count.max(1)).max(1);
        let load = |index: usize| self.members[index].in_flight;
        if load(home) <= slots {
            return home;
        }
        let mut draw = SplitMix64::new(key);
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        let mut least = home;
        for place in 0..order.len() {
            let rest = self::count(order.len() - place);
            let other = place + slackwater_core::draw::below(&mut draw, rest) as usize;
            order.swap(place, other);
            let index = order[place];
            if load(index) <= slots {
                return index;
            }
            if load(index) < load(least) {
                least = index;
            }
        }
        least
    }

    fn count_sent(&mut self, replica: ReplicaId) {
        if let Some(index) = self.index_of(replica) {
            self.members[index].in_flight += 1;
            self.total += 1;
        }
    }

    fn count_ended(&mut self, replica: ReplicaId) {
        if let Some(index) = self.index_of(replica) {
            let in_flight = &mut self.members[index].in_flight;
            self.total -= u32::from(*in_flight > 0);
            *in_flight = in_flight.saturating_sub(1);
        }
    }
}

/// Members are far fewer than 2^32.
fn count(members: usize) -> u32 {
    u32::try_from(members).unwrap_or(u32::MAX)
}

/// Returns a number whose bits all depend on all bits of this one.
fn mixed(bits: u64) -> u64 {
    SplitMix64::new(bits).draw()
}

impl Policy for Peer {
    fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        if let Event::Identified(replica, identity) = event {
            if self.names.len() <= replica.index() {
                self.names.resize(replica.index() + 1, 0);
            }
            self.names[replica.index()] = mixed(identity.name ^ u64::from(identity.part));
            self.is_stale = true;
            let name = self.names[replica.index()];
            if let Err(place) = self.ever.binary_search(&name) {
                self.ever.insert(place, name);
            }
        }
        self.inner.handle(now, event, draw);
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        let key = query.key.filter(|_| query.pinned.is_none());
        let target = key.and_then(|key| self.target(key));
        let pinned = target.filter(|target| !query.avoid.contains(target));
        let query = Query {
            pinned: pinned.or(query.pinned),
            ..query
        };
        let decision = self.inner.choose(now, query, draw, explanation);
        if let Decision::Pick(pick) = &decision {
            self.count_sent(pick.ticket.replica());
        }
        decision
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        self.inner.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        self.count_ended(ticket.replica());
        self.inner.handle_query_done(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        self.inner.poll_probe(now, draw)
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.inner.probe_target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn wants_trial(&self) -> bool {
        self.inner.wants_trial()
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.inner.spares_some(now)
    }

    fn fleet(&self) -> &Fleet {
        self.inner.fleet()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        self.inner.snapshot(now)
    }
}
