//! Future events within a bounded time from now, in order: a timing wheel for messages on their
//! way.
//!
//! Most events of a run are messages. Their delay is bounded, so a message need not be compared
//! with all others on their way: it is put into the bucket of its time, and only the bucket whose
//! turn has come is sorted.

use crate::machine::{NEVER, Time};

/// One bucket for each bit of a word.
const BUCKETS: u32 = u64::BITS;

/// Future events, the earliest first; at the same time, in the order in which they were added.
///
/// A bucket is 2^`width_bits` nanoseconds wide, and all waiting events lie within one turn of the
/// wheel.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    /// Events of the buckets up to number `opened`, the earliest last. Empty only if nothing waits.
    open: Vec<(Time, T)>,
    /// Number of the open bucket. Numbers begin at time 0 and never wrap.
    opened: u64,
    /// Events of the later buckets, each in the order in which they were added.
    later: Vec<Vec<(Time, T)>>,
    /// A bit for each later bucket that is not empty.
    occupied: u64,
    width_bits: u32,
}

impl<T> Wheel<T> {
    /// Returns a wheel for events within `longest` from the time at which they are added.
    pub(super) fn new(longest: Time) -> Self {
        // A time may be anywhere in its bucket, so a span may reach into one more bucket than it is
        // long.
        let mut width_bits = 0;
        while longest >> width_bits >= u64::from(BUCKETS) - 1 {
            width_bits += 1;
        }
        Self {
            open: Vec::new(),
            opened: 0,
            later: (0..BUCKETS).map(|_| Vec::new()).collect(),
            occupied: 0,
            width_bits,
        }
    }

    #[inline]
    pub(super) fn push(&mut self, at: Time, what: T) {
        let number = at >> self.width_bits;
        if self.open.is_empty() {
            self.opened = number;
            self.open.push((at, what));
        } else if number <= self.opened {
            let place = self.open.partition_point(|(other, _)| *other > at);
            self.open.insert(place, (at, what));
        } else {
            debug_assert!(number - self.opened < u64::from(BUCKETS), "it is too late");
            let place = place_of(number);
            self.later[place as usize].push((at, what));
            self.occupied |= 1 << place;
        }
    }

    /// Returns when the next event happens; [`NEVER`] if there is none.
    #[inline]
    pub(super) fn next_at(&self) -> Time {
        self.open.last().map_or(NEVER, |(at, _)| *at)
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let (_, what) = self.open.pop()?;
        if self.open.is_empty() && self.occupied != 0 {
            self.open_next();
        }
        Some(what)
    }

    /// Opens the next bucket that is not empty.
    #[inline]
    fn open_next(&mut self) {
        let ahead = self.occupied.rotate_right(place_of(self.opened));
        self.opened += u64::from(ahead.trailing_zeros());
        let place = place_of(self.opened);
        self.occupied &= !(1 << place);
        core::mem::swap(&mut self.open, &mut self.later[place as usize]);
        // Events are taken from the end, so among equal times the first must be the last. Reversing
        // and a stable sort do that.
        self.open.reverse();
        self.open.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
    }
}

/// Returns the position of the bucket with this number.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below 64")]
fn place_of(number: u64) -> u32 {
    (number % u64::from(BUCKETS)) as u32
}

#[cfg(test)]
mod tests {
    use super::super::queue::Queue;
    use super::*;
    use slackwater_core::{Draw, SplitMix64};

    #[test]
    fn timing_wheel_matches_a_heap() {
        for longest in [0, 1, 62, 63, 64, 127, 1_000, 300_000, 1 << 40] {
            let mut wheel = Wheel::new(longest);
            let mut heap = Queue::default();
            let mut draw = SplitMix64::new(7);
            let mut now: Time = 12_345;
            for what in 0..20_000 {
                // Busy for a while, then quiet for longer than all events take.
                let busy = what % 2_000 < 1_500;
                if busy || draw.draw().is_multiple_of(64) {
                    // Many events at the same time, and many at the very ends of the range.
                    let delay = match draw.draw() % 4 {
                        0 => longest,
                        1 => 0,
                        _ => draw.draw() % (longest + 1),
                    };
                    wheel.push(now + delay, what);
                    heap.push(now + delay, what);
                }
                assert_eq!(wheel.next_at(), heap.next_at());
                if draw.draw().is_multiple_of(2) || !busy {
                    now = if heap.next_at() == NEVER {
                        now + 3 * longest
                    } else {
                        heap.next_at()
                    };
                    assert_eq!(wheel.pop(), heap.pop(), "{longest}");
                }
            }
            while let Some(expected) = heap.pop() {
                assert_eq!(wheel.pop(), Some(expected));
            }
            assert_eq!((wheel.next_at(), wheel.pop()), (NEVER, None));
        }
    }
}
