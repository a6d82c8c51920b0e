//! How busy a replica has been: queries finished per second, the share that failed, and CPU in use.
//! `[T6]`
//!
//! Weighted round robin uses these as weights. The owner of the replica's running totals passes
//! them in from time to time, off the query's path. Rates are differences of totals over the last
//! [`RecentRates::WINDOW`]. This costs a query nothing.

use crate::report::LoadReport;
use crate::time::{Instant, span_ns};
use core::time::Duration;

/// What a replica has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Queries that were answered, with success or with an error.
    pub finished: u64,
    /// How many of these were answered with an error.
    pub failed: u64,
    /// CPU time used. `None` if it is not measured.
    pub cpu: Option<Duration>,
}

/// Totals at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    at: Instant,
    totals: Totals,
}

/// Recent rates, from totals that are read now and then.
#[derive(Clone, Debug)]
pub struct RecentRates {
    /// A ring: the oldest reading is replaced next.
    readings: [Reading; Self::READINGS],
    next: usize,
    len: usize,
    allocation_millicores: u32,
    /// Rates as of the last reading. Reports are many times as frequent as readings.
    rates: Rates,
}

/// The reported rates.
#[derive(Clone, Copy, Debug)]
struct Rates {
    query_rate_millis: Option<u32>,
    error_millionths: Option<u32>,
    cpu_millionths: Option<u32>,
}

impl Rates {
    const UNKNOWN: Self = Self {
        query_rate_millis: None,
        error_millionths: None,
        cpu_millionths: None,
    };
}

impl RecentRates {
    /// Span of the rates, or all readings while they span less: long enough to even out the cost of
    /// queries, short enough to follow a neighbour that stays.
    pub const WINDOW: Duration = Duration::from_secs(4);
    /// Shortest interval between two readings.
    pub const STEP: Duration = Duration::from_secs(1);
    const READINGS: usize = 5;

    /// Rates of a replica that is allocated `millicores` / 1,000 cores, of which its CPU use is a
    /// share. 0 counts as 1.
    pub const fn new(millicores: u32) -> Self {
        const UNREAD: Reading = Reading {
            at: Instant::EPOCH,
            totals: Totals {
                finished: 0,
                failed: 0,
                cpu: None,
            },
        };
        Self {
            readings: [UNREAD; Self::READINGS],
            next: 0,
            len: 0,
            allocation_millicores: if millicores == 0 { 1 } else { millicores },
            rates: Rates::UNKNOWN,
        }
    }

    /// Whether a reading is due; check it first where reading totals is expensive.
    pub fn is_due(&self, now: Instant) -> bool {
        self.newest()
            .is_none_or(|newest| now.saturating_since(newest.at) >= Self::STEP)
    }

    /// Takes a reading. One that is not due is ignored.
    pub fn read(&mut self, now: Instant, totals: Totals) {
        if self.is_due(now) {
            self.readings[self.next] = Reading { at: now, totals };
            self.next = (self.next + 1) % Self::READINGS;
            self.len = (self.len + 1).min(Self::READINGS);
            self.rates = self.rates_now();
        }
    }

    /// Fills in the report's query rate, error share and CPU use. Unknown values stay absent, as
    /// all are until the second reading. Without queries the error share is 0.
    pub fn fill(&self, report: &mut LoadReport) {
        report.query_rate_millis = self.rates.query_rate_millis;
        report.error_millionths = self.rates.error_millionths;
        report.cpu_millionths = self.rates.cpu_millionths;
    }

    fn rates_now(&self) -> Rates {
        let Some((from, to)) = self.span() else {
            return Rates::UNKNOWN;
        };
        let span_ns = u128::from(to.at.ns_since(from.at));
        let finished = u128::from(to.totals.finished.saturating_sub(from.totals.finished));
        let failed = u128::from(to.totals.failed.saturating_sub(from.totals.failed));
        Rates {
            query_rate_millis: ratio(finished, 1_000 * NS_PER_SECOND, span_ns),
            error_millionths: ratio(failed, 1_000_000, finished.max(1)),
            cpu_millionths: self.cpu_millionths(to),
        }
    }

    /// CPU use up to `to`, from the first reading that has it.
    fn cpu_millionths(&self, to: &Reading) -> Option<u32> {
        let used = to.totals.cpu?;
        let from = self.before(to, |reading| reading.totals.cpu.is_some())?;
        let cpu_ns = u128::from(span_ns_of(from.totals.cpu?, used));
        let span_ns = u128::from(to.at.ns_since(from.at));
        let allocated = span_ns * u128::from(self.allocation_millicores);
        ratio(cpu_ns, 1_000_000 * 1_000, allocated)
    }

    fn newest(&self) -> Option<&Reading> {
        let newest = (self.next + Self::READINGS - 1) % Self::READINGS;
        (self.len > 0).then(|| &self.readings[newest])
    }

    /// The newest reading, and the one that it is compared with.
    fn span(&self) -> Option<(&Reading, &Reading)> {
        let to = self.newest()?;
        Some((self.before(to, |_| true)?, to))
    }

    /// The oldest usable reading before the newest and within the window: older ones are from
    /// before a pause. After a pause, the last reading before it.
    fn before(&self, newest: &Reading, is_of_use: fn(&Reading) -> bool) -> Option<&Reading> {
        let back = |steps: usize| {
            &self.readings[(self.next + Self::READINGS - 1 - steps) % Self::READINGS]
        };
        let mut earlier = (1..self.len).map(back).filter(|reading| is_of_use(reading));
        let previous = earlier.next()?;
        let from = earlier
            .take_while(|reading| newest.at.saturating_since(reading.at) <= Self::WINDOW)
            .last()
            .unwrap_or(previous);
        (newest.at > from.at).then_some(from)
    }
}

