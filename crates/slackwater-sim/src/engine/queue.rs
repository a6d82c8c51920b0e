//! Future events in order of time: a heap for timers, and a tournament tree for places with one
//! moment each.
//!
//! Both order ties by their own rule (first in first out, lowest number), so a run never depends on
//! the layout of a heap.

use crate::machine::{NEVER, Time};
use core::cmp::Ordering;
use std::collections::BinaryHeap;

/// Future events, the earliest first; at the same time, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    sequence: u64,
    what: T,
}

impl<T> Entry<T> {
    const fn key(&self) -> (Time, u64) {
        (self.at, self.sequence)
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed, so that the heap's greatest entry is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            sequence: 0,
        }
    }
}

impl<T> Queue<T> {
    #[inline]
    pub(crate) fn push(&mut self, at: Time, what: T) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.heap.push(Entry { at, sequence, what });
    }

    /// Returns when the next event happens; [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn next_at(&self) -> Time {
        self.heap.peek().map_or(NEVER, |entry| entry.at)
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|entry| entry.what)
    }
}

/// One moment for each of a fixed number of places, and the earliest of them. It is a tournament
/// tree: a change updates only the matches that it decides.
#[derive(Debug)]
pub(super) struct Earliest {
    /// Node `i` holds the earlier of nodes `2i` and `2i + 1`; the leaves begin at `leaves`.
    nodes: Vec<Time>,
    leaves: usize,
}

impl Earliest {
    /// Returns a tree with `places` places, all of them at [`NEVER`].
    pub(super) fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        Self {
            nodes: vec![NEVER; 2 * leaves],
            leaves,
        }
    }

    #[inline]
    pub(super) fn set(&mut self, place: usize, at: Time) {
        let mut node = self.leaves + place;
        self.nodes[node] = at;
        while node > 1 {
            let earlier = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == earlier {
                return;
            }
            self.nodes[node] = earlier;
        }
    }

    #[inline]
    pub(super) fn of(&self, place: usize) -> Time {
        self.nodes[self.leaves + place]
    }

    /// Returns the earliest moment of all.
    #[inline]
    pub(super) fn next_at(&self) -> Time {
        self.nodes[1]
    }

    /// Returns the place with the earliest moment; on ties the lowest place.
    #[inline]
    pub(super) fn next(&self) -> usize {
        let earliest = self.nodes[1];
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.nodes[node] != earliest);
        }
        node - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::{Draw, SplitMix64};

    #[test]
    fn queue_is_ordered_by_time_and_stable() {
        let mut queue = Queue::default();
        for (at, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b')] {
            queue.push(at, what);
        }
        assert_eq!(queue.next_at(), 3);
        let order: String = core::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, "abcd");
        assert_eq!(queue.next_at(), NEVER);
    }

    #[test]
    fn earliest_matches_a_linear_search() {
        for places in [1, 2, 5, 8, 100] {
            let mut earliest = Earliest::new(places);
            let mut times = vec![NEVER; places];
            let mut draw = SplitMix64::new(places as u64);
            for _ in 0..2_000 {
                let place = usize::try_from(draw.draw() % places as u64).expect("small");
                let at = match draw.draw() % 20 {
                    0 => NEVER,
                    at => at, // few values, many ties
                };
                earliest.set(place, at);
                times[place] = at;
                let first = times.iter().min().copied().expect("at least one");
                assert_eq!(earliest.next_at(), first);
                let lowest = times.iter().position(|&time| time == first);
                assert_eq!(Some(earliest.next()), lowest);
                assert_eq!(earliest.of(place), at);
            }
        }
    }
}
