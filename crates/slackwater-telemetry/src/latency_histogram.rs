//! Latency histograms: counts in buckets that are cheap to add to, small, and precise enough for
//! quantiles.
//!
//! A [`LatencyHistogram`] has one writer, the worker that owns it, and any number of readers.
//! Adding takes two loads and two stores, and no locked instruction. Readers get [`Latencies`],
//! plain values that can be added over workers. The difference of two readings is what came in
//! between.
//!
//! The bounds are the same everywhere: seven for each power of ten, from 100 µs to 50 s, then 60 s.
//! Between two of them a histogram has one bucket. A [fine](LatencyHistogram::fine) histogram has
//! sixteen of equal width there, and one for each µs below 100 µs. A quantile of a fine histogram
//! is off by at most 2 %, one of another by at most a quarter of itself; displays mark the latter
//! with "≈". A fine histogram takes six kilobytes once it is used, so only services have one, not
//! each of their replicas.

use core::ops::{AddAssign, Sub};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::OnceLock;

/// Upper bound of each bucket in µs, inclusive. Larger latencies are counted in one more bucket at
/// the end.
pub const BOUNDS_US: [u64; 42] = [
    100, 150, 200, 250, 350, 500, 700, // 0.1 ms
    1_000, 1_500, 2_000, 2_500, 3_500, 5_000, 7_000, // 1 ms
    10_000, 15_000, 20_000, 25_000, 35_000, 50_000, 70_000, // 10 ms
    100_000, 150_000, 200_000, 250_000, 350_000, 500_000, 700_000, // 0.1 s
    1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_500_000, 5_000_000, 7_000_000, // 1 s
    10_000_000, 15_000_000, 20_000_000, 25_000_000, 35_000_000, 50_000_000, 60_000_000,
];

const BUCKETS: usize = BOUNDS_US.len() + 1;
/// Buckets of a fine histogram up to the first bound. `FINE_PARTS` is their number between two
/// other bounds.
const FINE_FIRST: usize = 100;
const FINE_PARTS: usize = 16;
const FINE_BUCKETS: usize = FINE_FIRST + FINE_PARTS * (BOUNDS_US.len() - 1) + 1;

/// The first bucket that a latency with a given number of binary digits can be in.
const FIRST: [u8; 65] = {
    let mut first = [0; 65];
    let mut digits = 1;
    while digits < first.len() {
        let least = 1_u64 << (digits - 1);
        let mut bucket = 0;
        while bucket < BOUNDS_US.len() && BOUNDS_US[bucket] < least {
            bucket += 1;
        }
        // There are fewer than 256 buckets.
        first[digits] = bucket.to_le_bytes()[0];
        digits += 1;
    }
    first
};

/// The bucket of a latency.
pub fn bucket_of(latency: Duration) -> usize {
    bucket_of_us(whole_us(latency))
}

/// The latency in µs. 64 bits suffice for half a million years, and are cheaper than
/// `Duration::as_micros`'s 128.
fn whole_us(latency: Duration) -> u64 {
    let latency_us = latency.as_secs().saturating_mul(1_000_000);
    latency_us.saturating_add(latency.subsec_micros().into())
}

/// The bucket of a latency in µs. Each power of two contains at most three bounds.
fn bucket_of_us(latency_us: u64) -> usize {
    let digits = u64::BITS - latency_us.leading_zeros();
    let mut bucket = usize::from(FIRST[digits as usize]);
    while BOUNDS_US
        .get(bucket)
        .is_some_and(|bound| *bound < latency_us)
    {
        bucket += 1;
    }
    bucket
}

/// The bucket of a fine histogram.
fn fine_bucket_of_us(latency_us: u64) -> usize {
    let bucket = bucket_of_us(latency_us);
    let Some(below) = bucket.checked_sub(1) else {
        return usize::try_from(latency_us.saturating_sub(1)).unwrap_or(0);
    };
    let first = FINE_FIRST + FINE_PARTS * below;
    let Some(above_us) = BOUNDS_US.get(bucket) else {
        return first;
    };
    let below_us = BOUNDS_US[below];
    // A bound belongs to the bucket below it, so the first part begins one µs above.
    let part = (latency_us - below_us - 1) * FINE_PARTS as u64 / (above_us - below_us);
    first + usize::try_from(part).unwrap_or(0)
}

/// The middle of a bucket of a fine histogram, in µs.
fn fine_middle_us(bucket: usize) -> u64 {
    let Some(place) = bucket.checked_sub(FINE_FIRST) else {
        return bucket as u64 + 1;
    };
    let (below, part) = (place / FINE_PARTS, place % FINE_PARTS);
    let below_us = BOUNDS_US[below];
    let Some(above_us) = BOUNDS_US.get(below + 1) else {
        return below_us;
    };
    let width_us = above_us - below_us;
    below_us + 1 + (2 * part as u64 + 1) * width_us / (2 * FINE_PARTS as u64)
}

