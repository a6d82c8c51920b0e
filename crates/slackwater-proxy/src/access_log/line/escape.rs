//! Escapes of text from clients and replicas.
//!
//! Most text needs none. It is copied as a whole, and checked many bytes at a time.

use crate::access_log::buffer::Line;
use slackwater_http::sixteen::count_before;
use wide::u8x16;

/// Marks the bytes that differ between the formats, or between a format and the text: all but
/// printable ASCII without quotes and backslashes.
#[inline]
fn special_bytes(bytes: u8x16) -> u8x16 {
    let each = u8x16::splat;
    let printable = (bytes - each(b' ')).simd_lt(each(0x7f - b' '));
    !printable | bytes.simd_eq(each(b'"')) | bytes.simd_eq(each(b'\\'))
}

impl Line<'_> {
    /// Adds bytes between the quotes of a text line: plain bytes as they are, quotes and
    /// backslashes after a backslash, everything else as `\xHH`.
    #[inline]
    pub(super) fn quoted(self, text: &[u8]) -> Self {
        let added = self.put_unmarked(text, special_bytes);
        added.unwrap_or_else(|line| line.escape_quoted(text))
    }

    /// Like [`Self::quoted`], with a dash if there is no text.
    #[inline]
    pub(super) fn quoted_or_dash(self, text: Option<&[u8]>) -> Self {
        match text {
            Some(text) => self.quoted(text),
            None => self.put_array(b"-"),
        }
    }

    #[cold]
    fn escape_quoted(mut self, mut text: &[u8]) -> Self {
        let digit = |nibble: u8| b"0123456789ABCDEF"[usize::from(nibble)];
        loop {
            let (plain, rest) = text.split_at(count_before(text, special_bytes));
            self = self.put(plain);
            self = match rest {
                [] => return self,
                [byte @ (b'"' | b'\\'), ..] => self.put_array(&[b'\\', *byte]),
                [byte, ..] => self.put_array(&[b'\\', b'x', digit(byte >> 4), digit(byte & 0xf)]),
            };
            text = &rest[1..];
        }
    }

    /// Adds bytes between the quotes of a JSON string. Special characters become `\uHHHH`, invalid
    /// UTF-8 becomes U+FFFD.
    #[inline]
    pub(super) fn json(self, text: &[u8]) -> Self {
        let added = self.put_unmarked(text, special_bytes);
        added.unwrap_or_else(|line| line.escape_json(text))
    }

    #[cold]
    fn escape_json(mut self, text: &[u8]) -> Self {
        let digit = |code: u32, shift: u32| b"0123456789abcdef"[(code >> shift) as usize & 0xf];
        for chunk in text.utf8_chunks() {
            for piece in chunk.valid().split_inclusive(is_special) {
                let special = piece.chars().next_back().filter(|last| is_special(*last));
                let plain = &piece[..piece.len() - special.map_or(0, char::len_utf8)];
                self = self.put(plain.as_bytes());
                if let Some(code) = special.map(u32::from) {
                    let digits = [12, 8, 4, 0].map(|shift| digit(code, shift));
                    self = self.put_array(b"\\u").put_array(&digits);
                }
            }
            if !chunk.invalid().is_empty() {
                self = self.put("\u{FFFD}".as_bytes());
            }
        }
        self
    }
}

/// Whether JSON or a terminal would interpret the character, or whether it is invisible or changes
/// the order of the text. All such characters are below U+10000.
pub(super) const fn is_special(c: char) -> bool {
    matches!(
        c,
        '"' | '\\'
            | '\0'..='\x1F'
            | '\x7F'..='\u{9F}'
            | '\u{AD}'
            | '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::buffer::{BYTES_MAX, LineBuffer};

    #[test]
    fn a_byte_that_is_not_plain_is_found_at_each_place_of_a_text() {
        // What a longer line has left behind in the buffer is not part of the text.
        for left_behind in [b'x', b'"'] {
            let mut lines = LineBuffer::new();
            let mut check = |text: &[u8], is_plain: bool| {
                lines.clear();
                lines.add(|line| line.put(&[left_behind; 64]));
                lines.clear();
                let mut added = false;
                lines.add(|line| {
                    let line = line.put_unmarked(text, special_bytes);
                    added = line.is_ok();
                    line.unwrap_or_else(|line| line.put(b"not"))
                });
                assert_eq!(added, is_plain, "{text:?}");
                let expected = if is_plain { text } else { b"not" };
                assert_eq!(lines.lines(), expected);
            };
            check(b"", true);
            for (filler, length) in [b' ', b'~']
                .into_iter()
                .flat_map(|it| (1..=33).map(move |n| (it, n)))
            {
                for (place, byte) in
                    (0..length).flat_map(|place| (0..=255).map(move |it| (place, it)))
                {
                    let mut text = vec![filler; length];
                    text[place] = byte;
                    let is_plain = matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
                    check(&text, is_plain);
                }
            }
        }
    }

    #[test]
    fn a_line_that_ends_near_the_end_of_the_buffer_is_whole_or_left_out() {
        let before = vec![b'-'; BYTES_MAX];
        let mut lines = LineBuffer::new();
        let long = "x".repeat(33);
        let special_last = format!("{long}\n");
        for (text, quoted, json) in [
            ("", "", ""),
            ("y", "y", "y"),
            (&long[..15], &long[..15], &long[..15]),
            (&long[..16], &long[..16], &long[..16]),
            (&long, &long, &long),
            ("\"", "\\\"", "\\u0022"),
            ("a\\b", "a\\\\b", "a\\u005cb"),
            (
                &special_last,
                &format!("{long}\\x0A"),
                &format!("{long}\\u000a"),
            ),
        ] {
            for (expected, is_json) in [(quoted, false), (json, true)] {
                let used_max = BYTES_MAX - expected.len();
                for used in used_max - 17..=(used_max + 17).min(BYTES_MAX) {
                    let fits = used <= used_max;
                    lines.clear();
                    assert!(lines.add(|line| line.put(&before[..used])));
                    let added = lines.add(|line| {
                        if is_json {
                            line.json(text.as_bytes())
                        } else {
                            line.quoted(text.as_bytes())
                        }
                    });
                    assert_eq!(added, fits, "{text:?}, {used}");
                    let expected = if fits { expected } else { "" };
                    assert_eq!(&lines.lines()[used..], expected.as_bytes(), "{used}");
                    assert!(lines.lines()[..used] == before[..used]);
                }
            }
        }
    }
}
