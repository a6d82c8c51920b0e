//! The order of a key's servers: rendezvous hashing with weights.
//!
//! A key and a server give a score, a fraction of one, and a server's weight is the number of its
//! parts that may be chosen. The order of a key's servers is that of `−log2(score) / weight`, from
//! the lowest up. So a server of weight w is first for w times as many keys, and one that leaves,
//! joins or gets another weight moves only keys that it had or gets. The order is the same if all
//! weights are multiplied by one number. All clients that know the same names agree.

use super::loads::Loads;
use crate::draw::mix;
use crate::key::Identity;
use crate::logarithm::minus_log2;
use crate::policy::{Fleet, Query};
use crate::replica::{ReplicaId, ReplicaIds, ReplicaMap};
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

/// The parts of the fleet, and the servers that may be chosen.
#[derive(Debug, Default)]
pub(super) struct Order {
    known: Vec<Part>,
    /// The place of a replica in `known` is only as current as `is_sorted`; so names are here.
    identities: ReplicaMap<Option<Identity>>,
    is_sorted: bool,
    /// The hash of each server that may be chosen, alone in its table, since a key without a
    /// partition is compared with all of them.
    hashes: Vec<u64>,
    /// Servers do not have the same number of parts.
    is_weighted: bool,
    /// The parts that may be chosen: those of a server are next to each other.
    parts: Vec<ReplicaId>,
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
        self.begins
            .reserve((count + 1).saturating_sub(self.begins.len()));
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
            is_changed |= count >= before || self.parts[count] != part.replica;
            if count < self.parts.len() {
                self.parts[count] = part.replica;
            } else {
                self.parts.push(part.replica);
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
        self.is_weighted = false;
        for server in self.begins.windows(2) {
            let (begin, end) = (server[0] as usize, server[1] as usize);
            let replica = self.parts.get(begin);
            let identity = replica.and_then(|&it| self.identities.find(it).copied().flatten());
            let hash = identity.map_or(0, |it| mix(it.name ^ mix(0)));
            self.hashes.push(hash);
            self.is_weighted |= end - begin != self.parts.len() / self.servers();
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
    #[inline]
    pub(super) fn parts(&self, server: u32) -> &[ReplicaId] {
        let at = |place: usize| self.begins.get(place).map_or(0, |&begin| begin as usize);
        let (from, to) = (at(server as usize), at((server as usize).saturating_add(1)));
        self.parts.get(from..to).unwrap_or(&[])
    }

    /// The first `width` servers for a key.
    pub(super) fn first(&self, key: u64, width: usize) -> First {
        let width = width.clamp(1, ORDERED_MAX).min(self.servers());
        if self.is_weighted {
            return self.first_of_all(key, width);
        }
        if width == 1 {
            return First::of(&[self.home(key)]);
        }
        let servers = self.hashes.len();
        // Scores are uniform, so of a large fleet the first servers are nearly always among those
        // of a few high scores. Only those need a closer look.
        let few = width + width / 2 + 3;
        if servers > few {
            let least = (u64::MAX / servers as u64).saturating_mul((servers - few) as u64);
            if let Some(first) = self.first_above(key, width, least) {
                return first;
            }
        }
        self.first_of_all(key, width)
    }

    /// The first server of at least one, where all have the same weight.
    fn home(&self, key: u64) -> u32 {
        let factor = mix(key) | 1;
        let (mut best, mut least) = (0, 0);
        // Few scores are the highest so far, so that the others take no more than this comparison.
        // Of equal ones the higher server wins.
        let mut offer = |place: usize, hash: u64| {
            let score = score(key ^ hash, factor);
            if score >= least {
                (best, least) = (place, score & !SERVER_MASK);
            }
        };
        let (chunks, rest) = self.hashes.as_chunks::<16>();
        for (number, chunk) in chunks.iter().enumerate() {
            for (place, &hash) in chunk.iter().enumerate() {
                offer(number * 16 + place, hash);
            }
        }
        for (place, &hash) in rest.iter().enumerate() {
            offer(chunks.len() * 16 + place, hash);
        }
        u32::try_from(best).unwrap_or(0)
    }

    /// The first servers, where all have the same weight. `None` if fewer or many more than `width`
    /// have a score of `least`.
    fn first_above(&self, key: u64, width: usize, least: u64) -> Option<First> {
        let factor = mix(key) | 1;
        let mut high = High {
            entries: [0; HIGH_MAX],
            len: 0,
        };
        let (fours, rest) = self.hashes.as_chunks::<4>();
        let mut server = 0;
        for &[a, b, c, d] in fours {
            let (a, b) = (score(key ^ a, factor), score(key ^ b, factor));
            let (c, d) = (score(key ^ c, factor), score(key ^ d, factor));
            if a.max(b).max(c.max(d)) >= least {
                high.add_from(least, a, server);
                high.add_from(least, b, server + 1);
                high.add_from(least, c, server + 2);
                high.add_from(least, d, server + 3);
            }
            server += 4;
        }
        for &hash in rest {
            high.add_from(least, score(key ^ hash, factor), server);
            server += 1;
        }
        let high = high.entries.get_mut(..high.len)?;
        if high.len() < width {
            return None;
        }
        let mut best = Best::new(width);
        for &mut entry in high {
            best.offer((0, entry));
        }
        Some(best.first())
    }

    fn first_of_all(&self, key: u64, width: usize) -> First {
        let factor = mix(key) | 1;
        let mut best = Best::new(width);
        if !self.is_weighted {
            for (&hash, server) in self.hashes.iter().zip(0..) {
                best.offer((0, entry_of(score(key ^ hash, factor), server)));
            }
            return best.first();
        }
        let mut too_much = u64::MAX;
        for ((&hash, ends), server) in self.hashes.iter().zip(self.begins.windows(2)).zip(0..) {
            let score = score(key ^ hash, factor);
            let weight = u64::from((ends[1] - ends[0]).max(1));
            // `−log2(score)` exceeds `1 − score`, so most servers need no logarithm.
            if !score >> 8 < too_much.saturating_mul(weight) {
                let rank = !(minus_log2(score) / weight);
                best.offer((rank, entry_of(score, server)));
                too_much = best.cost_max().saturating_add(1);
            }
        }
        best.first()
    }
}

/// Most high scores for which the short way is taken.
const HIGH_MAX: usize = 64;

/// Entries with a high score.
struct High {
    entries: [u64; HIGH_MAX],
    /// More than [`HIGH_MAX`] if there were too many.
    len: usize,
}

impl High {
    #[inline]
    fn add_from(&mut self, least: u64, score: u64, server: u32) {
        if score >= least {
            if let Some(entry) = self.entries.get_mut(self.len) {
                *entry = entry_of(score, server);
            }
            self.len += 1;
        }
    }
}

/// The lower bits of an entry, which have the server: there are at most as many as replicas.
const SERVER_MASK: u64 = ReplicaIds::MAX as u64 - 1;

/// The score of a server for a key: the product of their difference with an odd number that the key
/// determines. For two servers and a random key, either is as likely to be higher.
#[inline]
const fn score(difference: u64, factor: u64) -> u64 {
    difference.wrapping_mul(factor)
}

/// A score, whose lower bits are those of the server.
#[inline]
fn entry_of(score: u64, server: u32) -> u64 {
    (score & !SERVER_MASK) | u64::from(server)
}

/// The servers of the highest ranks, each with its score. A rank is the complement of
/// `−log2(score) / weight`, or 0 if all weights are the same. The lower bits of a score are its
/// server, so of equal ones the server with the higher name wins, for all clients.
struct Best {
    list: [(u64, u64); ORDERED_MAX],
    len: usize,
    width: usize,
}

impl Best {
    const fn new(width: usize) -> Self {
        Self {
            list: [(0, 0); ORDERED_MAX],
            len: 0,
            width,
        }
    }

    /// The largest `−log2(score) / weight`, once there are as many as the width.
    #[inline]
    const fn cost_max(&self) -> u64 {
        // Places that are not taken have the rank 0.
        !self.list[self.width - 1].0
    }

    #[inline]
    fn offer(&mut self, entry: (u64, u64)) {
        let mut place = self.len;
        if self.len == self.width {
            place -= 1;
            if self.list[place] >= entry {
                return;
            }
        } else {
            self.len += 1;
        }
        while place > 0 && self.list[place - 1] < entry {
            self.list[place] = self.list[place - 1];
            place -= 1;
        }
        self.list[place] = entry;
    }

    fn first(&self) -> First {
        let mut first = First::NONE;
        for (server, (_, entry)) in first.servers.iter_mut().zip(&self.list[..self.len]) {
            *server = u32::try_from(entry & SERVER_MASK).unwrap_or(u32::MAX);
        }
        first.len = self.len;
        first
    }
}

#[cfg(test)]
mod tests;
