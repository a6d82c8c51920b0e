//! CRC-32C (Castagnoli), as RFC 3720, appendix B.4 has it.

const REVERSED: u32 = 0x82f6_3b78;

/// What becomes of each byte.
#[expect(clippy::cast_possible_truncation, reason = "the table has 256 places")]
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = if crc & 1 == 1 { REVERSED } else { 0 };
            crc = (crc >> 1) ^ carry;
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// The checksum of several pieces as if they were one.
pub(crate) fn crc32c<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let bytes = pieces.into_iter().flatten();
    !bytes.fold(u32::MAX, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8) ^ TABLE[usize::from(low ^ *byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_one() {
        // RFC 3720, appendix B.4, and the usual check value.
        assert_eq!(crc32c([&b"123456789"[..]]), 0xe306_9283);
        assert_eq!(crc32c([&b"1234"[..], b"56789"]), 0xe306_9283);
        assert_eq!(crc32c([&[0; 32][..]]), 0x8a91_36aa);
        assert_eq!(crc32c([&[0xff; 32][..]]), 0x62a8_ab43);
    }
}
