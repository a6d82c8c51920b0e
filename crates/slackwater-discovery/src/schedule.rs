//! When a name is looked up again: after its time to live, within bounds, a little earlier at
//! random.
//!
//! Processes that start together would otherwise send their queries together forever, so each one
//! looks up to a tenth of the time too early.

use core::time::Duration;
use slackwater_config::TtlBounds;
use slackwater_core::{Draw, SplitMix64};

/// Longest wait after a failure, whatever the bounds.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Computes the wait before the next lookup.
#[derive(Debug)]
pub(super) struct Schedule {
    bounds: TtlBounds,
    draw: SplitMix64,
    /// Consecutive failures.
    failures: u32,
}

impl Schedule {
    pub(super) fn new(bounds: TtlBounds, seed: u64) -> Self {
        Self {
            bounds,
            draw: SplitMix64::new(seed),
            failures: 0,
        }
    }

    /// Wait after an answer with this time to live, including a negative one.
    pub(super) fn after_answer(&mut self, ttl: Duration) -> Duration {
        self.failures = 0;
        self.early(ttl)
    }

    /// Wait after a failure; doubles each time.
    pub(super) fn after_failure(&mut self) -> Duration {
        let doubled = self.bounds.min * 2_u32.saturating_pow(self.failures.min(20));
        self.failures += 1;
        self.early(doubled.min(RETRY_MAX))
    }

    /// Draws from nine tenths of the span to the whole of it, within the bounds.
    fn early(&mut self, span: Duration) -> Duration {
        let span = span.min(self.bounds.max);
        let tenth = u64::try_from((span / 10).as_nanos()).unwrap_or(u64::MAX);
        let less = self.draw.draw() % tenth.max(1);
        span.saturating_sub(Duration::from_nanos(less))
            .max(self.bounds.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bounds(min: u64, max: u64) -> TtlBounds {
        TtlBounds {
            min: Duration::from_secs(min),
            max: Duration::from_secs(max),
        }
    }

    #[test]
    fn ttl_is_bounded_and_shortened_a_little() {
        let mut schedule = Schedule::new(bounds(5, 60), 1);
        let waits: Vec<_> = (0..1000)
            .map(|_| schedule.after_answer(SECOND * 30))
            .collect();
        assert!(
            waits
                .iter()
                .all(|wait| (SECOND * 27..=SECOND * 30).contains(wait))
        );
        let (least, most) = (waits.iter().min(), waits.iter().max());
        assert!(
            least < Some(&(SECOND * 28)) && most > Some(&(SECOND * 29)),
            "spread"
        );

        assert_eq!(schedule.after_answer(Duration::ZERO), SECOND * 5);
        assert_eq!(
            schedule.after_answer(SECOND * 5),
            SECOND * 5,
            "not below the least"
        );
        let long = schedule.after_answer(Duration::from_hours(9));
        assert!((SECOND * 54..=SECOND * 60).contains(&long), "{long:?}");
    }

    #[test]
    fn failures_back_off_until_an_answer() {
        let mut schedule = Schedule::new(bounds(1, 300), 2);
        for expected in [1, 2, 4, 8, 16, 30, 30, 30] {
            let wait = schedule.after_failure();
            let expected = SECOND * expected;
            assert!(wait <= expected && wait >= expected * 9 / 10, "{wait:?}");
        }
        schedule.after_answer(SECOND);
        assert_eq!(schedule.after_failure(), SECOND);

        let mut often = Schedule::new(bounds(1, 3), 3);
        let waits: Vec<_> = (0..200).map(|_| often.after_failure()).collect();
        assert!(
            waits.iter().all(|wait| *wait <= SECOND * 3),
            "the bounds hold"
        );
        let mut seldom = Schedule::new(bounds(60, 300), 4);
        assert_eq!(seldom.after_failure(), SECOND * 60, "here, too");
    }
}
