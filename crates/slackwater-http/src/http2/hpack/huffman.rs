//! Decoding of Huffman code. RFC 7541 §5.2, appendix B
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols, and
//! follow the shorter ones. So the lengths alone define the code, and a code of any length is found
//! by comparison. The codes of usual text are found with one table look-up.
//!
//! Nothing is encoded with it. It would save a fifth of each literal field, but most fields are
//! sent as literals only twice, and it costs more than a copy.

use super::Broken;

/// Length in bits of each symbol's code. The last is the end of the string, which is never sent.
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

/// The bits of one look-up: twice the length of the shortest codes.
const LOOK_BITS: u32 = 10;

/// Codes of one length.
#[derive(Clone, Copy)]
struct Group {
    /// The first value above these codes, left-aligned in 32 bits.
    end: u32,
    /// The number to add to a code, with wrapping, to get its index in `SORTED`.
    to_place: u32,
}

/// Symbols in the order of their codes.
static SORTED: [u16; SYMBOLS] = sorted();

/// Groups by length.
static GROUPS: [Group; LENGTH_MAX as usize + 1] = groups();

/// The result of one look-up: one symbol, or two if their codes are that short.
#[derive(Clone, Copy)]
struct Look {
    symbols: [u8; 2],
    /// The number of symbols.
    count: u8,
    /// The bits of their codes. If the first code is longer than a look-up, it is more than can
    /// ever be left.
    bits: u8,
}

/// Results by the next bits.
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

/// Returns the length of the leftmost code.
const fn length_at(left: u32) -> u32 {
    let mut length = LENGTH_MIN;
    while length < LENGTH_MAX && left >= GROUPS[length as usize].end {
        length += 1;
    }
    length
}

/// Returns the symbol of the leftmost code, which has this length.
const fn symbol_at(left: u32, length: u32) -> u16 {
    let code = left >> (32 - length);
    SORTED[code.wrapping_add(GROUPS[length as usize].to_place) as usize]
}

/// The input that has not been decoded.
struct Unread<'a> {
    /// The next bits, left-aligned and followed by zeros.
    bits: u64,
    count: u32,
    octets: &'a [u8],
}

impl Unread<'_> {
    /// Fills the buffer to at least 56 bits, or with all that are left.
    fn fill(&mut self) {
        if let Some(octets) = self.octets.first_chunk() {
            self.bits |= u64::from_be_bytes(*octets) >> self.count;
            let whole = (63 - self.count) / 8;
            self.count += 8 * whole;
            self.octets = &self.octets[whole as usize..];
            // Some bits of the next octet were added, too. Clear them; they come again with the
            // others.
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

    /// Looks up the next symbols. `None` if the next code is long, or longer than the rest.
    fn look(&self) -> Option<Look> {
        let look = LOOKS[(self.bits >> (64 - LOOK_BITS)) as usize];
        (u32::from(look.bits) <= self.count).then_some(look)
    }

    const fn skip(&mut self, length: u32) {
        self.bits <<= length;
        self.count -= length;
    }

    /// Whether only the padding of the last octet is left, which is ones.
    const fn is_filling(&self) -> bool {
        self.count < 8 && self.bits == !(u64::MAX >> self.count)
    }
}

/// Decodes `coded` into `room`.
pub(super) fn decode<'a>(coded: &[u8], room: &'a mut Vec<u8>) -> Result<&'a [u8], Broken> {
    // A result with one symbol is written as if it had two.
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
        // Usual text: one or two symbols per look-up. Longer codes and the end follow below.
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

    /// Encodes text in the slowest way: bit by bit, by counting.
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
    fn codes_match_rfc_7541() {
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
    fn each_symbol_is_decoded_at_each_bit_offset() {
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
        fn arbitrary_text_round_trips(text in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decoded(&coded(&text)), Ok(text));
        }

        #[test]
        fn encoding_of_a_text_is_unique(octets in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(text) = decoded(&octets) {
                prop_assert_eq!(coded(&text), octets);
            }
        }
    }
}
