//! Recent latencies as counts in buckets, and their quantiles.
//!
//! Buckets are 1,024 ns wide for the first 32, and from there on a 32nd of the power of two below:
//! a latency is known to 3.2 %. A window has three slices, and the oldest is cleared for the next,
//! so it covers from two thirds of its span to all of it. The memory is always 8.4 kB.

use crate::fixed::Quantile;
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;

/// The narrowest bucket: 2^10 ns.
const UNIT_BITS: u32 = 10;
/// Buckets for each power of two: 2^5.
const SHARE_BITS: u32 = 5;
/// Latencies from 2^26 units, 68.7 s, go to the last bucket, which also holds its own two seconds.
const UNITS_BITS: u32 = 26;
const BUCKETS: usize = ((UNITS_BITS - SHARE_BITS + 1) as usize) << SHARE_BITS;
const LAST: usize = BUCKETS - 1;
const SLICES: usize = 3;

/// Counts of recent latencies.
#[derive(Clone, Debug)]
pub(super) struct Window {
    slice_ns: u64,
    /// The counts, slice after slice.
    counts: Vec<u32>,
    totals: [u32; SLICES],
    /// The slice that is being filled.
    current: usize,
    /// When the current slice began.
    began_at: Instant,
}

impl Window {
    /// An empty window of this many nanoseconds.
    pub(super) fn new(window_ns: u64) -> Self {
        Self {
            slice_ns: (window_ns / SLICES as u64).max(1),
            counts: vec![0; SLICES * BUCKETS],
            totals: [0; SLICES],
            current: 0,
            began_at: Instant::EPOCH,
        }
    }

    /// Clears slices that are too old.
    pub(super) fn turn(&mut self, now: Instant) {
        let slices = now.ns_since(self.began_at) / self.slice_ns;
        if slices == 0 {
            return;
        }
        for _ in 0..slices.min(SLICES as u64) {
            self.current = (self.current + 1) % SLICES;
            self.totals[self.current] = 0;
            let from = self.current * BUCKETS;
            self.counts[from..from + BUCKETS].fill(0);
        }
        self.began_at = self.began_at.plus_ns(slices.saturating_mul(self.slice_ns));
    }

    pub(super) fn record(&mut self, latency_ns: u64) {
        let count = &mut self.counts[self.current * BUCKETS + bucket(latency_ns)];
        *count = count.saturating_add(1);
        let total = &mut self.totals[self.current];
        *total = total.saturating_add(1);
    }

    /// How many latencies it holds.
    pub(super) fn len(&self) -> u64 {
        self.totals.iter().map(|&total| u64::from(total)).sum()
    }

    /// The end of the bucket that holds the quantile, in nanoseconds: at least the quantile, and at
    /// most 3.2 % more (or 1,024 ns). `None` if the window is empty, or the quantile is a minute or
    /// more.
    pub(super) fn quantile_ns(&self, quantile: Quantile) -> Option<u64> {
        let len = self.len();
        let rank = quantile.nearest_rank(usize::try_from(len).unwrap_or(usize::MAX));
        let rank = rank as u64;
        let mut below = 0;
        for bucket in 0..LAST {
            let slices = self.counts.iter().skip(bucket).step_by(BUCKETS);
            below += slices.map(|&count| u64::from(count)).sum::<u64>();
            if below > rank {
                return Some(end_ns(bucket));
            }
        }
        None
    }
}

/// The bucket of a latency.
const fn bucket(latency_ns: u64) -> usize {
    let units = latency_ns >> UNIT_BITS;
    if units >> UNITS_BITS > 0 {
        return LAST;
    }
    // Powers of two above the buckets that are one unit wide.
    let power = (u64::BITS - (units | 1).leading_zeros()).saturating_sub(SHARE_BITS + 1);
    let place = (units >> power) as usize;
    ((power as usize) << SHARE_BITS) + place
}

/// The first nanosecond that belongs to the next bucket.
const fn end_ns(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    // The inverse of the above: two groups of 32 buckets are one unit wide, and each further group
    // is twice as wide as the one before.
    let power = (next >> SHARE_BITS).saturating_sub(1);
    let place = next - (power << SHARE_BITS);
    place << power << UNIT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed::ONE;

    const SECOND: u64 = 1_000_000_000;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn q(millionths: u32) -> Quantile {
        Quantile::from_millionths(millionths).expect("at most 1")
    }

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let mut begins = 0;
        for number in 0..LAST {
            let end = end_ns(number);
            assert!(end > begins, "bucket {number}");
            assert_eq!(bucket(begins), number, "its first");
            assert_eq!(bucket(end - 1), number, "its last");
            let width = end - begins;
            assert!(
                width == 1 << UNIT_BITS || width * 32 <= begins,
                "{number}: {width}"
            );
            begins = end;
        }
        assert_eq!(bucket(begins), LAST);
        assert_eq!(bucket(68_719_476_735), LAST, "just below 2^36 ns");
        assert_eq!(bucket(u64::MAX), LAST);
    }

    #[test]
    fn quantile_is_the_end_of_its_bucket() {
        let mut window = Window::new(30 * SECOND);
        assert_eq!(window.quantile_ns(q(950_000)), None, "no data");
        for ms in 1..=1000 {
            window.record(ms * 1_000_000);
        }
        assert_eq!(window.len(), 1000);
        for (millionths, ms) in [(0, 1), (500_000, 500), (950_000, 950), (ONE, 1000)] {
            let found = window.quantile_ns(q(millionths)).expect("a thousand");
            let exact = ms * 1_000_000;
            assert!(found > exact && found <= exact + exact / 31, "{found}");
        }
        // No latency is beyond the quantile if all are equal.
        let mut alike = Window::new(30 * SECOND);
        for _ in 0..100 {
            alike.record(10_000_000);
        }
        assert!(alike.quantile_ns(Quantile::ZERO) > Some(10_000_000));
    }

    #[test]
    fn quantile_beyond_a_minute_is_unknown() {
        let mut window = Window::new(30 * SECOND);
        for _ in 0..95 {
            window.record(1);
        }
        for _ in 0..5 {
            window.record(100 * SECOND);
        }
        assert_eq!(window.quantile_ns(q(950_000)), Some(1024));
        assert_eq!(window.quantile_ns(q(950_001)), None);
    }

    #[test]
    fn oldest_third_expires_when_a_new_one_starts() {
        let mut window = Window::new(30 * SECOND);
        window.record(1);
        window.turn(at(10 * SECOND - 1));
        window.record(1);
        window.turn(at(10 * SECOND));
        window.record(1);
        window.turn(at(29 * SECOND));
        assert_eq!(window.len(), 3);
        window.turn(at(30 * SECOND));
        assert_eq!(window.len(), 1, "the first ten seconds are over");
        window.turn(at(40 * SECOND - 1));
        assert_eq!(window.len(), 1);
        window.turn(at(40 * SECOND));
        assert_eq!(window.len(), 0);
    }

    #[test]
    fn window_is_empty_after_a_long_pause() {
        let mut window = Window::new(30 * SECOND);
        window.record(1);
        window.turn(at(3_605 * SECOND));
        assert_eq!(window.len(), 0);
        assert_eq!(window.quantile_ns(q(500_000)), None);
        window.record(5_000);
        window.turn(at(3_609 * SECOND));
        assert_eq!(window.len(), 1, "slices begin on the same beat as before");
        window.turn(at(3_600 * SECOND));
        assert_eq!(
            window.len(),
            1,
            "a clock that steps back takes nothing away"
        );
    }
}
