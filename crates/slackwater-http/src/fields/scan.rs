//! Finds the parts of a field's line.

use super::{BadLine, LINE_END};
use crate::sixteen::count_before;
use wide::u8x16;

/// Longer names are refused: `http::HeaderName` has room for no longer ones.
const NAME_BYTES_MAX: usize = u16::MAX as usize;

/// The parts of a line.
pub(super) struct Found<'t> {
    pub(super) name: &'t [u8],
    /// Without white space around it.
    pub(super) value: &'t [u8],
    /// Where the value is in the line.
    pub(super) value_at: usize,
    /// With the line end.
    pub(super) line_bytes: usize,
    /// Whether the line is as [`Fields`](super::Fields) writes it: one space before the value, and
    /// none after it.
    pub(super) is_as_written: bool,
}

/// Finds the parts of the first line, and writes its name in lower case. RFC 9112 §5
///
/// There is no space between a name and its colon, and no value continues in the next line:
/// recipients that accept such lines read them in different ways.
#[expect(
    clippy::inline_always,
    reason = "it has one caller, and its result needs no memory there"
)]
#[inline(always)]
pub(super) fn line(text: &mut [u8]) -> Result<Found<'_>, BadLine> {
    let name_bytes = lower_token(text);
    let (name, rest) = text.split_at(name_bytes);
    let [b':', rest @ ..] = rest else {
        return Err(BadLine::Name);
    };
    if !(1..=NAME_BYTES_MAX).contains(&name_bytes) {
        return Err(BadLine::Name);
    }
    let (spaced, line_end) = rest.split_at(value_bytes(rest));
    let [b'\r', b'\n', ..] = line_end else {
        return Err(match line_end {
            [b'\r' | b'\n', ..] | [] => BadLine::End,
            _ => BadLine::Value,
        });
    };
    let (before, value, is_as_written) = match spaced {
        [b' ', value @ ..] if !has_space_around(value) => (1, value, true),
        _ => {
            let (before, value) = trimmed(spaced);
            (before, value, false)
        }
    };
    Ok(Found {
        name,
        value,
        value_at: name.len() + 1 + before,
        line_bytes: name.len() + 1 + spaced.len() + LINE_END.len(),
        is_as_written,
    })
}