const NS_PER_SECOND: u128 = 1_000_000_000;

fn span_ns_of(from: Duration, to: Duration) -> u64 {
    span_ns(to.saturating_sub(from))
}

/// `part` · `scale` / `whole`, rounded down and at most 2^32 − 1; `None` for a `whole` of 0.
fn ratio(part: u128, scale: u128, whole: u128) -> Option<u32> {
    let scaled = part.checked_mul(scale)?.checked_div(whole)?;
    Some(u32::try_from(scaled).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Rif;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn totals(finished: u64, failed: u64, cpu_ms: u64) -> Totals {
        Totals {
            finished,
            failed,
            cpu: Some(Duration::from_millis(cpu_ms)),
        }
    }

    /// (queries a second in thousandths, errors in millionths, CPU in millionths).
    fn rates(rates: &RecentRates) -> (Option<u32>, Option<u32>, Option<u32>) {
        let mut report = LoadReport::new(Rif::ZERO, None);
        rates.fill(&mut report);
        (
            report.query_rate_millis,
            report.error_millionths,
            report.cpu_millionths,
        )
    }

    #[test]
    fn rates_are_differences_divided_by_time_and_cores() {
        let mut recent = RecentRates::new(2_000);
        recent.read(at_ms(5_000), totals(70, 10, 900));
        assert_eq!(rates(&recent), (None, None, None), "one reading is no rate");
        recent.read(at_ms(7_000), totals(78, 12, 3_900));
        // 8 queries in 2 s, a quarter of them failed, 3 s of CPU in 2 s on 2 cores.
        assert_eq!(rates(&recent), (Some(4_000), Some(250_000), Some(750_000)));
    }

    #[test]
    fn early_reading_is_ignored() {
        let mut recent = RecentRates::new(1_000);
        recent.read(at_ms(0), totals(0, 0, 0));
        assert!(!recent.is_due(at_ms(999)));
        recent.read(at_ms(999), totals(1_000_000, 0, 0));
        assert!(recent.is_due(at_ms(1_000)));
        recent.read(at_ms(1_000), totals(5, 0, 500));
        assert_eq!(rates(&recent), (Some(5_000), Some(0), Some(500_000)));
    }

    #[test]
    fn readings_older_than_the_window_do_not_count() {
        let mut recent = RecentRates::new(1_000);
        // A busy start, 100 a second for 5 s; then 1 a second.
        let finished = |second: u64| {
            if second <= 5 {
                100 * second
            } else {
                500 + (second - 5)
            }
        };
        for second in 0..=8 {
            recent.read(at_ms(1_000 * second), totals(finished(second), 0, 0));
        }
        assert_eq!(rates(&recent).0, Some((100 + 3) * 250), "from 4 s to 8 s");
        recent.read(at_ms(9_000), totals(finished(9), 0, 0));
        assert_eq!(rates(&recent).0, Some(1_000), "from 5 s to 9 s");
    }

    #[test]
    fn after_a_pause_only_the_last_step_counts() {
        let mut recent = RecentRates::new(1_000);
        recent.read(at_ms(0), totals(0, 0, 0));
        recent.read(at_ms(1_000), totals(1_000, 0, 0));
        recent.read(at_ms(60_000), totals(1_059, 0, 0));
        assert_eq!(rates(&recent).0, Some(1_000));
    }

    #[test]
    fn cpu_counts_only_while_it_is_measured() {
        let mut recent = RecentRates::new(1_000);
        let cpu_after = |recent: &mut RecentRates, second: u64, cpu_ms: Option<u64>| {
            let totals = Totals {
                cpu: cpu_ms.map(Duration::from_millis),
                ..totals(second, 0, 0)
            };
            recent.read(at_ms(1_000 * second), totals);
            rates(recent).2
        };
        assert_eq!(cpu_after(&mut recent, 0, None), None);
        assert_eq!(cpu_after(&mut recent, 1, Some(700)), None, "one reading");
        assert_eq!(cpu_after(&mut recent, 2, Some(900)), Some(200_000));
        assert_eq!(
            cpu_after(&mut recent, 3, None),
            None,
            "CPU is not measured now"
        );
        // 0.5 s of CPU in the 3 s since the first reading with CPU.
        assert_eq!(cpu_after(&mut recent, 4, Some(1_200)), Some(166_666));
    }

    #[test]
    fn unmeasured_values_stay_absent() {
        let mut recent = RecentRates::new(0);
        for second in 0..3 {
            let totals = Totals {
                finished: second,
                failed: 0,
                cpu: None,
            };
            recent.read(at_ms(1_000 * second), totals);
        }
        assert_eq!(rates(&recent), (Some(1_000), Some(0), None));
        let mut odd = RecentRates::new(1_000);
        odd.read(at_ms(2_000), totals(9, 9, 9));
        odd.read(at_ms(1_000), totals(0, 0, 0)); // a clock that steps back
        odd.read(at_ms(3_000), totals(5, 5, 5)); // totals that step back
        assert_eq!(rates(&odd), (Some(0), Some(0), Some(0)));
    }
}
