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
}

impl Source {
    /// A file with this text.
    pub fn new(file: PathBuf, text: String) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = core::iter::once(0).chain(newlines).collect();
        Self {
            file,
            text,
            line_starts,
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
        let width = self.text[start..end.min(line_end).max(start)]
            .chars()
            .count();
        Place::Line {
            file: self.file.clone(),
            line,
            column: self.text[line_start..start].chars().count() + 1,
            width: width.max(1),
            excerpt: Box::new(Excerpt::new(text, start - line_start)),
        }
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
