//! What other clients have in flight at an unprobed replica, by Little's law. `[A13]` `[Decision
//! 0002]`
//!
//! Let other clients send n queries to the replicas that answer for each of this client's. If they
//! treat the unprobed replica as this client does, they send n for one there, too. A query takes as
//! long there from any client, so they also have n times as many in flight:
//!
//! > others = n × this client's mean in flight
//!
//! Without it, the others would be assumed to have as many there as elsewhere. Then clients that
//! all prefer the unprobed replicas would see the others run empty, take that for a sign that the
//! unprobed ones are empty, too, and never find out.

use super::recent_mean::{Ordinary, RecentValues};
use super::recent_queries::RecentQueries;
use crate::draw::Draw;
use crate::fixed::mul_div;
use crate::policy::turns::FINE;
use crate::report::{LoadReport, Rif};
use crate::time::Instant;

/// What is known of other clients' queries.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// What they have in flight at a replica, by recent reports, in 1/1024.
    in_flight: RecentValues,
    /// Queries of all clients per second at a replica, by recent reports, in thousandths.
    rate_millis: RecentValues,
    /// This client's queries that replicas that answer probes have answered: such are counted in
    /// reported rates.
    answered: u64,
    own: RecentQueries,
}

impl Others {
    /// Takes in the RIF of a report, of which `own_in_flight` is this client's.
    #[inline]
    pub(super) fn note(&mut self, rif: Rif, own_in_flight: u32) {
        let others = rif.count().saturating_sub(own_in_flight);
        self.in_flight.record(u64::from(others) * FINE);
    }

    /// Takes in the query rate of a report.
    pub(super) fn note_rate(&mut self, report: &LoadReport) {
        if let Some(rate_millis) = report.query_rate_millis {
            self.rate_millis.record(rate_millis.into());
        }
    }

    /// Forgets the rates, when the first replica becomes unprobed.
    pub(super) fn forget_rates(&mut self) {
        self.rate_millis = RecentValues::default();
    }

    /// Counts own queries anew, since other replicas answer now than before.
    pub(super) fn begin(&mut self) {
        self.own = RecentQueries::default();
    }

    /// Counts a query of this client that a replica that answers probes has answered.
    pub(super) const fn query_answered(&mut self) {
        self.answered += 1;
    }

    /// Reads how many of these there were.
    pub(super) fn read(&mut self, now: Instant) {
        self.own.read(now, self.answered, 0);
    }

    /// Requests that they are assumed to have in flight at an unprobed replica, where this client
    /// has had these queries and has `in_flight` now, while `answering` replicas report.
    ///
    /// With `draw` the estimate has the spread of what is reported: it differs from its mean as one
    /// report, which is drawn, from the mean of all.
    pub(super) fn estimate(
        &self,
        own: &RecentQueries,
        in_flight: u32,
        answering: usize,
        draw: Option<&mut dyn Draw>,
    ) -> u32 {
        let ordinary = if draw.is_some() {
            self.in_flight.ordinary()
        } else {
            // Only ordinary values were taken in.
            Ordinary {
                most: u64::MAX,
                mean: self.in_flight.mean(),
            }
        };
        let mean = ordinary.mean;
        let expected = self
            .expected(own, in_flight, answering)
            .map_or(mean, |(law, seen)| {
                // The mean of what is reported counts like one query.
                let all = seen.saturating_add(FINE);
                mul_div(law, seen, all).saturating_add(mul_div(mean, FINE, all))
            });
        let reported = draw.map_or(mean, |draw| self.in_flight.drawn(draw).min(ordinary.most));
        let others = reported.saturating_add(expected).saturating_sub(mean);
        u32::try_from(others.saturating_add(FINE / 2) / FINE).unwrap_or(u32::MAX)
    }

