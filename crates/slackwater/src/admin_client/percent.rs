//! Names in a path or a query.

use core::fmt::Write as _;

/// The text with everything encoded but what never needs it.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_byte_by_byte() {
        assert_eq!(encode("10.0.0.1:8080"), "10.0.0.1%3A8080");
        assert_eq!(encode("replica 0 & ä"), "replica%200%20%26%20%C3%A4");
    }
}
