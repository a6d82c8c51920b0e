//! Recent latencies, each with the RIF that its query met, and the median near a given RIF. `[T2]`
//! `[T3]` `[T5]`
//!
//! A ring that any number of threads write and read without a lock. Each slot has a sequence
//! number, which is odd while the slot is written. A reader that sees it change ignores the slot. A
//! writer that finds a slot taken (the other writer would be a whole ring behind) drops its sample.
//! No thread ever waits.

use super::TrackerConfig;
use crate::report::Rif;
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use core::time::Duration;

/// Most samples within the window in a median: those nearest in RIF. `[T3]`
const NEAREST_IN_WINDOW: usize = 9;
/// Most remembered samples in a median, if the window has too few: fewer, so that the RIF counts
/// more. `[T3]` `[Decision 0004]`
const NEAREST_REMEMBERED: usize = 5;
const CAPACITY_MIN: usize = 2;

/// The ring is nearly in order of time, but not quite: a thread may be delayed between reading the
/// clock and recording, or between taking a slot and filling it. Up to this many old samples do not
/// hide newer ones behind them.
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

impl Sample {
    #[inline]
    const fn age_ns(&self, now: Instant) -> u64 {
        now.as_nanos().saturating_sub(self.finished_at_ns)
    }
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

    #[inline]
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
pub(super) struct Samples {
    /// A power of two slots.
    slots: Box<[Slot]>,
    /// How many samples were ever recorded, wrapping. The next one goes into this slot.
    next: AtomicUsize,
    window_ns: u64,
    window_min: usize,
    remembered_max: usize,
    age_max_ns: u64,
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples").finish_non_exhaustive()
    }
}

