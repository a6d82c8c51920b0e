//! The usual share in use by reports, and how an old low report returns to it. `[Decision 0012]`
//!
//! A report is a snapshot. A replica that had little to do has been found by other clients since,
//! or will be: by more of them the older the report is. A replica that had more than others is
//! different: a queue stays as long as its cause, and forgetting it early would feed it.

use crate::policy::probed::recent_mean::RecentMean;

/// Age, in usual latencies, at which half of a report still counts: by then the queries that were
/// in flight have ended, and others have come.
const BELIEVED_LATENCIES: u64 = 2;

/// Age from which on a report fades no further: four hours.
const AGE_MAX_NS: u64 = (1 << (u64::BITS - FADED_BITS)) - 1;
/// What has faded of a report is counted in parts of this many bits.
const FADED_BITS: u32 = 20;

/// Larger shares count as this, so that nothing overflows.
const SHARE_MAX: u64 = (1 << (u64::BITS - FADED_BITS)) - 1;

/// The means of the newest 64 reports of all replicas. `Default` has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Usual {
    share: RecentMean,
    latency_ns: RecentMean,
}

impl Usual {
    /// Takes in a report with this share in use, in any unit, and this latency.
    pub(super) fn learn(&mut self, share: u64, latency_ns: Option<u64>) {
        self.share.record(share.min(SHARE_MAX));
        if let Some(latency_ns) = latency_ns {
            self.latency_ns.record(latency_ns);
        }
    }

    /// The current means, for a pick that compares many reports.
    pub(super) fn now(&self) -> UsualNow {
        UsualNow {
            share: self.share.mean(),
            // At most 2^58, since a mean is at most 2^57.
            half_ns: self.latency_ns.mean() * BELIEVED_LATENCIES,
        }
    }
}

/// The means at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsualNow {
    share: u64,
    /// Age at which half of a report still counts. At 0 no latency is known, and all of it counts
    /// forever.
    half_ns: u64,
}

impl UsualNow {
    /// The assumed share in use, from a share that was reported this long ago.
    pub(super) fn aged(self, share: u64, age_ns: u64) -> u64 {
        if share >= self.share || self.half_ns == 0 {
            return share;
        }
        let age_ns = age_ns.min(AGE_MAX_NS);
        let faded = (age_ns << FADED_BITS) / (self.half_ns + age_ns);
        // At most the distance to the mean.
        share + (((self.share - share) * faded) >> FADED_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(share: u64, latency_ns: Option<u64>) -> UsualNow {
        let mut usual = Usual::default();
        usual.learn(share - 100, latency_ns);
        usual.learn(share + 100, latency_ns);
        usual.now()
    }

    #[test]
    fn old_low_report_approaches_the_usual_load() {
        let usual = usual(1_000, Some(50));
        let ages = [0, 50, 100, 300, u64::MAX];
        let shares = ages.map(|age_ns| usual.aged(200, age_ns));
        assert_eq!(shares, [200, 466, 600, 800, 999]);
    }

    #[test]
    fn high_report_counts_fully_at_any_age() {
        let usual = usual(1_000, Some(50));
        assert_eq!(usual.aged(1_000, 1_000_000), 1_000);
        assert_eq!(usual.aged(7_000, 1_000_000), 7_000);
    }

    #[test]
    fn without_known_latency_reports_do_not_age() {
        assert_eq!(usual(1_000, None).aged(200, 1_000), 200);
        assert_eq!(Usual::default().now().aged(200, 1_000), 200);
    }

    #[test]
    fn report_fades_no_further_after_four_hours() {
        // A latency of two hours: after four hours half of a report counts.
        let usual = usual(1_000, Some(1 << 43));
        assert_eq!(usual.aged(200, 1 << 44), 599);
        assert_eq!(usual.aged(200, u64::MAX), 599);
    }

    #[test]
    fn largest_shares_do_not_overflow() {
        let mut usual = Usual::default();
        usual.learn(u64::MAX, Some(50));
        let usual = usual.now();
        let most = (1 << 44) - 1;
        assert_eq!(usual.aged(most - 1_024, 100), most - 512);
        assert_eq!(usual.aged(most, 100), most);
        assert!(usual.aged(0, u64::MAX) > most / 100 * 99);
    }
}
