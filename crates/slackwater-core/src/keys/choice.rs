//! The choice for a key: its homes while they are below their cap, else the others of its set, else
//! all replicas.

use super::keyed::Keyed;
use super::loads::Delays;
use super::order::{First, ORDERED_MAX};
use crate::key::KeyHash;
use crate::policy::{KeyChoice, KeyServer, PickReason, Query};
use crate::replica::ReplicaId;
use crate::time::Instant;

/// What the choice for one key is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set {
    pub(super) partition: Option<u16>,
    /// The key's servers in their order: all of the set, or the homes alone.
    first: First,
    /// How many of them are homes.
    homes: usize,
}

impl Keyed {
    /// The homes of a key, as of now.
    pub(super) fn homes_of(&mut self, key: KeyHash) -> Set {
        let partition = self.partitions.of(key);
        let (first, homes) = match partition {
            Some(partition) => {
                let first = self.partitions.first(partition, &self.order);
                (first, self.partitions.homes(partition))
            }
            None => (self.recent.first(key.to_bits(), 1, &self.order), 1),
        };
        Set {
            partition,
            first,
            homes: homes.into(),
        }
    }

    /// Completes a set that may have only the homes.
    pub(super) fn complete(&mut self, key: KeyHash, set: &mut Set) {
        if set.partition.is_none() {
            set.first = self.recent.first(key.to_bits(), ORDERED_MAX, &self.order);
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
    /// `spares_some`: health may keep the query from a home.
    pub(super) fn narrow(
        &mut self,
        now: Instant,
        query: Query<'_>,
        (key, set): (KeyHash, &mut Set),
        spares_some: bool,
    ) {
        self.homes.clear();
        self.among.clear();
        if self.has_rounds {
            self.complete(key, set);
            let hinted = set.first.as_slice().iter();
            for &server in hinted.take(self.config.hint_homes.into()) {
                if let Some(replica) = self.part_for(server, query) {
                    self.homes.push(replica);
                }
            }
            return;
        }
        // Usually a home is free and gets the query. Then nothing else is looked at, nor ranked.
        if query.avoid.is_empty() && !spares_some {
            let homes = set.homes.min(set.first.as_slice().len());
            self.take_free(now, query, &set.first.as_slice()[..homes], homes);
            if !self.homes.is_empty() {
                return;
            }
        }
        self.complete(key, set);
        self.take_free(now, query, self.servers(set), set.homes);
    }

    /// Takes those of some servers that are not busy. The first of them are homes.
    fn take_free(&mut self, now: Instant, query: Query<'_>, servers: &[u32], mut homes: usize) {
        // Before any of them is compared, because that changes the cap.
        for &server in servers {
            for &part in self.order.parts(server) {
                self.loads.expire(now, part);
            }
        }
        let mut delays = None;
        for &server in servers {
            let parts = self.order.parts(server);
            let part = match parts {
                &[part] if query.avoid.is_empty() => Some(part),
                _ => self.part_for(server, query),
            };
            // Homes that the query avoids are replaced by the next in order.
            let Some(replica) = part else {
                continue;
            };
            let is_home = homes > 0;
            homes = homes.saturating_sub(1);
            if self.is_free(server, parts.len(), &mut delays) {
                self.among.push(replica);
                if is_home {
                    self.homes.push(replica);
                }
            }
        }
    }

    /// Whether a server is not busy. `delays` are computed when they are first needed.
    #[inline]
    fn is_free(&self, server: u32, parts: usize, delays: &mut Option<Delays>) -> bool {
        let load = self.loads.load(server);
        if load == 0 {
            return true;
        }
        let delays = *delays.get_or_insert_with(|| self.loads.delays());
        let factor = self.config.balance_factor_millionths;
        let cap = self.loads.cap_of(server, parts, factor, delays);
        cap.is_none_or(|cap| load < cap)
    }

    /// The part of a server that gets the query: the one with the fewest of this client's queries
    /// in flight.
    fn part_for(&self, server: u32, query: Query<'_>) -> Option<ReplicaId> {
        let parts = self.order.parts(server);
        // Another attempt does not go to another part of a server that it has tried.
        let is_tried = |replica: &ReplicaId| self.loads.server(*replica) == Some(server);
        if parts.len() > 1 && !query.is_first() && query.avoid.iter().any(is_tried) {
            return None;
        }
        let allowed = parts.iter().copied();
        let allowed = allowed.filter(|replica| !query.avoid.contains(replica));
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
        let delays = self.loads.delays();
        for (shown, &server) in choice.servers.iter_mut().zip(self.servers(set)) {
            let part = self.part_for(server, query);
            *shown = KeyServer {
                replica: part
                    .or_else(|| self.order.parts(server).first().copied())
                    .unwrap_or(shown.replica),
                load: self.loads.load(server),
                cap: (self.loads).cap_of(server, self.order.parts(server).len(), factor, delays),
                avoided: part.is_none(),
            };
            choice.len += 1;
        }
        self.explained = choice;
    }
}
