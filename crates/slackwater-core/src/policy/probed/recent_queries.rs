//! This client's own queries of recent seconds, and how they compare with the rates that replicas
//! report.

use crate::fixed::mul_div;
use crate::policy::turns::FINE;
use crate::time::{Instant, span_ns};
use crate::tracker::RecentRates;

/// Shortest time between two readings of what is counted. With a second, a replica that becomes
/// slow is found too late.
const STEP_NS: u64 = 100_000_000;
/// The time that counts: as long as that of the rates that replicas report. A reading lets as much
/// of the older ones fade as its part of this time.
const WINDOW_NS: u64 = span_ns(RecentRates::WINDOW);
/// Nanoseconds from one query to the next at a reported rate of 1, a thousandth of a query per
/// second.
pub(in crate::policy) const RATE_NS: u64 = 1_000_000_000_000;

/// Queries of this client in recent seconds, and how long they were in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::policy) struct RecentQueries {
    /// When the totals were last read. `None` before.
    read_at: Option<Instant>,
    queries_read: u64,
    in_flight_read_ns: u64,
    /// In 1/1024.
    pub(super) queries: u64,
    /// Queries in flight, integrated over `span_ns`.
    pub(super) in_flight_ns: u64,
    pub(super) span_ns: u64,
}

impl RecentQueries {
    /// Takes in how many queries there were since the beginning, and queries in flight integrated
    /// over that time, wrapping. Of a query that never reached the replica no time counts, so there
    /// may be less than before.
    pub(in crate::policy) fn read(&mut self, now: Instant, queries: u64, in_flight_ns: u64) {
        if let Some(read_at) = self.read_at {
            let since_ns = now.ns_since(read_at);
            if since_ns < STEP_NS {
                return;
            }
            // The mean of a longer time counts.
            let span_ns = since_ns.min(WINDOW_NS);
            let kept_ns = WINDOW_NS - span_ns;
            let new = |count: u64| mul_div(count, span_ns, since_ns);
            let add = |sum: u64, new: u64| mul_div(sum, kept_ns, WINDOW_NS).saturating_add(new);
            let queries = queries.wrapping_sub(self.queries_read);
            let more_ns = in_flight_ns.wrapping_sub(self.in_flight_read_ns);
            let in_flight_ns = u64::try_from(more_ns.cast_signed()).unwrap_or(0);
            self.queries = add(self.queries, new(queries.saturating_mul(FINE)));
            self.in_flight_ns = add(self.in_flight_ns, new(in_flight_ns));
            self.span_ns = add(self.span_ns, span_ns);
        }
        self.read_at = Some(now);
        self.queries_read = queries;
        self.in_flight_read_ns = in_flight_ns;
    }

    /// Queries of others for each of these, in 1/1024, if this many of all clients end in a second,
    /// in thousandths. `None` if there were none.
    pub(in crate::policy) fn of_others(&self, all_rate_millis: u64) -> Option<u64> {
        let all = mul_div(all_rate_millis, self.span_ns, RATE_NS / FINE);
        (self.queries > 0).then(|| mul_div(all.saturating_sub(self.queries), FINE, self.queries))
    }
}

#[cfg(test)]
impl RecentQueries {
    /// This many a second for ten seconds, each this long in flight.
    pub(super) fn steady(a_second: u64, latency_ms: u64) -> Self {
        let mut recent = Self::default();
        for ms in 0..=10_000 {
            let queries = ms * a_second / 1_000;
            let in_flight_ns = queries * latency_ms * 1_000_000;
            recent.read(Instant::from_nanos(ms * 1_000_000), queries, in_flight_ns);
        }
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    #[test]
    fn recent_queries_are_read_each_tenth_of_a_second() {
        let mut recent = RecentQueries::default();
        recent.read(at(0), 5, 7 * MS);
        recent.read(at(99), 15, 17 * MS);
        assert_eq!(recent.span_ns, 0, "not yet");
        recent.read(at(100), 25, 27 * MS);
        let read = (recent.queries, recent.in_flight_ns, recent.span_ns);
        assert_eq!(
            read,
            (20 * FINE, 20 * MS, 100 * MS),
            "since the first reading"
        );
    }

    #[test]
    fn recent_queries_fade_over_four_seconds() {
        let mut recent = RecentQueries::default();
        recent.read(at(0), 0, 0);
        recent.read(at(1_000), 100, 1_000 * MS);
        recent.read(at(2_000), 100, 1_000 * MS);
        assert_eq!(recent.queries, 75 * FINE, "a quarter of them");
        assert_eq!(recent.in_flight_ns, 750 * MS);
        assert_eq!(recent.span_ns, 1_750 * MS);
        recent.read(at(6_000), 101, 1_001 * MS);
        let read = (recent.queries, recent.in_flight_ns, recent.span_ns);
        assert_eq!(read, (FINE, MS, 4_000 * MS), "all that is older");
    }

    #[test]
    fn totals_may_wrap() {
        let mut recent = RecentQueries::default();
        recent.read(at(0), 0, u64::MAX - 5 * MS);
        recent.read(at(100), 1, 5 * MS - 1);
        assert_eq!(recent.in_flight_ns, 10 * MS);
    }

    #[test]
    fn query_that_is_withdrawn_after_a_reading_takes_nothing_from_the_others() {
        let mut recent = RecentQueries::default();
        recent.read(at(0), 0, 0);
        recent.read(at(200), 1, 200 * MS);
        recent.read(at(300), 2, 50 * MS);
        assert_eq!(recent.in_flight_ns, 195 * MS);
        recent.read(at(400), 2, 60 * MS);
        assert_eq!(recent.in_flight_ns, 195 * MS * 39 / 40 + 10 * MS);
    }

    #[test]
    fn of_a_gap_only_the_mean_counts() {
        let mut recent = RecentQueries::steady(10, 50);
        recent.read(at(50_000), 500, 25_000 * MS);
        let read = (recent.queries, recent.in_flight_ns, recent.span_ns);
        assert_eq!(read, (40 * FINE, 2_000 * MS, 4_000 * MS));
    }
}
