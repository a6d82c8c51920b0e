//! What a replica is compared with: the other replicas. Medians with one value left out, and the
//! latency of the fleet when it is not busy.

use super::evidence::Sample;
use crate::time::Instant;
use alloc::vec::Vec;

/// What the other replicas show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reference {
    /// Their success rate, in millionths.
    pub(super) success: Option<u32>,
    /// How many queries they have had, and how many of these failed.
    pub(super) shown: Sample,
    /// Recent latency of their good answers.
    pub(super) latency_ns: Option<u64>,
    /// `latency_ns`, or the time for which they have kept queries waiting without an answer, if
    /// that is longer.
    pub(super) pace_ns: Option<u64>,
    /// Their longest recent good answer.
    pub(super) peak_ns: Option<u64>,
    /// Latency of good answers when the fleet was least busy.
    pub(super) unhurried_ns: u64,
}

/// Values of all replicas, from which any one can be left out. Only values in the middle are
/// needed, so nothing is sorted.
#[derive(Clone, Debug)]
pub(super) struct Others<T> {
    values: Vec<T>,
    median: Option<T>,
    /// The median without a small value, and without a large one.
    without: Option<[T; 2]>,
}

impl<T> Default for Others<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            median: None,
            without: None,
        }
    }
}

impl<T: Copy + Ord> Others<T> {
    pub(super) fn reserve(&mut self, replicas: usize) {
        let missing = replicas.saturating_sub(self.values.len());
        self.values.reserve(missing);
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        (self.median, self.without) = (None, None);
    }

    /// Adds a value. It counts from the next [`Others::settle`] on.
    pub(super) fn add(&mut self, value: Option<T>) {
        self.values.extend(value);
    }

    /// Finds the middle values.
    pub(super) fn settle(&mut self) {
        (self.median, self.without) = (None, None);
        let Some(others) = self.values.len().checked_sub(1) else {
            return;
        };
        let Some(last) = others.checked_sub(1) else {
            self.median = self.values.first().copied();
            return;
        };
        let (_, &mut low, above) = self.values.select_nth_unstable(last / 2);
        let high = above.iter().copied().min().unwrap_or(low);
        self.median = Some(if others.is_multiple_of(2) { high } else { low });
        self.without = Some([high, low]);
    }

    /// The median of all, the lower one of two. `None` if there are no values.
    pub(super) const fn median(&self) -> Option<T> {
        self.median
    }

    /// The median of all, the upper one of two. `None` if there are no values.
    pub(super) fn upper_median(&self) -> Option<T> {
        self.without.map_or(self.median, |[high, _]| Some(high))
    }

    /// The median of all without one value `own`, or of all if that is `None`; the lower one of
    /// two.
    pub(super) fn median_without(&self, own: Option<T>) -> Option<T> {
        let Some(own) = own else {
            return self.median;
        };
        let [without_small, without_large] = self.without?;
        // Without a value up to the lower middle one, the upper middle one is the median.
        Some(if own <= without_large {
            without_small
        } else {
            without_large
        })
    }
}

/// How long a slot of [`Unhurried`] is, and how many there are: a minute.
const SLOT_NS: u64 = 10_000_000_000;
const SLOTS: usize = 6;
/// Samples in one mean: one second of them.
const LOOKS: u64 = 10;

/// The fleet's latency when it was least busy within the last minute. The cost of a failure is
/// counted in it, so that failures do not become expensive in a busy fleet. It is the minimum of
/// means over a second, because the minimum of single samples would be luck.
#[derive(Clone, Debug)]
pub(super) struct Unhurried {
    /// The minimum of each slot, the current one first.
    least_ns: [u64; SLOTS],
    /// The number of the current slot.
    slot: u64,
    looks: u64,
    sum_ns: u128,
}

impl Default for Unhurried {
    fn default() -> Self {
        Self {
            least_ns: [u64::MAX; SLOTS],
            slot: 0,
            looks: 0,
            sum_ns: 0,
        }
    }
}

