//! Counts of values, to three digits: fast while values are added, small once it is packed.
//!
//! Values below 2,048 have one slot each. Above, the width of a slot is 1/1,024 to 1/2,048 of its
//! values. A study keeps thousands of histograms until its last run has ended, so each is packed
//! when its own run ends: only used slots remain, with two or three bytes each.

/// Values of up to this many bits have one slot each.
const EXACT_BITS: u32 = 11;
/// Number of slots from one doubling of the width to the next.
const PLACES_OF_WIDTH: usize = 1 << (EXACT_BITS - 1);

/// Counts of values, to three digits. An empty histogram takes no memory.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Counts,
    total: u64,
}

#[derive(Clone, Debug)]
enum Counts {
    /// A count for each slot from 0 to the highest used one.
    Roomy(Vec<u64>),
    /// For each used slot, in order: its distance from the one before (from 0 for the first), and
    /// its count; as LEB128.
    Packed(Box<[u8]>),
}

impl Default for Counts {
    fn default() -> Self {
        Self::Packed(Box::default())
    }
}

impl Histogram {
    /// Adds this value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Adds this value `count` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, count: u64) {
        self.add(place_of(value), count);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (place, count) in other.recorded() {
            self.add(place, count);
        }
    }

    /// Packs the counts to save memory while no values are added.
    pub fn pack(&mut self) {
        let mut bytes = Vec::new();
        let mut before = 0;
        for (place, count) in self.recorded() {
            push_number(&mut bytes, (place - before) as u64);
            push_number(&mut bytes, count);
            before = place;
        }
        self.counts = Counts::Packed(bytes.into());
    }

    /// Returns the number of values.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// Returns the value that a share `q`, from 0 to 1, of all did not exceed (nearest rank), as
    /// the largest of its slot; 0 if empty.
    pub fn quantile(&self, q: f64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's conversion saturates, and the rank is bounded on both sides"
        )]
        let rank = (q * self.total as f64).ceil() as u64;
        let rank = rank.clamp(1, self.total.max(1));
        let mut below = 0;
        let reached = self.recorded().find(|&(_, count)| {
            below += count;
            below >= rank
        });
        reached.map_or(0, |(place, _)| last_of(place))
    }

    /// Returns the counted values, each as the largest of its slot, in order, with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (self.recorded()).map(|(place, count)| (last_of(place), count))
    }

    /// Returns the largest value, as the largest of its slot; 0 if empty.
    pub fn max(&self) -> u64 {
        self.quantile(1.0)
    }

    /// Returns the mean, with each value as the middle of its slot; 0 if empty.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self
            .recorded()
            .map(|(place, count)| {
                let first = place.checked_sub(1).map_or(0, |before| last_of(before) + 1);
                f64::midpoint(first as f64, last_of(place) as f64) * count as f64
            })
            .sum();
        sum / self.total.max(1) as f64
    }

    /// Returns the share of values, from 0 to 1, that are at most `bound` or in its slot; 1 if
    /// empty.
    pub fn share_at_most(&self, bound: u64) -> f64 {
        if self.total == 0 {
            return 1.0;
        }
        let last = place_of(bound);
        let within = self.recorded().take_while(|&(place, _)| place <= last);
        within.map(|(_, count)| count).sum::<u64>() as f64 / self.total as f64
    }

    #[inline]
    fn add(&mut self, place: usize, count: u64) {
        self.total += count;
        if let Counts::Packed(_) = self.counts {
            self.unpack();
        }
        if let Counts::Roomy(counts) = &mut self.counts {
            if place >= counts.len() {
                counts.resize(place + 1, 0);
            }
            counts[place] += count;
        }
    }

    #[cold]
    fn unpack(&mut self) {
        let mut counts = Vec::new();
        for (place, count) in self.recorded() {
            counts.resize(place, 0);
            counts.push(count);
        }
        self.counts = Counts::Roomy(counts);
    }

    /// Returns the used slots, in order, and their counts.
    fn recorded(&self) -> Recorded<'_> {
        match &self.counts {
            Counts::Roomy(counts) => Recorded::Roomy { counts, next: 0 },
            Counts::Packed(bytes) => Recorded::Packed { bytes, place: 0 },
        }
    }
}

enum Recorded<'a> {
    Roomy { counts: &'a [u64], next: usize },
    Packed { bytes: &'a [u8], place: usize },
}

impl Iterator for Recorded<'_> {
    type Item = (usize, u64);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Roomy { counts, next } => {
                let skipped = counts.get(*next..)?.iter().position(|&count| count > 0)?;
                let place = *next + skipped;
                *next = place + 1;
                Some((place, counts[place]))
            }
            Self::Packed { bytes, place } => {
                *place += usize::try_from(take_number(bytes)?).ok()?;
                Some((*place, take_number(bytes)?))
            }
        }
    }
}

