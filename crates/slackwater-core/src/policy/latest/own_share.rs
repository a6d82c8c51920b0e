//! How many queries other clients send for each of this client's own.
//!
//! A client that sends most of them knows most of what is in flight without being told. It needs
//! fewer probes, and a report is good for longer than until the next one:
//! [further](super::further) ones are compared, too. `[Decision 0020]`
//!
//! The others choose by such reports as this client has, so they send to a replica when it does.
//! For each query that it has sent there since the replica reported, their number of queries counts
//! as in flight there, too. `[Decision 0029]`

use crate::fixed::mul_div;
use crate::policy::Outcome;
use crate::policy::probed::recent_queries::RecentQueries;
use crate::policy::turns::FINE;
use crate::time::Instant;

/// Compares the query rates that replicas report with this client's.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnShare {
    /// This client's queries that replicas have answered: such are counted in reported rates.
    answered: u64,
    own: RecentQueries,
    /// Reports since the last comparison.
    reports: u32,
    /// How many of them have a query rate, and the sum of those rates, in thousandths.
    rated: u32,
    rates_millis: u64,
    is_most: bool,
    /// Queries of others that count as sent alike with each own one, in 1/1024. 0 while unknown.
    alike: u64,
}

impl OwnShare {
    /// Reports of a comparison. At least half of them must have a rate: other replicas are assumed
    /// to have as many queries.
    const COUNTED: u32 = 64;
    /// The most queries of others for each own one, in 1/1024: half as many. With two equal clients
    /// it would be one. The rest is for chance: a rate is of four seconds, in which a replica of a
    /// large fleet may have had no query or three.
    const OTHERS_MAX: u64 = FINE / 2;
    /// The most queries of others that count as sent alike with each own one, in 1/1024. Many
    /// clients see other reports than this one does.
    const ALIKE_MAX: u64 = 4 * FINE;

    /// Counts a query of this client, by the outcome that its head or its end shows.
    #[inline]
    pub(super) fn query_over(&mut self, outcome: Outcome) {
        self.answered += u64::from(outcome.is_answer());
    }

    /// Takes in the query rate of a report that answers a probe, from one of this many replicas.
    #[inline]
    pub(super) fn reported(&mut self, now: Instant, rate_millis: Option<u32>, replicas: usize) {
        self.reports += 1;
        self.rated += u32::from(rate_millis.is_some());
        self.rates_millis += u64::from(rate_millis.unwrap_or(0));
        if self.reports >= Self::COUNTED {
            self.compare(now, replicas);
        }
    }

    #[cold]
    fn compare(&mut self, now: Instant, replicas: usize) {
        self.own.read(now, self.answered, 0);
        let others = if self.rated >= Self::COUNTED / 2 {
            let all_millis = mul_div(self.rates_millis, replicas as u64, self.rated.into());
            self.own.of_others(all_millis)
        } else {
            None
        };
        self.is_most = others.is_some_and(|others| others <= Self::OTHERS_MAX);
        self.alike = others.unwrap_or(0).min(Self::ALIKE_MAX);
        self.reports = 0;
        self.rated = 0;
        self.rates_millis = 0;
    }

    /// Whether this client sends most of the queries.
    pub(super) const fn is_most(&self) -> bool {
        self.is_most
    }

    /// Queries of others that count as sent alike with each own one, in 1/1024. None do while their
    /// rate is unknown.
    pub(super) const fn others_alike(&self) -> u64 {
        self.alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    /// After a minute in which ten replicas have answered 100 queries a second of this client, and
    /// each this many of all.
    fn after(rate: u32) -> OwnShare {
        let mut share = OwnShare::default();
        for second in 0..60 {
            report(&mut share, second, Some(rate), 64);
        }
        share
    }

    fn report(share: &mut OwnShare, second: u32, rate: Option<u32>, reports: u32) {
        while share.answered < 100 * u64::from(second) {
            share.query_over(Outcome::Success);
        }
        for _ in 0..reports {
            let rate_millis = rate.map(|rate| rate * 1_000);
            share.reported(Instant::EPOCH + SECOND * second, rate_millis, 10);
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
    fn others_send_alike_up_to_four_for_each_own_query() {
        let of_own = [
            (5, 0),
            (10, 0),
            (15, 512),
            (30, 2_048),
            (50, 4_096),
            (500, 4_096),
        ];
        for (rate, alike) in of_own {
            assert_eq!(after(rate).others_alike(), alike, "{rate}");
        }
        assert_eq!(OwnShare::default().others_alike(), 0, "unknown");
    }

    #[test]
    fn mean_of_64_reports_counts() {
        let mut share = after(10);
        report(&mut share, 60, Some(40), 63);
        assert!(share.is_most(), "not yet");
        report(&mut share, 60, Some(40), 1);
        assert!(!share.is_most());
        report(&mut share, 61, Some(40), 16);
        report(&mut share, 61, Some(0), 48);
        assert!(share.is_most(), "the mean is 10");
    }

    #[test]
    fn only_queries_that_are_answered_count() {
        use Outcome::{Broken, Dropped, Failed, NoConnection, PushedBack, Success, TimedOut};
        for outcome in [Broken, Dropped, NoConnection, PushedBack, TimedOut] {
            let mut share = OwnShare::default();
            share.query_over(outcome);
            assert_eq!(share.answered, 0, "{outcome:?}");
        }
        let mut share = OwnShare::default();
        share.query_over(Success);
        share.query_over(Failed);
        assert_eq!(share.answered, 2);
    }

    #[test]
    fn nothing_is_known_before_queries_were_counted_for_some_time() {
        let mut share = OwnShare::default();
        assert!(!share.is_most());
        report(&mut share, 0, Some(10), 64);
        assert!(!share.is_most(), "the first count");
        report(&mut share, 1, Some(10), 64);
        assert!(share.is_most());
    }

    #[test]
    fn client_that_sends_nothing_any_more_does_not_send_most() {
        let mut share = after(10);
        for second in 60..80 {
            for _ in 0..64 {
                share.reported(Instant::EPOCH + SECOND * second, Some(1_000), 10);
            }
        }
        assert!(!share.is_most());
    }

    #[test]
    fn replicas_without_a_rate_have_as_many_queries_as_the_others_while_half_report_one() {
        for (rated, rate, is_most) in [(32, 15, true), (32, 16, false), (31, 10, false)] {
            let mut share = after(if is_most { 20 } else { 10 });
            report(&mut share, 60, None, 64 - rated);
            report(&mut share, 60, Some(rate), rated);
            assert_eq!(share.is_most(), is_most, "{rated} of 64 at {rate}");
        }
        let mut share = after(10);
        report(&mut share, 60, None, 64);
        assert!(!share.is_most());
        report(&mut share, 61, Some(10), 64);
        assert!(share.is_most(), "counted anew");
    }

    #[test]
    fn largest_values_do_not_overflow() {
        let mut share = OwnShare::default();
        for now in [0, u64::MAX] {
            share.answered = now;
            for _ in 0..64 {
                share.reported(Instant::from_nanos(now), Some(u32::MAX), usize::MAX);
            }
        }
        assert!(!share.is_most());
    }
}
