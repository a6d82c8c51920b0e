//! Bytes as hexadecimal text: keys in configuration files, query hints in headers.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// Encodes `bytes` in lower-case digits, two for each byte.
pub(super) fn encode(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Decodes into `into` and returns the number of bytes. Returns `None` for an odd number of digits,
/// a character that is not a digit (of either case), or more bytes than `into` holds.
pub(super) fn decode(text: &[u8], into: &mut [u8]) -> Option<usize> {
    let length = HEXLOWER_PERMISSIVE.decode_len(text.len()).ok()?;
    let decoded = HEXLOWER_PERMISSIVE.decode_mut(text, into.get_mut(..length)?);
    decoded.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_round_trip() {
        let all: Vec<u8> = (0..=255).collect();
        let text = encode(&all);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"));
        let mut back = [0; 256];
        assert_eq!(decode(text.to_uppercase().as_bytes(), &mut back), Some(256));
        assert_eq!(back.as_slice(), all);
    }

    #[test]
    fn invalid_or_too_long_hex_is_rejected() {
        let mut into = [0; 2];
        for text in ["0", "0g", "0x", " 0", "é", "000000"] {
            assert_eq!(decode(text.as_bytes(), &mut into), None, "{text}");
        }
        assert_eq!(decode(b"", &mut into), Some(0));
    }
}
