//! Reports besides the newest that are compared while few come, or most queries are this client's.
//!
//! A rule that compares the newest reports alone needs new ones: if few come for each query, the
//! same replicas are compared again and again, and get more than their share. So it is where probes
//! are lost, where their shortest interval or their largest number bounds them, and while probing
//! backs off `[Decision 0011]`. Then each choice also compares eight others, which are the next
//! ones in turn: an idle replica is found though its report is old. So it does where most queries
//! are this client's own, because they count exactly however old a report is. `[Decision 0020]`

/// Whether further reports are needed, and which are compared next.
#[derive(Clone, Debug)]
pub(super) struct Further {
    /// Reports since they were last counted.
    reports: u32,
    /// Queries that this client had sent then.
    sent: u64,
    /// Once this client has sent more queries than this, too few have come. 0 while further ones
    /// are needed.
    enough_until: u64,
    /// The first report to compare next, counted from the first that is not among the newest.
    from: usize,
}

impl Default for Further {
    /// Enough come.
    fn default() -> Self {
        Self {
            reports: 0,
            sent: 0,
            enough_until: Self::QUERIES_MAX,
            from: 0,
        }
    }
}

impl Further {
    /// Reports that are compared.
    const MAX: usize = 8;
    /// Reports that are counted at a time.
    const COUNTED: u32 = 64;
    /// The most queries in which as many come that are enough: four in three queries. Half a probe
    /// a query is enough where each response carries a report.
    const QUERIES_MAX: u64 = 48;

    /// Counts a report that comes in, after this client has sent this many queries, and with
    /// whether it sends most of all.
    #[inline]
    pub(super) fn reported(&mut self, sent: u64, sends_most: bool) {
        self.reports += 1;
        if self.reports >= Self::COUNTED {
            self.count(sent, sends_most);
        }
    }

    #[cold]
    fn count(&mut self, sent: u64, sends_most: bool) {
        let enough = !sends_most && sent.saturating_sub(self.sent) <= Self::QUERIES_MAX;
        self.enough_until = if enough {
            sent.saturating_add(Self::QUERIES_MAX)
        } else {
            0
        };
        self.reports = 0;
        self.sent = sent;
    }

    /// Whether further reports are compared.
    pub(super) const fn are_needed(&self) -> bool {
        self.enough_until == 0
    }

    /// The places of those that are compared next, of `all` reports, of which the first `newest`
    /// are the newest.
    pub(super) fn places(&self, newest: usize, all: usize) -> impl Iterator<Item = usize> + Clone {
        let rest = all.saturating_sub(newest);
        let count = if self.are_needed() {
            rest.min(Self::MAX)
        } else {
            0
        };
        let from = self.from;
        (0..count).map(move |step| newest + (from + step) % rest)
    }

    /// Whether further ones are needed after this client has sent this many queries. Then
    /// [`Self::pass`] follows.
    #[inline]
    pub(super) const fn are_due(&self, sent: u64) -> bool {
        sent > self.enough_until
    }

    /// Moves on to the reports after those.
    #[cold]
    pub(super) fn pass(&mut self, newest: usize, all: usize) {
        self.enough_until = 0;
        let rest = all.saturating_sub(newest);
        self.from = (self.from + Self::MAX).checked_rem(rest).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// After 64 reports in this many queries.
    fn after(queries: u64) -> Further {
        let mut further = Further::default();
        for report in 1..=64 {
            further.reported(queries * report / 64, false);
        }
        further
    }

    fn places(further: &Further, all: usize) -> Vec<usize> {
        further.places(16, all).collect()
    }

    #[test]
    fn further_reports_are_needed_while_less_than_four_come_in_three_queries() {
        assert!(!Further::default().are_needed());
        assert!(!after(48).are_needed());
        assert!(after(49).are_needed());
        let mut further = after(64);
        for _ in 0..63 {
            further.reported(64 + 20, false);
        }
        assert!(further.are_needed(), "as counted last");
        further.reported(64 + 20, false);
        assert!(!further.are_needed());
    }

    #[test]
    fn reports_are_never_enough_of_a_client_that_sends_most() {
        let mut further = Further::default();
        for _ in 0..64 {
            further.reported(1, true);
        }
        assert!(further.are_needed());
    }

    #[test]
    fn further_reports_are_needed_if_none_come() {
        let mut further = after(32);
        assert!(!further.are_due(32 + 48));
        assert!(further.are_due(32 + 49));
        further.pass(16, 36);
        assert!(further.are_needed());
        assert!(!Further::default().are_due(48));
        assert!(after(49).are_due(1), "as counted last");
    }

    #[test]
    fn eight_reports_in_turn_are_compared() {
        let mut further = after(64);
        assert_eq!(places(&further, 36), (16..24).collect::<Vec<_>>());
        further.pass(16, 36);
        assert_eq!(places(&further, 36), (24..32).collect::<Vec<_>>());
        further.pass(16, 36);
        assert_eq!(places(&further, 36), [32, 33, 34, 35, 16, 17, 18, 19]);
        further.pass(16, 36);
        assert_eq!(places(&further, 36), (20..28).collect::<Vec<_>>());
    }

    #[test]
    fn no_report_is_compared_twice_and_none_that_is_not_there() {
        let mut further = after(64);
        assert_eq!(places(&further, 19), [16, 17, 18]);
        further.pass(16, 36);
        assert_eq!(places(&further, 19), [18, 16, 17], "fewer than before");
        for all in [0, 7, 16] {
            assert_eq!(places(&further, all), []);
            further.pass(16, all);
        }
        assert_eq!(places(&further, 20), [16, 17, 18, 19]);
        assert_eq!(places(&after(48), 36), [], "enough come");
    }
}
