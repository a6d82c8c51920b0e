//! Whether a line is standing. A queue that absorbs a burst and empties is useful. One that stays
//! only adds delay for all queries.
//!
//! The measure is the age of the oldest query in the line. If that stays above a target throughout
//! an interval, the line is *standing*, until the age is back at the target or the line is empty
//! (K. Nichols and V. Jacobson, "Controlling Queue Delay", ACM Queue 10(5), 2012; RFC 8289 §3.1 and
//! §3.2, with their target of 5 ms and interval of 100 ms).

use crate::time::Instant;
use core::time::Duration;

/// The state of one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    above_since: Option<Instant>,
    is_standing: bool,
}

impl Standing {
    /// Takes in the age of the oldest query. Returns whether the line is standing.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        age: Duration,
        target: Duration,
        interval: Duration,
    ) -> bool {
        if age <= target {
            self.clear();
        } else {
            let since = *self.above_since.get_or_insert(now);
            self.is_standing = now.saturating_since(since) >= interval;
        }
        self.is_standing
    }

    /// Resets the state, because the line is empty.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) const fn is_standing(&self) -> bool {
        self.is_standing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(5);
    const INTERVAL: Duration = Duration::from_millis(100);

    fn observe(standing: &mut Standing, at_ms: u64, age: Duration) -> bool {
        let now = Instant::from_nanos(at_ms * 1_000_000);
        standing.observe(now, age, TARGET, INTERVAL)
    }

    #[test]
    fn queue_is_standing_after_an_unbroken_interval_above_target() {
        let mut line = Standing::default();
        let long = TARGET + Duration::from_nanos(1);
        assert!(!observe(&mut line, 0, long));
        assert!(!observe(&mut line, 99, long));
        assert!(observe(&mut line, 100, long));
        assert!(observe(&mut line, 500, long));
        assert!(!observe(&mut line, 501, TARGET), "back at the target");
        assert!(!observe(&mut line, 502, long));
        assert!(!observe(&mut line, 601, long));
        line.clear();
        assert!(!observe(&mut line, 602, long), "empty meanwhile");
        assert!(!observe(&mut line, 701, long));
        assert!(observe(&mut line, 702, long));
        assert!(line.is_standing());
    }
}
