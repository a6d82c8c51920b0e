//! The choice for a key: its homes while they are below their cap, else the others of its set, else
//! all replicas.

use super::keyed::Keyed;
use super::order::{First, ORDERED_MAX};
use crate::key::KeyHash;
use crate::policy::{KeyChoice, KeyServer, PickReason, Query};
use crate::replica::ReplicaId;
use crate::time::Instant;

/// What the choice for one key is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set {
    pub(super) partition: Option<u16>,
    /// The key's servers in their order.
    first: First,
    /// How many of them are homes.
    homes: usize,
}

/// A few replicas, in the order in which they were added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Few {
    replicas: [ReplicaId; ORDERED_MAX],
    len: usize,
}

impl Few {
    pub(super) const NONE: Self = Self {
        replicas: [KeyServer::UNUSED.replica; ORDERED_MAX],
        len: 0,
    };

    fn add(&mut self, replica: ReplicaId) {
        if let Some(place) = self.replicas.get_mut(self.len) {
            *place = replica;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[ReplicaId] {
        &self.replicas[..self.len]
    }
}

impl Keyed {
    /// The servers of a key, as of now.
    pub(super) fn set_of(&mut self, key: KeyHash) -> Set {
        let partition = self.partitions.of(key);
        let settings = &self.config;
        let (first, homes) = match partition {
            Some(partition) => {
                let first = self.partitions.first(partition, &self.order);
                (first, self.partitions.homes(partition))
            }
            None => {
                let width = if self.has_rounds {
                    settings.set.max(settings.hint_homes)
                } else {
                    settings.set
                };
                (self.order.first(key.to_bits(), width.into()), 1)
            }
        };
        Set {
            partition,
            first,
            homes: homes.into(),
        }
    }

    /// The servers of a set, which are the homes if there are more.
    fn members<'a>(&self, set: &'a Set) -> &'a [u32] {
        let members = set.first.as_slice();
        let len = usize::from(self.config.set).max(set.homes);
        &members[..members.len().min(len)]
    }

    /// Fills in the replicas that the query prefers, and those that it may go to if it can go to
    /// none of them. Both are empty if all replicas of the set are busy or avoided.
    pub(super) fn narrow(
        &mut self,
        now: Instant,
        query: Query<'_>,
        set: &Set,
        homes: &mut Few,
        among: &mut Few,
    ) {
        if self.has_rounds {
            let hinted = set.first.as_slice().iter();
            for &server in hinted.take(self.config.hint_homes.into()) {
                if let Some(replica) = self.part_for(server, query) {
                    homes.add(replica);
                }
            }
            return;
        }
        let members = self.members(set);
        self.expire(now, members);
        let cap = self.loads.cap(self.config.balance_factor_millionths);
        // Homes that the query avoids are replaced by the next in order.
        let mut left = set.homes;
        for &server in members {
            let Some(replica) = self.part_for(server, query) else {
                continue;
            };
            let is_home = left > 0;
            left = left.saturating_sub(1);
            let cap = cap.of(self.order.weight(server));
            if cap.is_none_or(|cap| self.loads.load(server) < cap) {
                among.add(replica);
                if is_home {
                    homes.add(replica);
                }
            }
        }
    }

    /// Lets old reports of these servers count no longer.
    fn expire(&mut self, now: Instant, servers: &[u32]) {
        for &server in servers {
            for replica in self.order.parts(server) {
                self.loads.expire(now, replica);
            }
        }
    }

    /// The part of a server that gets the query: the one with the fewest of this client's queries
    /// in flight.
    fn part_for(&self, server: u32, query: Query<'_>) -> Option<ReplicaId> {
        let mut parts = self.order.parts(server);
        if self.order.weight(server) == 1 {
            return parts.find(|&replica| !query.avoid.contains(&replica));
        }
        // Another attempt does not go to another part of a server that it has tried.
        let is_tried = |replica: &ReplicaId| self.loads.server(*replica) == Some(server);
        if !query.is_first() && query.avoid.iter().any(is_tried) {
            return None;
        }
        let allowed = parts.filter(|replica| !query.avoid.contains(replica));
        allowed.min_by_key(|&replica| self.loads.own(replica))
    }

    /// Why a replica was chosen that the query was allowed to go to, as one of `among`.
    pub(super) fn reason(&self, replica: ReplicaId, set: &Set, among: &Few) -> PickReason {
        let is_spilt = !self.has_rounds && !among.as_slice().contains(&replica);
        let place = self.loads.server(replica).and_then(|server| {
            let mut members = self.members(set).iter();
            members.position(|&member| member == server)
        });
        match place {
            Some(place) if !is_spilt && place < set.homes => PickReason::KeyHome,
            Some(_) if !is_spilt => PickReason::KeySet,
            _ => PickReason::KeySpill,
        }
    }

    /// The choice, as it is explained.
    #[cold]
    pub(super) fn explained(&self, query: Query<'_>, set: &Set) -> KeyChoice {
        let mut choice = KeyChoice {
            partition: set.partition,
            homes: u8::try_from(set.homes).unwrap_or(u8::MAX),
            members: [KeyServer::UNUSED; Query::AMONG_MAX],
            len: 0,
        };
        let factor = if self.has_rounds {
            0
        } else {
            self.config.balance_factor_millionths
        };
        let cap = self.loads.cap(factor);
        for (member, &server) in choice.members.iter_mut().zip(self.members(set)) {
            let part = self.part_for(server, query);
            *member = KeyServer {
                replica: part
                    .or_else(|| self.order.parts(server).next())
                    .unwrap_or(member.replica),
                load: self.loads.load(server),
                cap: cap.of(self.order.weight(server)),
                avoided: part.is_none(),
            };
            choice.len += 1;
        }
        choice
    }
}
