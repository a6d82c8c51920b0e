//! What is learned of each replica: its mean latency, its capacity and cost, and the means of all.
//!
//! The mean latency is that of Little's law: requests in flight, on average, divided by finished
//! queries per second. Other means of what replicas report depend on the traffic that they decide.
//! A replica with little traffic has old samples, and while nothing ends there it reports how long
//! that has lasted. So it looks slow, and gets even less traffic. By Little's law each query counts
//! once, however long its report lasts. `[Decision 0020]`
//!
//! A replica that reports no query rate counts with the mean of the latencies that it reports.

use super::sum::{Sum, whole_ns};
use crate::fixed::{follow, mul_div, mul_shift};
use crate::policy::latest::{From, Reported};
use crate::policy::turns::FINE;
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::{Instant, span_ns};
use crate::tracker::RecentRates;

/// Fewest reports of a mean latency. It counts from then on.
const REPORTS_MIN: u64 = 8;
/// The time constant of means. The values in them are as old, on average, as the queries of a
/// reported rate, so both sides of Little's law are of one time.
const MEMORY_NS: u64 = span_ns(RecentRates::WINDOW) / 2;
/// Queries in the mean latency of an unprobed replica: chance moves it by an eighth.
const OWN_QUERIES: u64 = 64;
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
/// Thousandths of a second in a nanosecond, inverted: reported rates are in thousandths.
const RATE_NS: u64 = 1_000_000_000_000;
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
        (self.reports >= REPORTS_MIN).then_some(self.latency)
    }

    /// Takes in the latency of this client's own query, of an unprobed replica. `others` as in
    /// [`Self::learn`].
    fn learn_own(&mut self, now: Instant, latency_ns: u64, others: Option<u64>) {
        self.own = true;
        self.since = now;
        self.at = now;
        let latency = latency_ns.saturating_mul(FINE).min(most(others));
        if self.reports == 0 {
            // A client has few queries of its own, and a slow replica must not wait for eight. So
            // the mean begins as if there had been that many as elsewhere.
            self.reports = REPORTS_MIN;
            self.latency = others.unwrap_or(latency);
        }
        self.reports = (self.reports + 1).min(OWN_QUERIES);
        self.latency = follow(self.latency, latency, self.reports);
    }

    /// No query has ended there for long. It is tried again as one of which nothing is known.
    fn forget_latency(&mut self) {
        self.reports = 0;
        self.latency = 0;
    }

    /// Takes in a report. `others` is the mean latency of the other replicas, if one is known.
    fn learn(&mut self, now: Instant, reported: Reported, others: Option<u64>) {
        let most = most(others);
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
            self.latency = latency_of(self.rif, interval);
            if self.latency > most {
                self.latency = most;
                self.rif = mul_div(most, RIF_PARTS, interval);
            }
        } else {
            self.latency = follow(self.latency, newest.min(most), parts);
        }
    }
}

/// The largest mean latency that is remembered.
fn most(others: Option<u64>) -> u64 {
    others.map_or(LATENCY_MAX, |mean| mean.saturating_mul(LATENCY_MAX_MEANS))
}

/// The time from one query to the next at this rate, in 1/1024 ns.
fn interval(rate_millis: u64) -> u64 {
    RATE_NS * FINE / rate_millis.max(1)
}

/// Latency by Little's law, in 1/1024 ns: this mean RIF times the time between queries.
fn latency_of(rif: u64, interval: u64) -> u64 {
    mul_shift(rif, interval, RIF_BITS).clamp(1, LATENCY_MAX)
}

/// What was learned of all replicas.
#[derive(Debug, Default)]
pub(super) struct Table {
    replicas: ReplicaMap<Learned>,
    /// In nanoseconds: the sum over a whole fleet fits.
    latencies: Sum,
    capacities: Sum,
    costs_ns: Sum,
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

    pub(super) fn handle_report(&mut self, now: Instant, reported: Reported) {
        self.change(reported.replica, |learned, others| {
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
            let usual = learned.latency.max(others.unwrap_or(0));
            if !failed || latency_ns.saturating_mul(FINE) > usual {
                learned.learn_own(now, latency_ns, others);
            }
        });
    }

    /// Changes what was learned of a replica, given the mean latency of the others in 1/1024 ns.
    /// Keeps the sums.
    fn change(&mut self, replica: ReplicaId, change: impl FnOnce(&mut Learned, Option<u64>)) {
        let Some(learned) = self.replicas.find_mut(replica) else {
            return;
        };
        self.latencies.take_away(whole_ns(learned.latency));
        self.costs_ns.take_away(learned.cost_ns);
        self.capacities.take_away(learned.capacity_millirif.into());
        change(learned, self.latencies.mean().map(|ns| ns * FINE));
        self.latencies.add(whole_ns(learned.latency));
        self.costs_ns.add(learned.cost_ns);
        self.capacities.add(learned.capacity_millirif.into());
    }

