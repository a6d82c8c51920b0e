//! The end of a head, and octets that no head may contain.
//!
//! Lines end with CR LF only. RFC 9112 §2.2 lets a recipient accept a bare LF as a line end. Two
//! recipients that differ in this see two different messages, so it is refused here.

use super::{BadMessage, HeadLimits};
use crate::sixteen::count_before;
use bytes::{Buf, Bytes};
use wide::u8x16;

const END: &[u8; 4] = b"\r\n\r\n";

/// The state of a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoFar {
    /// It is complete, with this many octets.
    Whole(usize),
    /// It is not complete.
    Unfinished,
    /// It exceeds the limits, or cannot become a head.
    Bad(BadMessage),
}

/// Searches for a request's head in the octets read so far, again each time that more arrive.
#[derive(Debug, Default)]
pub struct HeadSearch {
    /// The number of octets that were searched before.
    searched: usize,
    has_skipped: bool,
}

impl HeadSearch {
    /// Returns the current state. An empty line before the head is removed.
    pub fn look(&mut self, unread: &mut Bytes, limits: HeadLimits) -> SoFar {
        if unread.len() == self.searched {
            return SoFar::Unfinished;
        }
        if !self.has_skipped && unread.starts_with(b"\r\n") {
            // A client may have sent one by mistake. RFC 9112 §2.2
            self.has_skipped = true;
            self.searched = 0;
            unread.advance(2);
        }
        let so_far = request_so_far(unread, self.searched, limits);
        if so_far == SoFar::Unfinished {
            self.searched = unread.len();
        }
        so_far
    }
}

/// Examines the octets of a head read so far; the first `searched` ones were examined before.
/// Octets beyond `bytes_max` are ignored, so the result does not depend on how many arrived at
/// once.
fn request_so_far(bytes: &[u8], searched: usize, limits: HeadLimits) -> SoFar {
    if let Some(end) = end_of_head(bytes, searched)
        && end <= limits.bytes_max
    {
        return SoFar::Whole(end);
    }
    let counted = bytes.get(..limits.bytes_max).unwrap_or(bytes);
    if !is_head_so_far(new_part(counted, searched)) {
        return SoFar::Bad(BadMessage::NOT_A_HEAD);
    }
    if bytes.len() > limits.bytes_max {
        return SoFar::Bad(BadMessage::unfinished(counted));
    }
    SoFar::Unfinished
}

/// Returns the length of the head at the start of `bytes`, with its empty line; `None` if it is not
/// complete. The first `searched` octets were examined before.
pub fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    // The end may have been split.
    let from = searched.saturating_sub(END.len() - 1).min(bytes.len());
    let is_end = |end: &usize| bytes[..*end].last_chunk() == Some(END);
    let (sixteens, last) = bytes[from..].as_chunks::<16>();
    let (mut start, mut before) = (from, 0);
    // Setting up a search of a library costs more than a usual head is long.
    for sixteen in sixteens {
        let line_ends = u8x16::new(*sixteen).simd_eq(u8x16::splat(b'\n'));
        let line_ends = line_ends.to_bitmask();
        // Two of them with one octet between them are rare but at the end.
        let mut found = line_ends & ((line_ends << 2) | (before >> 14));
        before = line_ends;
        while found != 0 {
            let end = start + found.trailing_zeros() as usize + 1;
            if is_end(&end) {
                return Some(end);
            }
            found &= found - 1;
        }
        start += sixteen.len();
    }
    (start + 1..=start + last.len()).find(is_end)
}

/// Whether `bytes`, which are not a whole head yet, can still become one. This detects other
/// protocols early.
pub fn is_head_so_far(bytes: &[u8]) -> bool {
    let mut before = 0;
    bytes.iter().all(|byte| {
        let is_allowed = match byte {
            b'\n' => before == b'\r',
            b'\r' | b'\t' => true,
            byte => !byte.is_ascii_control(),
        };
        let is_in_line = before != b'\r' || *byte == b'\n';
        before = *byte;
        is_allowed && is_in_line
    })
}

/// Returns the part of `bytes` that was not given to [`is_head_so_far`] yet, with the CR before it
/// if there is one.
pub fn new_part(bytes: &[u8], searched: usize) -> &[u8] {
    let from = match searched.checked_sub(1) {
        Some(last) if bytes.get(last) == Some(&b'\r') => last,
        _ => searched,
    };
    bytes.get(from..).unwrap_or_default()
}

/// Splits a whole head into its first line, without the line end, and the lines of its fields.
pub(super) fn split_first_line(head: &[u8]) -> Result<(&[u8], &[u8]), BadMessage> {
    let end = count_before(head, |octets| octets.simd_eq(u8x16::splat(b'\r')));
    match head.split_at(end) {
        ([], _) => Err(BadMessage::malformed(
            "an empty line stands before the head",
        )),
        (line, [b'\r', b'\n', fields @ ..]) => Ok((line, fields)),
        _ => Err(BadMessage::LINE_END),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_head_is_found_at_any_split() {
        let bytes = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nmore\r\n\r\n";
        let end = 27;
        assert_eq!(end_of_head(bytes, 0), Some(end));
        for cut in 0..end {
            assert_eq!(end_of_head(&bytes[..cut], 0), None, "{cut}");
            assert_eq!(end_of_head(bytes, cut), Some(end), "{cut}");
        }
        assert_eq!(end_of_head(b"", 7), None);
    }

    /// Every text of some octets, wherever it is among the sixteen that are searched at once.
    #[test]
    fn end_of_head_is_found_among_octets_like_it() {
        let octets = [b'\r', b'\n', b'\n' + 1, b'a'];
        for shift in 0..16 {
            for number in 0..4_usize.pow(6) {
                let mut bytes = vec![b'x'; shift];
                bytes.extend((0..6).map(|place| octets[number >> (2 * place) & 3]));
                bytes.extend(b"\r\nyyyyyyyyy");
                let windows = &mut bytes.windows(END.len());
                let plainly = windows
                    .position(|four| four == END)
                    .map(|at| at + END.len());
                assert_eq!(end_of_head(&bytes, 0), plainly, "{}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn invalid_head_is_rejected_before_its_end() {
        for good in [
            "",
            "G",
            "GET / HTTP/1.1\r",
            "GET / HTTP/1.1\r\nhost:\tx\r\n",
            "GET /\u{e9}",
        ] {
            assert!(is_head_so_far(good.as_bytes()), "{good:?}");
        }
        for bad in [
            "\n",
            "GET / HTTP/1.1\n",
            "GET / HTTP/1.1\rh",
            "GET / HTTP/1.1\r\r\n",
            "\0",
            "\u{16}\u{3}\u{1}",
            "a\u{7f}",
        ] {
            assert!(!is_head_so_far(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn first_line_ends_with_cr_lf() {
        let split = |head: &'static str| split_first_line(head.as_bytes());
        assert_eq!(split("a\r\nb\r\n\r\n"), Ok((&b"a"[..], &b"b\r\n\r\n"[..])));
        // What a line may contain is for its own parser.
        assert_eq!(split("a\nb\r\n\r\n"), Ok((&b"a\nb"[..], &b"\r\n"[..])));
        for bad in ["a", "a\n", "a\r", "a\rb\r\n", "a\r\r\n\r\n"] {
            assert_eq!(split(bad), Err(BadMessage::LINE_END), "{bad:?}");
        }
        for bad in ["", "\r\n", "\r\na\r\n\r\n"] {
            assert!(
                split(bad).is_err_and(|it| it != BadMessage::LINE_END),
                "{bad:?}"
            );
        }
    }
}
