//! Real time as the core's instants.
//!
//! The core takes `now` as an argument; drivers read it here. The clock is tokio's, so a test with
//! paused time sees its own time. Without tokio's `test-util` feature it is just the monotonic
//! clock of the operating system.

use slackwater_core::Instant;

/// A monotonic clock that counts from its own creation. Copies share the epoch; instants of two
/// clocks do not compare.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: tokio::time::Instant,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn new() -> Self {
        Self {
            epoch: tokio::time::Instant::now(),
        }
    }

    /// The current time, in nanoseconds since this clock's epoch. It never goes back.
    pub fn now(&self) -> Instant {
        self.at(tokio::time::Instant::now())
    }

    /// A time that was read before, in nanoseconds since this clock's epoch. What was before the
    /// epoch is the epoch.
    #[inline]
    pub fn at(&self, time: tokio::time::Instant) -> Instant {
        let since_epoch = time.saturating_duration_since(self.epoch);
        // 64 bits suffice for 584 years, and are cheaper here than `Duration::as_nanos`'s 128.
        let seconds_ns = since_epoch.as_secs().saturating_mul(1_000_000_000);
        Instant::from_nanos(seconds_ns.saturating_add(since_epoch.subsec_nanos().into()))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn clock_follows_paused_time_and_copies_share_the_epoch() {
        let clock = Clock::new();
        assert_eq!(clock.now(), Instant::EPOCH);
        tokio::time::advance(Duration::from_millis(7)).await;
        let copy = clock;
        assert_eq!(copy.now(), Instant::EPOCH + Duration::from_millis(7));
        let now = tokio::time::Instant::now();
        assert_eq!(copy.at(now), copy.now());
        assert_eq!(copy.at(now - Duration::from_millis(8)), Instant::EPOCH);
        assert_eq!(Clock::new().now(), Instant::EPOCH);
    }
}
