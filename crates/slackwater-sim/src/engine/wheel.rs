//! What is to happen within a bounded time from now, in order: a wheel, for messages on their way.
//!
//! Most of what happens in a run is a message, and with a bound to its delay none of them has to be
//! compared with all others that are out: it is put into the bucket of its time, and only the
//! bucket whose turn has come is brought into order.

use crate::machine::{NEVER, Time};

/// One bit for each in a word.
const BUCKETS: u32 = u64::BITS;

/// Things to happen, the earliest first; at the same time, in the order in which they were put in.
///
/// A bucket is 2^`width_bits` nanoseconds wide, and all that waits lies within one turn of the
/// wheel.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    /// What is in the buckets up to number `opened`, the earliest last. Empty only if nothing
    /// waits.
    open: Vec<(Time, T)>,
    /// Buckets have numbers that begin at time 0 and never end.
    opened: u64,
    /// What is in the later ones, each in the order in which it was put in.
    later: Vec<Vec<(Time, T)>>,
    /// Which of these are not empty, a bit for each.
    occupied: u64,
    width_bits: u32,
}

impl<T> Wheel<T> {
    /// For what happens within `longest` from the time at which it is put in.
    pub(super) fn new(longest: Time) -> Self {
        // A time may be anywhere in its bucket, so that a span reaches into one bucket more than it
        // is long.
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

    /// When the next one happens; [`NEVER`] if there is none.
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
        // Of equals the first is to be the last; the order of equals is kept.
        self.open.reverse();
        self.open.sort_by_key(|(at, _)| core::cmp::Reverse(*at));
    }
}

/// The place of the bucket with this number.
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
    fn a_wheel_gives_what_a_heap_gives() {
        for longest in [0, 1, 62, 63, 64, 127, 1_000, 300_000, 1 << 40] {
            let mut wheel = Wheel::new(longest);
            let mut heap = Queue::default();
            let mut draw = SplitMix64::new(7);
            let mut now: Time = 12_345;
            for what in 0..20_000 {
                // Busy for a while, then quiet until all have gone and longer.
                let busy = what % 2_000 < 1_500;
                if busy || draw.draw().is_multiple_of(64) {
                    // Many at the same time, and many at the very ends.
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
