//! The round-trip time of a probe that nothing delays.
//!
//! An answer may have waited in its socket, or for its turn here or at the replica. So the fastest
//! of each block of sixteen probes counts, and newer blocks count more than older ones.

use core::time::Duration;

/// Probes of which the fastest counts.
const BLOCK: u32 = 16;

/// An estimate of the round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    /// The fastest of the current block, and the number of probes in it.
    least: Option<Duration>,
    taken: u32,
    /// Moving average over the earlier blocks; a new one counts a quarter.
    smoothed: Option<Duration>,
}

impl RoundTrips {
    /// Adds an answer that arrived `took` after its probe was sent.
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

    /// The round-trip time; `None` before the first answer.
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
    fn round_trip_is_the_smoothed_minimum_of_each_block() {
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
