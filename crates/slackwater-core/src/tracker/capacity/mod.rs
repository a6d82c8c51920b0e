//! How much load a replica can carry, and the cost of a query. `[Decision 0009]`
//!
//! Capacity is in units of RIF: with this many queries in flight a replica is busy, and one more
//! slows all of them. It is learned from what is measured anyway, in readings some ten milliseconds
//! apart and off the query's path:
//!
//! | from | file |
//! |---|---|
//! | CPU time that the replica got, as a share of what it wanted | `contention` |
//! | how latency grows with RIF | `inflation` |
//! | the most cores that it may use, and the CPU time of a query | `cost` |
//!
//! Long-running requests are left out (`long_running`). The reported capacity is that of the others
//! plus the long-running ones.
//!
//! `pace` decides when a reading is worth its cost.
//!
//! All follow the same idea. If a replica gets only a share of what its queries could use, that
//! share times the RIF is what it could have carried without any wait. If it gets all, its capacity
//! is at least the RIF that it just carried, and is raised a little each second: only a higher load
//! shows whether there is more room.

mod contention;
mod cost;
mod inflation;
mod long_running;
mod pace;
mod shortage;
mod source;
#[cfg(test)]
mod tests;

use super::LoadTracker;
use crate::fixed::{mul_div, towards};
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use contention::{Contention, Span};
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use cost::MeanCost;
use inflation::Inflation;
use long_running::LongRunning;
pub use pace::Look;
pub use source::CapacitySource;

/// CPU time of a replica since its start, as the operating system reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// CPU time used.
    pub used: Duration,
    /// Sums over single threads. `None` if unknown; then only latency shows the capacity.
    pub threads: Option<ThreadTotals>,
    /// The most cores that it may use at once, in thousandths: a quota, or the machine. `None` if
    /// unknown.
    pub limit_millicores: Option<u32>,
    /// Period of the CPU quota, if there is one. Threads that wait for the next period are counted
    /// only when they run again, so only spans of several periods show the wait.
    pub quota_period: Option<Duration>,
}

/// Sums over the threads whose waits are known: all, or as many as are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTotals {
    /// CPU time that these threads have used.
    pub used: Duration,
    /// Time for which they were ready to run and did not run: on Linux the run-queue delay of
    /// `schedstat`.
    pub waited: Duration,
}

/// A capacity in 1/1024 of a thousandth of a request in flight: fine enough to grow by a little at
/// each reading.
type Fine = u64;
const FINE: u64 = 1 << 10;

/// One request in flight.
const ONE_RIF: Fine = 1_000 * FINE;
/// Least capacity: a hundredth of a query, which then takes a hundred times as long as on a core of
/// its own.
const CAPACITY_MIN: Fine = ONE_RIF / 100;
/// Largest capacity: a million. At that value, no replica is the tightest one.
const CAPACITY_MAX: Fine = 1_000_000 * ONE_RIF;
/// Growth of capacity per second, in percent, while nothing shows that it is reached: slow enough
/// that few queries test it, and fast enough that a replica that looked small by chance, or has
/// healed, is not small for long.
const GROWTH_PERCENT: u64 = 12;
/// Capacity grows only while this part of it is in use, in percent: unused capacity proves nothing.
const IN_USE_PERCENT: u64 = 70;
/// Waits for a quota's next period are reported up to a period late. Over this many periods little
/// is missed.
const QUOTA_PERIODS: u32 = 2;
/// Capacity rises faster towards what was carried without a wait, but takes at least this long to
/// double: a burst that was paid for by saved-up quota is not what the replica can carry.
const DOUBLING_NS: u64 = 250_000_000;

/// Learns a replica's capacity and cost from readings of its tracker and of its CPU time.
#[derive(Clone, Debug, Default)]
pub struct CapacityEstimator {
    last: Option<Reading>,
    /// Queries that have ended since the first reading.
    ended: u64,
    contention: Contention,
    inflation: Inflation,
    long_running: LongRunning,
    cost: MeanCost,
    limit_millicores: Option<u32>,
    /// The readings include how long threads wait.
    tells_waits: bool,
}

/// One reading.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Where the next span begins: when the reading was taken, or the end of the idle time after
    /// it.
    at: Instant,
    taken_at: Instant,
    rif: Rif,
    rif_time_ns: u64,
    ended_ns: u64,
    busy_ns: u64,
    finished: u64,
    /// Number of samples that the tracker had recorded.
    recorded: usize,
    cpu: Option<CpuTotals>,
}

