//! Sixteen octets at once, by vector instructions that every processor of the architecture has.

use wide::u8x16;

/// The number of octets before the first one that `marks` marks; all if there is none. A mark is an
/// octet whose highest bit is set.
#[inline]
pub(crate) fn count_before(text: &[u8], marks: impl Fn(u8x16) -> u8x16) -> usize {
    let (sixteens, last) = text.as_chunks::<16>();
    let mut length = 0;
    for sixteen in sixteens {
        let marked = marks(u8x16::new(*sixteen)).to_bitmask();
        if marked != 0 {
            return length + marked.trailing_zeros() as usize;
        }
        length += sixteen.len();
    }
    let mut padded = [0; 16];
    padded[..last.len()].copy_from_slice(last);
    let marked = marks(u8x16::new(padded)).to_bitmask() | 1 << last.len();
    length + marked.trailing_zeros() as usize
}
