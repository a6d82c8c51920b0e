//! An incremental parser of server-sent events: bytes in, events out, however the bytes are split.
//!
//! It follows the HTML standard ("9.2 Server-sent events"): lines end in LF, CR or both; a blank
//! line ends an event; `data` lines are joined by LF; comments and unknown fields are ignored. `id`
//! and `retry` are absent on purpose: the admin server does not send them, because each stream
//! begins with the complete state.

use memchr::memchr2;

/// Largest event. That of the largest fleet has some hundred KiB.
pub(super) const EVENT_BYTES_MAX: usize = 16 << 20;

/// A byte order mark, which a stream may begin with.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// `message` unless the stream names it.
    pub(crate) name: String,
    /// Its lines, joined by LF.
    pub(crate) data: String,
}

/// Why the stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadStream {
    /// An event or a line is longer than the limit.
    #[error("it sent an event of more than {EVENT_BYTES_MAX} bytes")]
    TooLong,
    /// It is not UTF-8.
    #[error("it sent an event that is no text")]
    NotText,
}

/// A parser in the middle of a stream.
#[derive(Debug)]
pub(super) struct Reader {
    /// The unfinished line.
    line: Vec<u8>,
    /// The data of the unfinished event; each line ends with an LF.
    data: Vec<u8>,
    name: Vec<u8>,
    /// The last byte was a CR, so an LF that follows belongs to it.
    is_after_cr: bool,
    is_first_line: bool,
    bytes_max: usize,
}

impl Reader {
    /// Returns a parser at the beginning of a stream. No event may have more bytes than
    /// `bytes_max`.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            name: Vec::new(),
            is_after_cr: false,
            is_first_line: true,
            bytes_max,
        }
    }

    /// Parses more bytes. Events that end in them are added to `events`.
    ///
    /// # Errors
    ///
    /// The stream is unusable from here on. Events before the error have been added.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), BadStream> {
        while let Some(first) = bytes.first() {
            if core::mem::take(&mut self.is_after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', bytes);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + part.len() > self.bytes_max {
                return Err(BadStream::TooLong);
            }
            self.line.extend_from_slice(part);
            bytes = rest;
            if let Some((terminator, rest)) = rest.split_first() {
                self.is_after_cr = *terminator == b'\r';
                bytes = rest;
                events.extend(self.end_line()?);
            }
        }
        Ok(())
    }

    /// Handles the line that has ended. Returns an event if the line ends one.
    fn end_line(&mut self) -> Result<Option<Event>, BadStream> {
        let line = core::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if core::mem::take(&mut self.is_first_line) {
            text = text.strip_prefix(MARK).unwrap_or(text);
        }
        if text.is_empty() {
            return self.end_event();
        }
        let (field, value) = match text.iter().position(|byte| *byte == b':') {
            Some(colon) => (&text[..colon], &text[colon + 1..]),
            None => (text, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => value.clone_into(&mut self.name),
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Result<Option<Event>, BadStream> {
        let mut data = core::mem::take(&mut self.data);
        let name = core::mem::take(&mut self.name);
        // Without data there is no event, whatever its name.
        if data.pop().is_none() {
            return Ok(None);
        }
        let text = |bytes| String::from_utf8(bytes).map_err(|_| BadStream::NotText);
        let name = if name.is_empty() {
            "message".to_owned()
        } else {
            text(name)?
        };
        let data = text(data)?;
        Ok(Some(Event { name, data }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, BadStream> {
        let mut reader = Reader::new(64);
        let mut events = Vec::new();
        for piece in pieces {
            reader.feed(piece, &mut events)?;
        }
        let pairs = events.into_iter().map(|event| (event.name, event.data));
        Ok(pairs.collect())
    }

    #[expect(clippy::unnecessary_wraps, reason = "to be compared with what is read")]
    fn events(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, BadStream> {
        let owned = pairs
            .iter()
            .map(|(name, data)| ((*name).into(), (*data).into()));
        Ok(owned.collect())
    }

    #[test]
    fn events_have_name_and_data_and_comments_are_ignored() {
        let stream = b"event: fleet\ndata: {\"a\":\ndata:  1}\n\n: still here\n\ndata\n\nid: 7\nevent: tick\n\ndata:x\n\n";
        let expected = events(&[("fleet", "{\"a\":\n 1}"), ("message", ""), ("message", "x")]);
        assert_eq!(read(&[stream]), expected);
        // An unfinished event is not returned.
        assert_eq!(read(&[b"event: tick\ndata: 1\n"]), events(&[]));
    }

    #[test]
    fn all_line_endings_and_a_byte_order_mark_are_accepted() {
        let stream =
            "\u{feff}data: 1\r\n\r\ndata: 2\r\rdata: 3\n\ndata: \u{feff}4\r\n\n".as_bytes();
        let expected = events(&[
            ("message", "1"),
            ("message", "2"),
            ("message", "3"),
            ("message", "\u{feff}4"),
        ]);
        assert_eq!(read(&[stream]), expected);
    }

    #[test]
    fn stream_read_in_pieces_yields_the_same_events() {
        let stream =
            "\u{feff}event: tick\r\ndata: ä1\r\n\r\n: c\ndata: 2\r\rdata: 3\n\n".as_bytes();
        let whole = read(&[stream]);
        assert_eq!(whole.as_ref().unwrap().len(), 3);
        for size in 1..stream.len() {
            let pieces: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(read(&pieces), whole, "pieces of {size}");
        }
    }

    #[test]
    fn too_long_or_invalid_text_ends_the_stream() {
        let long = [b'x'; 65];
        assert_eq!(read(&[&long]), Err(BadStream::TooLong));
        assert_eq!(read(&[&long[..64], b"x"]), Err(BadStream::TooLong));
        // The limit covers the kept lines and the current one.
        let lines = b"data: 45678901234567890\n".repeat(4);
        assert_eq!(read(&[&lines]), Err(BadStream::TooLong));
        // It does not cover events that have ended.
        let ended = b"data: 45678901234567890\n\n".repeat(40);
        assert_eq!(read(&[&ended]).unwrap().len(), 40);
        assert_eq!(read(&[b"data: \xff\n\n"]), Err(BadStream::NotText));
        assert_eq!(
            read(&[b"event: \xff\ndata: 1\n\n"]),
            Err(BadStream::NotText)
        );
    }
}
