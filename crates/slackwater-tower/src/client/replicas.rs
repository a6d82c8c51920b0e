//! The table from the core's replica ids to socket addresses.
//!
//! The core identifies replicas by id only. Every pick looks into the table, so it hashes ids with
//! one multiplication. Ids are made by this process, so no attacker can choose them to collide.

use core::hash::{BuildHasherDefault, Hasher};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_core::key::Identity;
use slackwater_core::{ReplicaId, ReplicaIds};
use std::collections::HashMap;

/// A map keyed by replica.
pub(super) type ReplicaMap<T> = HashMap<ReplicaId, T, BuildHasherDefault<ReplicaHasher>>;

/// Where a replica takes queries and where it answers probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaAddrs {
    /// Where queries go.
    pub query: SocketAddr,
    /// Where probes go: a UDP or a TCP port, depending on the prober.
    pub probe: SocketAddr,
}

impl From<SocketAddr> for ReplicaAddrs {
    /// Probes go where queries go.
    fn from(addr: SocketAddr) -> Self {
        Self {
            query: addr,
            probe: addr,
        }
    }
}

/// Why a replica could not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// A replica with this address for queries is in the fleet already.
    #[error("a replica at {addr} is in the fleet already ({replica}); list each address once")]
    Duplicate {
        /// The address.
        addr: SocketAddr,
        /// The replica that has it.
        replica: ReplicaId,
    },
    /// The fleet has [`ReplicaIds::MAX`] replicas.
    #[error(
        "the fleet has {} replicas already, which is the limit",
        ReplicaIds::MAX
    )]
    Full,
}

/// The address of a part of a replica. A replica without a weight has one part.
#[derive(Clone, Copy, Debug)]
struct Part {
    addrs: ReplicaAddrs,
    parts: NonZeroU32,
    /// Its number among the parts, from 0, for its [`Identity`].
    number: u32,
    /// The round trip to its zone, if that is another one than this client's.
    far: Option<Duration>,
}

/// How a replica's parts changed.
#[derive(Debug)]
pub(super) struct Resized {
    pub(super) all: Vec<ReplicaId>,
    pub(super) joined: Vec<ReplicaId>,
    pub(super) left: Vec<ReplicaId>,
}

/// The fleet's ids and addresses.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    ids: ReplicaIds,
    parts: ReplicaMap<Part>,
    /// The parts of each replica, in an order that repeats. There is one at least.
    by_query_addr: HashMap<SocketAddr, Vec<ReplicaId>>,
    /// How many replicas are probed at each address.
    by_probe_addr: HashMap<SocketAddr, u32>,
}

impl Replicas {
    /// Adds a replica of `parts` parts, each with its own id.
    pub(super) fn insert(
        &mut self,
        addrs: ReplicaAddrs,
        parts: NonZeroU32,
    ) -> Result<Vec<ReplicaId>, InsertError> {
        if let Some(there) = self.by_query_addr.get(&addrs.query) {
            return Err(InsertError::Duplicate {
                addr: addrs.query,
                replica: there[0],
            });
        }
        let mut replicas = Vec::new();
        for _ in 0..parts.get() {
            let Some(replica) = self.ids.allocate() else {
                for replica in replicas {
                    self.ids.release(replica);
                }
                return Err(InsertError::Full);
            };
            replicas.push(replica);
        }
        for (number, &replica) in (0..).zip(&replicas) {
            let part = Part {
                addrs,
                parts,
                number,
                far: None,
            };
            self.parts.insert(replica, part);
        }
        self.by_query_addr.insert(addrs.query, replicas.clone());
        *self.by_probe_addr.entry(addrs.probe).or_default() += 1;
        Ok(replicas)
    }

    /// Changes the number of parts of the replica that `part` belongs to. Returns the parts that
    /// joined and left; `part` itself stays. Returns `None` if no replica has that id, or no ids
    /// are left.
    pub(super) fn resize(&mut self, part: ReplicaId, parts: NonZeroU32) -> Option<Resized> {
        let Part { addrs, far, .. } = *self.parts.get(&part)?;
        let mut stay = self.by_query_addr.get(&addrs.query)?.clone();
        // `part` first, then by number, so that the result is the same wherever the weight has this
        // value.
        stay.sort_by_key(|replica| (*replica != part, self.number(*replica)));
        let wanted = parts.get() as usize;
        let left = stay.split_off(wanted.min(stay.len()));
        let mut joined = Vec::new();
        while stay.len() + joined.len() < wanted {
            let Some(replica) = self.ids.allocate() else {
                for replica in joined {
                    self.ids.release(replica);
                }
                return None;
            };
            joined.push(replica);
        }
        for &replica in &left {
            self.parts.remove(&replica);
            self.ids.release(replica);
        }
        let taken: Vec<_> = (stay.iter()).map(|&replica| self.number(replica)).collect();
        let free = (0..).filter(|number| !taken.contains(number));
        let numbers = taken.iter().copied().chain(free);
        stay.extend(&joined);
        for (&replica, number) in stay.iter().zip(numbers) {
            let part = Part {
                addrs,
                parts,
                number,
                far,
            };
            self.parts.insert(replica, part);
        }
        self.by_query_addr.insert(addrs.query, stay.clone());
        Some(Resized {
            all: stay,
            joined,
            left,
        })
    }

