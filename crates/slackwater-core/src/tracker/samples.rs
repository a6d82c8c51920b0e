//! Recent latencies, each with the RIF that its query met, and the median near a given RIF. `[T2]` `[T3]` `[T5]`
//!
//! A ring that any number of threads write and read without a lock. Each slot has a sequence number, odd while it is
//! being written; a reader that sees it change ignores the slot, and a writer that finds a slot taken (it would have to
//! be a whole ring behind) gives up its sample. Nobody ever waits.

use crate::report::Rif;
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use core::time::Duration;

/// Of the recent samples, at most so many, those nearest in RIF, make up the median. `[T3]`
const NEAREST: usize = 9;
/// So many of the newest samples count even when they are older than the window. `[T3]`
const NEWEST: usize = 2;

/// The ring is nearly in order of time, but not quite: a thread may be held up between reading the clock and recording, or
/// between taking a place and filling it. So many old samples in all do not hide newer ones behind them.
const PASSED_OVER_MAX: usize = 8;

#[derive(Debug, Default)]
struct Slot {
    /// Odd while being written; zero if it never was.
    sequence: AtomicU32,
    others: AtomicU32,
    latency_ns: AtomicU64,
    finished_at_ns: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    others: u32,
    latency_ns: u64,
    finished_at_ns: u64,
}

impl Slot {
    fn write(&self, sample: Sample) {
        let sequence = self.sequence.load(Relaxed);
        let claimed = sequence.is_multiple_of(2)
            && self
                .sequence
                .compare_exchange(sequence, sequence.wrapping_add(1), Acquire, Relaxed)
                .is_ok();
        if !claimed {
            return;
        }
        fence(Release);
        self.others.store(sample.others, Relaxed);
        self.latency_ns.store(sample.latency_ns, Relaxed);
        self.finished_at_ns.store(sample.finished_at_ns, Relaxed);
        // Zero means "never written", so the number skips it when it wraps.
        let written = sequence.wrapping_add(2);
        self.sequence
            .store(if written == 0 { 2 } else { written }, Release);
    }

    fn read(&self) -> Option<Sample> {
        let before = self.sequence.load(Acquire);
        if before == 0 || before % 2 == 1 {
            return None;
        }
        let sample = Sample {
            others: self.others.load(Relaxed),
            latency_ns: self.latency_ns.load(Relaxed),
            finished_at_ns: self.finished_at_ns.load(Relaxed),
        };
        fence(Acquire);
        (self.sequence.load(Relaxed) == before).then_some(sample)
    }
}

/// The ring.
#[derive(Debug)]
pub(super) struct Samples {
    /// A power of two of them.
    slots: Box<[Slot]>,
    /// How many samples were ever recorded, wrapping; the next one goes into this slot.
    next: AtomicUsize,
    window_ns: u64,
    age_max_ns: u64,
}

impl Samples {
    pub(super) fn new(capacity: usize, window_ns: u64, age_max_ns: u64) -> Self {
        let capacity = capacity.clamp(NEWEST, 4096).next_power_of_two();
        Self {
            slots: (0..capacity).map(|_| Slot::default()).collect(),
            next: AtomicUsize::new(0),
            window_ns,
            age_max_ns,
        }
    }

    pub(super) fn record(&self, now: Instant, others: Rif, latency: Duration) {
        let index = self.next.fetch_add(1, Relaxed) & (self.slots.len() - 1);
        self.slots[index].write(Sample {
            others: others.count(),
            latency_ns: span_ns(latency),
            finished_at_ns: now.as_nanos(),
        });
    }

    /// The median of recent latencies at or near `rif`: the element ⌈k/2⌉ of the k that count; `None` if none does.
    pub(super) fn median_near_ns(&self, now: Instant, rif: Rif) -> Option<u64> {
        let mut nearest = Nearest::default();
        let (mut counted, mut passed_over) = (0, 0);
        for sample in self.newest_first() {
            let age_ns = now.as_nanos().saturating_sub(sample.finished_at_ns);
            let recent = age_ns <= self.window_ns || counted < NEWEST;
            if !recent || age_ns >= self.age_max_ns {
                passed_over += 1;
                if passed_over > PASSED_OVER_MAX {
                    break;
                }
                continue;
            }
            counted += 1;
            nearest.offer(sample.others.abs_diff(rif.count()), sample.latency_ns);
            if nearest.is_settled() {
                break;
            }
        }
        nearest.median_ns()
    }

    fn newest_first(&self) -> impl Iterator<Item = Sample> + '_ {
        let next = self.next.load(Relaxed);
        (1..=self.slots.len())
            .map(move |back| &self.slots[next.wrapping_sub(back) & (self.slots.len() - 1)])
            .filter_map(Slot::read)
    }
}

/// The samples nearest in RIF so far, nearest first; among equally near ones those that came first stay.
#[derive(Debug, Default)]
struct Nearest {
    /// (distance in RIF, latency in nanoseconds)
    found: [(u32, u64); NEAREST],
    len: usize,
}

