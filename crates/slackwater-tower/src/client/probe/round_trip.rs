//! How long a probe takes there and back, where nothing holds it up.
//!
//! An answer may have waited in its socket until somebody came for it, or for its turn here or
//! there. So of sixteen probes that follow each other the fastest counts; and of such, the newer
//! more than the older.

use core::time::Duration;

/// Probes of which the fastest counts.
const BLOCK: u32 = 16;

/// What is known of the way there and back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    /// The fastest of the block in hand, and how many it has.
    least: Option<Duration>,
    taken: u32,
    /// Over the blocks before it; a new one counts a quarter.
    smoothed: Option<Duration>,
}

impl RoundTrips {
    /// A probe has been answered, so long after it was sent.
    pub(super) fn add(&mut self, took: Duration) {
        let least = self.least.map_or(took, |least| least.min(took));
        self.taken += 1;
        if self.taken < BLOCK {
            self.least = Some(least);
            return;
        }
        (self.taken, self.least) = (0, None);
        self.smoothed = Some(
            self.smoothed
                .map_or(least, |so_far| (so_far * 3 + least) / 4),
        );
    }

    /// There and back; `None` before the first answer.
    pub(super) fn value(&self) -> Option<Duration> {
        self.smoothed.or(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn block(trips: &mut RoundTrips, least: u64) {
        for extra in (0..BLOCK).rev() {
            trips.add(us(least + 1000 * u64::from(extra)));
        }
    }

    #[test]
    fn the_fastest_of_a_block_counts_and_what_is_new_is_taken_in_slowly() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.value(), None);
        trips.add(us(900));
        trips.add(us(300));
        trips.add(us(800));
        assert_eq!(trips.value(), Some(us(300)), "as far as is known");
        let mut trips = RoundTrips::default();
        block(&mut trips, 200);
        assert_eq!(trips.value(), Some(us(200)));
        trips.add(us(1));
        assert_eq!(trips.value(), Some(us(200)), "not before the block is over");
        let mut trips = RoundTrips::default();
        block(&mut trips, 200);
        block(&mut trips, 600);
        assert_eq!(trips.value(), Some(us(300)));
        for _ in 0..40 {
            block(&mut trips, 600);
        }
        assert!(trips.value() > Some(us(590)));
    }
}
