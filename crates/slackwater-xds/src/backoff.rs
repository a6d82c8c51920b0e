//! Waits between attempts to reach a control plane: 1 s, then 1.6 times as long each time, up to
//! 2 minutes, each a fifth shorter or longer at random. These are gRPC's numbers.

use core::time::Duration;

/// The wait after the first failure, before it varies.
pub const FIRST: Duration = Duration::from_secs(1);

/// The longest wait, before it varies.
pub const LONGEST: Duration = Duration::from_mins(2);

/// Computes waits.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// Returns the wait before the next attempt. `draw` is uniform over all values.
    pub fn wait(&mut self, draw: u64) -> Duration {
        let wait = self.next;
        self.next = (wait * 8 / 5).min(LONGEST);
        // From four fifths of the wait to six fifths.
        let nanos = wait.as_nanos() * 4 / 5;
        let spread = wait.as_nanos() * 2 / 5;
        let nanos = nanos + ((spread * u128::from(draw)) >> 64);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The control plane has answered: the next wait is the first one again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_two_minutes_and_begin_anew_after_an_answer() {
        let middle = u64::MAX / 2 + 1;
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..13).map(|_| backoff.wait(middle).as_millis()).collect();
        assert_eq!(waits[..4], [1000, 1600, 2560, 4096]);
        assert_eq!(waits[11..], [120_000, 120_000]);
        backoff.reset();
        assert_eq!(backoff.wait(middle), FIRST);
    }

    #[test]
    fn a_wait_varies_by_a_fifth() {
        assert_eq!(Backoff::default().wait(0), Duration::from_millis(800));
        let most = Backoff::default().wait(u64::MAX);
        assert!(most < Duration::from_millis(1200), "{most:?}");
        assert!(most > Duration::from_millis(1199), "{most:?}");
    }
}
