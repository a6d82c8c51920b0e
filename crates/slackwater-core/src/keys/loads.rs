//! The load of each server for the bound: what its replicas have reported plus what this client has
//! sent since, or what this client has in flight.
//!
//! A report counts for a second. From then on a replica counts with the client's own queries in
//! flight there, times as many as the reporting replicas have for each of the client's own: other
//! clients are assumed to have their part everywhere. All sums are kept as events arrive, so that a
//! query looks only at the servers of its key.

use crate::fixed::{ONE, mul_div};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::Rif;
use crate::time::Instant;
use alloc::vec::Vec;

/// How long a report counts, in nanoseconds.
const REPORT_AGE_MAX_NS: u64 = 1_000_000_000;

/// The place of a replica that may not be chosen.
const NOWHERE: u32 = u32::MAX;

/// What is known of one replica.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The server that it is a part of; [`NOWHERE`] while it may not be chosen.
    server: u32,
    /// Queries of this client in flight there.
    own: u32,
    /// The reported RIF plus the client's own queries sent since, minus those that have ended
    /// since; at least `own`. Only while the report counts.
    level: u32,
    is_reported: bool,
    reported_at: Instant,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            server: NOWHERE,
            own: 0,
            level: 0,
            is_reported: false,
            reported_at: Instant::EPOCH,
        }
    }
}

impl Row {
    fn sums(&self) -> Sums {
        let own = u64::from(self.own);
        if self.is_reported {
            Sums {
                level: self.level.into(),
                own_reported: own,
                own_unreported: 0,
            }
        } else {
            Sums {
                level: 0,
                own_reported: 0,
                own_unreported: own,
            }
        }
    }
}

/// Sums over replicas.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Levels of those whose reports count.
    level: u64,
    /// The client's own queries in flight at those.
    own_reported: u64,
    /// The client's own queries in flight at the others.
    own_unreported: u64,
}

impl Sums {
    const fn add(&mut self, other: Self) {
        self.level += other.level;
        self.own_reported += other.own_reported;
        self.own_unreported += other.own_unreported;
    }

    const fn subtract(&mut self, other: Self) {
        self.level -= other.level;
        self.own_reported -= other.own_reported;
        self.own_unreported -= other.own_unreported;
    }

    /// The load, where the reporting replicas are `all`.
    fn load(&self, all: &Self) -> u64 {
        if self.own_unreported == 0 {
            return self.level;
        }
        let others = mul_div(self.own_unreported, all.level + 1, all.own_reported + 1);
        self.level + others
    }
}

/// The most load at which servers still get queries of their keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cap {
    /// `factor × (load of all + 1)`, in millionths; `None` without a bound.
    whole: Option<u64>,
    parts: u64,
    /// The cap of a server of one part.
    of_one: u64,
}

impl Cap {
    /// The cap of a server that is this many of all parts, rounded up. `None` without a bound.
    pub(super) fn of(&self, parts: u32) -> Option<u64> {
        let whole = self.whole?;
        if parts == 1 {
            return Some(self.of_one);
        }
        let whole = whole.saturating_mul(parts.into());
        Some(whole.div_ceil(u64::from(ONE) * self.parts))
    }
}

/// The loads of all servers that may be chosen.
#[derive(Debug, Default)]
pub(super) struct Loads {
    rows: ReplicaMap<Row>,
    servers: Vec<Sums>,
    all: Sums,
    parts: u64,
    /// The replica whose report is checked next for its age.
    sweep: usize,
}

impl Loads {
    pub(super) fn add(&mut self, replica: ReplicaId) {
        self.rows.insert(replica, Row::default());
        let servers = replica.index() + 1;
        self.servers
            .reserve(servers.saturating_sub(self.servers.len()));
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.set(replica, |row| *row = Row::default());
        self.rows.remove(replica);
    }

    /// Starts again: no replica may be chosen.
    pub(super) fn clear(&mut self) {
        for row in self.rows.values_mut() {
            row.server = NOWHERE;
        }
        self.servers.clear();
        self.all = Sums::default();
        self.parts = 0;
    }

    /// Lets a replica be chosen as a part of a server: the last one, or the one after it.
    pub(super) fn place(&mut self, replica: ReplicaId, server: u32) {
        if self.servers.len() <= server as usize {
            self.servers.push(Sums::default());
        }
        self.parts += 1;
        self.set(replica, |row| row.server = server);
    }