impl Reading {
    /// What was measured since an earlier reading.
    fn span_since(&self, before: &Self) -> Span {
        let threads = |it: &Self| it.cpu.and_then(|cpu| cpu.threads);
        let (earlier, threads) = threads(before).zip(threads(self)).unwrap_or_default();
        let ns = self.taken_at.ns_since(before.at);
        let passed_ns = self.taken_at.ns_since(before.taken_at);
        // If a query comes or goes at the very moment of a reading, the time in flight may be off
        // by all that the clock shows, and in the next reading by as much the other way. The bound
        // leaves out only queries that came and were cancelled between the two readings.
        let finished = self.finished.saturating_sub(before.finished);
        let rif_most = u64::from(self.rif.max(before.rif).count()).saturating_add(finished);
        let rif_time_ns = self.rif_time_ns.wrapping_sub(before.rif_time_ns);
        Span {
            ns,
            passed_ns,
            busy_ns: self.busy_ns.wrapping_sub(before.busy_ns).min(ns),
            rif_time_ns: rif_time_ns.min(rif_most.saturating_mul(passed_ns)),
            used_ns: since(earlier.used, threads.used),
            waited_ns: since(earlier.waited, threads.waited),
        }
    }
}

impl CapacityEstimator {
    /// Takes a reading: of the tracker, of the queries `finished` since the start, and of the CPU
    /// if known. One that is not due is ignored. [`Self::look`] returns whether a reading is worth
    /// its cost.
    pub fn read(
        &mut self,
        now: Instant,
        tracker: &LoadTracker,
        finished: u64,
        cpu: Option<CpuTotals>,
    ) {
        if !self.is_due(now) {
            return;
        }
        let reading = Reading {
            at: now,
            taken_at: now,
            rif: tracker.rif(),
            rif_time_ns: tracker.rif_time_ns(now),
            ended_ns: tracker.ended_ns.load(Relaxed),
            busy_ns: tracker.busy_ns(now),
            finished,
            recorded: tracker.samples.recorded(),
            cpu,
        };
        let Some(before) = self.last.replace(reading) else {
            return;
        };
        let ended = reading.recorded.wrapping_sub(before.recorded);
        self.ended = self.ended.saturating_add(ended as u64);
        let all = reading.span_since(&before);
        let ended_ns = reading.ended_ns.wrapping_sub(before.ended_ns);
        self.long_running.read(&all, ended_ns);
        let span = Span {
            rif_time_ns: self.long_running.others_time(&all),
            ..all
        };
        self.read_cpu(span, &before, &reading);
        let may_wait = !self.tells_waits || self.contention.waits_elsewhere();
        let long_running = self.long_running.whole();
        self.inflation
            .read(span.ns, span.passed_ns, may_wait, |inflation| {
                let learn = |others: u32, latency_ns| {
                    inflation.learn(others.saturating_sub(long_running), latency_ns);
                };
                let (from, to) = (before.recorded, reading.recorded);
                tracker.samples.between(from, to, before.at, learn);
            });
    }

    /// Learns from CPU time, and from requests in flight without the long-running ones.
    fn read_cpu(&mut self, span: Span, before: &Reading, reading: &Reading) {
        let Some((earlier, cpu)) = before.cpu.zip(reading.cpu) else {
            return;
        };
        self.limit_millicores = cpu.limit_millicores;
        self.tells_waits = earlier.threads.is_some() && cpu.threads.is_some();
        if self.tells_waits && (!before.was_idle() || span.is_of_queries()) {
            let period_ns = cpu.quota_period.map_or(0, span_ns);
            self.contention
                .read(span, period_ns.saturating_mul(QUOTA_PERIODS.into()));
        }
        let elsewhere_ns = if self.tells_waits {
            let elsewhere_ns = i128::from(span.rif_time_ns) - i128::from(span.wanted_ns());
            i64::try_from(elsewhere_ns).unwrap_or(0)
        } else {
            0
        };
        let used_ns = since(earlier.used, cpu.used);
        let finished = reading.finished.saturating_sub(before.finished);
        // CPU time that a server uses on its own before its first query belongs to no query.
        if finished > 0 || reading.busy_ns != before.busy_ns {
            self.cost.read(used_ns, elsewhere_ns, finished);
        }
    }

    /// Fills in the report's capacity and cost. Unknown values stay absent. If the CPU time of
    /// queries is unknown, the latency of those that met few others stands for it.
    pub fn fill(&self, report: &mut LoadReport) {
        self.fill_from(self.capacity().map(|(capacity, _)| capacity), report);
    }

    /// Like [`Self::fill`], and returns the [`Self::source`] of the capacity, for half of the cost
    /// of both calls.
    pub fn fill_and_source(&self, report: &mut LoadReport) -> Option<CapacitySource> {
        let (capacity, source) = self.capacity().unzip();
        self.fill_from(capacity, report);
        source
    }

    fn fill_from(&self, capacity: Option<Fine>, report: &mut LoadReport) {
        let (capacity, cost_ns) = self.alone(capacity, self.cost_ns());
        report.capacity_millirif = capacity.map(|capacity| {
            let capacity = capacity.saturating_add(self.long_running.count());
            u32::try_from(capacity / FINE).unwrap_or(u32::MAX)
        });
        report.cost = cost_ns.map(Duration::from_nanos);
    }

