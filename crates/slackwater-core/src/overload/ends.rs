//! The deadlines of the waiting queries, earliest first: a binary heap of slots that stores each
//! slot's place, so that any slot can leave.

use crate::time::Instant;
use alloc::vec::Vec;

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

/// The end of each wait, by slot.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// A heap, the earliest first.
    heap: Vec<(Instant, u32)>,
    /// Where each slot is in the heap.
    places: Vec<u32>,
}

impl Ends {
    /// A heap for slots from 0 to `capacity` − 1.
    pub(super) fn new(capacity: usize) -> Self {
        let mut places = Vec::with_capacity(capacity);
        places.resize(capacity, NOWHERE);
        Self {
            heap: Vec::with_capacity(capacity),
            places,
        }
    }

    /// The earliest end, and its slot.
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// Adds `slot`, which is not in the heap and ends at `at`.
    pub(super) fn add(&mut self, at: Instant, slot: u32) {
        let place = self.heap.len();
        self.heap.push((at, slot));
        self.note(place);
        self.rise(place);
    }

    /// Removes `slot`.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(place) = self.places.get_mut(slot as usize) else {
            return;
        };
        let place = core::mem::replace(place, NOWHERE) as usize;
        if place >= self.heap.len() {
            return;
        }
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.note(place);
            self.rise(place);
            self.sink(place);
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= self.heap[place] {
                return;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else {
                return;
            };
            if self.heap[place] <= self.heap[least] {
                return;
            }
            self.swap(place, least);
            place = least;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.note(one);
        self.note(other);
    }

    /// Stores the place of the slot at `place`.
    fn note(&mut self, place: usize) {
        let (_, slot) = self.heap[place];
        let place = u32::try_from(place).unwrap_or(NOWHERE);
        if let Some(known) = self.places.get_mut(slot as usize) {
            *known = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, SplitMix64, below};

    #[test]
    fn first_is_the_earliest_after_any_removals() {
        let mut draw = SplitMix64::new(11);
        let mut ends = Ends::new(64);
        let mut naive: Vec<(Instant, u32)> = Vec::new();
        for _ in 0..20_000 {
            let slot = below(&mut draw, 64);
            if let Some(known) = naive.iter().position(|&(_, other)| other == slot) {
                naive.swap_remove(known);
                ends.remove(slot);
            } else {
                let at = Instant::from_nanos(draw.draw() % 100);
                naive.push((at, slot));
                ends.add(at, slot);
            }
            assert_eq!(ends.first(), naive.iter().min().copied());
        }
    }

    #[test]
    fn removing_an_absent_slot_has_no_effect() {
        let mut ends = Ends::new(2);
        ends.add(Instant::EPOCH, 1);
        ends.remove(0);
        ends.remove(7);
        assert_eq!(ends.first(), Some((Instant::EPOCH, 1)));
        ends.remove(1);
        ends.remove(1);
        assert_eq!(ends.first(), None);
    }
}
