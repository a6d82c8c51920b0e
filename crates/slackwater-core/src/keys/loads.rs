//! The load of each server for the bound, and the load from which it is too much.
//!
//! The load is what a server's replicas have reported plus what this client has sent since, or what
//! this client has in flight. A report counts for a second. From then on a replica counts with the
//! client's own queries in flight there, times as many as the reporting replicas have for each of
//! the client's own: other clients are assumed to have their part everywhere.
//!
//! How much is too much depends on how fast a server is. The next query takes about
//! `(load + 1) × mean latency` there, and a server is at its cap if that is more than `factor`
//! times the mean over the parts of the other servers. `[Decision 0022]`
//!
//! All sums are kept as events arrive, so that a query looks only at the servers of its key. Their
//! reports are checked for their age at each such look, and those of all others in turn, one for
//! each query.

use crate::fixed::{ONE, mul_div};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::LoadReport;
use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;

/// How long a report counts, in nanoseconds.
const REPORT_AGE_MAX_NS: u64 = 1_000_000_000;

/// The mean latency of a replica moves by the difference to the latest over this.
const LATENCY_MEMORY: i64 = 64;

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
    level: u64,
    is_reported: bool,
    reported_at: Instant,
    /// Mean latency in microseconds, from 1 up; 0 if none is known.
    latency_us: u32,
    /// The mean is of reported latencies. Those that this client measures move it only once none
    /// has been reported for a second.
    reports_latency: bool,
    latency_reported_at: Instant,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            server: NOWHERE,
            own: 0,
            level: 0,
            is_reported: false,
            reported_at: Instant::EPOCH,
            latency_us: 0,
            reports_latency: false,
            latency_reported_at: Instant::EPOCH,
        }
    }
}

impl Row {
    fn sums(&self) -> Sums {
        let own = u64::from(self.own);
        let (level, own_reported, own_unreported) = if self.is_reported {
            (self.level, own, 0)
        } else {
            (0, 0, own)
        };
        let latency = u64::from(self.latency_us);
        let is_known = u64::from(latency > 0);
        Sums {
            level,
            own_reported,
            own_unreported,
            timed: Timed {
                parts: is_known,
                level: level * is_known,
                own_unreported: own_unreported * is_known,
                latency,
                work: level.wrapping_mul(latency),
                own_work: own_unreported.wrapping_mul(latency),
            },
        }
    }

    /// Takes in a latency.
    fn measured(&mut self, latency: Duration) {
        let us = u32::try_from(latency.as_micros())
            .unwrap_or(u32::MAX)
            .max(1);
        self.latency_us = if self.latency_us == 0 {
            us
        } else {
            let (mean, latest) = (i64::from(self.latency_us), i64::from(us));
            // Away from zero, so that the mean reaches a lasting value.
            let step =
                (latest - mean + (latest - mean).signum() * (LATENCY_MEMORY - 1)) / LATENCY_MEMORY;
            u32::try_from(mean + step).unwrap_or(u32::MAX)
        };
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
    /// Sums over the replicas whose mean latency is known.
    timed: Timed,
}

/// Sums over replicas whose mean latency is known, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Timed {
    /// How many they are.
    parts: u64,
    level: u64,
    own_unreported: u64,
    latency: u64,
    /// `level × latency`, modulo 2^64: that is half a million queries in flight that each take a
    /// year.
    work: u64,
    /// `own_unreported × latency`, likewise.
    own_work: u64,
}

impl Sums {
    /// Counts one more query of the client at a replica of this latency; 0 if none is known.
    #[inline]
    fn sent(&mut self, is_reported: bool, latency: u64) {
        let is_timed = u64::from(latency > 0);
        if is_reported {
            self.level += 1;
            self.own_reported += 1;
            self.timed.level += is_timed;
            self.timed.work = self.timed.work.wrapping_add(latency);
        } else {
            self.own_unreported += 1;
            self.timed.own_unreported += is_timed;
            self.timed.own_work = self.timed.own_work.wrapping_add(latency);
        }
    }

    /// Counts one fewer.
    #[inline]
    fn done(&mut self, is_reported: bool, latency: u64) {
        let is_timed = u64::from(latency > 0);
        if is_reported {
            self.level -= 1;
            self.own_reported -= 1;
            self.timed.level -= is_timed;
            self.timed.work = self.timed.work.wrapping_sub(latency);
        } else {
            self.own_unreported -= 1;
            self.timed.own_unreported -= is_timed;
            self.timed.own_work = self.timed.own_work.wrapping_sub(latency);
        }
    }

    const fn add(&mut self, other: Self) {
        self.level += other.level;
        self.own_reported += other.own_reported;
        self.own_unreported += other.own_unreported;
        self.timed.parts += other.timed.parts;
        self.timed.level += other.timed.level;
        self.timed.own_unreported += other.timed.own_unreported;
        self.timed.latency += other.timed.latency;
        self.timed.work = self.timed.work.wrapping_add(other.timed.work);
        self.timed.own_work = self.timed.own_work.wrapping_add(other.timed.own_work);
    }

    const fn subtract(&mut self, other: Self) {
        self.level -= other.level;
        self.own_reported -= other.own_reported;
        self.own_unreported -= other.own_unreported;
        self.timed.parts -= other.timed.parts;
        self.timed.level -= other.timed.level;
        self.timed.own_unreported -= other.timed.own_unreported;
        self.timed.latency -= other.timed.latency;
        self.timed.work = self.timed.work.wrapping_sub(other.timed.work);
        self.timed.own_work = self.timed.own_work.wrapping_sub(other.timed.own_work);
    }

