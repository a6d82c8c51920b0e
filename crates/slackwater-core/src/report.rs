//! A replica's report of its own load.
//!
//! A [`LoadReport`] is the answer to a probe. Requests in flight and latency decide. Everything
//! else is optional, and absent if the replica does not have it. Adapters define how a report is
//! transported (`docs/reference/probe-protocol.md`).

use crate::draw::{Draw, below};
use crate::replica::ReplicaId;
use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

/// Default HTTP path at which a replica answers probes.
pub const PROBE_PATH: &str = "/prequal/probe";

/// Requests in flight: queries that a replica has received and not yet finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rif(u32);

impl Rif {
    /// Nothing in flight.
    pub const ZERO: Self = Self(0);

    /// `count` queries in flight.
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// How many queries are in flight.
    pub const fn count(self) -> u32 {
        self.0
    }

    /// One more query in flight, at most 2^32 − 1.
    #[must_use]
    pub const fn plus_one(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Rif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Factor by which a replica scales its load for one query, in 1/1024: 1024 is its true load, 102
/// looks ten times less loaded, 2048 twice as loaded. `[S3]` `[Prequal §4 "Synchronous mode"]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadScale(u16);

impl LoadScale {
    /// The true load.
    pub const ONE: Self = Self(1024);

    /// A scale of `parts` / 1024, from 1 up. 0 would mean "never busy", which no replica is, and
    /// counts as 1.
    pub const fn from_1024ths(parts: u16) -> Self {
        Self(if parts == 0 { 1 } else { parts })
    }

    /// The scale in 1/1024.
    pub const fn in_1024ths(self) -> u16 {
        self.0
    }
}

impl Default for LoadScale {
    fn default() -> Self {
        Self::ONE
    }
}

/// A replica's answer to a probe. `[T6]` `[Prequal §4 "Load signals"]`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Requests in flight at this instant.
    pub rif: Rif,
    /// Estimated latency of the next query. `None` if the replica has no recent sample. A latency
    /// of zero counts as unknown, since no query takes no time: policies use
    /// [`LoadReport::known_latency`].
    pub latency: Option<Duration>,
    /// Scale that the replica requests for this one query; the true load by default. Only
    /// synchronous probing uses it. `[S3]`
    pub load_scale: LoadScale,
    /// The replica takes no new queries: it shuts down, or the server behind its agent is gone.
    pub draining: bool,
    /// Changes whenever the replica restarts. Any value; only compared for equality.
    pub incarnation: Option<u64>,
    /// Share of recent queries that failed, in millionths.
    pub error_millionths: Option<u32>,
    /// CPU in use, in millionths of what the replica is allocated; may exceed one.
    pub cpu_millionths: Option<u32>,
    /// Finished queries, in thousandths of a query per second.
    pub query_rate_millis: Option<u32>,
    /// Capacity of the replica, in thousandths of a request in flight: 1 or more. Below 1,000 the
    /// replica gets less than a core, and even a query alone takes longer than its cost by that
    /// factor. `[Decision 0009]`
    pub capacity_millirif: Option<u32>,
    /// CPU time per query.
    pub cost: Option<Duration>,
}

/// The last load that a replica has reported, as seen from outside the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The replica, or the part of one. Its report is about the whole replica.
    pub replica: ReplicaId,
    /// Requests in flight.
    pub rif: Rif,
    /// Estimated latency; `None` if unknown. A report that came with a response and has no latency
    /// leaves the earlier one.
    pub latency: Option<Duration>,
    /// Capacity, in thousandths of a request in flight; `None` if not reported. Kept as `latency`
    /// is.
    pub capacity_millirif: Option<u32>,
    /// Cost of a query: CPU time, or the latency that stands for it. Kept as `latency` is.
    pub cost: Option<Duration>,
    /// Time since the report was received.
    pub age: Duration,
}

impl LoadReport {
    /// A report of the two signals that decide; all else is absent. A latency of zero is unknown.
    pub const fn new(rif: Rif, latency: Option<Duration>) -> Self {
        Self {
            rif,
            latency: known(latency),
            load_scale: LoadScale::ONE,
            draining: false,
            incarnation: None,
            error_millionths: None,
            cpu_millionths: None,
            query_rate_millis: None,
            capacity_millirif: None,
            cost: None,
        }
    }

    /// The latency, unless it is unknown. Zero is unknown: some replicas report it if they have no
    /// sample, or a clock that is too coarse. A policy that multiplies by it would see no
    /// difference between an idle replica and a full one.
    pub const fn known_latency(&self) -> Option<Duration> {
        known(self.latency)
    }

    /// The report of one of `parts` equal parts of the replica that made this report, for a replica
    /// of that weight. Each part has its share of the query rate, of the capacity and of the
    /// queries in flight, which are rounded by the draw so that the mean holds. Latency and the
    /// share of CPU in use are those of the whole. With one part no draw is needed.
    #[must_use]
    pub fn of_part(&self, parts: NonZeroU32, draw: &mut dyn Draw) -> Self {
        let mut report = self.clone();
        if parts.get() > 1 {
            let up = below(draw, parts.get());
            report.rif = Rif(self.rif.0.saturating_add(up) / parts);
            report.query_rate_millis = self.query_rate_millis.map(|rate| rate / parts);
            report.capacity_millirif = self.capacity_millirif.map(|room| room / parts);
        }
        report
    }
}

const fn known(latency: Option<Duration>) -> Option<Duration> {
    match latency {
        Some(Duration::ZERO) => None,
        _ => latency,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_latency_is_unknown() {
        let report = LoadReport::new(Rif::ZERO, Some(Duration::ZERO));
        assert_eq!(report, LoadReport::new(Rif::ZERO, None));
        let mut report = LoadReport::new(Rif::ZERO, Some(Duration::from_nanos(1)));
        assert_eq!(report.known_latency(), Some(Duration::from_nanos(1)));
        report.latency = Some(Duration::ZERO);
        assert_eq!(report.known_latency(), None);
    }
}
