//! Limits log messages of a failure that may repeat with each request.

use core::cell::Cell;
use core::time::Duration;
use tokio::time::Instant;

/// The least time between two messages.
const INTERVAL: Duration = Duration::from_mins(1);

/// When a message was last logged: it is due once a minute.
#[derive(Clone, Debug, Default)]
pub struct LogInterval(Cell<Option<Instant>>);

impl LogInterval {
    /// Whether the message is to be logged now. If so, it counts as logged.
    pub fn is_due(&self) -> bool {
        let is_due = (self.0.get()).is_none_or(|at| at.elapsed() >= INTERVAL);
        if is_due {
            self.0.set(Some(Instant::now()));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_message_is_due_at_first_and_then_once_a_minute() {
        let interval = LogInterval::default();
        let mut logged_at = Vec::new();
        for second in 0..150 {
            if interval.is_due() {
                logged_at.push(second);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(logged_at, [0, 60, 120]);
    }
}
