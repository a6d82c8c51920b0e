//! The order of a key's servers: rendezvous hashing over the parts that may be chosen.
//!
//! A key and a part give a score, and a server has the highest score of its parts. The order of a
//! key's servers is that of their scores. So a server that leaves or joins moves only the keys that
//! it had or gets, and a server of w parts is first for w times as many keys. All clients that know
//! the same names agree.

use super::loads::Loads;
use crate::key::{Identity, mix};
use crate::policy::{Fleet, Query};
use crate::replica::{ReplicaId, ReplicaMap};
use alloc::vec::Vec;

/// Most servers in an order.
pub(super) const ORDERED_MAX: usize = Query::AMONG_MAX;

/// The first servers of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    servers: [u32; ORDERED_MAX],
    len: usize,
}

impl First {
    pub(super) const NONE: Self = Self {
        servers: [0; ORDERED_MAX],
        len: 0,
    };

    pub(super) fn as_slice(&self) -> &[u32] {
        &self.servers[..self.len]
    }

    /// The order with these servers, of which there are at most [`ORDERED_MAX`].
    pub(super) fn of(servers: &[u32]) -> Self {
        let mut first = Self::NONE;
        for (place, &server) in first.servers.iter_mut().zip(servers) {
            *place = server;
            first.len += 1;
        }
        first
    }
}

/// A replica of the fleet, as a part of its server. Parts are sorted by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    identity: Identity,
    replica: ReplicaId,
}

/// A part that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choosable {
    replica: ReplicaId,
    server: u32,
}

/// The parts of the fleet, and the servers that may be chosen.
#[derive(Debug, Default)]
pub(super) struct Order {
    known: Vec<Part>,
    /// The place of a replica in `known` is only as current as `is_sorted`; so names are here.
    identities: ReplicaMap<Option<Identity>>,
    is_sorted: bool,
    /// The hash of each part that may be chosen, alone in its table, since a key without a
    /// partition is compared with all of them.
    hashes: Vec<u64>,
    /// As long as `hashes`: parts of a server are next to each other.
    parts: Vec<Choosable>,
    /// Where the parts of each server begin, and at the end how many there are.
    begins: Vec<u32>,
    fleet_version: Option<u64>,
    /// Changes with the servers that may be chosen, or their names.
    version: u32,
}

impl Order {
    pub(super) fn add(&mut self, replica: ReplicaId) {
        let identity = Identity {
            name: mix(replica.to_bits()),
            part: 0,
        };
        self.identities.insert(replica, Some(identity));
        self.known.push(Part { identity, replica });
        let count = self.known.len();
        self.hashes.reserve(count.saturating_sub(self.hashes.len()));
        self.parts.reserve(count.saturating_sub(self.parts.len()));
        self.begins.reserve((count + 1).saturating_sub(self.begins.len()));
        self.is_sorted = false;
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.identities.remove(replica);
        self.known.retain(|part| part.replica != replica);
    }

    pub(super) fn identify(&mut self, replica: ReplicaId, identity: Identity) {
        if let Some(known) = self.identities.find_mut(replica) {
            *known = Some(identity);
            self.is_sorted = false;
        }
    }

    /// Whether nothing has changed since the last [`Self::refresh`].
    #[inline]
    pub(super) fn is_current(&self, fleet: &Fleet) -> bool {
        self.is_sorted && self.fleet_version == Some(fleet.version())
    }

    /// Takes in changes of the fleet and of names.
    #[cold]
    pub(super) fn refresh(&mut self, fleet: &Fleet, loads: &mut Loads) {
        let mut is_changed = !self.is_sorted;
        if !self.is_sorted {
            for part in &mut self.known {
                if let Some(&Some(identity)) = self.identities.find(part.replica) {
                    part.identity = identity;
                }
            }
            self.known.sort_unstable();
            self.is_sorted = true;
        }
        self.fleet_version = Some(fleet.version());
        let before = self.parts.len();
        let mut count = 0;
        let (mut server, mut last) = (0, None);
        loads.clear();
        self.begins.clear();
        for part in &self.known {
            if !fleet.is_choosable(part.replica) {
                continue;
            }
            if last != Some(part.identity.name) {
                server = u32::try_from(self.begins.len()).unwrap_or(u32::MAX);
                self.begins.push(u32::try_from(count).unwrap_or(u32::MAX));
                last = Some(part.identity.name);
            }
            let choosable = Choosable {
                replica: part.replica,
                server,
            };
            is_changed |= count >= before || self.parts[count] != choosable;
            if count < self.parts.len() {
                self.parts[count] = choosable;
            } else {
                self.parts.push(choosable);
            }
            loads.place(part.replica, server);
            count += 1;
        }
        self.parts.truncate(count);
        self.begins.push(u32::try_from(count).unwrap_or(u32::MAX));
        if is_changed || count != before {
            self.version = self.version.wrapping_add(1);
            self.hash_all();
        }
    }

