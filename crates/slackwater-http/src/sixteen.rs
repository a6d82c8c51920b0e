//! Sixteen octets at once, by vector instructions that every processor of the architecture has.

use wide::u8x16;

/// The number of octets before the first one that `marks` marks; all if there is none. A mark is an
/// octet whose highest bit is set.
#[inline]
pub fn count_before(text: &[u8], marks: impl Fn(u8x16) -> u8x16) -> usize {
    let (sixteens, last) = text.as_chunks::<16>();
    let mut length = 0;
    for sixteen in sixteens {
        let marked = marks(u8x16::new(*sixteen)).to_bitmask();
        if marked != 0 {
            return length + marked.trailing_zeros() as usize;
        }
        length += sixteen.len();
    }
    // The last octets of a longer text are looked at together with some before them.
    let (start, last) = text.last_chunk().map_or_else(
        || {
            let mut padded = [0; 16];
            padded[..last.len()].copy_from_slice(last);
            (0, padded)
        },
        |last| (text.len() - last.len(), *last),
    );
    let end = text.len() - start;
    let marked = marks(u8x16::new(last)).to_bitmask() | 1 << end;
    start + marked.trailing_zeros() as usize
}