impl Samples {
    pub(super) fn new(config: &TrackerConfig) -> Self {
        let capacity = config.sample_capacity.clamp(CAPACITY_MIN, 4096);
        Self {
            slots: (0..capacity.next_power_of_two())
                .map(|_| Slot::default())
                .collect(),
            next: AtomicUsize::new(0),
            window_ns: span_ns(config.sample_window),
            window_min: config.window_samples_min.max(1),
            remembered_max: config.remembered_samples_max,
            age_max_ns: span_ns(config.sample_age_max),
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

    /// The median of recent latencies at or near `rif`: element ⌈k/2⌉ of the k samples that count.
    /// `None` if none does.
    ///
    /// Samples within the window count alone if there are enough: they show the present. Otherwise
    /// the newest ones count, and over that longer time the samples at this RIF are the best
    /// predictors of the next query. `[Decision 0004]`
    pub(super) fn median_near_ns(&self, now: Instant, rif: Rif) -> Option<u64> {
        self.median_ns(now, rif, self.remembered_max, self.age_max_ns)
    }

    /// Like [`Self::median_near_ns`], over samples of any age and at least one of them: what was
    /// usual when latency was last known. `None` only if it never was.
    pub(super) fn last_known_ns(&self, now: Instant, rif: Rif) -> Option<u64> {
        self.median_ns(now, rif, self.remembered_max.max(1), u64::MAX)
    }

    fn median_ns(
        &self,
        now: Instant,
        rif: Rif,
        remembered_max: usize,
        age_max_ns: u64,
    ) -> Option<u64> {
        let young = |sample: &Sample| sample.age_ns(now) < age_max_ns;
        let recent = |sample: &Sample| young(sample) && sample.age_ns(now) <= self.window_ns;
        let next = self.next.load(Relaxed);
        let mut in_window = 0;
        self.look_back(next, recent, |_, _| {
            in_window += 1;
            in_window < self.window_min
        });
        if in_window >= self.window_min {
            let nearest = self.nearest::<NEAREST_IN_WINDOW>(next, rif, usize::MAX, recent);
            self.median_of_ns(next, nearest, young)
        } else if remembered_max > 0 {
            let nearest = self.nearest::<NEAREST_REMEMBERED>(next, rif, remembered_max, young);
            self.median_of_ns(next, nearest, young)
        } else {
            None
        }
    }

    /// How many samples were ever recorded, wrapping.
    pub(super) fn recorded(&self) -> usize {
        self.next.load(Relaxed)
    }

    /// Passes to `show` the RIF and latency of each sample that was recorded between the counts
    /// `from` and `to` and finished after `then`. Newest first, as far back as the ring goes.
    #[inline]
    pub(super) fn between(
        &self,
        from: usize,
        to: usize,
        then: Instant,
        mut show: impl FnMut(u32, u64),
    ) {
        let count = to.wrapping_sub(from);
        if count == 0 {
            return;
        }
        let later = |sample: &Sample| sample.finished_at_ns > then.as_nanos();
        self.look_back(to, later, |back, sample| {
            if back <= count {
                show(sample.others, sample.latency_ns);
            }
            back < count
        });
    }

    /// The `N` samples nearest in RIF among the `newest_max` newest wanted ones, nearest first, and
    /// of equally near ones the newer first. Each is packed as its distance in RIF and, below that,
    /// how far back it is, which is unique.
    #[inline]
    fn nearest<const N: usize>(
        &self,
        next: usize,
        rif: Rif,
        newest_max: usize,
        wanted: impl Fn(&Sample) -> bool,
    ) -> [u64; N] {
        let mut nearest = [VACANT; N];
        let mut left = newest_max;
        self.look_back(next, wanted, |back, sample| {
            let distance = sample.others.abs_diff(rif.count());
            insert(&mut nearest, (u64::from(distance) << 32) | (back as u64));
            left -= 1;
            let settled = nearest[N - 1] >> 32 == 0; // no older one can be nearer
            left > 0 && !settled
        });
        nearest
    }

    /// Passes the wanted samples to `show`, newest first, with how far back each is, until `show`
    /// returns `false`.
    #[inline]
    fn look_back(
        &self,
        next: usize,
        wanted: impl Fn(&Sample) -> bool,
        mut show: impl FnMut(usize, Sample) -> bool,
    ) {
        let slots = &*self.slots;
        let mut passed_over = 0;
        for back in 1..=slots.len() {
            let Some(sample) = slots[next.wrapping_sub(back) & (slots.len() - 1)].read() else {
                continue;
            };
            let goes_on = if wanted(&sample) {
                show(back, sample)
            } else {
                passed_over += 1;
                passed_over <= PASSED_OVER_MAX
            };
            if !goes_on {
                return;
            }
        }
    }

    fn median_of_ns<const N: usize>(
        &self,
        next: usize,
        nearest: [u64; N],
        young: impl Fn(&Sample) -> bool,
    ) -> Option<u64> {
        let mut by_latency = [VACANT; N];
        let mut count = 0_usize;
        for back in nearest.into_iter().filter_map(back_of) {
            // A sample that was overwritten since counts with its new value, if that is not too
            // old.
            if let Some(sample) = self.read(next, back).filter(&young) {
                insert(&mut by_latency, sample.latency_ns);
                count += 1;
            }
        }
        let median = count.div_ceil(2).checked_sub(1)?;
        Some(by_latency[median])
    }

    /// The sample that was recorded `back` places before `next`, if there is one.
    #[inline]
    fn read(&self, next: usize, back: usize) -> Option<Sample> {
        self.slots[next.wrapping_sub(back) & (self.slots.len() - 1)].read()
    }
}

/// Marks an empty place; farther than any sample.
const VACANT: u64 = u64::MAX;

/// How far back one of the nearest is.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "it was a `usize` when it was packed"
)]
fn back_of(nearest: u64) -> Option<usize> {
    (nearest != VACANT).then_some((nearest & u64::from(u32::MAX)) as usize)
}

