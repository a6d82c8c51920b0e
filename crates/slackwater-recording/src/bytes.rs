//! Numbers and texts as bytes. A number has seven bits in each byte, the lowest first. The eighth
//! bit is set in every byte but the last.

/// The reason why bytes are not a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Appends a number: one byte for each seven bits that it has.
#[inline]
pub fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push((number & 0x7f) as u8);
}

/// Appends a text after its length. A text longer than `length_max` bytes is truncated.
pub fn put_text(to: &mut Vec<u8>, text: &str, length_max: usize) {
    let text = &text[..text.floor_char_boundary(length_max)];
    put_varint(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    /// Reads `bytes` from the first one on.
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether all bytes have been read.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes that have not been read.
    pub const fn rest(&self) -> &'b [u8] {
        self.0
    }

    /// Reads the next byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads the next eight bytes as a number, the lowest byte first.
    pub fn word(&mut self) -> Result<u64, Malformed> {
        let (word, rest) = self.0.split_first_chunk().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    /// Reads the next number.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed("a number has more than 64 bits"))
    }

    /// Reads the next number, which must fit into `N`.
    #[inline]
    pub fn number<N: TryFrom<u64>>(&mut self) -> Result<N, Malformed> {
        N::try_from(self.varint()?).map_err(|_| Malformed("a number is too large"))
    }

    /// Reads the next text.
    pub fn text(&mut self) -> Result<&'b str, Malformed> {
        let length = self.number()?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        self.0 = rest;
        core::str::from_utf8(text).map_err(|_| Malformed("a text is no UTF-8"))
    }
}

const CUT_OFF: Malformed = Malformed("it is cut off");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_in_minimal_length() {
        for (number, length) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            (u64::from(u32::MAX), 5),
            (u64::MAX >> 1, 9),
            (u64::MAX, 10),
        ] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes.len(), length, "{number}");
            let mut read = Bytes::new(&bytes);
            assert_eq!(read.varint(), Ok(number));
            assert!(read.is_empty());
            let mut cut = Bytes::new(&bytes[..length - 1]);
            assert_eq!(cut.varint(), Err(CUT_OFF));
        }
        let too_long = [0xff; 11];
        assert!(Bytes::new(&too_long).varint().is_err());
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert!(Bytes::new(&too_large).varint().is_err());
        assert!(Bytes::new(&[0x80, 2]).number::<u8>().is_err());
    }

    #[test]
    fn texts_round_trip_and_long_ones_are_cut_at_a_character() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, "grün", 3);
        put_text(&mut bytes, "", 3);
        put_text(&mut bytes, "abc", 3);
        let mut read = Bytes::new(&bytes);
        let texts = [(); 3].map(|()| read.text().expect("a text"));
        assert_eq!(texts, ["gr", "", "abc"]);
        assert!(read.is_empty());
        assert!(Bytes::new(&[1, 0xff]).text().is_err(), "no UTF-8");
        assert!(Bytes::new(&[3, b'a']).text().is_err(), "cut off");
    }
}
