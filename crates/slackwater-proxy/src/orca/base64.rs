//! Base64 as binary metadata of gRPC has it (RFC 4648 §4), with or without padding.

/// The bytes; `None` if the text is no Base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    // One digit alone makes no byte.
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut held, mut bits) = (0_u32, 0);
    for digit in digits.bytes() {
        held = (held << 6 | u32::from(value(digit)?)) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text, without padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |place: usize| u32::from(three.get(place).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        // One byte takes two digits, two take three.
        for place in 0..=three.len() {
            let digit = bits >> (18 - 6 * place) & 63;
            text.push(DIGITS[digit as usize].into());
        }
    }
    text
}

const fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_s_own_examples() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
            let bare = text.trim_end_matches('=');
            assert_eq!(encode(bytes.as_bytes()), bare);
            assert_eq!(decode(bare).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decode("+/+/").as_deref(), Some(&[0xFB, 0xFF, 0xBF][..]));
    }

    #[test]
    fn other_texts_are_none() {
        for text in ["Z", "Zm9vY", "Zm 9", "Zm9-", "Z=g="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