    /// The server that a replica is a part of, while it may be chosen.
    pub(super) fn server(&self, replica: ReplicaId) -> Option<u32> {
        let row = self.rows.find(replica)?;
        (row.server != NOWHERE).then_some(row.server)
    }

    /// The client's own queries in flight at a replica.
    pub(super) fn own(&self, replica: ReplicaId) -> u32 {
        self.rows.find(replica).map_or(0, |row| row.own)
    }

    fn set(&mut self, replica: ReplicaId, set: impl FnOnce(&mut Row)) {
        let Some(row) = self.rows.find_mut(replica) else {
            return;
        };
        if let Some(server) = self.servers.get_mut(row.server as usize) {
            server.subtract(row.sums());
            self.all.subtract(row.sums());
        }
        set(row);
        if let Some(server) = self.servers.get_mut(row.server as usize) {
            server.add(row.sums());
            self.all.add(row.sums());
        }
    }

    pub(super) fn reported(&mut self, now: Instant, replica: ReplicaId, rif: Rif) {
        self.set(replica, |row| {
            row.level = rif.count().max(row.own);
            row.is_reported = true;
            row.reported_at = now;
        });
    }

    /// Counts queries of other clients until the replica reports again.
    pub(super) fn siblings_sent(&mut self, replica: ReplicaId, queries: u32) {
        self.set(replica, |row| row.level = row.level.saturating_add(queries));
    }

    pub(super) fn sent(&mut self, replica: ReplicaId) {
        let Some(row) = self.rows.find_mut(replica) else {
            return;
        };
        row.own = row.own.saturating_add(1);
        let is_reported = row.is_reported;
        let more = u64::from(is_reported && row.level < u32::MAX);
        row.level = row.level.saturating_add(1);
        if let Some(server) = self.servers.get_mut(row.server as usize) {
            for sums in [server, &mut self.all] {
                sums.level += more;
                sums.own_reported += u64::from(is_reported);
                sums.own_unreported += u64::from(!is_reported);
            }
        }
    }

    pub(super) fn done(&mut self, replica: ReplicaId) {
        let Some(row) = self.rows.find_mut(replica) else {
            return;
        };
        if row.own == 0 {
            return;
        }
        row.own -= 1;
        let is_reported = row.is_reported;
        let level = row.level.saturating_sub(1);
        let fewer = u64::from(if is_reported { row.level - level } else { 0 });
        row.level = level;
        if let Some(server) = self.servers.get_mut(row.server as usize) {
            for sums in [server, &mut self.all] {
                sums.level -= fewer;
                sums.own_reported -= u64::from(is_reported);
                sums.own_unreported -= u64::from(!is_reported);
            }
        }
    }

    /// Lets the report of a replica count no longer, if it is old.
    #[inline]
    pub(super) fn expire(&mut self, now: Instant, replica: ReplicaId) {
        if let Some(row) = self.rows.find(replica)
            && row.is_reported
            && now.ns_since(row.reported_at) >= REPORT_AGE_MAX_NS
        {
            self.set(replica, |row| row.is_reported = false);
        }
    }

    /// Checks the report of the next of these replicas for its age.
    pub(super) fn sweep(&mut self, now: Instant, replicas: &[ReplicaId]) {
        if let Some(&replica) = replicas.get(self.sweep) {
            self.expire(now, replica);
            self.sweep += 1;
        } else {
            self.sweep = 0;
        }
    }

    /// The load of a server.
    #[inline]
    pub(super) fn load(&self, server: u32) -> u64 {
        let sums = self.servers.get(server as usize);
        sums.map_or(0, |sums| sums.load(&self.all))
    }

    /// The cap with this factor, for the query that is about to be sent. A factor of 0 is none.
    pub(super) fn cap(&self, factor_millionths: u32) -> Cap {
        let load = self.all.load(&self.all) + 1;
        let whole = load.saturating_mul(factor_millionths.into());
        let parts = self.parts.max(1);
        Cap {
            whole: (factor_millionths > 0).then_some(whole),
            parts,
            of_one: whole.div_ceil(u64::from(ONE) * parts),
        }
    }
}

#[cfg(test)]
mod tests;