    /// Whether any replica reports a capacity.
    pub(super) fn knows_capacity(&self) -> bool {
        self.capacities.count > 0
    }

    /// The mean of the reported capacities, in thousandths, if there are any.
    pub(super) fn mean_capacity(&self) -> Option<u64> {
        self.capacities.mean()
    }

    /// The mean of the mean latencies, in 1/1024 ns.
    pub(super) fn mean_latency(&self) -> u64 {
        self.latencies.mean().unwrap_or(UNKNOWN_NS) * FINE
    }

    /// The mean cost.
    pub(super) fn mean_cost_ns(&self) -> u64 {
        self.costs_ns.mean().unwrap_or(UNKNOWN_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::ReplicaIds;
    use crate::report::Rif;

    const MS: u64 = 1_000_000;
    const FINE_MS: u64 = MS * FINE;

    /// A report of this latency in milliseconds, without a query rate; 0 is none.
    fn report(replica: ReplicaId, latency_ms: u64) -> Reported {
        Reported {
            replica,
            from: From::Probe { local: false },
            rif: Rif::new(0),
            others: 0,
            latency_ns: Some(latency_ms * MS).filter(|&ns| ns > 0),
            query_rate_millis: 0,
            capacity_millirif: 0,
            cost_ns: 0,
        }
    }

    fn replica() -> ReplicaId {
        ReplicaIds::new().allocate().unwrap()
    }

    /// Long after the beginning, so that a time that was never set would show.
    fn at(ms: u64) -> Instant {
        Instant::from_nanos(100_000 * MS + ms * MS)
    }

    /// After eight reports of 10 ms with these spans between them.
    fn after_eight(span_ms: u64) -> Learned {
        let mut learned = Learned::default();
        for number in 0..8 {
            learned.learn(at(number * span_ms), report(replica(), 10), None);
        }
        learned
    }

    #[test]
    fn one_report_moves_the_mean_by_an_eighth_at_the_most() {
        let mut learned = after_eight(0);
        learned.learn(at(20_000), report(replica(), 50), None);
        assert_eq!(learned.latency(), Some(15 * FINE_MS));
    }

    #[test]
    fn report_counts_with_its_share_of_the_time_since_the_first() {
        // The last of eight comes after 1,400 ms, and the next 100 ms later: a part in 15.
        let mut learned = after_eight(200);
        learned.learn(at(1_500), report(replica(), 25), None);
        assert_eq!(learned.latency(), Some(11 * FINE_MS));
        // The memory is 2 s: 100 ms are a part in 21.
        let mut learned = after_eight(2_000);
        learned.learn(at(14_100), report(replica(), 31), None);
        assert_eq!(learned.latency(), Some(11 * FINE_MS));
    }

    #[test]
    fn longest_latency_is_the_same_however_it_is_reported() {
        let most = (1 << 42) * FINE;
        for others in [None, Some(most)] {
            let mut told = Learned::default();
            let mut by_rate = told;
            for _ in 0..8 {
                let endless = Reported {
                    latency_ns: Some(u64::MAX),
                    ..report(replica(), 0)
                };
                told.learn(at(0), endless, others);
                let slow = Reported {
                    rif: Rif::new(u32::MAX),
                    query_rate_millis: 1,
                    ..endless
                };
                by_rate.learn(at(0), slow, others);
            }
            assert_eq!(told.latency(), Some(most));
            assert_eq!(by_rate.latency(), Some(most));
        }
    }

    #[test]
    fn at_most_four_times_the_mean_of_others_is_remembered() {
        let others = Some(10 * FINE_MS);
        let mut by_rate = Learned::default();
        for _ in 0..8 {
            let slow = Reported {
                rif: Rif::new(100),
                query_rate_millis: 1_000_000,
                ..report(replica(), 10)
            };
            by_rate.learn(at(0), slow, others);
        }
        assert_eq!(by_rate.latency(), Some(40 * FINE_MS), "and not 100");
        let mut own = Learned::default();
        for ms in [10, 1_000] {
            own.learn_own(at(0), ms * MS, others);
        }
        assert_eq!(
            own.latency,
            13 * FINE_MS,
            "the mean of nine times 10, and 40"
        );
    }

    #[test]
    fn mean_of_own_latencies_is_over_64_queries() {
        let mut own = Learned::default();
        for _ in 0..200 {
            own.learn_own(at(0), 10 * MS, None);
        }
        own.learn_own(at(0), 74 * MS, None);
        assert_eq!(own.latency(), Some(11 * FINE_MS));
    }

    /// A table of two replicas.
    fn table() -> (Table, [ReplicaId; 2]) {
        let mut ids = ReplicaIds::new();
        let mut table = Table::default();
        let replicas = [(); 2].map(|()| {
            let replica = ids.allocate().unwrap();
            table.add(replica);
            replica
        });
        (table, replicas)
    }

    #[test]
    fn own_latencies_count_as_at_most_four_times_the_mean_of_others() {
        let (mut table, [first, second]) = table();
        table.handle_own_latency(at(0), first, 10 * MS, false);
        for _ in 0..2_000 {
            table.handle_own_latency(at(0), second, 1_000 * MS, false);
        }
        let latency = table.of(second).latency;
        assert!(latency.abs_diff(40 * FINE_MS) < FINE_MS / 100, "{latency}");
    }

    /// The mean of the others counts as eight queries.
    #[test]
    fn first_own_query_counts_as_a_ninth() {
        let (mut table, [first, second]) = table();
        table.handle_own_latency(at(0), first, 10 * MS, false);
        assert_eq!(
            table.of(first).latency(),
            Some(10 * FINE_MS),
            "nothing else is known"
        );
        table.handle_own_latency(at(0), second, 28 * MS, false);
        assert_eq!(table.of(second).latency(), Some(12 * FINE_MS));
    }

    #[test]
    fn failure_counts_if_it_took_longer_than_usual() {
        let (mut table, [first, second]) = table();
        for _ in 0..8 {
            table.handle_own_latency(at(0), first, 10 * MS, false);
        }
        let mut after = |ms| {
            table.handle_own_latency(at(0), second, ms * MS, true);
            table.of(second).latency()
        };
        assert_eq!(after(1), None, "it may have failed at once");
        assert_eq!(after(10), None);
        assert_eq!(after(37), Some(13 * FINE_MS));
        assert_eq!(after(13), Some(13 * FINE_MS), "no longer than its own mean");
        assert_eq!(after(23), Some(14 * FINE_MS));
    }

    #[test]
    fn unprobed_replica_is_unknown_after_30_seconds_without_progress() {
        let (mut table, [first, second]) = table();
        let none = |replica, local| Reported {
            from: From::Probe { local },
            ..report(replica, 0)
        };
        for replica in [first, second] {
            table.handle_own_latency(at(1_000), replica, 10 * MS, false);
        }
        table.handle_report(at(30_999), none(first, true));
        assert_eq!(table.of(first).latency(), Some(10 * FINE_MS));
        table.handle_report(at(31_000), none(first, true));
        assert_eq!(table.of(first).latency(), None);
        // One that answers is unknown at once.
        table.handle_report(at(1_000), none(second, false));
        assert_eq!(table.of(second).latency(), None);
        assert_eq!(table.mean_latency(), FINE_MS, "of nothing");
    }

    #[test]
    fn mean_of_own_latencies_goes_on_when_the_replica_begins_to_answer() {
        let (mut table, [first, _]) = table();
        for _ in 0..8 {
            table.handle_own_latency(at(0), first, 10 * MS, false);
        }
        // 2 in flight at 100 queries/s: 20 ms. Without a rate, the reported latency.
        let mut after = |ms, query_rate_millis| {
            let reported = Reported {
                rif: Rif::new(2),
                query_rate_millis,
                ..report(first, 18)
            };
            table.handle_report(at(ms), reported);
            table.of(first).latency().map(|latency| latency / FINE_MS)
        };
        assert_eq!(after(10, 0), Some(11), "an eighth of the way to 18");
        assert_eq!(after(20, 100_000), Some(12), "and to 20");
    }

    #[test]
    fn idle_replica_is_as_fast_as_can_be_and_counts_in_the_mean() {
        let (mut table, [first, second]) = table();
        for _ in 0..8 {
            let idle = Reported {
                query_rate_millis: 1_000,
                ..report(first, 10)
            };
            table.handle_report(at(0), idle);
            table.handle_report(at(0), report(second, 10));
        }
        assert_eq!(table.of(first).latency(), Some(1));
        // 1 ns, and for the other at most four times that.
        assert_eq!(table.mean_latency(), 2 * FINE);
    }

    #[test]
    fn only_the_latest_report_has_capacity_and_cost() {
        let (mut table, [first, _]) = table();
        let room = Reported {
            capacity_millirif: 4_000,
            cost_ns: u64::MAX,
            ..report(first, 10)
        };
        table.handle_report(at(0), room);
        assert_eq!(table.mean_capacity(), Some(4_000));
        assert_eq!(table.mean_cost_ns(), 1 << 42, "the most");
        table.handle_report(at(0), report(first, 10));
        assert!(!table.knows_capacity());
        assert_eq!(table.mean_cost_ns(), MS, "of nothing");
    }
}
