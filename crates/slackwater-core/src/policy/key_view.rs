//! Keys as seen from outside: what the choice for a key was made from, and the busiest partitions.

use crate::policy::query::Query;
use crate::replica::ReplicaId;
use alloc::vec::Vec;

/// What the choice for a query with a key was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyChoice {
    /// The key's partition; `None` without partitions.
    pub partition: Option<u16>,
    /// How many of the first servers of [`set`](Self::set) are homes.
    pub homes: u8,
    pub(crate) servers: [KeyServer; Query::AMONG_MAX],
    pub(crate) len: u8,
}

/// A server of a key's set, at a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyServer {
    /// The server; if it has several parts, the one that would have got the query. If the query
    /// avoided all parts: one of them.
    pub replica: ReplicaId,
    /// Its load before the query, in requests in flight: reported, plus what this client has sent
    /// since.
    pub load: u64,
    /// The load from which it gets no more of its keys' queries. `None` without a bound.
    pub cap: Option<u64>,
    /// The query avoided it.
    pub avoided: bool,
}

impl KeyServer {
    pub(crate) const UNUSED: Self = Self {
        replica: ReplicaId::from_bits(u64::MAX),
        load: 0,
        cap: None,
        avoided: false,
    };

    /// Whether it gets queries of its keys.
    pub fn is_below_cap(&self) -> bool {
        self.cap.is_none_or(|cap| self.load < cap)
    }
}

impl KeyChoice {
    pub(crate) const EMPTY: Self = Self {
        partition: None,
        homes: 0,
        servers: [KeyServer::UNUSED; Query::AMONG_MAX],
        len: 0,
    };

    /// The key's servers in their order, homes first.
    pub fn set(&self) -> &[KeyServer] {
        self.servers.get(..self.len.into()).unwrap_or(&[])
    }
}

/// Keys in the state of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyView {
    /// The load from which a server of one part gets no more of its keys' queries. `None` without a
    /// bound.
    pub cap: Option<u64>,
    /// How many partitions have more than one home.
    pub replicated: u32,
    /// The partitions with the most queries in flight, at most [`KeyView::PARTITIONS_MAX`], the
    /// busiest first. Those that had no query are left out.
    pub partitions: Vec<PartitionView>,
}

impl KeyView {
    /// Most partitions that are shown.
    pub const PARTITIONS_MAX: usize = 16;
}

/// A partition of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionView {
    /// Its number, from 0.
    pub partition: u16,
    /// How many homes it has.
    pub homes: u8,
    /// Queries of this client in flight.
    pub in_flight: u32,
    /// Their mean over about a second, in thousandths.
    pub in_flight_millis: u64,
    /// Its queries per second, in thousandths, over about a second.
    pub query_rate_millis: u64,
    /// Its servers in their order, one replica of each. Empty if it has had no query since the
    /// fleet changed.
    pub servers: Vec<ReplicaId>,
}
