//! Escapes of text from clients and replicas.
//!
//! Most text needs none. It is checked many bytes at a time, and copied as a whole.

use crate::access_log::buffer::Line;

/// Whether a byte is the same in both formats: printable ASCII, except quotes and backslashes.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        table[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    table
};

fn is_plain_byte(byte: u8) -> bool {
    PLAIN[usize::from(byte)]
}

/// Whether all bytes of a block are plain. Computed without branches and tables, so that it becomes
/// a few vector instructions.
fn is_plain_block<const BYTES: usize>(block: &[u8; BYTES]) -> bool {
    let is_plain =
        |byte: u8| (byte.wrapping_sub(b' ') <= b'~' - b' ') & (byte != b'"') & (byte != b'\\');
    block.iter().fold(true, |all, byte| all & is_plain(*byte))
}

/// Whether neither format escapes any byte of a text.
fn is_plain(text: &[u8]) -> bool {
    // The last block overlaps the one before it, so that no bytes are left over.
    if let Some(last) = text.last_chunk::<16>() {
        text.as_chunks().0.iter().all(is_plain_block::<16>) && is_plain_block(last)
    } else if let (Some(first), Some(last)) = (text.first_chunk::<8>(), text.last_chunk()) {
        is_plain_block(first) && is_plain_block::<8>(last)
    } else {
        text.iter().all(|byte| is_plain_byte(*byte))
    }
}

/// Adds bytes between the quotes of a text line: plain bytes as they are, quotes and backslashes
/// after a backslash, everything else as `\xHH`.
#[inline]
pub(super) fn add_quoted(to: &mut Line<'_>, text: &[u8]) {
    if is_plain(text) {
        to.put(text);
    } else {
        escape_quoted(to, text);
    }
}

/// Like [`add_quoted`], with a dash if there is no text.
#[inline]
pub(super) fn add_quoted_or_dash(to: &mut Line<'_>, text: Option<&[u8]>) {
    match text {
        Some(text) => add_quoted(to, text),
        None => to.put(b"-"),
    }
}

#[cold]
fn escape_quoted(to: &mut Line<'_>, mut text: &[u8]) {
    let digit = |nibble: u8| b"0123456789ABCDEF"[usize::from(nibble)];
    loop {
        let plain = text.iter().take_while(|byte| is_plain_byte(**byte)).count();
        let (plain, rest) = text.split_at(plain);
        to.put(plain);
        match rest {
            [] => return,
            [byte @ (b'"' | b'\\'), ..] => to.put(&[b'\\', *byte]),
            [byte, ..] => to.put(&[b'\\', b'x', digit(byte >> 4), digit(byte & 0xf)]),
        }
        text = &rest[1..];
    }
}

/// Adds bytes between the quotes of a JSON string. Special characters become `\uHHHH`, invalid
/// UTF-8 becomes U+FFFD.
#[inline]
pub(super) fn add_json(to: &mut Line<'_>, text: &[u8]) {
    if is_plain(text) {
        to.put(text);
    } else {
        escape_json(to, text);
    }
}

#[cold]
fn escape_json(to: &mut Line<'_>, text: &[u8]) {
    let digit = |code: u32, shift: u32| b"0123456789abcdef"[(code >> shift) as usize & 0xf];
    for chunk in text.utf8_chunks() {
        for piece in chunk.valid().split_inclusive(is_special) {
            let special = piece.chars().next_back().filter(|last| is_special(*last));
            let plain = &piece[..piece.len() - special.map_or(0, char::len_utf8)];
            to.put(plain.as_bytes());
            if let Some(code) = special.map(u32::from) {
                to.put(b"\\u");
                to.put(&[12, 8, 4, 0].map(|shift| digit(code, shift)));
            }
        }
        if !chunk.invalid().is_empty() {
            to.put("\u{FFFD}".as_bytes());
        }
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
