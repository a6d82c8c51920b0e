//! What is learned of each replica: its mean latency, its capacity and cost, and the means of all.
//!
//! The mean latency is that of Little's law: requests in flight, on average, divided by finished
//! queries per second. Other means of what replicas report depend on the traffic that they decide.
//! A replica with little traffic has old samples, and while nothing ends there it reports how long
//! that has lasted. So it looks slow, and gets even less traffic. By Little's law each query counts
//! once, however long its report lasts. `[Decision 0020]`
//!
//! A replica that reports no query rate counts with the mean of the latencies that it reports.

use super::long_running::LongRunning;
use super::sum::{Sum, whole_ns};
use crate::fixed::{follow, mul_div, mul_shift};
use crate::policy::latest::{From, Reported};
use crate::policy::probed::recent_queries::RATE_NS;
use crate::policy::turns::FINE;
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::{Instant, span_ns};
use crate::tracker::RecentRates;

/// Fewest reports of a mean latency. It counts from then on.
const REPORTS_MIN: u64 = 8;
/// The time constant of means. The values in them are as old, on average, as the queries of a
/// reported rate, so both sides of Little's law are of one time.
const MEMORY_NS: u64 = span_ns(RecentRates::WINDOW) / 2;
/// Queries in the mean latency of an unprobed replica: chance moves it by 18 %.
const OWN_QUERIES: u64 = 16;
/// Queries as which the mean of the other replicas counts before the first own one.
const OWN_PRESUMED: u64 = 4;
/// An unprobed replica is tried again as one of which nothing is known this long after the last of
/// this client's own queries to it has ended.
const OWN_MEMORY_NS: u64 = 30_000_000_000;
/// Largest mean latency that is remembered, in means of the others. More makes no difference, and
/// would keep a replica that stood still, or had a long queue, out for long after it is well.
const LATENCY_MAX_MEANS: u64 = 4;
/// Latencies and costs of an hour or more count as this, so that no sum overflows.
const LATENCY_MAX: u64 = LATENCY_MAX_NS * FINE;
const LATENCY_MAX_NS: u64 = 1 << 42;
/// Parts of a request in mean RIF.
const RIF_PARTS: u64 = 1 << RIF_BITS;
const RIF_BITS: u32 = 20;
/// A mean while nothing is reported. All replicas are then equal, and the value does not matter.
const UNKNOWN_NS: u64 = 1_000_000;

/// What was learned of a replica. `Default` is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    /// 0 if it reports none.
    pub(super) capacity_millirif: u32,
    /// 0 if it reports none, or no capacity.
    pub(super) cost_ns: u64,
    /// Mean latency, in 1/1024 ns.
    latency: u64,
    /// Mean of the reported RIF.
    rif: u64,
    /// Reports in these means, counted up to [`REPORTS_MIN`]. For an unprobed replica, queries in
    /// the mean latency.
    reports: u64,
    /// When the first of these reports came.
    since: Instant,
    /// When the last of these reports came.
    at: Instant,
    /// Whether the mean latency is that of this client's own queries. The mean RIF then is none.
    own: bool,
}

impl Learned {
    /// The mean latency, in 1/1024 ns, if it counts yet.
    pub(super) fn latency(self) -> Option<u64> {
        let fewest = if self.own { 1 } else { REPORTS_MIN };
        (self.reports >= fewest).then_some(self.latency)
    }

    /// What it adds to the sums over all replicas.
    fn parts(&self) -> Parts {
        Parts {
            latency_ns: whole_ns(self.latency),
            capacity: self.capacity_millirif.into(),
            cost_ns: self.cost_ns,
        }
    }

    /// Takes in the latency of this client's own query, of an unprobed replica. `others` as in
    /// [`Self::learn`].
    fn learn_own(&mut self, now: Instant, latency_ns: u64, others: Sum) {
        self.own = true;
        self.since = now;
        self.at = now;
        let latency = (latency_ns.saturating_mul(FINE)).min(most(others).min(LATENCY_MAX));
        if self.reports == 0 {
            // A client has few queries of its own, and a slow replica must not wait for eight.
            self.reports = OWN_PRESUMED;
            self.latency = others.mean().map_or(latency, |ns| ns * FINE);
        }
        self.reports = (self.reports + 1).min(OWN_QUERIES);
        self.latency = follow(self.latency, latency, self.reports);
    }