    /// Corrects capacity and cost for a replica that carries less than one query and whose queries
    /// take longer alone than their cost. Slow cores mean a higher cost. A quota that lets each
    /// query run at full speed until it is used up means less than one query at a time.
    fn alone(&self, capacity: Option<Fine>, cost_ns: Option<u64>) -> (Option<Fine>, Option<u64>) {
        match (capacity, cost_ns, self.inflation.unloaded_ns()) {
            (Some(capacity), Some(cost_ns), Some(unloaded_ns)) if capacity < ONE_RIF => {
                let slowest_ns = mul_div(cost_ns, ONE_RIF, capacity);
                let alone_ns = unloaded_ns.clamp(cost_ns, slowest_ns);
                let carried = mul_div(capacity, alone_ns, cost_ns);
                (Some(carried), Some(alone_ns))
            }
            known => (known.0, known.1),
        }
    }

    fn cost_ns(&self) -> Option<u64> {
        if self.cost.mean_ns().is_some() {
            self.cost.compared_ns()
        } else {
            self.inflation.unloaded_ns()
        }
    }

    /// The capacity that is known so far, and its source.
    fn capacity(&self) -> Option<(Fine, CapacitySource)> {
        let by_latency = (self.inflation.capacity()).map(|it| (it, CapacitySource::Latency));
        // Queries that wait off the CPU may be in a queue. Until latency shows what one takes
        // without others, the whole queue would count as carried.
        let may_be_queue = self.contention.waits_elsewhere() && !self.contention.is_recent();
        let by_waits = (self.contention.capacity())
            .filter(|_| by_latency.is_some() || !may_be_queue)
            .map(|it| (it, CapacitySource::Waits));
        let (capacity, source) = match (by_waits, by_latency) {
            // Latency is the noisier of the two. It counts if it shows a bottleneck other than the
            // CPU: a lock, a queue in the application, a disk.
            (Some(by_waits), Some(by_latency)) => {
                let is_less = by_latency.0 < by_waits.0
                    && (by_latency.0 < by_waits.0 / 2 || !self.contention.is_recent());
                let is_other = is_less && self.inflation.is_recent();
                if is_other { by_latency } else { by_waits }
            }
            (by_waits, by_latency) => by_waits.or(by_latency)?,
        };
        let (capacity, source) = match self.most() {
            Some(most) if most <= capacity => (most, CapacitySource::Cores),
            _ => (capacity, source),
        };
        Some((capacity.clamp(CAPACITY_MIN, CAPACITY_MAX), source))
    }

    /// The source of the capacity that [`Self::fill`] reports now. `None` while that is unknown.
    pub fn source(&self) -> Option<CapacitySource> {
        self.capacity().map(|(_, source)| source)
    }

    /// What all cores together could carry: queries finished per second × seconds that one takes
    /// without others and without waiting for a CPU (Little's law).
    fn most(&self) -> Option<Fine> {
        let limit = u64::from(self.limit_millicores?) * FINE;
        let cost_ns = self.cost.mean_ns()?.max(1);
        let by_cpu_ns =
            (self.tells_waits).then(|| cost_ns.saturating_add(self.cost.mean_elsewhere_ns()));
        let by_latency_ns = self.inflation.unloaded_ns().map(|ns| ns.max(cost_ns));
        let alone_ns = match (by_cpu_ns, by_latency_ns) {
            (Some(by_cpu_ns), Some(by_latency_ns)) => by_cpu_ns.min(by_latency_ns),
            (by_cpu_ns, by_latency_ns) => by_cpu_ns.or(by_latency_ns)?,
        };
        Some(mul_div(limit, alone_ns, cost_ns))
    }
}

/// Raises a capacity that nothing shows to be reached, after `span_ns` with this many `in_flight`,
/// of which `carried` surely had no wait. Growth is in proportion, so that it begins at the least
/// capacity.
fn grow(capacity: Fine, in_flight: Fine, carried: Fine, span_ns: u64) -> Fine {
    let capacity = capacity.max(CAPACITY_MIN);
    let within = |most: u64| mul_div(capacity, span_ns.min(NS_PER_SECOND), most);
    let grown = if in_flight < mul_div(capacity, IN_USE_PERCENT, 100) {
        capacity
    } else {
        capacity.saturating_add(within(100 * NS_PER_SECOND / GROWTH_PERCENT))
    };
    let believed = capacity.saturating_add(within(DOUBLING_NS));
    grown.max(carried.min(believed)).min(CAPACITY_MAX)
}

const NS_PER_SECOND: u64 = 1_000_000_000;

fn since(earlier: Duration, later: Duration) -> u64 {
    span_ns(later.saturating_sub(earlier))
}
