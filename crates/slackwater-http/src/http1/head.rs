//! Where a head ends, and which octets no head has.
//!
//! Lines end with CR LF and with nothing else. RFC 9112 §2.2 lets a recipient take a bare LF for a
//! line's end; two recipients that differ in this see two different messages, so here it is
//! refused.

use super::{BadMessage, HeadLimits};
use bytes::{Buf, Bytes};

const END: &[u8] = b"\r\n\r\n";

/// What there is of a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoFar {
    /// All of it, so many octets.
    Whole(usize),
    /// Not all of it.
    Unfinished,
    /// More than there may be, or what cannot become one.
    Bad(BadMessage),
}

/// Looks for a request's head in what has been read, again and again as more of it comes.
#[derive(Debug, Default)]
pub struct HeadSearch {
    /// Octets that were looked at before.
    searched: usize,
    has_skipped: bool,
}

impl HeadSearch {
    /// What there is by now. An empty line before the head is taken out.
    pub fn look(&mut self, unread: &mut Bytes, limits: HeadLimits) -> SoFar {
        if !self.has_skipped && unread.starts_with(b"\r\n") {
            // A client may have sent it by mistake, once. RFC 9112 §2.2
            self.has_skipped = true;
            self.searched = 0;
            unread.advance(2);
        }
        let so_far = request_so_far(unread, self.searched, limits);
        self.searched = unread.len();
        so_far
    }
}

/// Looks at what has been read of a head; the first `searched` octets were looked at before. Beyond
/// `bytes_max` nothing is looked at, so that it does not matter how much has come at once.
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

/// How long the head at the start of `bytes` is, with its empty line; `None` if it is not complete.
/// The first `searched` octets were looked at before.
pub fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    // The end may have been cut.
    let from = searched.saturating_sub(END.len() - 1).min(bytes.len());
    // Line by line: a search for the four octets costs more to set up than a usual head is long.
    memchr::memchr_iter(b'\n', &bytes[from..])
        .map(|at| from + at + 1)
        .find(|end| bytes[..*end].ends_with(END))
}

/// Whether `bytes`, which are not a whole head yet, can still become one: finds early what is not
/// HTTP at all.
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

/// What of `bytes` was not given to [`is_head_so_far`] yet, with the CR before it if there is one.
pub fn new_part(bytes: &[u8], searched: usize) -> &[u8] {
    let from = match searched.checked_sub(1) {
        Some(last) if bytes.get(last) == Some(&b'\r') => last,
        _ => searched,
    };
    bytes.get(from..).unwrap_or_default()
}

/// A head begins with its first line, and its lines end as they must.
pub(super) fn check_lines(head: &[u8]) -> Result<(), BadMessage> {
    if head.starts_with(b"\r\n") {
        return Err(BadMessage::malformed(
            "an empty line stands before the head",
        ));
    }
    if !has_strict_lines(head) {
        return Err(BadMessage::malformed("a line does not end with CR LF"));
    }
    Ok(())
}

/// Whether every line of a whole head ends with CR LF.
pub(super) fn has_strict_lines(head: &[u8]) -> bool {
    let Some((first, rest)) = head.split_first() else {
        return true;
    };
    // No branch, and octets as truth values: so the compiler looks at many pairs at once.
    let bare = (head.iter().zip(rest)).fold(0, |bare, (before, byte)| {
        bare | (u8::from(*byte == b'\n') & u8::from(*before != b'\r'))
    });
    bare == 0 && *first != b'\n'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_found_wherever_the_bytes_were_cut() {
        let bytes = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nmore\r\n\r\n";
        let end = 27;
        assert_eq!(end_of_head(bytes, 0), Some(end));
        for cut in 0..end {
            assert_eq!(end_of_head(&bytes[..cut], 0), None, "{cut}");
            assert_eq!(end_of_head(bytes, cut), Some(end), "{cut}");
        }
        assert_eq!(end_of_head(b"", 7), None);
    }

    #[test]
    fn what_cannot_become_a_head_is_known_before_its_end() {
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
    fn a_bare_line_feed_is_found() {
        assert!(has_strict_lines(b"a\r\nb\r\n\r\n"));
        for bad in ["\na\r\n\r\n", "a\nb\r\n\r\n", "a\r\nb\n\r\n"] {
            assert!(!has_strict_lines(bad.as_bytes()), "{bad:?}");
        }
    }
}