impl Unhurried {
    /// Takes in the fleet's current latency, and returns its best one. 0: unknown.
    pub(super) fn note(&mut self, now: Instant, latency_ns: Option<u64>) -> u64 {
        let slot = now.as_nanos() / SLOT_NS;
        let passed = usize::try_from(slot.saturating_sub(self.slot)).unwrap_or(usize::MAX);
        if passed > 0 {
            let new = passed.min(SLOTS);
            self.least_ns.rotate_right(new % SLOTS);
            self.least_ns[..new].fill(u64::MAX);
            self.slot = slot;
        }
        if let Some(latency_ns) = latency_ns {
            self.looks += 1;
            self.sum_ns += u128::from(latency_ns);
        }
        let mean_ns = self.sum_ns.checked_div(self.looks.into());
        let mean_ns = mean_ns.map(|mean_ns| u64::try_from(mean_ns).unwrap_or(u64::MAX));
        if self.looks >= LOOKS {
            let least_ns = mean_ns.unwrap_or(u64::MAX);
            self.least_ns[0] = self.least_ns[0].min(least_ns);
            (self.looks, self.sum_ns) = (0, 0);
        }
        let least_ns = self.least_ns.iter().copied().min();
        let least_ns = least_ns.filter(|&ns| ns < u64::MAX);
        least_ns.or(mean_ns).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn others(values: &[u32]) -> Others<u32> {
        let mut others = Others::default();
        for &value in values {
            others.add(Some(value));
        }
        others.settle();
        others
    }

    #[test]
    fn median_of_others_excludes_own_value() {
        for values in [
            &[7][..],
            &[3, 9],
            &[5, 5, 5],
            &[1, 2, 3, 4],
            &[9, 1, 1, 8, 4],
        ] {
            let all = others(values);
            for (place, &own) in values.iter().enumerate() {
                let mut rest = values.to_vec();
                rest.remove(place);
                assert_eq!(all.median_without(Some(own)), others(&rest).median());
            }
        }
        assert_eq!(others(&[4, 1, 3, 2]).median(), Some(2), "the lower one");
        assert_eq!(others(&[7, 1, 3]).median(), Some(3));
        assert_eq!(others(&[9]).median(), Some(9));
        assert_eq!(others(&[4, 1, 3, 2]).upper_median(), Some(3));
        assert_eq!(others(&[7, 1, 3]).upper_median(), Some(3));
        assert_eq!(others(&[9]).upper_median(), Some(9));
        assert_eq!(others(&[]).median(), None);
        assert_eq!(others(&[]).upper_median(), None);
        assert_eq!(others(&[]).median_without(Some(1)), None);
        assert_eq!(
            others(&[6, 7]).median_without(None),
            Some(6),
            "not one of them"
        );
        let mut again = others(&[1, 2, 3]);
        again.clear();
        again.add(None);
        again.settle();
        assert_eq!(
            (again.median(), again.median_without(Some(1))),
            (None, None)
        );
    }

    #[test]
    fn minimum_is_remembered_for_one_minute() {
        let at = |seconds| Instant::EPOCH + Duration::from_secs(seconds);
        let mut unhurried = Unhurried::default();
        assert_eq!(unhurried.note(at(0), None), 0, "nothing is known");
        assert_eq!(unhurried.note(at(0), Some(40)), 40, "better than nothing");
        for _ in 1..LOOKS {
            unhurried.note(at(1), Some(60));
        }
        assert_eq!(unhurried.note(at(1), None), 58, "the mean of ten");
        let mut note = |seconds, ns| {
            for _ in 0..LOOKS {
                unhurried.note(at(seconds), Some(ns));
            }
            unhurried.note(at(seconds), None)
        };
        assert_eq!(note(10, 90), 58);
        assert_eq!(note(59, 90), 58);
        assert_eq!(note(60, 90), 90);
        assert_eq!(note(119, 95), 90);
        assert_eq!(unhurried.note(at(119), Some(5)), 90, "one look is luck");
        assert_eq!(unhurried.note(at(5_000), None), 5, "all else is forgotten");
    }
}
