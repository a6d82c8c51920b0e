//! Long-running requests: streams, and others that take far longer than most.
//!
//! Where there are some, they are most of what is in flight. How many a replica has depends on
//! chance and on minutes ago, not on how fast it is. By Little's law a replica with more of them
//! looks slow. It then gets fewer queries, and looks slower still. So only a part counts of how a
//! replica's mean latency differs from that of all:
//!
//! ```text
//! excess = mean latency by Little's law / reported latency
//! part   = min(1, 2 / excess)
//! ```
//!
//! A replica reports about the median latency of the queries that end. For exponential latencies
//! the excess is 1.44, so all of a difference counts. The excess is one that a third of recent
//! reports surpass, not the median: replicas that already look slow have few queries, and may
//! report the latency of a long one. `[Decision 0020]`

use crate::fixed::towards;
use crate::policy::turns::FINE;

/// Largest excess with which all of a difference counts.
const ORDINARY: u64 = 2 * FINE;
/// Largest excess. Beyond it almost nothing of a difference counts, and one that is wrong must not
/// last.
const EXCESS_MAX: u64 = 64 * FINE;
/// Each report moves the excess down by this part of it, or up by twice as much.
const STEP: u64 = 32;

/// By what factor requests in flight take longer than those that end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LongRunning {
    /// In 1/1024. Less than 1 counts as 1.
    excess: u64,
}

impl LongRunning {
    /// Takes in a report: the mean latency of its replica, in 1/1024 ns, and the reported latency.
    #[inline]
    pub(super) fn learn(&mut self, mean_latency: u64, reported_ns: u64) {
        let excess = self.excess.max(FINE);
        self.excess = if mean_latency > reported_ns.saturating_mul(excess) {
            (excess + 2 * excess / STEP).min(EXCESS_MAX)
        } else {
            excess - excess / STEP
        };
    }

    /// A replica's mean latency as it counts beside that of all.
    #[inline]
    pub(super) fn counted(self, value: u64, mean: u64) -> u64 {
        if self.excess <= ORDINARY {
            return value;
        }
        towards(mean, value, ORDINARY, self.excess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: u64 = 100;

    /// After reports of which this many in a hundred have a mean latency that is the reported one
    /// times this. Of the others the two are equal.
    fn learned(reports: u64, share: u64, times: u64) -> LongRunning {
        let mut long_running = LongRunning::default();
        for number in 0..reports {
            let times = if number * share % 100 < share {
                times
            } else {
                1
            };
            long_running.learn(10 * times * FINE + 1, 10);
        }
        long_running
    }

    #[test]
    fn differences_count_whole_while_requests_in_flight_are_ordinary() {
        for long_running in [
            LongRunning::default(),
            learned(2_000, 100, 1),
            learned(2_000, 25, 50),
            learned(11, 100, 50),
        ] {
            assert_eq!(long_running.counted(7 * MEAN, MEAN), 7 * MEAN);
            assert_eq!(long_running.counted(MEAN / 4, MEAN), MEAN / 4);
        }
    }

    #[test]
    fn a_fifth_of_a_difference_counts_where_requests_take_ten_times_as_long() {
        for share in [100, 40] {
            let long_running = learned(2_000, share, 10);
            let more = long_running.counted(11 * MEAN, MEAN);
            assert!((285..=310).contains(&more), "{more}");
            let less = long_running.counted(0, MEAN);
            assert!((79..=82).contains(&less), "{less}");
        }
    }

    #[test]
    fn twelve_reports_change_what_is_ordinary_and_about_fifty_change_it_back() {
        let mut long_running = learned(12, 100, 50);
        assert!(long_running.counted(7 * MEAN, MEAN) < 7 * MEAN);
        long_running = learned(2_000, 100, 10);
        let reports = (0..).take_while(|_| {
            long_running.learn(FINE, 1);
            long_running.counted(7 * MEAN, MEAN) < 7 * MEAN
        });
        assert!((48..=54).contains(&reports.count()));
    }

    #[test]
    fn a_thirty_second_of_a_difference_counts_at_least() {
        let long_running = learned(2_000, 100, 1_000_000);
        assert_eq!(long_running.counted(33 * MEAN, MEAN), 2 * MEAN);
    }
}
