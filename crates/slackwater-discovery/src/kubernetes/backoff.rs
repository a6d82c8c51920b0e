//! Waits between requests that fail: doubled each time, at random, from 0.8 to 30 s.
//!
//! Proxies that lose their API server together must not return together, so each wait is drawn from
//! the base to twice the base.

use core::time::Duration;
use slackwater_core::{Draw, SplitMix64};

/// Base of the first wait.
const BASE: Duration = Duration::from_millis(800);
/// Base of the longest waits, which are up to twice as long.
const BASE_MAX: Duration = Duration::from_secs(15);

/// Computes waits.
#[derive(Debug)]
pub(super) struct Backoff {
    draw: SplitMix64,
    failures: u32,
    /// Whether data was outdated since the last reset.
    was_outdated: bool,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            draw: SplitMix64::new(seed),
            failures: 0,
            was_outdated: false,
        }
    }

    /// The wait after another failure.
    pub(super) fn after_failure(&mut self) -> Duration {
        let base = BASE.saturating_mul(2_u32.saturating_pow(self.failures));
        let base = base.min(BASE_MAX);
        self.failures = self.failures.saturating_add(1);
        base + self.up_to(base)
    }

    /// The wait before a list that replaces outdated data: none for the first in a row, also after
    /// other failures, because a server that was away for long has forgotten the version.
    pub(super) fn after_outdated(&mut self) -> Duration {
        if !self.was_outdated {
            self.was_outdated = true;
            self.failures = self.failures.max(1);
            return Duration::ZERO;
        }
        self.after_failure()
    }

    /// What was wrong is over.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
        self.was_outdated = false;
    }

    /// Draws a time shorter than `span`.
    pub(super) fn up_to(&mut self, span: Duration) -> Duration {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.draw.draw() % span.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_at_random_up_to_half_a_minute() {
        let mut backoff = Backoff::new(1);
        for base_ms in [800, 1600, 3200, 6400, 12_800, 15_000, 15_000, 15_000] {
            let wait = backoff.after_failure();
            let base = Duration::from_millis(base_ms);
            assert!((base..base * 2).contains(&wait), "{wait:?}");
        }
        backoff.reset();
        let waits: Vec<_> = (0..100)
            .map(|_| {
                backoff.reset();
                backoff.after_failure()
            })
            .collect();
        let (least, most) = (waits.iter().min(), waits.iter().max());
        assert!(least < Some(&(BASE * 6 / 5)) && most > Some(&(BASE * 9 / 5)));
    }

    #[test]
    fn the_first_outdated_answer_is_replaced_at_once() {
        let mut backoff = Backoff::new(2);
        assert_eq!(backoff.after_outdated(), Duration::ZERO);
        let next = backoff.after_outdated();
        assert!((BASE * 2..BASE * 4).contains(&next), "{next:?}");
        backoff.reset();
        backoff.after_failure();
        assert_eq!(backoff.after_outdated(), Duration::ZERO, "after a failure");
        assert!(!backoff.after_outdated().is_zero());
    }
}
