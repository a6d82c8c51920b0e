//! The octets that the target of a request may have, in any version of HTTP.
//!
//! `http::Uri` drops a fragment silently, and accepts octets beyond ASCII. A target has no
//! fragment, no URI has such octets, and recipients interpret both differently. RFC 3986 §2

use crate::sixteen::count_before;
use wide::u8x16;

/// Why these octets cannot be a target or a part of one; `None` if each may occur in it.
pub(crate) fn fault(target: &[u8]) -> Option<&'static str> {
    let allowed = count_before(target, |octets| {
        let from_first = octets - u8x16::splat(b'!');
        let is_graphic = from_first.simd_lt(u8x16::splat(b'\x7f' - b'!'));
        !is_graphic | octets.simd_eq(u8x16::splat(b'#'))
    });
    target.get(allowed).map(|octet| match octet {
        b'#' => "a target has no fragment",
        _ => "the target has octets that no URI has",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_octet_is_judged_at_each_place() {
        for octet in 0..=u8::MAX {
            for place in 0..33 {
                let target = ["a".repeat(place).as_bytes(), &[octet], b"/b"].concat();
                let is_wrong = octet == b'#' || !octet.is_ascii_graphic();
                assert_eq!(fault(&target).is_some(), is_wrong, "{octet} at {place}");
            }
        }
        assert_eq!(fault(b"/a#b\xff"), Some("a target has no fragment"));
        assert_eq!(fault(b""), None);
    }
}