#[inline]
fn place_of(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(EXACT_BITS);
    // The highest bits of the value, below 2^11.
    let highest = usize::try_from(value >> shift).unwrap_or(0);
    shift as usize * PLACES_OF_WIDTH + highest
}

/// Returns the largest value of a slot.
fn last_of(place: usize) -> u64 {
    let shift = (place / PLACES_OF_WIDTH).saturating_sub(1);
    let highest = (place - shift * PLACES_OF_WIDTH) as u64;
    // The end of the highest slot of all is 2^64.
    (highest + 1)
        .checked_shl(u32::try_from(shift).unwrap_or(u32::MAX))
        .unwrap_or(0)
        .wrapping_sub(1)
}

/// Appends a number, seven bits a byte, the lowest first. The highest bit of a byte means that more
/// follow.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low & 0x7f);
            return;
        }
        bytes.push(low | 0x80);
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::{Draw, SplitMix64};

    /// Values of all sizes, few and many of each, in ours and in the library that defines the three
    /// digits.
    fn both(seed: u64, values: u32) -> (Histogram, hdrhistogram::Histogram<u64>) {
        let mut ours = Histogram::default();
        let mut theirs = hdrhistogram::Histogram::new_with_bounds(1, 1 << 40, 3).unwrap();
        let mut draw = SplitMix64::new(seed);
        for _ in 0..values {
            let value = draw.draw() >> (24 + draw.draw() % 40);
            let count = 1 + (draw.draw() >> (40 + draw.draw() % 24));
            ours.record_n(value, count);
            theirs.record_n(value, count).unwrap();
        }
        (ours, theirs)
    }

    /// Asserts that both agree on everything that they can return.
    fn assert_agree(ours: &Histogram, theirs: &hdrhistogram::Histogram<u64>) {
        assert_eq!(ours.count(), theirs.len());
        assert_eq!(ours.max(), theirs.max());
        assert!((ours.mean() / theirs.mean() - 1.0).abs() < 1e-3);
        for q in [1e-9, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            assert_eq!(ours.quantile(q), theirs.value_at_quantile(q), "{q}");
        }
        for bound in (0..40).flat_map(|bits| [1 << bits, (1 << bits) + 1, (3 << bits) / 2]) {
            let (found, expected) = (ours.share_at_most(bound), theirs.quantile_below(bound));
            assert!((found - expected).abs() < 1e-12, "{bound}");
        }
    }

    #[test]
    fn histogram_matches_hdr_histogram_packed_or_not() {
        for (seed, values) in [(1, 1), (2, 10), (3, 30_000)] {
            let (mut ours, theirs) = both(seed, values);
            assert_agree(&ours, &theirs);
            ours.pack();
            assert_agree(&ours, &theirs);
        }
    }

    #[test]
    fn values_after_packing_are_counted() {
        let (mut ours, mut theirs) = both(4, 500);
        let (more, more_theirs) = both(5, 500);
        ours.pack();
        ours.merge(&more);
        theirs.add(&more_theirs).unwrap();
        assert_agree(&ours, &theirs);
        ours.pack();
        ours.record(77);
        theirs.record(77).unwrap();
        assert_agree(&ours, &theirs);
    }

    /// Every value lies in its slot, and slots follow each other without a gap, up to the last
    /// value.
    #[test]
    fn buckets_cover_all_values() {
        let last = place_of(u64::MAX);
        assert_eq!(last_of(last), u64::MAX);
        for place in 0..last {
            assert_eq!(place_of(last_of(place)), place);
            assert_eq!(place_of(last_of(place) + 1), place + 1);
        }
    }

    /// Uses the number of latencies of a testbed's run, spread over 0 to 400 ms in microseconds.
    #[test]
    fn packed_histogram_is_small() {
        let mut histogram = Histogram::default();
        let mut draw = SplitMix64::new(6);
        for _ in 0..600_000 {
            histogram.record(draw.draw() % 400_000);
        }
        histogram.pack();
        let Counts::Packed(bytes) = &histogram.counts else {
            panic!("it was packed");
        };
        assert!(bytes.len() < 32_000, "{} bytes", bytes.len());
    }

    #[test]
    fn empty_histogram_gives_zeros() {
        let mut nothing = Histogram::default();
        nothing.pack();
        assert_eq!(
            (nothing.count(), nothing.quantile(0.5), nothing.max()),
            (0, 0, 0)
        );
        assert!(nothing.mean().abs() < f64::EPSILON);
        assert!((nothing.share_at_most(0) - 1.0).abs() < f64::EPSILON);
    }
}