    /// What they have in flight there by Little's law, and the own queries that show it, both in
    /// 1/1024. `None` while that is not known.
    fn expected(
        &self,
        own: &RecentQueries,
        in_flight: u32,
        answering: usize,
    ) -> Option<(u64, u64)> {
        let rate_millis = self.rate_millis.ordinary().mean;
        let all_rate_millis = rate_millis.saturating_mul(answering as u64);
        if all_rate_millis == 0 || own.span_ns == 0 {
            return None;
        }
        let of_others = self.own.of_others(all_rate_millis)?;
        let there = (own.queries).saturating_add(u64::from(in_flight) * FINE);
        let law = mul_div(own.in_flight_ns, of_others, own.span_ns);
        Some((law, there.min(self.own.queries)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::time::Duration;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    /// A report of this load, with queries per second.
    fn report(rif: u32, rate: Option<u32>) -> LoadReport {
        LoadReport {
            query_rate_millis: rate.map(|rate| rate * 1_000),
            ..LoadReport::new(Rif::new(rif), Some(Duration::from_millis(10)))
        }
    }

    fn reports(report: LoadReport) -> Vec<LoadReport> {
        vec![report; 64]
    }

    /// What is known after these reports, with ten own queries a second that replicas answer.
    fn others(reports: &[LoadReport]) -> Others {
        let mut others = Others::default();
        for ms in 0..=10_000 {
            if ms % 100 == 50 {
                others.query_answered();
            }
            others.read(at(ms));
        }
        for report in reports {
            others.note(report.rif, 0);
            others.note_rate(report);
        }
        others
    }

    /// Ten of 400 queries a second are this client's, and others send 39 for each of them. It has
    /// half a query in flight in the mean, so they have 19.5. Some 40 queries show it, of 41.
    #[test]
    fn others_have_as_many_times_more_in_flight_as_they_send() {
        let others = others(&reports(report(3, Some(100))));
        let recent = RecentQueries::steady(10, 50);
        let (law, seen) = others.expected(&recent, 0, 4).expect("known");
        assert!(law.abs_diff(39 * FINE / 2) < FINE / 2, "{law}");
        assert!((36 * FINE..=40 * FINE).contains(&seen), "{seen}");
        assert_eq!(others.estimate(&recent, 0, 4, None), 19);
        assert_eq!(others.estimate(&recent, 0, 8, None), 39, "of eight");
    }

    #[test]
    fn the_mean_of_reports_counts_like_one_query() {
        let others = others(&reports(report(300, Some(100))));
        let mut recent = RecentQueries::default();
        recent.read(at(0), 0, 0);
        recent.read(at(1_000), 1, 0);
        assert_eq!(others.estimate(&recent, 0, 4, None), 150, "of two");
        // One that is in flight counts, too.
        assert_eq!(others.estimate(&recent, 1, 4, None), 100, "of three");
        recent.read(at(2_000), 1, 0);
        assert_eq!(others.estimate(&recent, 0, 4, None), 171, "of 1.75");
    }

    /// A client that sends next to nothing elsewhere does not know what others send for it.
    #[test]
    fn queries_on_both_sides_are_needed() {
        let mut others = others(&reports(report(3, Some(100))));
        others.begin();
        let recent = RecentQueries::steady(10, 50);
        assert_eq!(others.expected(&recent, 0, 4), None);
        others.read(at(20_000));
        others.query_answered();
        others.read(at(20_100));
        let seen = others.expected(&recent, 0, 4).map(|(_, seen)| seen);
        assert_eq!(seen, Some(FINE));
        // One query in a tenth of a second is as many as ten in one.
        assert_eq!(
            others.estimate(&recent, 0, 4, None),
            11,
            "half of 19.5 and 3"
        );
    }

    #[test]
    fn rates_are_forgotten() {
        let mut others = others(&reports(report(3, Some(100))));
        others.forget_rates();
        assert_eq!(others.expected(&RecentQueries::steady(10, 50), 0, 4), None);
    }

    #[test]
    fn only_client_expects_no_others() {
        let others = others(&reports(report(0, Some(5))));
        let expected = others.expected(&RecentQueries::steady(100, 500), 3, 2);
        assert_eq!(expected.map(|(law, _)| law), Some(0), "its ten are all");
    }

    #[test]
    fn without_rates_the_mean_of_reports_is_expected() {
        let recent = RecentQueries::steady(10, 50);
        for rate in [None, Some(0)] {
            let others = others(&reports(report(3, rate)));
            assert_eq!(others.expected(&recent, 0, 4), None, "{rate:?}");
            assert_eq!(others.estimate(&recent, 0, 4, None), 3);
        }
        let known = others(&reports(report(3, Some(100))));
        assert_eq!(known.expected(&recent, 0, 0), None, "no replica answers");
        let none_yet = RecentQueries::default();
        assert_eq!(known.expected(&none_yet, 0, 4), None);
    }

    /// Reports of 1 and 5 have the mean 3, and with ten times that many expected they are 28 and
    /// 32.
    #[test]
    fn drawn_estimate_is_as_far_from_its_mean_as_a_report() {
        let reports: Vec<_> = (0..64).map(|n| report(1 + n % 2 * 4, Some(100))).collect();
        let others = others(&reports);
        let recent = RecentQueries::steady(10, 79);
        let mut draw = SplitMix64::new(1);
        let mut drawn = || others.estimate(&recent, 0, 4, Some(&mut draw));
        let drawn: Vec<_> = (0..200).map(|_| drawn()).collect();
        let lower = drawn.iter().filter(|&&others| others == 28).count();
        let higher = drawn.iter().filter(|&&others| others == 32).count();
        assert_eq!(lower + higher, 200, "{drawn:?}");
        assert!((70..=130).contains(&lower), "{lower}");
        // Where less is expected, none is below 0.
        let mut drawn = || others.estimate(&RecentQueries::steady(10, 0), 0, 4, Some(&mut draw));
        assert!(
            (0..200)
                .map(|_| drawn())
                .all(|others| others == 0 || others == 2)
        );
    }

    /// Six of 64 replicas are overloaded, and one of them has an absurd query rate.
    #[test]
    fn replicas_that_are_overloaded_or_lie_do_not_stand_for_all() {
        let mut reports = reports(report(2, Some(100)));
        for report in &mut reports[..6] {
            report.rif = Rif::new(1_000);
        }
        reports[0].query_rate_millis = Some(u32::MAX);
        let others = others(&reports);
        let mut draw = SplitMix64::new(1);
        let recent = RecentQueries::steady(10, 50);
        let mut drawn = || others.estimate(&recent, 0, 4, Some(&mut draw));
        assert!((0..200).map(|_| drawn()).all(|others| others == 19));
        let none_yet = RecentQueries::default();
        let mut drawn = || others.estimate(&none_yet, 0, 4, Some(&mut draw));
        assert!((0..200).map(|_| drawn()).all(|others| others == 2));
    }

    #[test]
    fn own_queries_are_not_of_others() {
        let mut others = Others::default();
        others.note(Rif::new(9), 4);
        assert_eq!(others.estimate(&RecentQueries::default(), 0, 1, None), 5);
        others.note(Rif::new(2), 4);
        assert_eq!(
            others.estimate(&RecentQueries::default(), 0, 1, None),
            3,
            "2.5"
        );
    }

    #[test]
    fn largest_values_do_not_overflow() {
        let mut others = others(&reports(report(u32::MAX, Some(u32::MAX / 1_000))));
        let mut recent = RecentQueries::default();
        recent.read(at(0), 0, 0);
        recent.read(Instant::from_nanos(u64::MAX), u64::MAX, u64::MAX / 2);
        others.own = recent;
        others.own.queries = 1;
        let (law, _) = others.expected(&recent, u32::MAX, 1 << 20).expect("known");
        assert!(law > u64::MAX / 4, "{law}");
        let estimate = others.estimate(&recent, u32::MAX, 1 << 20, None);
        assert!(estimate > u32::MAX / 2, "{estimate}");
    }
}
