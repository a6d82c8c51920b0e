//! What a replica says of its own load.
//!
//! A [`LoadReport`] is the answer to a probe. Requests in flight and latency decide; everything
//! else is optional, and absent from replicas that do not know it. How a report travels is the
//! adapters' business (`docs/reference/probe-protocol.md`).

use crate::draw::{Draw, below};
use crate::replica::ReplicaId;
use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

/// Where a replica answers probes over HTTP, by default.
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

    /// One more query in flight; stays at 2^32 − 1 once there.
    pub(crate) const fn plus_one(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Rif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// By how much a replica scales its load for one query, in 1/1024: 1024 is its true load, 102 looks
/// ten times less loaded, 2048 twice as loaded. `[S3]` `[Prequal §4 "Synchronous mode"]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadScale(u16);

impl LoadScale {
    /// The true load.
    pub const ONE: Self = Self(1024);

    /// A scale of `parts` / 1024, from 1 up; 0 would say "never busy", which no replica is, and
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
    /// Estimated latency of the next query; `None` where the replica has no recent sample. Unknown
    /// is never zero, and zero is never known: no query takes no time, so policies go by
    /// [`LoadReport::known_latency`].
    pub latency: Option<Duration>,
    /// The replica's wish for this one query; the true load by default. Only synchronous probing
    /// looks at it. `[S3]`
    pub load_scale: LoadScale,
    /// The replica wants no new queries: it shuts down, or the server behind its agent is gone.
    pub draining: bool,
    /// Changes whenever the replica restarts; any value, compared for equality only.
    pub incarnation: Option<u64>,
    /// Share of recent queries that failed, in millionths.
    pub error_millionths: Option<u32>,
    /// CPU in use, in millionths of what the replica is allocated; may exceed one.
    pub cpu_millionths: Option<u32>,
    /// Finished queries, in thousandths of a query each second.
    pub query_rate_millis: Option<u32>,
    /// How much the replica can carry, in thousandths of a request in flight: 1 or more. Below
    /// 1,000, of a replica that gets less than a core, a query takes so much longer than its cost
    /// even alone. `[Decision 0009]`
    pub capacity_millirif: Option<u32>,
    /// CPU time for each query.
    pub cost: Option<Duration>,
}

/// The last load that a replica has reported, as those see it who look at a fleet from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Which replica, or which part of one. What it reports is of the whole.
    pub replica: ReplicaId,
    /// Requests in flight.
    pub rif: Rif,
    /// Estimated latency; `None`: it does not know. After a report that came with a response, and
    /// said nothing of it, what it last said.
    pub latency: Option<Duration>,
    /// What it can carry, in thousandths of a request in flight; `None`: it does not say. Otherwise
    /// as `latency`.
    pub capacity_millirif: Option<u32>,
    /// What a query costs there: CPU time, or the latency that stands for it; as above.
    pub cost: Option<Duration>,
    /// Time since it came.
    pub age: Duration,
}

impl LoadReport {
    /// A report of the two signals that decide; all else absent. A latency of zero is unknown.
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

    /// The latency, unless it is unknown. Zero is: some replicas report it where they have no
    /// sample, or where their clock is too coarse, and a policy that multiplies by it would see no
    /// difference between an idle replica and a full one.
    pub const fn known_latency(&self) -> Option<Duration> {
        known(self.latency)
    }

    /// The report of one of `parts` equal parts of the replica that made this one: a replica of
    /// that weight. Each part has its share of the queries in flight, rounded by the draw so that
    /// the mean holds, of the query rate and of the capacity; latency and the share of CPU in use
    /// are those of the whole. A replica of one part needs no draw.
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
    fn a_latency_of_zero_is_unknown_however_it_got_there() {
        let report = LoadReport::new(Rif::ZERO, Some(Duration::ZERO));
        assert_eq!(report, LoadReport::new(Rif::ZERO, None));
        let mut report = LoadReport::new(Rif::ZERO, Some(Duration::from_nanos(1)));
        assert_eq!(report.known_latency(), Some(Duration::from_nanos(1)));
        report.latency = Some(Duration::ZERO);
        assert_eq!(report.known_latency(), None);
    }
}