    fn hash_all(&mut self) {
        self.hashes.clear();
        for part in &self.parts {
            let identity = self.identities.find(part.replica).copied().flatten();
            let hash = identity.map_or(0, |it| mix(it.name ^ mix(it.part.into())));
            self.hashes.push(hash);
        }
    }

    /// A number that changes with the servers that may be chosen.
    pub(super) const fn version(&self) -> u32 {
        self.version
    }

    /// How many servers may be chosen.
    pub(super) const fn servers(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    /// How many parts may be chosen.
    pub(super) const fn all_parts(&self) -> usize {
        self.parts.len()
    }

    /// The parts of a server.
    pub(super) fn parts(&self, server: u32) -> impl Iterator<Item = ReplicaId> + '_ {
        let at = |place: usize| self.begins.get(place).map_or(0, |&begin| begin as usize);
        let (from, to) = (at(server as usize), at(server as usize + 1));
        let parts = self.parts.get(from..to).unwrap_or(&[]);
        parts.iter().map(|part| part.replica)
    }

    /// The number of parts of a server.
    pub(super) fn weight(&self, server: u32) -> u32 {
        let at = |place: usize| self.begins.get(place).copied().unwrap_or(0);
        at(server as usize + 1).saturating_sub(at(server as usize))
    }

    /// The first `width` servers for a key.
    pub(super) fn first(&self, key: u64, width: usize) -> First {
        let width = width.clamp(1, ORDERED_MAX);
        let factor = mix(key) | 1;
        let mut list = Best::new(width);
        let mut least = 0;
        for (place, &hash) in self.hashes.iter().enumerate() {
            let score = score(key ^ hash, factor);
            if score >= least {
                least = list.offer(score, self.parts[place].server);
            }
        }
        First {
            servers: list.servers,
            len: list.len,
        }
    }
}

/// The score of a part for a key: the product of their difference with an odd number that the key
/// determines, folded. For two parts and a random key, either is as likely to be higher.
#[inline]
fn score(difference: u64, factor: u64) -> u64 {
    let product = u128::from(difference) * u128::from(factor);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    let low = product as u64;
    (product >> u64::BITS) as u64 ^ low
}

/// The servers with the highest scores.
struct Best {
    scores: [u64; ORDERED_MAX],
    servers: [u32; ORDERED_MAX],
    len: usize,
    width: usize,
}

impl Best {
    const fn new(width: usize) -> Self {
        Self {
            scores: [0; ORDERED_MAX],
            servers: [0; ORDERED_MAX],
            len: 0,
            width,
        }
    }

    /// Takes in the score of a part. Of equals the earlier stays ahead. Returns the least score
    /// that can still enter.
    fn offer(&mut self, score: u64, server: u32) -> u64 {
        let taken = &self.servers[..self.len];
        // Each server is in the list once, with its highest score.
        let end = match taken.iter().position(|&other| other == server) {
            Some(place) if self.scores[place] >= score => return self.least(),
            Some(place) => place,
            None if self.len < self.width => {
                self.len += 1;
                self.len - 1
            }
            None if self.scores[self.len - 1] >= score => return self.least(),
            None => self.len - 1,
        };
        let mut place = end;
        while place > 0 && self.scores[place - 1] < score {
            self.scores[place] = self.scores[place - 1];
            self.servers[place] = self.servers[place - 1];
            place -= 1;
        }
        self.scores[place] = score;
        self.servers[place] = server;
        self.least()
    }

    const fn least(&self) -> u64 {
        if self.len < self.width {
            0
        } else {
            self.scores[self.len - 1]
        }
    }
}

#[cfg(test)]
mod tests;
