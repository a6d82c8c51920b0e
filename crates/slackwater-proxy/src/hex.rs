//! Lower-case hexadecimal digits of ids, without `core::fmt`.

use wide::u8x16;

/// Returns the digits of an id, leading zeros included.
pub(crate) fn digits(id: u128) -> [u8; 32] {
    // Bits of a neighbouring byte, which a shift moves in, are masked out.
    let nibbles = |id: u128| u8x16::new(id.to_be_bytes()) & u8x16::splat(0xf);
    let (high, low) = (nibbles(id >> 4), nibbles(id));
    let mut text = [0; 32];
    let (first, last) = text.split_at_mut(16);
    first.copy_from_slice(&digits_of(u8x16::unpack_low(high, low)).to_array());
    last.copy_from_slice(&digits_of(u8x16::unpack_high(high, low)).to_array());
    text
}

/// The digits of numbers below 16.
fn digits_of(numbers: u8x16) -> u8x16 {
    let is_letter = u8x16::splat(9).simd_lt(numbers);
    let to_letter = u8x16::splat(b'a' - b'9' - 1);
    numbers + u8x16::splat(b'0') + (is_letter & to_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_standard_library() {
        for id in [0, 1, 0x0123_4567_89ab_cdef << 60, u128::MAX] {
            assert_eq!(digits(id), *format!("{id:032x}").as_bytes());
        }
    }
}
