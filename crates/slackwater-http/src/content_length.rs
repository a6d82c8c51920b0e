//! The value of `content-length`, parsed in the same way for both protocols. RFC 9110 §8.6
//!
//! The parser is strict: a value that one recipient tolerates, another may read as another length.

/// Parses digits and nothing else, up to the range of a `u64`. `None` means that it is not a
/// length.
pub fn parse(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_accepts_only_digits() {
        for (value, length) in [("0", 0), ("007", 7), ("18446744073709551615", u64::MAX)] {
            assert_eq!(parse(value.as_bytes()), Some(length), "{value}");
        }
        for bad in [
            "",
            "+1",
            "-1",
            "1 ",
            " 1",
            "0x1",
            "1,1",
            "5, 5",
            "18446744073709551616",
            "٣",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
