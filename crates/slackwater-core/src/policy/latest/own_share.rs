//! Whether most of the queries that replicas get are this client's own.
//!
//! Such a client knows most of what is in flight without being told. It needs fewer probes, and a
//! report is good for longer than until the next one: [further](super::further) ones are compared,
//! too. `[Decision 0020]`

use crate::fixed::mul_div;
use crate::policy::probed::others::RecentQueries;
use crate::policy::turns::FINE;
use crate::time::Instant;

/// Compares the query rates that replicas report with this client's.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnShare {
    /// This client's queries.
    own: RecentQueries,
    /// Reports since the last comparison.
    reports: u32,
    /// The sum of their query rates, in thousandths.
    rates_millis: u64,
    is_most: bool,
}

impl OwnShare {
    /// Reports of a comparison.
    const COUNTED: u32 = 64;
    /// The most queries of others for each own one, in 1/1024: half as many. With two equal clients
    /// it would be one, and the mean of 64 unequal rates is off by a tenth or two.
    const OTHERS_MAX: u64 = FINE / 2;

    /// Takes in the query rate of a report that answers a probe, from one of this many replicas,
    /// after this client has sent this many queries. Without the rate, or in a panic with no
    /// available replica, nothing is known.
    #[inline]
    pub(super) fn reported(
        &mut self,
        now: Instant,
        rate_millis: Option<u32>,
        replicas: usize,
        sent: u64,
    ) {
        let Some(rate_millis) = rate_millis.filter(|_| replicas > 0) else {
            return self.forget();
        };
        self.reports += 1;
        self.rates_millis += u64::from(rate_millis);
        if self.reports >= Self::COUNTED {
            self.compare(now, replicas, sent);
        }
    }

    #[cold]
    fn compare(&mut self, now: Instant, replicas: usize, sent: u64) {
        let all_millis = mul_div(self.rates_millis, replicas as u64, Self::COUNTED.into());
        self.own.read(now, sent, 0);
        let others = self.own.of_others(all_millis);
        self.is_most = others.is_some_and(|others| others <= Self::OTHERS_MAX);
        self.reports = 0;
        self.rates_millis = 0;
    }

    /// Keeps this client's queries, which are known.
    fn forget(&mut self) {
        self.reports = 0;
        self.rates_millis = 0;
        self.is_most = false;
    }

    pub(super) const fn is_most(&self) -> bool {
        self.is_most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    /// After a minute in which this client has sent 100 queries a second to ten replicas, and each
    /// has had this many.
    fn after(rate: u32) -> OwnShare {
        let mut share = OwnShare::default();
        for second in 0..60 {
            report(&mut share, second, rate, 64);
        }
        share
    }

    fn report(share: &mut OwnShare, second: u32, rate: u32, reports: u32) {
        for _ in 0..reports {
            let now = Instant::EPOCH + SECOND * second;
            share.reported(now, Some(rate * 1_000), 10, 100 * u64::from(second));
        }
    }

    #[test]
    fn client_of_two_thirds_of_all_queries_sends_most() {
        for (rate, is_most) in [(0, true), (10, true), (15, true), (16, false), (20, false)] {
            assert_eq!(after(rate).is_most(), is_most, "{rate}");
        }
        assert!(!after(u32::MAX / 1_000).is_most());
    }

    #[test]
    fn mean_of_64_reports_counts() {
        let mut share = after(10);
        report(&mut share, 60, 40, 63);
        assert!(share.is_most(), "not yet");
        report(&mut share, 60, 40, 1);
        assert!(!share.is_most());
        report(&mut share, 61, 40, 16);
        report(&mut share, 61, 0, 48);
        assert!(share.is_most(), "the mean is 10");
    }

    #[test]
    fn nothing_is_known_before_queries_were_counted_for_some_time() {
        let mut share = OwnShare::default();
        assert!(!share.is_most());
        report(&mut share, 0, 10, 64);
        assert!(!share.is_most(), "the first count");
        report(&mut share, 1, 10, 64);
        assert!(share.is_most());
    }

    #[test]
    fn client_that_sends_nothing_any_more_does_not_send_most() {
        let mut share = after(10);
        for second in 60..80 {
            for _ in 0..64 {
                share.reported(Instant::EPOCH + SECOND * second, Some(1_000), 10, 6_000);
            }
        }
        assert!(!share.is_most());
    }

    #[test]
    fn replica_without_a_query_rate_may_have_any() {
        let mut share = after(10);
        share.reported(Instant::EPOCH + SECOND * 60, Some(0), 0, 6_000);
        assert!(!share.is_most(), "in a panic");
        share.reported(Instant::EPOCH + SECOND * 60, None, 10, 6_000);
        assert!(!share.is_most());
        report(&mut share, 60, 10, 63);
        assert!(!share.is_most(), "counted anew");
        report(&mut share, 60, 10, 1);
        assert!(share.is_most());
    }

    #[test]
    fn largest_values_do_not_overflow() {
        let mut share = OwnShare::default();
        for now in [0, u64::MAX] {
            for _ in 0..64 {
                let now = Instant::from_nanos(now);
                share.reported(now, Some(u32::MAX), usize::MAX, u64::MAX);
            }
        }
        assert!(!share.is_most());
    }
}
