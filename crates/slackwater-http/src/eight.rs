//! Eight octets at once, in the bits of one number.

/// Each octet of eight, and the highest bit of each.
pub(crate) const ONES: u64 = u64::MAX / 255;
pub(crate) const HIGH: u64 = ONES << 7;

/// Eight times this octet.
pub(crate) const fn eight_of(octet: u8) -> u64 {
    ONES * octet as u64
}
