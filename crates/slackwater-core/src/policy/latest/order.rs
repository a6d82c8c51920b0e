//! The order of a few rows by age, so that the oldest is found without a search.

/// The most rows that can be in order.
pub(super) const ORDERED_MAX: usize = 16;
const PLACE_BITS: usize = 4;
/// 1 in each position.
const ONES: u64 = u64::MAX / 15;

/// Places of rows, each below [`ORDERED_MAX`] and at most once, the newest first. They are packed
/// into one number, in which the newest has the lowest bits: to move one place, others are shifted
/// all at once. How many places there are is left to the caller, which knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order(u64);

impl Order {
    /// The oldest of `len` places, of which there must be one. To take it out, the caller counts
    /// one less: bits beyond the places have no effect.
    pub(super) const fn oldest(self, len: usize) -> usize {
        self.at(len - 1)
    }

    /// Takes out a place, which must be there.
    pub(super) const fn take(&mut self, place: usize) {
        // All bits of a position are 0 where it has this place. The first such position is found
        // by subtraction: there a borrow comes from no lower one.
        let differing = self.0 ^ (place as u64).wrapping_mul(ONES);
        let equal = differing.wrapping_sub(ONES) & !differing & (ONES << (PLACE_BITS - 1));
        let newer = bits_below(equal.trailing_zeros() as usize / PLACE_BITS);
        self.0 = (self.0 & newer) | ((self.0 >> PLACE_BITS) & !newer);
    }

    /// Adds a place to `len` others, behind those that are newer. `is_newer` returns whether
    /// another place is. There must be fewer than [`ORDERED_MAX`] others.
    #[inline]
    pub(super) fn add(&mut self, place: usize, len: usize, is_newer: impl Fn(usize) -> bool) {
        // Nearly always it is the newest.
        if len == 0 || !is_newer(self.at(0)) {
            self.0 = (self.0 << PLACE_BITS) | place as u64;
            return;
        }
        let mut position = 1;
        while position < len && is_newer(self.at(position)) {
            position += 1;
        }
        let newer = bits_below(position);
        let older = (self.0 & !newer) << PLACE_BITS;
        self.0 = older | (place as u64) << (position * PLACE_BITS) | (self.0 & newer);
    }

    #[cfg(test)]
    pub(super) fn places(self, len: usize) -> impl Iterator<Item = usize> {
        (0..len).map(move |position| self.at(position))
    }

    const fn at(self, position: usize) -> usize {
        ((self.0 >> (position * PLACE_BITS)) & 15) as usize
    }
}

/// The bits of the positions below this one, which is at most the last.
const fn bits_below(position: usize) -> u64 {
    !(u64::MAX << (position * PLACE_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{SplitMix64, below};
    use alloc::vec::Vec;

    /// Compared with a list that is sorted.
    #[test]
    fn places_are_in_the_order_of_their_ages() {
        let mut draw = SplitMix64::new(8);
        let mut received = [0; ORDERED_MAX];
        let (mut order, mut list) = (Order::default(), Vec::new());
        for time in 0..50_000 {
            let place = below(&mut draw, 16) as usize;
            let is_there = list.contains(&place);
            match below(&mut draw, 8) {
                0 if is_there => {
                    order.take(place);
                    list.retain(|&it| it != place);
                }
                1 if !list.is_empty() => {
                    assert_eq!(Some(order.oldest(list.len())), list.pop());
                }
                _ => {
                    if is_there {
                        order.take(place);
                        list.retain(|&it| it != place);
                    }
                    received[place] = time / 5;
                    let key = |place: usize| (received[place], place);
                    order.add(place, list.len(), |other| key(other) > key(place));
                    list.push(place);
                    list.sort_unstable_by_key(|&place| core::cmp::Reverse(key(place)));
                }
            }
            let places: Vec<_> = order.places(list.len()).collect();
            assert_eq!(places, list, "{time}");
        }
    }
}
