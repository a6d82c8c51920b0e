//! Where each replica is: the table from the core's names to socket addresses.
//!
//! The core knows replicas by name only. The table is looked at in every pick, so it hashes names with one
//! multiplication: names are this process's own and nobody outside can choose them to collide.

use core::fmt;
use core::hash::{BuildHasherDefault, Hasher};
use core::net::SocketAddr;
use slackwater_core::{ReplicaId, ReplicaIds};
use std::collections::HashMap;

/// A map keyed by replica.
pub(super) type ReplicaMap<T> = HashMap<ReplicaId, T, BuildHasherDefault<ReplicaHasher>>;

/// Where a replica takes queries and where it answers probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaAddrs {
    /// Where queries go.
    pub query: SocketAddr,
    /// Where probes go: a UDP or a TCP port, as the prober wants it.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InsertError {
    /// A replica with this address for queries is in the fleet already.
    Duplicate {
        /// The address.
        addr: SocketAddr,
        /// Who has it.
        replica: ReplicaId,
    },
    /// The fleet has [`ReplicaIds::MAX`] replicas.
    Full,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { addr, replica } => write!(
                f,
                "a replica at {addr} is in the fleet already ({replica}); list each address once"
            ),
            Self::Full => write!(
                f,
                "the fleet has {} replicas, which is the most",
                ReplicaIds::MAX
            ),
        }
    }
}

impl core::error::Error for InsertError {}

/// The fleet's names and addresses.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    ids: ReplicaIds,
    addrs: ReplicaMap<ReplicaAddrs>,
    by_query_addr: HashMap<SocketAddr, ReplicaId>,
}

impl Replicas {
    pub(super) fn insert(&mut self, addrs: ReplicaAddrs) -> Result<ReplicaId, InsertError> {
        if let Some(&replica) = self.by_query_addr.get(&addrs.query) {
            return Err(InsertError::Duplicate {
                addr: addrs.query,
                replica,
            });
        }
        let replica = self.ids.allocate().ok_or(InsertError::Full)?;
        self.by_query_addr.insert(addrs.query, replica);
        self.addrs.insert(replica, addrs);
        Ok(replica)
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) -> Option<ReplicaAddrs> {
        let addrs = self.addrs.remove(&replica)?;
        self.by_query_addr.remove(&addrs.query);
        self.ids.release(replica);
        Some(addrs)
    }

    pub(super) fn len(&self) -> usize {
        self.addrs.len()
    }

    pub(super) fn addrs(&self, replica: ReplicaId) -> Option<ReplicaAddrs> {
        self.addrs.get(&replica).copied()
    }

    /// Whether any replica is probed there.
    pub(super) fn probes_at(&self, probe: SocketAddr) -> bool {
        self.by_query_addr
            .values()
            .any(|replica| self.addrs.get(replica).is_some_and(|a| a.probe == probe))
    }
}

/// Hashes a replica's name, which is two 32-bit numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReplicaHasher(u64);

impl Hasher for ReplicaHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        // The odd constant is 2^64 divided by the golden ratio; the map looks at both the high and the low bits.
        let mixed = (self.0.rotate_left(32) ^ u64::from(value)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
