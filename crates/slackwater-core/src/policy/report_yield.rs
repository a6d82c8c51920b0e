//! How many reports actually arrive per query.

use crate::fixed::{ONE, Rate};

/// The rate at which reports actually arrive, which is below the configured one when probes are
/// lost or skipped.
///
/// At 10,000 queries a second over four replicas, `probe_interval_min` leaves 0.4 reports per query
/// where 3 were configured. A reuse limit without this correction would let the pool run dry.
/// `[Decision 0001]`
#[derive(Clone, Debug)]
pub(in crate::policy) struct ReportYield {
    queries: u32,
    reports: u32,
    rate: Rate,
    configured: Rate,
}

impl ReportYield {
    /// Queries for each estimate.
    const WINDOW: u32 = 128;

    pub(in crate::policy) const fn new(configured: Rate) -> Self {
        Self {
            queries: 0,
            reports: 0,
            rate: configured,
            configured,
        }
    }

    /// Like [`Self::new`], but no reports have arrived so far.
    pub(in crate::policy) const fn unheard(configured: Rate) -> Self {
        Self {
            rate: Rate::ZERO,
            ..Self::new(configured)
        }
    }

    pub(in crate::policy) fn report_pooled(&mut self) {
        self.reports = self.reports.saturating_add(1);
    }

    /// Counts a query. Returns `true` if the rate has changed.
    pub(in crate::policy) fn query(&mut self) -> bool {
        self.queries += 1;
        if self.queries < Self::WINDOW {
            return false;
        }
        // Idle probes may bring more reports than queries trigger. A tenth too few is chance in one
        // window.
        let measured = u64::from(self.reports) * u64::from(ONE) / u64::from(Self::WINDOW);
        let enough = u64::from(self.configured.millionths()) * 9 / 10;
        let rate = if measured >= enough {
            self.configured
        } else {
            u32::try_from(measured)
                .ok()
                .and_then(Rate::from_millionths)
                .unwrap_or(self.configured)
        };
        self.queries = 0;
        self.reports = 0;
        core::mem::replace(&mut self.rate, rate) != rate
    }

    pub(in crate::policy) const fn rate(&self) -> Rate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_yield_is_measured_up_to_the_configured_rate() {
        let configured = Rate::per_query(3).expect("in range");
        let mut reports = ReportYield::new(configured);
        assert_eq!(reports.rate(), configured, "until something else is known");
        let mut window = |count: u32| {
            for _ in 0..count {
                reports.report_pooled();
            }
            let changed = (0..128).filter(|_| reports.query()).count();
            (changed, reports.rate().millionths())
        };
        assert_eq!(window(2 * 128), (1, 2_000_000));
        assert_eq!(window(2 * 128), (0, 2_000_000));
        assert_eq!(
            window(9 * 128),
            (1, 3_000_000),
            "never above the configured rate"
        );
        assert_eq!(
            window(346),
            (0, 3_000_000),
            "90 % is the chance of a window"
        );
        assert_eq!(window(345), (1, 2_695_312), "and below that no more");
        assert_eq!(window(0), (1, 0));
    }
}
