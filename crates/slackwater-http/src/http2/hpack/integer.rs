//! Integers, and reading octets. RFC 7541 §5.1

use super::Broken;

/// The most octets after the first: five times seven bits hold 32.
const MORE_OCTETS_MAX: u32 = 5;

/// The unread rest of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unread<'b>(pub(super) &'b [u8]);

impl<'b> Unread<'b> {
    pub(super) fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads the integer whose prefix is the last `bits` bits of `first`, which has been read.
    #[inline]
    pub(super) fn integer(&mut self, first: u8, bits: u32) -> Result<u32, Broken> {
        let full = u8::MAX >> (8 - bits);
        let prefix = first & full;
        if prefix < full {
            return Ok(u32::from(prefix));
        }
        self.long_integer(u32::from(full))
    }

    #[cold]
    fn long_integer(&mut self, prefix: u32) -> Result<u32, Broken> {
        let mut sum = u64::from(prefix);
        for place in 0..MORE_OCTETS_MAX {
            let octet = self
                .octet()
                .ok_or(Broken("a block ends within an integer"))?;
            sum += u64::from(octet & 0x7f) << (7 * place);
            if octet & 0x80 == 0 {
                return u32::try_from(sum).map_err(|_| Broken("an integer is too large"));
            }
        }
        Err(Broken("an integer is too long"))
    }

    pub(super) fn octets(&mut self, length: u32) -> Result<&'b [u8], Broken> {
        let at = usize::try_from(length).map_err(|_| Broken("a string is too long"))?;
        let (octets, rest) =
            (self.0.split_at_checked(at)).ok_or(Broken("a block ends within a string"))?;
        self.0 = rest;
        Ok(octets)
    }
}

/// Writes an integer, whose prefix shares its octet with the other bits of `first`.
#[inline]
pub(super) fn put_integer(out: &mut Vec<u8>, first: u8, bits: u32, integer: usize) {
    let full = u8::MAX >> (8 - bits);
    if let Ok(short) = u8::try_from(integer)
        && short < full
    {
        out.push(first | short);
        return;
    }
    out.push(first | full);
    let mut rest = integer - usize::from(full);
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}