    /// No query has ended there for long. It is tried again as one of which nothing is known.
    fn forget_latency(&mut self) {
        self.own = false;
        self.reports = 0;
        self.latency = 0;
    }

    /// Takes in a report. `others` are the mean latencies of the other replicas.
    fn learn(&mut self, now: Instant, reported: Reported, others: Sum) {
        let rate = u64::from(reported.query_rate_millis);
        let rif = u64::from(reported.rif.count()) * RIF_PARTS;
        let newest = match reported.latency_ns {
            Some(ns) => ns.min(LATENCY_MAX_NS) * FINE,
            None if rate > 0 => 0, // not used
            None => return self.forget_latency(),
        };
        if self.own && rate > 0 {
            // The replica answers now. Its mean latency goes on from that of the own queries.
            self.own = false;
            self.reports = REPORTS_MIN;
            self.rif = mul_div(self.latency, RIF_PARTS, interval(rate));
        }
        let parts = if self.reports < REPORTS_MIN {
            if self.reports == 0 {
                self.since = now;
            }
            self.reports += 1;
            self.reports
        } else {
            // The whole time since its first report counts equally until the memory is full.
            // Otherwise the first few reports would be half of it for long. A report right after
            // another adds almost nothing, since no time has passed.
            let remembered_ns = MEMORY_NS.min(self.at.ns_since(self.since));
            match remembered_ns.checked_div(now.ns_since(self.at)) {
                Some(spans) => REPORTS_MIN.max(spans.saturating_add(1)),
                None => return,
            }
        };
        self.at = now;
        self.rif = follow(self.rif, rif, parts);
        if rate > 0 {
            let interval = interval(rate);
            let latency = latency_of(self.rif, interval);
            self.latency = at_most(latency, others);
            if self.latency < latency {
                self.rif = mul_div(self.latency, RIF_PARTS, interval);
            }
        } else {
            self.latency = follow(self.latency, at_most(newest, others), parts);
        }
    }
}

/// The largest mean latency that is remembered, in 1/1024 ns.
fn most(others: Sum) -> u64 {
    let times = FINE * LATENCY_MAX_MEANS;
    (others.mean()).map_or(LATENCY_MAX, |mean_ns| mean_ns.saturating_mul(times))
}

/// A latency of at most [`LATENCY_MAX`], or the largest that is remembered.
fn at_most(latency: u64, others: Sum) -> u64 {
    // Nearly all latencies are that low. A multiplication shows it, without the mean of the others.
    let mean_min_ns = latency / (FINE * LATENCY_MAX_MEANS) + 1;
    if mean_min_ns * others.count < others.sum {
        latency
    } else {
        latency.min(most(others))
    }
}

/// The time from one query to the next at this rate, in 1/1024 ns.
fn interval(rate_millis: u64) -> u64 {
    RATE_NS * FINE / rate_millis.max(1)
}

/// Latency by Little's law, in 1/1024 ns: this mean RIF times the time between queries.
fn latency_of(rif: u64, interval: u64) -> u64 {
    mul_shift(rif, interval, RIF_BITS).clamp(1, LATENCY_MAX)
}

/// What a replica adds to the sums over all. 0 is none.
struct Parts {
    latency_ns: u64,
    capacity: u64,
    cost_ns: u64,
}

impl Parts {
    /// The index of its sum in [`Table::latencies`].
    const fn kind(&self) -> usize {
        (self.capacity > 0) as usize
    }
}

/// What was learned of all replicas.
#[derive(Debug, Default)]
pub(super) struct Table {
    replicas: ReplicaMap<Learned>,
    /// The mean latencies of replicas that report no capacity, and of those that do. In
    /// nanoseconds: the sum over a whole fleet fits.
    latencies: [Sum; 2],
    capacities: Sum,
    costs_ns: Sum,
    long_running: LongRunning,
}

impl Table {
    pub(super) fn add(&mut self, replica: ReplicaId) {
        self.replicas.insert(replica, Learned::default());
    }