    /// Removes a part of a replica, whose load the other parts share from now on. The address is
    /// free again once all parts are removed.
    pub(super) fn remove(&mut self, replica: ReplicaId) -> Option<ReplicaAddrs> {
        let Part { addrs, parts, .. } = self.parts.remove(&replica)?;
        self.ids.release(replica);
        let Some(left) = NonZeroU32::new(parts.get() - 1) else {
            self.by_query_addr.remove(&addrs.query);
            let probed = self.by_probe_addr.get_mut(&addrs.probe)?;
            *probed -= 1;
            if *probed == 0 {
                self.by_probe_addr.remove(&addrs.probe);
            }
            return Some(addrs);
        };
        let others = self.by_query_addr.get_mut(&addrs.query)?;
        others.retain(|&other| other != replica);
        for other in others {
            self.parts.get_mut(other)?.parts = left;
        }
        Some(addrs)
    }

    /// Sets how far all parts of a replica are. Returns those of which that is new; `None` if no
    /// replica has that id.
    pub(super) fn set_far(
        &mut self,
        part: ReplicaId,
        round_trip: Duration,
    ) -> Option<Vec<ReplicaId>> {
        let own = self.parts.get(&part)?;
        // All parts are as far as this one.
        if own.far == Some(round_trip) {
            return Some(Vec::new());
        }
        let all = self.by_query_addr.get(&own.addrs.query)?;
        for part in all {
            self.parts.get_mut(part)?.far = Some(round_trip);
        }
        Some(all.clone())
    }

    /// The round trip to the zone of a part, if that is another one than this client's.
    pub(super) fn far(&self, replica: ReplicaId) -> Option<Duration> {
        self.parts.get(&replica)?.far
    }

    pub(super) fn addrs(&self, replica: ReplicaId) -> Option<ReplicaAddrs> {
        self.parts.get(&replica).map(|part| part.addrs)
    }

    /// The number of a part among those of its replica.
    fn number(&self, part: ReplicaId) -> u32 {
        self.parts.get(&part).map_or(0, |part| part.number)
    }

    /// The name of a part that is the same for all clients: by its address and its number.
    pub(super) fn identity(&self, replica: ReplicaId) -> Option<Identity> {
        let part = self.parts.get(&replica)?;
        let address = part.addrs.query.to_string();
        Some(Identity::new(address.as_bytes(), part.number))
    }

    /// The number of parts of the replica that this one belongs to.
    pub(super) fn parts(&self, replica: ReplicaId) -> NonZeroU32 {
        self.parts
            .get(&replica)
            .map_or(NonZeroU32::MIN, |part| part.parts)
    }

    /// Whether any replica is probed at this address.
    pub(super) fn probes_at(&self, probe: SocketAddr) -> bool {
        self.by_probe_addr.contains_key(&probe)
    }
}

/// Hashes a replica's id, which is one number of 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplicaHasher(u64);

impl Hasher for ReplicaHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The odd constant is 2^64 divided by the golden ratio; the map looks at both the high and
        // the low bits.
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn parts(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).expect("not zero")
    }

    /// The identities of a replica whose weight has had these values.
    fn identities(weights: &[u32]) -> BTreeSet<Identity> {
        let mut replicas = Replicas::default();
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        let mut all = replicas
            .insert(address.into(), parts(weights[0]))
            .expect("room");
        for &weight in &weights[1..] {
            all = replicas.resize(all[0], parts(weight)).expect("room").all;
        }
        let identities = all.iter().filter_map(|&part| replicas.identity(part));
        identities.collect()
    }

    #[test]
    fn an_address_is_free_and_not_probed_after_the_last_part_there_has_left() {
        let mut replicas = Replicas::default();
        let probe = SocketAddr::from(([10, 0, 0, 1], 9));
        let at = |port| ReplicaAddrs {
            query: SocketAddr::from(([10, 0, 0, 1], port)),
            probe,
        };
        let one = replicas.insert(at(80), parts(1)).expect("room");
        let three = replicas.insert(at(81), parts(3)).expect("room");
        for left in [2, 1] {
            replicas.remove(three[left as usize]).expect("it is there");
            assert_eq!(replicas.parts(three[0]), parts(left));
            replicas.insert(at(81), parts(1)).expect_err("a duplicate");
        }
        replicas.remove(one[0]).expect("it is there");
        assert!(replicas.probes_at(probe), "by the last part");
        replicas.remove(three[0]).expect("it is there");
        assert!(!replicas.probes_at(probe));
        assert_eq!(replicas.insert(at(81), parts(1)).expect("room").len(), 1);
    }

    #[test]
    fn parts_have_the_same_identities_however_the_weight_came_about() {
        let of = |part| Identity::new(b"10.0.0.1:80", part);
        assert_eq!(identities(&[3]), BTreeSet::from([of(0), of(1), of(2)]));
        for weights in [&[1, 3][..], &[5, 3], &[5, 2, 4, 3], &[128, 1, 3]] {
            assert_eq!(identities(weights), identities(&[3]), "{weights:?}");
        }
    }
}
