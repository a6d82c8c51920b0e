//! Quotas of CPU time: values that the kernel would refuse, and quotas that could never be used up.

use super::checks::{Checks, above};
use super::{CORES_MAX, TIME_MAX};
use crate::scenario::{Neighbour, Quota};
use core::ops::Bound;
use core::time::Duration;

/// The least quota and the shortest period, as in the kernel: shorter ones are a slow replica.
const QUOTA_MIN: Duration = Duration::from_millis(1);
/// The longest period of a quota, as in the kernel.
const PERIOD_MAX: Duration = Duration::from_secs(1);
/// The shortest stay of a neighbour within a quota: one that comes and goes more often is one that
/// takes less.
const NEIGHBOUR_MIN: Duration = Duration::from_millis(1);

impl Quota {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.time("cpu", self.cpu, QUOTA_MIN..);
        checks.time("period", self.period, QUOTA_MIN..=PERIOD_MAX);
        checks.number("at_once", self.at_once, above(0.0, CORES_MAX));
        let most = self.at_once * self.period.as_secs_f64();
        // Allows for a rounding error. If there are no cores or no period, that is the mistake.
        let too_much = most > 0.0 && self.cpu.as_secs_f64() > most * (1.0 + 1e-9);
        checks.that("cpu", !too_much, || {
            format!(
                "is {:?}, but at_once lets no more than {:?} be used in a period of {:?}: lower it, or raise at_once",
                self.cpu,
                Duration::try_from_secs_f64(most).unwrap_or(Duration::MAX),
                self.period
            )
        });
        if let Some(neighbour) = &self.neighbour {
            checks.within("neighbour", |checks| neighbour.check(checks));
        }
    }
}

impl Neighbour {
    fn check(&self, checks: &mut Checks) {
        let some = (Bound::Excluded(0.0), Bound::Excluded(1.0));
        checks.number("share", self.share, some);
        checks.time("least", self.least, NEIGHBOUR_MIN..=TIME_MAX);
        checks.time("most", self.most, self.least..=TIME_MAX);
    }
}