/// The bucket between bounds that contains a bucket of a fine histogram.
const fn coarse_of(fine: usize) -> usize {
    match fine.checked_sub(FINE_FIRST) {
        None => 0,
        Some(place) => 1 + place / FINE_PARTS,
    }
}

/// A histogram of latencies: one writer, any number of readers.
#[derive(Debug, Default)]
pub struct LatencyHistogram {
    is_fine: bool,
    /// One counter per bucket, allocated with the first latency.
    counts: OnceLock<Box<[AtomicU64]>>,
    sum_us: AtomicU64,
}

impl LatencyHistogram {
    /// A histogram whose quantiles are off by at most 2 %.
    pub fn fine() -> Self {
        Self {
            is_fine: true,
            ..Self::default()
        }
    }

    /// Adds a latency.
    pub fn add(&self, latency: Duration) {
        let latency_us = whole_us(latency);
        // No locked instruction is needed, because there is only one writer.
        let add = |cell: &AtomicU64, more: u64| {
            cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
        };
        let (bucket, buckets) = if self.is_fine {
            (fine_bucket_of_us(latency_us), FINE_BUCKETS)
        } else {
            (bucket_of_us(latency_us), BUCKETS)
        };
        let counts = self
            .counts
            .get_or_init(|| (0..buckets).map(|_| AtomicU64::default()).collect());
        add(&counts[bucket], 1);
        add(&self.sum_us, latency_us);
    }

    /// Reads the latencies so far. During a write, the last one may be counted in one field and not
    /// yet in the other.
    pub fn read(&self) -> Latencies {
        let counts = self.counts.get().map_or(&[][..], |counts| counts);
        Latencies {
            counts: counts.iter().map(|count| count.load(Relaxed)).collect(),
            sum_us: self.sum_us.load(Relaxed),
        }
    }
}

/// A reading of a histogram.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Count of each bucket; empty if there are no latencies.
    counts: Box<[u64]>,
    sum_us: u64,
}

/// Compares the counts; a fine and a coarse reading are compared by coarse buckets.
impl PartialEq for Latencies {
    fn eq(&self, other: &Self) -> bool {
        let same = if self.counts.len() == other.counts.len() {
            self.counts == other.counts
        } else {
            self.coarse() == other.coarse()
        };
        same && self.sum_us == other.sum_us
    }
}

impl Eq for Latencies {}

impl Latencies {
    const fn is_fine(&self) -> bool {
        self.counts.len() == FINE_BUCKETS
    }

    /// Counts in coarse buckets.
    fn coarse(&self) -> [u64; BUCKETS] {
        let mut coarse = [0; BUCKETS];
        for (bucket, count) in self.counts.iter().enumerate() {
            let bucket = if self.is_fine() {
                coarse_of(bucket)
            } else {
                bucket
            };
            coarse[bucket] += count;
        }
        coarse
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all latencies, exact to a µs.
    pub const fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_us)
    }

    /// Each bound in µs, with the number of latencies up to it.
    pub fn up_to_bounds(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.coarse().into_iter().scan(0, |up_to, in_bucket| {
            *up_to += in_bucket;
            Some(*up_to)
        });
        BOUNDS_US.into_iter().zip(counts)
    }

    /// The latency that a share `part` of all, from 0 to 1, did not exceed; `None` if there are
    /// none. It is the middle of its bucket. In a fine histogram its error is at most 2 %, or half
    /// a µs below 25 µs. In others it is at most a quarter of the value between 100 µs and 60 s,
    /// and anything below counts as 50 µs. Anything above 60 s counts as 60 s.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let count = self.count();
        let rank = (part.clamp(0.0, 1.0) * count as f64).ceil().max(1.0);
        let mut up_to = 0;
        let bucket = self.counts.iter().position(|in_bucket| {
            up_to += in_bucket;
            up_to as f64 >= rank
        });
        let bucket = bucket.filter(|_| count > 0)?;
        let middle_us = if self.is_fine() {
            fine_middle_us(bucket)
        } else {
            let below = bucket.checked_sub(1).map_or(0, |it| BOUNDS_US[it]);
            let above = BOUNDS_US.get(bucket);
            above.map_or(below, |above| u64::midpoint(below, *above))
        };
        Some(Duration::from_micros(middle_us))
    }
}

impl AddAssign<&Self> for Latencies {
    fn add_assign(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else if self.counts.len() == other.counts.len() {
            for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
                *sum += more;
            }
        } else if !other.counts.is_empty() {
            // A fine and a coarse reading can only be added by coarse buckets.
            let (ours, theirs) = (self.coarse(), other.coarse());
            self.counts = ours
                .iter()
                .zip(theirs)
                .map(|(ours, more)| ours + more)
                .collect();
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }
}

