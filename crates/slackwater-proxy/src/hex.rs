//! Lower-case hexadecimal digits of ids, without `core::fmt`.

/// The two digits of each byte.
const DIGITS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = [digits[byte >> 4], digits[byte & 0xf]];
        byte += 1;
    }
    table
};

/// Returns the digits of an id, leading zeros included.
pub(crate) fn digits(id: u128) -> [u8; 32] {
    let mut text = [0; 32];
    for (pair, byte) in text.as_chunks_mut().0.iter_mut().zip(id.to_be_bytes()) {
        *pair = DIGITS[usize::from(byte)];
    }
    text
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