    /// What was learned of this replica.
    pub(super) fn of(&self, replica: ReplicaId) -> Learned {
        self.replicas.find(replica).copied().unwrap_or_default()
    }

    pub(super) fn forget(&mut self, replica: ReplicaId) {
        self.change(replica, |learned, _| *learned = Learned::default());
    }

    /// Takes in a report. Returns what is learned of its replica now.
    pub(super) fn handle_report(&mut self, now: Instant, reported: Reported) -> Learned {
        let learned = self.change(reported.replica, |learned, others| {
            match reported.from {
                From::Probe { local: false } => learned.learn(now, reported, others),
                // This client's own latencies count one by one.
                From::Probe { local: true } if now.ns_since(learned.at) >= OWN_MEMORY_NS => {
                    learned.forget_latency();
                }
                // Only replicas that were picked send reports with responses.
                From::Probe { local: true } | From::Response => {}
            }
            learned.capacity_millirif = reported.capacity_millirif;
            learned.cost_ns = match reported.capacity_millirif {
                0 => 0,
                _ => reported.cost_ns.min(LATENCY_MAX_NS),
            };
        });
        if let (From::Probe { local: false }, Some(latency), Some(reported_ns)) =
            (reported.from, learned.latency(), reported.latency_ns)
            && reported.query_rate_millis > 0
        {
            self.long_running.learn(latency, reported_ns);
        }
        learned
    }

    /// How much counts of the differences between mean latencies.
    pub(super) const fn long_running(&self) -> LongRunning {
        self.long_running
    }

    /// Takes in the latency of this client's own query to an unprobed replica.
    pub(super) fn handle_own_latency(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        latency_ns: u64,
        failed: bool,
    ) {
        self.change(replica, |learned, others| {
            // A failure may be fast. If it took long, as at a deadline, an answer would have taken
            // longer. Otherwise a replica that answers nothing in time would not count as slow.
            let usual = learned.latency.max(others.mean().unwrap_or(0) * FINE);
            if !failed || latency_ns.saturating_mul(FINE) > usual {
                learned.learn_own(now, latency_ns, others);
            }
        });
    }

    /// Changes what was learned of a replica, given the mean latencies of the others. Keeps the
    /// sums.
    #[inline]
    fn change(&mut self, replica: ReplicaId, change: impl FnOnce(&mut Learned, Sum)) -> Learned {
        let all = self.all_latencies();
        let Some(learned) = self.replicas.find_mut(replica) else {
            return Learned::default();
        };
        let before = learned.parts();
        change(learned, all.without(before.latency_ns));
        let after = learned.parts();
        let (was, is) = (before.kind(), after.kind());
        if was == is {
            self.latencies[is].replace(before.latency_ns, after.latency_ns);
        } else {
            self.latencies[was].replace(before.latency_ns, 0);
            self.latencies[is].replace(0, after.latency_ns);
        }
        (self.capacities).replace(before.capacity, after.capacity);
        (self.costs_ns).replace(before.cost_ns, after.cost_ns);
        *learned
    }

    fn all_latencies(&self) -> Sum {
        let [without_capacity, with_capacity] = self.latencies;
        without_capacity.plus(with_capacity)
    }

    /// Whether any replica reports a capacity.
    pub(super) fn knows_capacity(&self) -> bool {
        self.capacities.count > 0
    }

    /// The mean of the reported capacities, in thousandths, if there are any.
    pub(super) fn mean_capacity(&self) -> Option<u64> {
        self.capacities.mean()
    }

    /// The mean of the mean latencies, in 1/1024 ns. Where any replica reports a capacity, only of
    /// those that do: it stands beside their mean cost.
    pub(super) fn mean_latency(&self) -> u64 {
        let [_, with_capacity] = self.latencies;
        let mean_ns = (with_capacity.mean()).or_else(|| self.all_latencies().mean());
        mean_ns.unwrap_or(UNKNOWN_NS) * FINE
    }

    /// The mean cost.
    pub(super) fn mean_cost_ns(&self) -> u64 {
        self.costs_ns.mean().unwrap_or(UNKNOWN_NS)
    }
}

#[cfg(test)]
mod tests;
