//! A hash ring with 160 points for each replica.

use super::mixed;

/// Points of a replica of weight 1, as in nginx's module and in ketama.
const POINTS: u64 = 160;

/// The points in order, each with the index of its member.
#[derive(Debug)]
pub(super) struct Ring(Vec<(u32, usize)>);

impl Ring {
    pub(super) fn new(names: &[u64]) -> Self {
        let points = names.iter().enumerate().flat_map(|(index, &name)| {
            (0..POINTS).map(move |point| (hash_32(name.wrapping_add(point)), index))
        });
        let mut points: Vec<_> = points.collect();
        points.sort_unstable();
        Self(points)
    }

    /// Returns the member of the first point at or after the key's hash.
    pub(super) fn successor(&self, key: u64) -> Option<usize> {
        let place = self.place(hash_32(key));
        self.0.get(place).map(|&(_, index)| index)
    }

    /// Returns the member of the nearest point, or else that of the first point after it, that
    /// `fits`; the nearest one if none fits.
    pub(super) fn nearest_that(&self, key: u64, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let hash = hash_32(key);
        let next = self.place(hash);
        let before = next.checked_sub(1).unwrap_or(self.0.len().wrapping_sub(1));
        let (&(after, after_index), &(at, index)) = (self.0.get(next)?, self.0.get(before)?);
        let is_before = hash.wrapping_sub(at) <= after.wrapping_sub(hash);
        let nearest = if is_before { index } else { after_index };
        if fits(nearest) {
            return Some(nearest);
        }
        let onwards = self.0.iter().cycle().skip(next).take(self.0.len());
        let mut members = onwards.map(|&(_, index)| index);
        members.find(|&index| fits(index)).or(Some(nearest))
    }

    /// Returns the place of the first point at or after this hash.
    fn place(&self, hash: u32) -> usize {
        let place = self.0.partition_point(|&(point, _)| point < hash);
        if place == self.0.len() { 0 } else { place }
    }
}

/// Returns 32 bits that all depend on all bits of `bits`.
fn hash_32(bits: u64) -> u32 {
    (mixed(bits) >> 32) as u32
}