/// Inserts a number into a sorted list; the greatest falls out.
///
/// There are only a few places, and which one is hit is unpredictable: passing all of them is
/// cheaper than a mispredicted branch.
#[inline]
fn insert<const N: usize>(sorted: &mut [u64; N], mut number: u64) {
    for held in sorted {
        (*held, number) = (number.min(*held), number.max(*held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn samples() -> Samples {
        Samples::new(&TrackerConfig::default())
    }

    fn of_capacity(sample_capacity: usize) -> Samples {
        Samples::new(&TrackerConfig {
            sample_capacity,
            ..TrackerConfig::default()
        })
    }

    /// Records `count` samples with the same time, RIF and latency.
    fn record_many(samples: &Samples, count: u32, at: u64, others: u32, latency_ms: u64) {
        for _ in 0..count {
            record(samples, at, others, latency_ms);
        }
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
    fn median_of_an_even_count_is_the_lower_middle() {
        let samples = samples();
        for latency_ms in [40, 10, 30, 20] {
            record(&samples, 100, 0, latency_ms);
        }
        assert_eq!(median_ms(&samples, 100, 0), Some(20), "element 2 of 4");
        record(&samples, 100, 0, 50);
        assert_eq!(median_ms(&samples, 100, 0), Some(30), "element 3 of 5");
    }

    #[test]
    fn five_recent_samples_suffice_and_four_do_not() {
        let samples = samples();
        record_many(&samples, 5, 50, 0, 90);
        record_many(&samples, 1, 100, 3, 10);
        record_many(&samples, 4, 101, 3, 10);
        assert_eq!(
            median_ms(&samples, 120, 0),
            Some(10),
            "all five are 20 ms old or newer, whatever RIF they met"
        );
        assert_eq!(
            median_ms(&samples, 121, 0),
            Some(90),
            "four are: those remembered count, too, and these are nearer in RIF"
        );
    }

    #[test]
    fn five_nearest_in_rif_of_the_sixteen_newest_count() {
        let samples = samples();
        record_many(&samples, 3, 0, 0, 90);
        record_many(&samples, 13, 0, 7, 10);
        assert_eq!(median_ms(&samples, 1_000, 0), Some(90), "three of five");
        record(&samples, 0, 7, 10);
        assert_eq!(
            median_ms(&samples, 1_000, 0),
            Some(10),
            "one of the three is the 17th now"
        );
        record_many(&samples, 2, 0, 1, 20);
        record_many(&samples, 9, 0, 7, 30);
        assert_eq!(median_ms(&samples, 1_000, 1), Some(30), "two of five");
    }

    #[test]
    fn samples_older_than_three_seconds_do_not_count() {
        let samples = samples();
        record_many(&samples, 2, 100, 0, 90);
        record(&samples, 101, 0, 70);
        assert_eq!(median_ms(&samples, 3_099, 0), Some(90));
        assert_eq!(median_ms(&samples, 3_100, 0), Some(70), "only the newest");
        assert_eq!(
            median_ms(&samples, 3_101, 0),
            None,
            "stale is worse than unknown"
        );
    }

    #[test]
    fn nine_nearest_in_rif_count() {
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
    fn exactly_nine_samples_of_the_window_count() {
        let samples = samples();
        record_many(&samples, 4, 100, 0, 10);
        record_many(&samples, 5, 100, 1, 90);
        record_many(&samples, 9, 100, 2, 10);
        assert_eq!(median_ms(&samples, 100, 0), Some(90), "five of nine");
    }

    #[test]
    fn newer_of_equally_near_samples_count() {
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
    fn ring_overwrites_the_oldest() {
        let samples = of_capacity(4);
        for latency_ms in 1..=6 {
            record(&samples, 100, 0, latency_ms);
        }
        assert_eq!(median_ms(&samples, 100, 0), Some(4), "of 3, 4, 5, 6");
    }

    #[test]
    fn a_slot_being_written_is_neither_read_nor_written() {
        let samples = of_capacity(2);
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
    fn late_sample_does_not_hide_later_ones() {
        let samples = samples();
        record_many(&samples, 50, 100, 0, 10);
        record(&samples, 50, 0, 90); // delayed before it was recorded
        record_many(&samples, 5, 100, 1, 100);
        assert_eq!(median_ms(&samples, 100, 0), Some(10));
    }

    #[test]
    fn samples_between_two_readings_are_newest_first() {
        let samples = of_capacity(4);
        let shown_ms = |from, then| {
            let mut shown = Vec::new();
            samples.between(from, samples.recorded(), at_ms(then), |_, latency_ns| {
                shown.push(latency_ns / 1_000_000);
            });
            shown
        };
        assert_eq!(shown_ms(0, 0), []);
        record(&samples, 100, 0, 1);
        record(&samples, 101, 0, 2);
        record(&samples, 102, 0, 3);
        assert_eq!(shown_ms(0, 0), [3, 2, 1]);
        assert_eq!(shown_ms(1, 0), [3, 2]);
        assert_eq!(shown_ms(1, 101), [3], "what is old is not");
        assert_eq!(shown_ms(3, 0), []);
        samples.slots[1].sequence.fetch_add(1, Relaxed);
        assert_eq!(
            shown_ms(1, 0),
            [3],
            "no other in place of one being written"
        );
        samples.slots[1].sequence.fetch_add(1, Relaxed);
        record(&samples, 103, 0, 4);
        record(&samples, 104, 0, 5);
        assert_eq!(shown_ms(0, 0), [5, 4, 3, 2], "as far as the ring goes");
    }
}
