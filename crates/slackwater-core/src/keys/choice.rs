//! The choice for a key: its homes while they are below their cap, else the others of its set, else
//! all replicas.

use super::keyed::Keyed;
use super::order::First;
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

impl Keyed {
    /// The servers of a key, as of now.
    pub(super) fn set_of(&mut self, key: KeyHash) -> Set {
        let partition = self.partitions.of(key);
        let (first, homes) = match partition {
            Some(partition) => {
                let first = self.partitions.first(partition, &self.order);
                (first, self.partitions.homes(partition))
            }
            None => (self.recent.first(key.to_bits(), &self.order), 1),
        };
        Set {
            partition,
            first,
            homes: homes.into(),
        }
    }

    /// The servers of a set, which are the homes if there are more.
    fn servers<'a>(&self, set: &'a Set) -> &'a [u32] {
        let servers = set.first.as_slice();
        let len = usize::from(self.config.set).max(set.homes);
        &servers[..servers.len().min(len)]
    }

    /// Fills in `homes`, the replicas that the query prefers, and `among`, those that it may go to
    /// if it can go to none of them. Both are empty if all replicas of the set are busy or avoided.
    pub(super) fn narrow(&mut self, now: Instant, query: Query<'_>, set: &Set) {
        self.homes.clear();
        self.among.clear();
        if self.has_rounds {
            let hinted = set.first.as_slice().iter();
            for &server in hinted.take(self.config.hint_homes.into()) {
                if let Some(replica) = self.part_for(server, query) {
                    self.homes.push(replica);
                }
            }
            return;
        }
        let servers = set.first.as_slice();
        let servers = &servers[..self.servers(set).len()];
        for &server in servers {
            match self.order.only_part(server) {
                Some(replica) => self.loads.expire(now, replica),
                None => (self.order.parts(server)).for_each(|it| self.loads.expire(now, it)),
            }
        }
        let cap = self.loads.cap(self.config.balance_factor_millionths);
        // Homes that the query avoids are replaced by the next in order.
        let mut homes_left = set.homes;
        for &server in servers {
            let Some(replica) = self.part_for(server, query) else {
                continue;
            };
            let is_home = homes_left > 0;
            homes_left = homes_left.saturating_sub(1);
            let is_free = match cap.of(self.order.weight(server)) {
                Some(cap) => self.loads.load(server) < cap,
                None => true,
            };
            if is_free {
                self.among.push(replica);
                if is_home {
                    self.homes.push(replica);
                }
            }
        }
    }

    /// The part of a server that gets the query: the one with the fewest of this client's queries
    /// in flight.
    #[inline]
    fn part_for(&self, server: u32, query: Query<'_>) -> Option<ReplicaId> {
        match self.order.only_part(server) {
            Some(replica) if query.avoid.is_empty() => Some(replica),
            Some(replica) => (!query.avoid.contains(&replica)).then_some(replica),
            None => self.part_of_several(server, query),
        }
    }

    fn part_of_several(&self, server: u32, query: Query<'_>) -> Option<ReplicaId> {
        // Another attempt does not go to another part of a server that it has tried.
        let is_tried = |replica: &ReplicaId| self.loads.server(*replica) == Some(server);
        if !query.is_first() && query.avoid.iter().any(is_tried) {
            return None;
        }
        let parts = self.order.parts(server);
        let allowed = parts.filter(|replica| !query.avoid.contains(replica));
        allowed.min_by_key(|&replica| self.loads.own(replica))
    }

    /// Why a replica was chosen for the query of the last [`narrow`](Self::narrow).
    pub(super) fn reason(&self, replica: ReplicaId, set: &Set) -> PickReason {
        let is_spilt = !self.has_rounds && !self.among.contains(&replica);
        let place = self.loads.server(replica).and_then(|server| {
            let mut servers = self.servers(set).iter();
            servers.position(|&other| other == server)
        });
        match place {
            Some(place) if !is_spilt && place < set.homes => PickReason::KeyHome,
            Some(_) if !is_spilt => PickReason::KeySet,
            _ => PickReason::KeySpill,
        }
    }

    /// Keeps what the choice is made from, to explain it.
    #[cold]
    pub(super) fn explain(&mut self, query: Query<'_>, set: &Set) {
        let mut choice = KeyChoice {
            partition: set.partition,
            homes: u8::try_from(set.homes).unwrap_or(u8::MAX),
            ..KeyChoice::EMPTY
        };
        let factor = if self.has_rounds {
            0
        } else {
            self.config.balance_factor_millionths
        };
        let cap = self.loads.cap(factor);
        for (shown, &server) in choice.servers.iter_mut().zip(self.servers(set)) {
            let part = self.part_for(server, query);
            *shown = KeyServer {
                replica: part
                    .or_else(|| self.order.parts(server).next())
                    .unwrap_or(shown.replica),
                load: self.loads.load(server),
                cap: cap.of(self.order.weight(server)),
                avoided: part.is_none(),
            };
            choice.len += 1;
        }
        self.explained = choice;
    }
}
