//! How much a replica can carry, and what a query costs it. `[Decision 0009]`
//!
//! Capacity is in units of RIF: with so many queries in flight a replica is busy, and one more makes all of them slower. It is
//! learned from what can be seen anyway, at readings some ten milliseconds apart and off the query's path:
//!
//! | from | file |
//! |---|---|
//! | the CPU time that the replica got, of what it wanted | `contention` |
//! | how latency grows with RIF | `inflation` |
//! | the most cores that it may use, and the CPU time that a query takes | `cost` |
//!
//! All go by the same thought. Where a replica gets only a share of what its queries could use, that share times the RIF is
//! what it could have carried without making anyone wait. Where it gets all, its capacity is no less than the RIF that it
//! just carried, and is taken to be a little higher each second: that there is more room is only found by trying.

mod contention;
mod cost;
mod inflation;
mod source;
#[cfg(test)]
mod tests;

use super::LoadTracker;
use crate::report::LoadReport;
use crate::time::{Instant, span_ns};
use contention::Contention;
use core::time::Duration;
use cost::MeanCost;
use inflation::Inflation;
pub use source::CapacitySource;

/// What the operating system tells of a replica's CPU since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// CPU time used.
    pub used: Duration,
    /// The time for which its threads were ready to run and did not, summed over threads: on Linux the run-queue delay of
    /// `schedstat`. `None` where nobody tells; latency alone tells of capacity then.
    pub waited: Option<Duration>,
    /// The most cores that it may use at once, in thousandths: a quota, or the machine. `None` where that is not known.
    pub limit_millicores: Option<u32>,
}

/// A capacity in 1/1024 of a thousandth of a request in flight: fine enough to grow by a little at each reading.
type Fine = u64;
const FINE: u64 = 1 << 10;

/// The least that a replica is taken to carry: one query.
const CAPACITY_MIN: Fine = 1_000 * FINE;
/// The most: a million. With that much, no replica is the one with the least room.
const CAPACITY_MAX: Fine = 1_000_000 * CAPACITY_MIN;
/// By how much capacity rises each second while nothing says that it is reached, in percent: slow enough that the queries
/// sent to find out are few.
const GROWTH_PERCENT: u64 = 3;
/// Towards a RIF that was carried without trouble capacity rises faster, and doubles within this time at the most: a burst
/// that a bucket of saved-up time has paid for is not what the replica can carry.
const DOUBLING_NS: u64 = 1_000_000_000;

/// Learns a replica's capacity and cost from readings of its tracker and of what the system tells.
#[derive(Clone, Debug, Default)]
pub struct CapacityEstimator {
    last: Option<Reading>,
    contention: Contention,
    inflation: Inflation,
    cost: MeanCost,
    limit_millicores: Option<u32>,
}

/// What was read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    rif_time_ns: u64,
    finished: u64,
    cpu: Option<CpuTotals>,
}

impl CapacityEstimator {
    /// How often it is to be read: between two readings neighbours hardly change, and a few queries end.
    pub const STEP: Duration = Duration::from_millis(50);

    /// Whether it is time for another reading; asked first where to read costs something.
    pub fn is_due(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.saturating_since(last.at) >= Self::STEP)
    }

    /// Takes a reading: of the tracker, of how many queries have `finished` since the start, and of the CPU where somebody
    /// tells. One that is not due is ignored.
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
            rif_time_ns: tracker.rif_time_ns(now),
            finished,
            cpu,
        };
        let Some(before) = self.last.replace(reading) else {
            return;
        };
        let span_ns = now.ns_since(before.at);
        self.inflation.read(span_ns, |learn| {
            tracker.samples.since(before.at, learn);
        });
        self.read_cpu(span_ns, &before, &reading);
    }

    fn read_cpu(&mut self, span_ns: u64, before: &Reading, reading: &Reading) {
        let Some((earlier, cpu)) = before.cpu.zip(reading.cpu) else {
            return;
        };
        self.limit_millicores = cpu.limit_millicores;
        let used_ns = since(earlier.used, cpu.used);
        self.cost
            .read(used_ns, reading.finished.saturating_sub(before.finished));
        if let Some((earlier, waited)) = earlier.waited.zip(cpu.waited) {
            let rif_time_ns = reading.rif_time_ns.wrapping_sub(before.rif_time_ns);
            let mean_rif = mul_div(rif_time_ns, CAPACITY_MIN, span_ns);
            let waited_ns = since(earlier, waited);
            self.contention.read(span_ns, mean_rif, used_ns, waited_ns);
        }
    }

    /// Fills in the report's capacity and cost; what is not known is left absent. Where nobody tells the CPU time of queries,
    /// the latency of those that met few others stands for it.
    pub fn fill(&self, report: &mut LoadReport) {
        report.capacity_millirif = self
            .capacity()
            .map(|capacity| u32::try_from(capacity / FINE).unwrap_or(u32::MAX));
        let cost_ns = self.cost.mean_ns().or_else(|| self.inflation.unloaded_ns());
        report.cost = cost_ns.map(Duration::from_nanos);
    }

    /// What is known of the capacity by now.
    fn capacity(&self) -> Option<Fine> {
        let by_latency = self.inflation.capacity();
        let capacity = match self.contention.capacity() {
            // Latency is the noisier of the two. It counts where it tells of something that nobody waits for a CPU for: a lock, a
            // queue of the application's, a disk.
            Some(by_cpu) => match by_latency {
                Some(by_latency) if by_latency < by_cpu => {
                    let is_other = by_latency < by_cpu / 2 || !self.contention.is_recent();
                    if is_other { by_latency } else { by_cpu }
                }
                _ => by_cpu,
            },
            None => by_latency?,
        };
        let most = self.most().unwrap_or(CAPACITY_MAX);
        Some(capacity.min(most).clamp(CAPACITY_MIN, CAPACITY_MAX))
    }

    /// What all cores together could carry: the queries that they finish in a second, times the seconds that one takes that
    /// meets few others (Little's law).
    fn most(&self) -> Option<Fine> {
        let limit = u64::from(self.limit_millicores?) * FINE;
        let cost_ns = self.cost.mean_ns()?.max(1);
        let unloaded_ns = self.inflation.unloaded_ns()?.max(cost_ns);
        Some(mul_div(limit, unloaded_ns, cost_ns))
    }
}

/// What becomes of a capacity that nothing says is reached, after so much time in which so much was carried.
fn grow(capacity: Fine, carried: Fine, span_ns: u64) -> Fine {
    let within = |most: u64| mul_div(capacity, span_ns.min(NS_PER_SECOND), most);
    let grown = capacity.saturating_add(within(100 * NS_PER_SECOND / GROWTH_PERCENT));
    let believed = capacity.saturating_add(within(DOUBLING_NS));
    grown.max(carried.min(believed)).min(CAPACITY_MAX)
}

const NS_PER_SECOND: u64 = 1_000_000_000;

fn since(earlier: Duration, later: Duration) -> u64 {
    span_ns(later.saturating_sub(earlier))
}

/// `a` · `b` / `c`, rounded down, at most 2^64 − 1; a `c` of 0 counts as 1.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b) / u128::from(c.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// `from`, moved towards `to` by `part` of `whole`, or all the way.
fn towards(from: u64, to: u64, part: u64, whole: u64) -> u64 {
    let way = mul_div(from.abs_diff(to), part.min(whole), whole);
    if to >= from { from + way } else { from - way }
}