impl Nearest {
    fn offer(&mut self, distance: u32, latency_ns: u64) {
        let place = self.found[..self.len].partition_point(|&(other, _)| other <= distance);
        if place == NEAREST {
            return;
        }
        self.len = (self.len + 1).min(NEAREST);
        self.found[place..self.len].rotate_right(1);
        self.found[place] = (distance, latency_ns);
    }

    /// No later sample can be nearer than those found.
    fn is_settled(&self) -> bool {
        self.len == NEAREST && self.found[NEAREST - 1].0 == 0
    }

    fn median_ns(mut self) -> Option<u64> {
        let found = &mut self.found[..self.len];
        found.sort_unstable_by_key(|&(_, latency_ns)| latency_ns);
        let median = found.len().div_ceil(2).checked_sub(1)?;
        Some(found[median].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn samples() -> Samples {
        Samples::new(256, 20_000_000, 10_000_000_000)
    }

    fn record(samples: &Samples, at: u64, others: u32, latency_ms: u64) {
        samples.record(
            at_ms(at),
            Rif::new(others),
            Duration::from_millis(latency_ms),
        );
    }

    fn median_ms(samples: &Samples, at: u64, rif: u32) -> Option<u64> {
        samples
            .median_near_ns(at_ms(at), Rif::new(rif))
            .map(|ns| ns / 1_000_000)
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_of_the_middle() {
        let samples = samples();
        for latency_ms in [40, 10, 30, 20] {
            record(&samples, 100, 0, latency_ms);
        }
        assert_eq!(median_ms(&samples, 100, 0), Some(20), "element 2 of 4");
        record(&samples, 100, 0, 50);
        assert_eq!(median_ms(&samples, 100, 0), Some(30), "element 3 of 5");
    }

    #[test]
    fn outside_the_window_the_two_newest_count_until_they_are_too_old() {
        let samples = samples();
        for (at, latency_ms) in [(100, 90), (101, 70), (102, 80)] {
            record(&samples, at, 0, latency_ms);
        }
        assert_eq!(
            median_ms(&samples, 120, 0),
            Some(80),
            "all three are 20 ms old or newer"
        );
        assert_eq!(
            median_ms(&samples, 121, 0),
            Some(70),
            "two are in the window"
        );
        assert_eq!(
            median_ms(&samples, 500, 0),
            Some(70),
            "none is: the two newest"
        );
        assert_eq!(
            median_ms(&samples, 10_101, 0),
            Some(80),
            "one is as old as any may get"
        );
        assert_eq!(
            median_ms(&samples, 10_102, 0),
            None,
            "stale is worse than unknown"
        );
    }

    #[test]
    fn of_many_the_nine_nearest_in_rif_count() {
        let samples = samples();
        for others in 0..30 {
            record(&samples, 100, others, 100 + u64::from(others));
        }
        // Nearest to 20: 16 to 24.
        assert_eq!(median_ms(&samples, 100, 20), Some(120));
        // Nearest to 1,000: the nine highest, 21 to 29.
        assert_eq!(median_ms(&samples, 100, 1_000), Some(125));
    }

    #[test]
    fn among_equally_near_ones_the_newer_count() {
        let samples = samples();
        for latency_ms in 1..=9 {
            record(&samples, 100, 5, latency_ms);
        }
        for latency_ms in 101..=109 {
            record(&samples, 101, 5, latency_ms);
        }
        assert_eq!(median_ms(&samples, 101, 5), Some(105));
        assert_eq!(
            median_ms(&samples, 101, 4),
            Some(105),
            "also when none is exact"
        );
    }

    #[test]
    fn the_ring_forgets_the_oldest() {
        let samples = Samples::new(4, 20_000_000, 10_000_000_000);
        for latency_ms in 1..=6 {
            record(&samples, 100, 0, latency_ms);
        }
        assert_eq!(median_ms(&samples, 100, 0), Some(4), "of 3, 4, 5, 6");
    }

    #[test]
    fn a_slot_being_written_is_neither_read_nor_written() {
        let samples = Samples::new(2, 20_000_000, 10_000_000_000);
        record(&samples, 100, 0, 7);
        samples.slots[0].sequence.fetch_add(1, Relaxed);
        assert_eq!(median_ms(&samples, 100, 0), None);
        record(&samples, 100, 0, 8);
        record(&samples, 100, 0, 9);
        assert_eq!(
            median_ms(&samples, 100, 0),
            Some(8),
            "9 fell on the slot that was taken"
        );
        samples.slots[0].sequence.fetch_add(1, Relaxed);
        assert_eq!(
            median_ms(&samples, 100, 0),
            Some(7),
            "untouched by the writer that gave up"
        );
    }

    #[test]
    fn a_late_sample_does_not_hide_those_behind_it() {
        let samples = samples();
        for _ in 0..50 {
            record(&samples, 100, 0, 10);
        }
        record(&samples, 50, 0, 90); // held up before it was recorded
        record(&samples, 100, 0, 100);
        record(&samples, 100, 0, 100);
        assert_eq!(median_ms(&samples, 100, 0), Some(10));
    }
}