/// The lower case of each octet of a token, and 0 for all others. RFC 9110 §5.6.2
const LOWER: [u8; 256] = {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 128_u8 {
        let is_mark = matches!(
            octet,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        if is_mark || octet.is_ascii_alphanumeric() {
            table[octet as usize] = octet.to_ascii_lowercase();
        }
        octet += 1;
    }
    table
};

/// Lowers the token at the start. Returns its length.
#[inline]
fn lower_token(text: &mut [u8]) -> usize {
    let mut length = 0;
    // Sixteen octets at once, while they are letters or dashes.
    while let Some(sixteen) = text.get_mut(length..).and_then(<[u8]>::first_chunk_mut) {
        let octets = u8x16::new(*sixteen);
        let from_a = (octets | u8x16::splat(0x20)) - u8x16::splat(b'a');
        let is_letter = from_a.simd_lt(u8x16::splat(26));
        let is_dash = octets.simd_eq(u8x16::splat(b'-'));
        let count = (is_letter | is_dash).to_bitmask().trailing_ones();
        let count = u8::try_from(count).unwrap_or(16);
        // A dash in lower case is a dash.
        let is_before = PLACES.simd_lt(u8x16::splat(count));
        *sixteen = (octets | (is_before & u8x16::splat(0x20))).to_array();
        length += usize::from(count);
        if count < 16 {
            break;
        }
    }
    for octet in text.get_mut(length..).unwrap_or_default() {
        let lower = LOWER[usize::from(*octet)];
        if lower == 0 {
            break;
        }
        *octet = lower;
        length += 1;
    }
    length
}

const PLACES: u8x16 = u8x16::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// The octets before the first control character other than a tab.
#[inline]
fn value_bytes(text: &[u8]) -> usize {
    count_before(text, |octets| {
        let is_low = octets.simd_lt(u8x16::splat(0x20));
        let is_del = octets.simd_eq(u8x16::splat(0x7f));
        let is_tab = octets.simd_eq(u8x16::splat(b'\t'));
        (is_low & !is_tab) | is_del
    })
}

const fn is_space(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

#[inline]
fn has_space_around(value: &[u8]) -> bool {
    match value {
        [] => false,
        [first, ..] => is_space(*first) || value.last().is_some_and(|last| is_space(*last)),
    }
}

/// The white space before a value, and the value without it and the one behind.
#[cold]
#[inline(never)]
fn trimmed(spaced: &[u8]) -> (usize, &[u8]) {
    let value = spaced.trim_ascii_start();
    (spaced.len() - value.len(), value.trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Name, value and rest of the first line, or the reason why there is none.
    type Parts = Result<(Vec<u8>, Vec<u8>, Vec<u8>), BadLine>;

    fn is_token(octet: u8) -> bool {
        octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet)
    }

    /// Reads a line octet by octet.
    fn plainly(text: &[u8]) -> Parts {
        let at = (text.iter().position(|octet| !is_token(*octet))).unwrap_or(text.len());
        let (name, rest) = text.split_at(at);
        let [b':', rest @ ..] = rest else {
            return Err(BadLine::Name);
        };
        if name.is_empty() {
            return Err(BadLine::Name);
        }
        for (at, octet) in rest.iter().enumerate() {
            match octet {
                b'\r' if rest.get(at + 1) == Some(&b'\n') => {
                    let value = rest[..at].trim_ascii().to_vec();
                    return Ok((name.to_ascii_lowercase(), value, rest[at + 2..].to_vec()));
                }
                b'\r' | b'\n' => return Err(BadLine::End),
                b'\t' | b' '..=b'~' | 0x80.. => (),
                0..b' ' | 0x7f => return Err(BadLine::Value),
            }
        }
        Err(BadLine::End)
    }

    fn scanned(text: &[u8]) -> Parts {
        let mut lowered = text.to_vec();
        let found = line(&mut lowered)?;
        let (name, value) = (found.name.to_vec(), found.value.to_vec());
        let (value_at, line_bytes) = (found.value_at, found.line_bytes);
        let is_as_written = found.is_as_written;
        let (whole, rest) = lowered.split_at(line_bytes);
        assert_eq!(whole[value_at..][..value.len()], value[..]);
        let usual = [&name[..], b": ", &value, b"\r\n"].concat();
        assert_eq!(is_as_written, whole == usual, "{}", text.escape_ascii());
        assert_eq!(lowered[name.len()..], text[name.len()..], "only the name");
        Ok((name, value, rest.to_vec()))
    }

    #[track_caller]
    fn agree(text: &[u8]) {
        assert_eq!(scanned(text), plainly(text), "{}", text.escape_ascii());
    }

    #[test]
    fn valid_lines_are_split() {
        for (text, name, value) in [
            ("a: b\r\n", "a", "b"),
            ("Host: x.y:1\r\n", "host", "x.y:1"),
            ("a:b\r\n", "a", "b"),
            ("a:  b\r\n", "a", "b"),
            ("a:\tb\r\n", "a", "b"),
            ("a: \t b \t \r\n", "a", "b"),
            ("a: b \r\n", "a", "b"),
            ("a: b\tc d\r\n", "a", "b\tc d"),
            ("a: b\t\r\n", "a", "b"),
            ("a:\r\n", "a", ""),
            ("a: \r\n", "a", ""),
            ("a:\t\r\n", "a", ""),
            ("a:   \t\r\n", "a", ""),
            ("a: :\r\n", "a", ":"),
            ("a::b\r\n", "a", ":b"),
            ("a: b: c\r\n", "a", "b: c"),
            ("A-B.c!#$%&'*+^_`|~09: b\r\n", "a-b.c!#$%&'*+^_`|~09", "b"),
            ("a: caf\u{e9} \u{ff}\r\n", "a", "caf\u{e9} \u{ff}"),
            ("a: 0123456789abcdef\r\n", "a", "0123456789abcdef"),
            ("a: 0123456789abc\tdef\r\n", "a", "0123456789abc\tdef"),
        ] {
            for rest in ["", "\r\n", "b: c\r\n\r\n"] {
                let text = format!("{text}{rest}");
                let parts = [name, value, rest].map(|part| part.as_bytes().to_vec());
                let [name, value, rest] = parts;
                assert_eq!(
                    scanned(text.as_bytes()),
                    Ok((name, value, rest)),
                    "{text:?}"
                );
                agree(text.as_bytes());
            }
        }
    }

    #[test]
    fn invalid_lines_are_refused_with_their_reason() {
        for (bad, texts) in [
            (
                BadLine::Name,
                &[
                    "",
                    "\r\n",
                    "\n",
                    ":",
                    ": b\r\n",
                    "a",
                    "a\r\n",
                    "a b: c\r\n",
                    "a : b\r\n",
                    "a\t: b\r\n",
                    " a: b\r\n",
                    "\ta: b\r\n",
                    "a\0: b\r\n",
                    "a=: b\r\n",
                    "a\u{e9}: b\r\n",
                    "\"a\": b\r\n",
                    "(a): b\r\n",
                    "a/b: c\r\n",
                    "@: b\r\n",
                    "a\x7f: b\r\n",
                ][..],
            ),
            (
                BadLine::Value,
                &[
                    "a: \0\r\n",
                    "a:\0",
                    "a: b\x0bc\r\n",
                    "a: \x1b[0m\r\n",
                    "a: \x7f\r\n",
                    "a: 01234567\x0c",
                    "a: b\x08",
                    "a: \t\x1f\r\n",
                ],
            ),
            (
                BadLine::End,
                &[
                    "a:",
                    "a: ",
                    "a: b",
                    "a: b\r",
                    "a: b\n",
                    "a: b\nc: d\r\n",
                    "a: b\rc: d\r\n",
                    "a: b\r\r\n",
                    "a: b\n\r\n",
                    "a:\n",
                    "a:\r",
                    "a: 0123456789\t0123456789",
                ],
            ),
        ] {
            for text in texts {
                assert_eq!(scanned(text.as_bytes()), Err(bad), "{text:?}");
                agree(text.as_bytes());
            }
        }
    }

    #[test]
    fn every_octet_of_a_name_is_judged_at_every_offset() {
        for octet in 0..=u8::MAX {
            for offset in 0..33 {
                for after in ["", "b", "Bcdefghi"] {
                    let before = "A".repeat(offset);
                    let name = [before.as_bytes(), &[octet], after.as_bytes()].concat();
                    agree(&[&name[..], b": v\r\n"].concat());
                }
            }
        }
    }

    #[test]
    fn every_octet_of_a_value_is_judged_at_every_offset() {
        for octet in 0..=u8::MAX {
            for offset in 0..33 {
                for after in ["", "w", "wwwwwww", "wwwwwwww", "wwwwwwwwwwwwwwww"] {
                    for start in ["a:", "a: ", "a:\t"] {
                        let before = "v".repeat(offset);
                        let parts = [start, &before].concat();
                        agree(&[parts.as_bytes(), &[octet], after.as_bytes(), b"\r\n"].concat());
                    }
                }
            }
        }
    }

    #[test]
    fn octets_of_a_value_do_not_change_how_others_are_judged() {
        let octets = [
            0, 1, 8, b'\t', b'\n', b'\r', 0x1f, b' ', b'!', b'~', 0x7f, 0x80, 0x89, 0x9f, 0xa0,
            0xfe, 0xff,
        ];
        for (one, other) in octets
            .iter()
            .flat_map(|one| octets.map(|other| (*one, other)))
        {
            for (offset, between) in (0..17).flat_map(|offset| (0..17).map(move |it| (offset, it)))
            {
                let (before, between) = ("v".repeat(offset), "w".repeat(between));
                agree(
                    &[
                        b"a: ",
                        before.as_bytes(),
                        &[one],
                        between.as_bytes(),
                        &[other],
                        b"xxxxxxxx\r\n",
                    ]
                    .concat(),
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_as_by_a_plain_reader(
            name in "[!-9;-~]{0,10}",
            value in prop::collection::vec(prop_oneof![9 => b' '..=b'~', 1 => any::<u8>()], 0..40),
            rest in prop::collection::vec(any::<u8>(), 0..10),
        ) {
            agree(&[name.as_bytes(), b":", &value, b"\r\n", &rest].concat());
            agree(&[name.as_bytes(), b":", &value, &rest].concat());
            agree(&rest);
        }
    }
}
