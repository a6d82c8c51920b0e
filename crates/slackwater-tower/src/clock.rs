//! Real time as the core's instants.
//!
//! The core takes `now` as an argument; here is where a driver reads it. The clock is tokio's, so that a test with paused
//! time sees its own time; without tokio's `test-util` feature that is the monotonic clock of the operating system and
//! nothing more.

use core::time::Duration;
use slackwater_core::Instant;

/// A monotonic clock that counts from its own creation. Copies share the epoch; instants of two clocks do not compare.
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

    /// The present instant, in nanoseconds since this clock's epoch; never earlier than an earlier answer.
    pub fn now(&self) -> Instant {
        Instant::EPOCH + self.since_epoch()
    }

    fn since_epoch(&self) -> Duration {
        tokio::time::Instant::now().saturating_duration_since(self.epoch)
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

    #[tokio::test(start_paused = true)]
    async fn it_follows_paused_time_and_copies_share_the_epoch() {
        let clock = Clock::new();
        assert_eq!(clock.now(), Instant::EPOCH);
        tokio::time::advance(Duration::from_millis(7)).await;
        let copy = clock;
        assert_eq!(copy.now(), Instant::EPOCH + Duration::from_millis(7));
        assert_eq!(Clock::new().now(), Instant::EPOCH);
    }
}