/// The latencies that came after an earlier reading of the same histogram. If any bucket has
/// fallen, the earlier reading was of another histogram, and everything in this one came after it.
impl Sub<&Self> for Latencies {
    type Output = Self;

    fn sub(self, earlier: &Self) -> Self {
        let pairs = || self.counts.iter().zip(&earlier.counts);
        let is_another = self.counts.len() != earlier.counts.len();
        if is_another || pairs().any(|(now, before)| now < before) {
            return self;
        }
        Self {
            counts: pairs()
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
            sum_us: self.sum_us.wrapping_sub(earlier.sum_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(latencies_us: impl IntoIterator<Item = u64>) -> Latencies {
        let histogram = LatencyHistogram::default();
        let latencies = latencies_us.into_iter().map(Duration::from_micros);
        latencies.for_each(|latency| histogram.add(latency));
        histogram.read()
    }

    #[test]
    fn latency_falls_into_first_bucket_with_sufficient_bound() {
        let edges = BOUNDS_US
            .iter()
            .flat_map(|bound| [bound - 1, *bound, bound + 1]);
        let powers = (0..63).flat_map(|power| [1_u64 << power, (1 << power) + 1]);
        for latency_us in edges.chain(powers).chain([0, u64::MAX]) {
            let slow = BOUNDS_US.iter().position(|bound| latency_us <= *bound);
            let slow = slow.unwrap_or(BOUNDS_US.len());
            assert_eq!(bucket_of_us(latency_us), slow, "{latency_us}");
        }
        assert!(BOUNDS_US.is_sorted_by(|a, b| a < b && 2 * b <= 3 * a));
    }

    #[test]
    fn quantiles_are_within_25_percent() {
        assert_eq!(all([]).quantile(0.5), None);
        let spread = core::iter::successors(Some(101_u64), |us| Some(us + us / 90));
        let sorted: Vec<_> = spread.take_while(|us| *us <= 60_000_000).collect();
        let latencies = all(sorted.iter().copied());
        assert_eq!(latencies.count(), sorted.len() as u64);
        for millis in [0, 1, 100, 500, 900, 990, 999, 1_000] {
            let rank = (millis * sorted.len()).div_ceil(1_000).max(1);
            let exact = sorted[rank - 1] as f64;
            let found = latencies.quantile(millis as f64 / 1e3).expect("some");
            let off = found.as_secs_f64() * 1e6 - exact;
            assert!(
                off.abs() <= 0.25 * exact + 1.0,
                "{millis}: {found:?} for {exact} us"
            );
        }
        let ends = all([3, 90_000_000]);
        assert_eq!(ends.quantile(0.5), Some(Duration::from_micros(50)));
        assert_eq!(ends.quantile(1.0), Some(Duration::from_mins(1)));
    }

    #[test]
    fn quantiles_of_a_fine_histogram_are_within_two_percent() {
        let spread = core::iter::successors(Some(25_u64), |us| Some(us + us / 90 + 1));
        let sorted: Vec<_> = spread.take_while(|us| *us <= 60_000_000).collect();
        let histogram = LatencyHistogram::fine();
        for us in &sorted {
            histogram.add(Duration::from_micros(*us));
        }
        let (fine, coarse) = (histogram.read(), all(sorted.iter().copied()));
        assert!(
            fine.up_to_bounds().eq(coarse.up_to_bounds()),
            "the same between bounds"
        );
        assert_eq!(fine, coarse);
        for (place, us) in sorted.iter().enumerate() {
            let part = (place as f64 + 0.5) / sorted.len() as f64;
            let found = fine.quantile(part).expect("some").as_secs_f64() * 1e6;
            let off = (found - *us as f64).abs();
            assert!(off <= 0.02 * *us as f64, "{found} for {us} us");
        }
        let buckets = sorted.iter().map(|us| fine_bucket_of_us(*us));
        assert!(buckets.is_sorted() && fine_bucket_of_us(u64::MAX) == FINE_BUCKETS - 1);
        let mut sum = fine.clone();
        sum += &coarse;
        assert_eq!(sum.count(), 2 * coarse.count());
    }

    #[test]
    fn readings_can_be_added_and_subtracted() {
        let histogram = LatencyHistogram::default();
        histogram.add(Duration::from_millis(1));
        let earlier = histogram.read();
        histogram.add(Duration::from_millis(30));
        histogram.add(Duration::from_mins(2));
        let between = histogram.read() - &earlier;
        assert_eq!(between, all([30_000, 120_000_000]));
        let mut sum = earlier.clone();
        sum += &between;
        assert_eq!(sum, histogram.read());
        // The histogram started again, with more fast requests and fewer slow ones.
        let anew = all([1_000, 1_000]);
        assert_eq!(anew.clone() - &histogram.read(), anew);
    }
}
