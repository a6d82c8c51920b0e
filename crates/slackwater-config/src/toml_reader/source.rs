//! A configuration file's text, and the conversion of a byte offset to a line and a column.
//!
//! Reading is bounded: 1 MiB is far beyond any sensible configuration, and a device or a log that
//! is given by mistake must not be read to its end.

use super::mistake::{Excerpt, Mistake, Place};
use core::ops::Range;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The largest configuration that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file that has been read.
#[derive(Debug)]
pub struct Source {
    file: PathBuf,
    text: String,
    /// Byte offset of each line's start.
    line_starts: Vec<usize>,
    /// The number of characters before each [`STRIDE`] of bytes, and in total. A file may be a
    /// single line, in which counting from the line's start for each value would take quadratic
    /// time.
    characters: Vec<usize>,
}

/// Bytes between two places with a known number of characters before them.
const STRIDE: usize = 128;

impl Source {
    /// A file with this text.
    pub fn new(file: PathBuf, text: String) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = core::iter::once(0).chain(newlines).collect();
        let counts = text.as_bytes().chunks(STRIDE).map(count_characters);
        let sums = counts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        let characters = core::iter::once(0).chain(sums).collect();
        Self {
            file,
            text,
            line_starts,
            characters,
        }
    }

    /// Reads a configuration file.
    pub fn read(file: &Path) -> Result<Self, Mistake> {
        Self::from_bytes(file, read_bounded(file))
    }

    /// Reads a file of another kind, at most `mib` MiB of it.
    pub fn read_large(file: &Path, mib: u32) -> Result<Self, Mistake> {
        let most = u64::from(mib) << 20;
        Self::from_bytes(file, read_up_to(file, most, &format!("{mib} MiB")))
    }

    fn from_bytes(file: &Path, bytes: Result<Vec<u8>, String>) -> Result<Self, Mistake> {
        let bytes = bytes.map_err(|message| Mistake {
            place: Place::File(file.to_owned()),
            field: String::new(),
            message,
        })?;
        let file = file.to_owned();
        // Some editors put a byte order mark first. It is not part of the text.
        let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => rest.to_vec(),
            None => bytes,
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(file, text)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let byte = error.as_bytes().get(at).copied().unwrap_or_default();
                // Offsets before the first invalid byte are the same in the lossy text.
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let place = Self::new(file, text).place(at..at + 1);
                Err(Mistake {
                    place,
                    field: "encoding".to_owned(),
                    message: format!("byte 0x{byte:02x} is not UTF-8, expected UTF-8 text"),
                })
            }
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The file's name.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The line and column of a span of bytes. A span over several lines is cut at the end of its
    /// first line.
    pub fn place(&self, span: Range<usize>) -> Place {
        let start = self.floor(span.start);
        let end = self.floor(span.end).max(start);
        let line = self.line_starts.partition_point(|&begin| begin <= start);
        let line_start = self.line_starts[line - 1];
        let next = self.line_starts.get(line).copied();
        let text = &self.text[line_start..next.unwrap_or(self.text.len())];
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let line_end = line_start + text.len();
        let before = self.characters_before(start);
        let width = self.characters_before(end.min(line_end).max(start)) - before;
        Place::Line {
            file: self.file.clone(),
            line,
            column: before - self.characters_before(line_start) + 1,
            width: width.max(1),
            excerpt: Box::new(Excerpt::new(text, start - line_start)),
        }
    }

    /// The number of characters before a character boundary of the text.
    fn characters_before(&self, at: usize) -> usize {
        let stride = at / STRIDE;
        let rest = &self.text.as_bytes()[stride * STRIDE..at];
        self.characters[stride] + count_characters(rest)
    }

    /// The nearest character boundary at or before `at`.
    fn floor(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

/// Counts the first bytes of characters.
fn count_characters(bytes: &[u8]) -> usize {
    let is_first = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
    bytes.iter().filter(is_first).count()
}

/// Reads a configuration's bytes, or returns why they cannot be read.
pub fn read_bounded(file: &Path) -> Result<Vec<u8>, String> {
    read_up_to(file, FILE_BYTES_MAX, "1 MiB, expected a configuration file")
}

fn read_up_to(file: &Path, bytes_max: u64, told: &str) -> Result<Vec<u8>, String> {
    let larger = format!("is larger than {told}");
    let told = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "cannot be read: permission denied".to_owned(),
        ErrorKind::IsADirectory => "is a directory, expected a file".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    let opened = File::open(file).map_err(told)?;
    let mut bytes = Vec::new();
    opened
        .take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(told)?;
    if bytes.len() as u64 > bytes_max {
        return Err(larger);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, span: Range<usize>) -> (usize, usize, usize, String) {
        let source = Source::new(PathBuf::from("f"), text.to_owned());
        match source.place(span) {
            Place::Line {
                line,
                column,
                width,
                excerpt,
                ..
            } => (line, column, width, excerpt.text),
            other => panic!("a line was expected, not {other:?}"),
        }
    }

    #[test]
    fn byte_offset_is_converted_to_line_and_column() {
        let text = "a = 1\nñé = \"x\"\r\nlast";
        assert_eq!(at(text, 0..1), (1, 1, 1, "a = 1".to_owned()));
        assert_eq!(at(text, 6..10), (2, 1, 2, "ñé = \"x\"".to_owned()));
        assert_eq!(at(text, 13..16), (2, 6, 3, "ñé = \"x\"".to_owned()));
        assert_eq!(at(text, 18..22), (3, 1, 4, "last".to_owned()));
    }

    #[test]
    fn columns_of_a_long_line_count_its_characters() {
        let text = format!("a\n{}", "ñ".repeat(3 * STRIDE));
        for number in [0, 1, STRIDE / 2 - 1, STRIDE / 2, STRIDE, 3 * STRIDE] {
            let start = 2 + 2 * number;
            let (line, column, width, _) = at(&text, start..text.len());
            let rest = 3 * STRIDE - number;
            assert_eq!((line, column, width), (2, number + 1, rest.max(1)));
        }
        let (_, column, ..) = at(&"x".repeat(2 * STRIDE), 2 * STRIDE..2 * STRIDE);
        assert_eq!(column, 2 * STRIDE + 1);
    }

    /// If each place counted from the start of its line, this would take minutes.
    #[test]
    fn places_far_behind_the_start_of_their_line_are_found_at_once() {
        let length = 16 << 20;
        let source = Source::new(PathBuf::from("f"), "x".repeat(length));
        for back in 1..=100_000 {
            let at = length - back;
            assert!(
                matches!(source.place(at..length), Place::Line { column, .. } if column == at + 1)
            );
        }
    }

    #[test]
    fn spans_at_and_beyond_the_end_have_positions() {
        assert_eq!(at("", 0..0), (1, 1, 1, String::new()));
        assert_eq!(at("a\n", 2..2), (2, 1, 1, String::new()));
        assert_eq!(at("a\n", 9..12), (2, 1, 1, String::new()));
        assert_eq!(
            at("ab\ncd", 0..5),
            (1, 1, 2, "ab".to_owned()),
            "cut at the first line's end"
        );
    }
}
