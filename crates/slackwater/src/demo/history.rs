//! The last minute, second by second. The page's chart and the terminal's small one are drawn from
//! it.

use super::picture::{Quantiles, Second};
use std::collections::VecDeque;

/// How many seconds are kept.
pub(super) const SECONDS: usize = 60;

/// A ring of whole seconds.
#[derive(Debug, Default)]
pub(super) struct History {
    seconds: VecDeque<Second>,
    /// The second that is not over yet.
    current: u64,
    /// The replica that was slowed at some time in the current second.
    hobbled: Option<usize>,
}

impl History {
    /// Notes the state during second `now` of the run: which replica is slowed, if one is. Seconds
    /// that have ended since the last call are read by `read(side, second)` and kept. If there are
    /// more than [`SECONDS`], only the newest are kept.
    pub(super) fn note(
        &mut self,
        now: u64,
        hobbled: Option<usize>,
        read: impl Fn(usize, u64) -> Option<Quantiles>,
    ) {
        let oldest = now.saturating_sub(SECONDS as u64);
        for number in self.current.max(oldest)..now {
            if self.seconds.len() == SECONDS {
                self.seconds.pop_front();
            }
            self.seconds.push_back(Second {
                number,
                hobbled: self.hobbled.take(),
                sides: [read(0, number), read(1, number)],
            });
        }
        self.current = self.current.max(now);
        self.hobbled = self.hobbled.or(hobbled);
    }

    /// The seconds, oldest first.
    pub(super) fn seconds(&self) -> Vec<Second> {
        self.seconds.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn read(side: usize, second: u64) -> Option<Quantiles> {
        (second != 1).then_some(Quantiles {
            p50_ms: side as f64,
            p99_ms: second as f64,
            p999_ms: 0.0,
        })
    }

    #[test]
    fn completed_seconds_are_kept_with_their_slowed_replica() {
        let mut history = History::default();
        history.note(0, None, read);
        history.note(0, Some(3), read);
        history.note(0, None, read);
        assert!(history.seconds().is_empty());
        history.note(2, Some(4), read);
        let seconds = history.seconds();
        let seen: Vec<_> = seconds.iter().map(|s| (s.number, s.hobbled)).collect();
        assert_eq!(seen, [(0, Some(3)), (1, None)]);
        assert_eq!(seconds[0].sides, [read(0, 0), read(1, 0)]);
        assert_eq!(seconds[1].sides, [None, None]);
        history.note(3, None, read);
        assert_eq!(history.seconds()[2].hobbled, Some(4));
    }

    #[test]
    fn only_the_newest_seconds_are_kept_after_a_long_gap() {
        let mut history = History::default();
        history.note(5, None, read);
        history.note(1_000_000, None, read);
        let numbers: Vec<_> = history.seconds().iter().map(|s| s.number).collect();
        assert_eq!(numbers, (999_940..1_000_000).collect::<Vec<_>>());
        history.note(7, None, read);
        assert_eq!(history.seconds().len(), SECONDS);
    }
}
