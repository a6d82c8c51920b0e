//! Huffman code, to read. RFC 7541 §5.2, appendix B
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and follow those that are
//! shorter. So the lengths alone make the code, and a code of any length is found by comparison. Those of usual text are
//! found in one look.
//!
//! Nothing is written with it: it would save a fifth of a field that is told in full, which most are only twice, and
//! costs more than copying it.

use super::Broken;

/// Bits of each symbol's code; the last is the end of the string, which is never sent.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];

const SYMBOLS: usize = 257;
const END: u16 = 256;
const LENGTH_MAX: u32 = 30;

/// Codes up to this length are found in one look.
const LOOK_BITS: u32 = 10;

/// Codes of one length.
#[derive(Clone, Copy)]
struct Group {
    /// Above the last of them, if the code stands at the left of 32 bits.
    end: u32,
    /// What to add to a code, which may wrap, to have its place in `SORTED`.
    to_place: u32,
}

/// Symbols in the order of their codes.
static SORTED: [u16; SYMBOLS] = sorted();

/// By length.
static GROUPS: [Group; LENGTH_MAX as usize + 1] = groups();

/// By the first bits of what is left: symbol, and length in the upper octet; 0 if the code is longer.
static LOOK: [u16; 1 << LOOK_BITS] = look();

#[expect(clippy::cast_possible_truncation, reason = "symbols are below 257")]
const fn sorted() -> [u16; SYMBOLS] {
    let mut sorted = [0; SYMBOLS];
    let (mut place, mut length) = (0, 0);
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as u32 == length {
                sorted[place] = symbol as u16;
                place += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    sorted
}

const fn groups() -> [Group; LENGTH_MAX as usize + 1] {
    let mut groups = [Group {
        end: 0,
        to_place: 0,
    }; LENGTH_MAX as usize + 1];
    let (mut code, mut place, mut length) = (0_u32, 0_u32, 1);
    while length <= LENGTH_MAX {
        code <<= 1;
        groups[length as usize].to_place = place.wrapping_sub(code);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as u32 == length {
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        // The codes of 30 bits end where 32 bits end.
        groups[length as usize].end = if length == LENGTH_MAX {
            u32::MAX
        } else {
            code << (32 - length)
        };
        length += 1;
    }
    groups
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "looks have ten bits, lengths five"
)]
const fn look() -> [u16; 1 << LOOK_BITS] {
    let mut look = [0; 1 << LOOK_BITS];
    let mut bits = 0;
    while bits < look.len() {
        let left = (bits as u32) << (32 - LOOK_BITS);
        let mut length = 1;
        while length <= LOOK_BITS {
            if left < GROUPS[length as usize].end {
                look[bits] = symbol_at(left, length) | (length as u16) << 8;
                break;
            }
            length += 1;
        }
        bits += 1;
    }
    look
}

/// The symbol whose code, of a length that is known, stands at the left.
const fn symbol_at(left: u32, length: u32) -> u16 {
    let code = left >> (32 - length);
    SORTED[code.wrapping_add(GROUPS[length as usize].to_place) as usize]
}

/// Appends what `coded` means.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
    // The shortest code has five bits.
    out.reserve(coded.len() / 5 * 8 + 8);
    let mut octets = coded.iter();
    // What was read stands at the left, zeros follow it.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        while count <= 56
            && let Some(octet) = octets.next()
        {
            bits |= u64::from(*octet) << (56 - count);
            count += 8;
        }
        let left = (bits >> 32) as u32;
        let short = LOOK[(left >> (32 - LOOK_BITS)) as usize];
        let length = u32::from(short >> 8);
        if length != 0 && length <= count {
            out.push(short.to_le_bytes()[0]);
            bits <<= length;
            count -= length;
            continue;
        }
        // The rest of the last octet is filled with ones.
        if count < 8 && bits == !(u64::MAX >> count) {
            return Ok(());
        }
        let length = (LOOK_BITS..LENGTH_MAX)
            .find(|length| left < GROUPS[*length as usize].end)
            .unwrap_or(LENGTH_MAX);
        if length > count {
            return Err(Broken("a Huffman code is cut off"));
        }
        let symbol = symbol_at(left, length);
        if symbol == END {
            return Err(Broken("a string has the end of a string in it"));
        }
        out.push(symbol.to_le_bytes()[0]);
        bits <<= length;
        count -= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slowest way to write a code: bit by bit, by counting.
    fn coded(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for octet in text {
            let length = LENGTHS[usize::from(*octet)];
            let shorter = |symbol: &usize| {
                LENGTHS[*symbol] < length
                    || (LENGTHS[*symbol] == length && *symbol < usize::from(*octet))
            };
            let code: u64 = ((0..SYMBOLS).filter(shorter))
                .map(|symbol| 1 << (length - LENGTHS[symbol]))
                .sum();
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push(true);
        }
        (bits.chunks(8))
            .map(|octet| octet.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit)))
            .collect()
    }

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut text = Vec::new();
        decode(coded, &mut text).map(|()| text)
    }

    // The first and the last of some lengths. RFC 7541 appendix B
    #[test]
    fn codes_are_those_of_the_rfc() {
        assert_eq!(coded(b"0"), [0b0000_0111]);
        assert_eq!(coded(b"t"), [0b0100_1111]);
        assert_eq!(coded(b" "), [0b0101_0011]);
        assert_eq!(coded(b"z"), [0b1111_0111]);
        assert_eq!(coded(b"&"), [0b1111_1000]);
        assert_eq!(coded(b"\\"), [0b1111_1111, 0b1111_1110, 0b0001_1111]);
        assert_eq!(coded(&[0]), [0xff, 0b1100_0111]);
        assert_eq!(coded(&[22]), [0xff, 0xff, 0xff, 0b1111_1011]);
        assert_eq!(coded(&[249]), [0xff, 0xff, 0xff, 0b1110_1111]);
    }

    #[test]
    fn each_symbol_is_found_after_each_number_of_bits() {
        for symbol in 0..=255 {
            for before in 0..8 {
                // `0` has five bits, which pass through all eight remainders.
                let text = [&vec![b'0'; before][..], &[symbol], b"a"].concat();
                assert_eq!(decoded(&coded(&text)), Ok(text));
            }
        }
    }

    proptest! {
        #[test]
        fn text_of_any_kind_is_found(text in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decoded(&coded(&text)), Ok(text));
        }

        #[test]
        fn a_text_has_one_code_only(octets in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(text) = decoded(&octets) {
                prop_assert_eq!(coded(&text), octets);
            }
        }
    }
}
