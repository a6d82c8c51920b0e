//! Huffman code, to read. RFC 7541 §5.2, appendix B
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and
//! follow those that are shorter. So the lengths alone make the code, and a code of any length is
//! found by comparison. Those of usual text are found in one look.
//!
//! Nothing is written with it: it would save a fifth of a field that is told in full, which most
//! are only twice, and costs more than copying it.

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
const LENGTH_MIN: u32 = 5;
const LENGTH_MAX: u32 = 30;

/// Bits of one look. Two of the shortest codes have as many.
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

/// What is found in one look: one symbol, or two if their codes are that short.
#[derive(Clone, Copy)]
struct Look {
    symbols: [u8; 2],
    /// How many they are.
    count: u8,
    /// Of their codes; more than there ever are if the first code is longer than a look.
    bits: u8,
}

/// By the first bits of what is left.
static LOOKS: [Look; 1 << LOOK_BITS] = looks();

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
    reason = "looks have ten bits, lengths five, and symbols below the end one octet"
)]
const fn looks() -> [Look; 1 << LOOK_BITS] {
    let nothing = Look {
        symbols: [0; 2],
        count: 0,
        bits: 0,
    };
    let mut looks = [nothing; 1 << LOOK_BITS];
    let mut place = 0;
    while place < looks.len() {
        let left = (place as u32) << (32 - LOOK_BITS);
        let look = &mut looks[place];
        while look.count < 2 {
            let left = left << look.bits;
            let length = length_at(left);
            if look.bits as u32 + length > LOOK_BITS {
                break;
            }
            look.symbols[look.count as usize] = symbol_at(left, length) as u8;
            look.count += 1;
            look.bits += length as u8;
        }
        if look.count == 0 {
            look.bits = u8::MAX;
        }
        place += 1;
    }
    looks
}

/// The length of the code that stands at the left.
const fn length_at(left: u32) -> u32 {
    let mut length = LENGTH_MIN;
    while length < LENGTH_MAX && left >= GROUPS[length as usize].end {
        length += 1;
    }
    length
}

/// The symbol whose code, of a length that is known, stands at the left.
const fn symbol_at(left: u32, length: u32) -> u16 {
    let code = left >> (32 - length);
    SORTED[code.wrapping_add(GROUPS[length as usize].to_place) as usize]
}

/// What has not been decoded.
struct Unread<'a> {
    /// They stand at the left, zeros follow them.
    bits: u64,
    count: u32,
    octets: &'a [u8],
}

impl Unread<'_> {
    /// Has at least 56 bits, or all that are left.
    fn fill(&mut self) {
        if let Some(octets) = self.octets.first_chunk() {
            self.bits |= u64::from_be_bytes(*octets) >> self.count;
            let whole = (63 - self.count) / 8;
            self.count += 8 * whole;
            self.octets = &self.octets[whole as usize..];
            // Of the next octet, too, some bits have come; they come again with the others.
            self.bits &= !(u64::MAX >> self.count);
            return;
        }
        while self.count <= 56
            && let Some((octet, rest)) = self.octets.split_first()
        {
            self.bits |= u64::from(*octet) << (56 - self.count);
            self.count += 8;
            self.octets = rest;
        }
    }

    const fn left(&self) -> u32 {
        (self.bits >> 32) as u32
    }

    /// `None` if the next code is long, or what is found is more than there is.
    fn look(&self) -> Option<Look> {
        let look = LOOKS[(self.bits >> (64 - LOOK_BITS)) as usize];
        (u32::from(look.bits) <= self.count).then_some(look)
    }

    const fn skip(&mut self, length: u32) {
        self.bits <<= length;
        self.count -= length;
    }

    /// The rest of the last octet is filled with ones.
    const fn is_filling(&self) -> bool {
        self.count < 8 && self.bits == !(u64::MAX >> self.count)
    }
}

/// What `coded` means, written into `room`.
pub(super) fn decode<'a>(coded: &[u8], room: &'a mut Vec<u8>) -> Result<&'a [u8], Broken> {
    // A look that finds one symbol is written as if it had found two.
    let length_max = coded.len() * 8 / LENGTH_MIN as usize + 1;
    if room.len() < length_max {
        room.resize(length_max, 0);
    }
    let mut at = 0;
    let mut unread = Unread {
        bits: 0,
        count: 0,
        octets: coded,
    };
    loop {
        unread.fill();
        if let Some(mut look) = unread.look() {
            loop {
                let place = &mut room[at..at + 2];
                [place[0], place[1]] = look.symbols;
                at += usize::from(look.count);
                unread.skip(u32::from(look.bits));
                let Some(next) = unread.look() else {
                    break;
                };
                look = next;
            }
            continue;
        }
        if unread.is_filling() {
            return Ok(&room[..at]);
        }
        let length = length_at(unread.left());
        if length > unread.count {
            return Err(Broken("a Huffman code is cut off"));
        }
        let symbol = symbol_at(unread.left(), length);
        if symbol == END {
            return Err(Broken("a string has the end of a string in it"));
        }
        room[at] = symbol.to_le_bytes()[0];
        at += 1;
        unread.skip(length);
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
        decode(coded, &mut Vec::new()).map(<[u8]>::to_vec)
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