    /// The load, where the reporting replicas are `all`.
    fn load(&self, all: &Self) -> u64 {
        self.level + all.scaled(self.own_unreported)
    }

    /// What the client's own queries at unreported replicas count, where these are the sums over
    /// all.
    fn scaled(&self, own: u64) -> u64 {
        if own == 0 {
            return 0;
        }
        mul_div(own, self.level + 1, self.own_reported + 1)
    }
}

/// The expected delays of all parts, from which caps follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    /// `Σ (load + 1) × latency`, in microseconds.
    all: u64,
    /// The latency of a part of which none is known.
    usual_us: u64,
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

    pub(super) fn reported(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        self.set(replica, |row| {
            row.level = report.rif.count().max(row.own).into();
            row.is_reported = true;
            row.reported_at = now;
            if let Some(latency) = report.known_latency() {
                if !row.reports_latency {
                    (row.reports_latency, row.latency_us) = (true, 0);
                }
                row.latency_reported_at = now;
                row.measured(latency);
            }
        });
    }

    /// Takes in the latency of a query of this client, unless the replica has just reported one.
    pub(super) fn answered(&mut self, now: Instant, replica: ReplicaId, latency: Duration) {
        let age_ns = |row: &Row| now.ns_since(row.latency_reported_at);
        let row = self.rows.find(replica);
        if row.is_some_and(|row| !row.reports_latency || age_ns(row) >= REPORT_AGE_MAX_NS) {
            self.set(replica, |row| row.measured(latency));
        }
    }

    /// Counts queries of other clients until the replica reports again.
    pub(super) fn siblings_sent(&mut self, replica: ReplicaId, queries: u32) {
        self.set(replica, |row| {
            row.level = row.level.saturating_add(queries.into());
        });
    }

    pub(super) fn sent(&mut self, replica: ReplicaId) {
        let Some(row) = self.rows.find_mut(replica) else {
            return;
        };
        row.own = row.own.saturating_add(1);
        row.level = row.level.saturating_add(1);
        if let Some(server) = self.servers.get_mut(row.server as usize) {
            server.sent(row.is_reported, row.latency_us.into());
            self.all.sent(row.is_reported, row.latency_us.into());
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
        row.level -= 1;
        if let Some(server) = self.servers.get_mut(row.server as usize) {
            server.done(row.is_reported, row.latency_us.into());
            self.all.done(row.is_reported, row.latency_us.into());
        }
    }

    /// Lets the report of a replica count no longer, if it is old.
    #[inline]
    pub(super) fn expire(&mut self, now: Instant, replica: ReplicaId) {
        if let Some(row) = self.rows.find(replica)
            && row.is_reported
            && now.ns_since(row.reported_at) >= REPORT_AGE_MAX_NS
        {
            self.forget_report(replica);
        }
    }

    #[cold]
    fn forget_report(&mut self, replica: ReplicaId) {
        self.set(replica, |row| row.is_reported = false);
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

    /// The expected delays as of now.
    pub(super) fn delays(&self) -> Delays {
        let timed = &self.all.timed;
        let usual_us = timed.latency.checked_div(timed.parts).unwrap_or(1);
        Delays {
            all: self.delay(&self.all, self.parts, usual_us),
            usual_us,
        }
    }

    /// `Σ (load + 1) × latency` over this many parts with these sums.
    #[inline]
    fn delay(&self, sums: &Sums, parts: u64, usual_us: u64) -> u64 {
        let timed = &sums.timed;
        let delay = (timed.work)
            .saturating_add(timed.latency)
            .saturating_add(self.all.scaled(timed.own_work));
        if timed.parts == parts {
            return delay;
        }
        let untimed = sums.level - timed.level
            + self.all.scaled(sums.own_unreported - timed.own_unreported)
            + parts.saturating_sub(timed.parts);
        delay.saturating_add(untimed.saturating_mul(usual_us))
    }

    /// The load at which a server with this many parts is at its cap, by this factor in millionths.
    /// `None` if there is no other server, or if the factor is 0, which is no bound.
    #[inline]
    pub(super) fn cap_of(&self, server: u32, parts: usize, factor: u32, of: Delays) -> Option<u64> {
        let parts = parts as u64;
        let others = self.parts.saturating_sub(parts);
        let sums = self.servers.get(server as usize)?;
        if others == 0 || factor == 0 {
            return None;
        }
        let delay = of.all.saturating_sub(self.delay(sums, parts, of.usual_us));
        let delay = mul_div(delay, factor.into(), u64::from(ONE) * others);
        // `parts × delay / latency`, where the latency is the mean of the parts. An idle server
        // keeps its keys, however slow it is.
        let untimed = parts.saturating_sub(sums.timed.parts);
        let latency = sums.timed.latency + untimed * of.usual_us;
        Some((delay.saturating_mul(parts * parts) / latency.max(1)).max(1))
    }

    /// The load at which a server is at its cap if it has one part, the usual latency, and no more
    /// load than the others.
    pub(super) fn usual_cap(&self, factor: u32) -> Option<u64> {
        if self.parts < 2 || factor == 0 {
            return None;
        }
        let of = self.delays();
        let delay = mul_div(of.all, factor.into(), u64::from(ONE) * self.parts);
        Some((delay / of.usual_us.max(1)).max(1))
    }
}

#[cfg(test)]
mod tests;
