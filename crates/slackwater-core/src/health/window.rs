//! How recent queries ended: counts in a ring of buckets, each for a part of a window of time.
//!
//! It heals with time: results older than the window are gone, with or without newer ones. Where
//! there is much data, only the newest decides, so that a change is found sooner. `[E1]`

use crate::time::Instant;

/// The buckets of a window.
pub(super) const BUCKETS: u64 = PLACES as u64;
const PLACES: usize = 16;

/// Counts of how queries ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) good: u32,
    pub(super) bad: u32,
    /// Total time of the bad ones, in nanoseconds.
    pub(super) bad_ns: u64,
}

impl Tally {
    pub(super) const fn count(&self) -> u32 {
        self.good.saturating_add(self.bad)
    }

    const fn add(&mut self, other: &Self) {
        self.good = self.good.saturating_add(other.good);
        self.bad = self.bad.saturating_add(other.bad);
        self.bad_ns = self.bad_ns.saturating_add(other.bad_ns);
    }
}

/// Length of the spans whose longest latencies are kept.
const PEAKS_NS: u64 = 10_000_000_000;

/// The longest latency of this span and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peaks {
    longest_ns: [u64; 2],
    span: u64,
}

impl Peaks {
    pub(super) fn note(&mut self, latency_ns: u64) {
        self.longest_ns[0] = self.longest_ns[0].max(latency_ns);
    }

    pub(super) fn tick(&mut self, now: Instant) {
        let span = now.as_nanos() / PEAKS_NS;
        if span > self.span {
            let is_next = span == self.span + 1;
            let before_ns = if is_next { self.longest_ns[0] } else { 0 };
            self.longest_ns = [0, before_ns];
            self.span = span;
        }
    }

    /// The longest latency of both spans. 0 if there was none.
    pub(super) fn longest_ns(&self) -> u64 {
        self.longest_ns[0].max(self.longest_ns[1])
    }
}

/// The newest buckets of a replica.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    buckets: [Tally; PLACES],
    /// The number of the newest bucket, counted from time zero.
    newest: u64,
}

impl Window {
    /// The bucket with the number `bucket`, or the newest if that is later.
    pub(super) fn at(&mut self, bucket: u64) -> &mut Tally {
        let oldest = bucket.saturating_sub(BUCKETS - 1);
        for number in oldest.max(self.newest.saturating_add(1))..=bucket {
            self.buckets[place(number)] = Tally::default();
        }
        self.newest = self.newest.max(bucket);
        &mut self.buckets[place(self.newest)]
    }

    /// Takes back one that was counted as good in the bucket with the number `bucket`.
    pub(super) fn take_back(&mut self, bucket: u64) {
        if bucket <= self.newest && self.newest - bucket < BUCKETS {
            let tally = &mut self.buckets[place(bucket)];
            tally.good = tally.good.saturating_sub(1);
        }
    }

    /// The buckets from the one with the number `bucket` on.
    pub(super) fn since(&self, bucket: u64) -> Tally {
        self.recent(bucket.saturating_add(BUCKETS - 1), u32::MAX)
    }

    /// The newest buckets that hold `enough`, or all of the window that ends with `bucket`.
    pub(super) fn recent(&self, bucket: u64, enough: u32) -> Tally {
        let oldest = bucket.saturating_sub(BUCKETS - 1);
        let mut sum = Tally::default();
        let mut number = self.newest;
        // The ring holds nothing that is older.
        let end = oldest.max((self.newest + 1).saturating_sub(BUCKETS));
        while number >= end {
            sum.add(&self.buckets[place(number)]);
            if sum.count() >= enough || number == 0 {
                break;
            }
            number -= 1;
        }
        sum
    }
}

const fn place(number: u64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is below the number of places"
    )]
    let number = number as usize;
    number % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad_since(window: &Window, bucket: u64) -> u32 {
        window.recent(bucket, u32::MAX).bad
    }

    #[test]
    fn old_buckets_expire_with_or_without_traffic() {
        let mut window = Window::default();
        window.at(3).bad = 7;
        assert_eq!(bad_since(&window, 3), 7);
        assert_eq!(bad_since(&window, 2 + BUCKETS), 7);
        assert_eq!(bad_since(&window, 3 + BUCKETS), 0, "by time alone");
        window.at(2 + BUCKETS).bad += 1;
        assert_eq!(bad_since(&window, 2 + BUCKETS), 8);
        window.at(3 + BUCKETS).bad += 1;
        assert_eq!(bad_since(&window, 3 + BUCKETS), 2, "its place is taken");
        window.at(1_000).bad += 1;
        assert_eq!(bad_since(&window, 1_000), 1, "a long pause empties all");
        window.at(990).bad += 1;
        assert_eq!(bad_since(&window, 1_000), 2, "a step back is none");
    }

    #[test]
    fn withdrawn_success_is_removed_from_its_bucket() {
        let mut window = Window::default();
        window.at(3).good = 2;
        window.at(5).good = 1;
        window.take_back(3);
        window.take_back(4);
        window.take_back(9);
        assert_eq!(window.recent(5, u32::MAX).good, 2);
        window.at(3 + BUCKETS).good = 1;
        window.take_back(3);
        assert_eq!(window.recent(3 + BUCKETS, u32::MAX).good, 2, "another's");
    }

    #[test]
    fn recent_sums_newest_buckets_up_to_the_requested_count() {
        let mut window = Window::default();
        for bucket in 0..5 {
            window.at(bucket).bad = 10;
        }
        window.at(5).good = 10;
        window.at(6).good = 10;
        let recent = |enough| window.recent(6, enough);
        assert_eq!((recent(20).good, recent(20).bad), (20, 0));
        assert_eq!((recent(21).good, recent(21).bad), (20, 10));
        assert_eq!(recent(u32::MAX).count(), 70);
    }

    #[test]
    fn longest_latency_is_remembered_for_10_to_20_seconds() {
        for (noted_ms, until_ms) in [(0, 20_000), (9_999, 20_000), (10_000, 30_000)] {
            let mut peaks = Peaks::default();
            let mut longest_at = |ms: u64, latency_ns| {
                peaks.tick(Instant::from_nanos(ms * 1_000_000));
                peaks.note(latency_ns);
                peaks.longest_ns()
            };
            longest_at(noted_ms, 7);
            assert_eq!(longest_at(until_ms - 10_000, 3), 7);
            assert_eq!(longest_at(until_ms - 1, 3), 7);
            assert_eq!(longest_at(until_ms, 2), 3);
            assert_eq!(longest_at(until_ms + 20_000, 1), 1, "a long pause");
        }
    }
}
