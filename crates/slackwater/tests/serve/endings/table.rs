//! The ways in which a message can end, and what the other side must see of each.

use super::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, block, field, frame, headers,
};
use super::peers::Reader;
use Ends::{AtItsLength, CutOff, Whole};
use Then::{Fin, Rst, Stays};

/// How a message marks its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// HTTP/1.1 with `Content-Length`.
    Length,
    /// HTTP/1.1 with chunks.
    Chunked,
    /// HTTP/1.1 until the end of the connection: responses only.
    UntilClose,
    /// HTTP/2 with `content-length`.
    Http2Length,
    /// HTTP/2 without `content-length`.
    Http2,
}

pub(super) const FORMS: [(Form, &str); 5] = [
    (Form::Length, "HTTP/1.1, `Content-Length`"),
    (Form::Chunked, "HTTP/1.1, chunked"),
    (
        Form::UntilClose,
        "HTTP/1.1, until the connection ends (responses only)",
    ),
    (Form::Http2Length, "HTTP/2, with `content-length`"),
    (Form::Http2, "HTTP/2, without `content-length`"),
];

/// How a sender handles its connection after it has sent a row's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Keeps it open.
    Stays,
    /// Ends it with FIN.
    Fin,
    /// Ends it with RST.
    Rst,
}

/// How the message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Whole,
    CutOff,
    /// Cut off, but all octets that it announced have been forwarded by then.
    AtItsLength,
}

/// One way to end a message whose head and part of the body have been forwarded.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) form: Form,
    pub(super) name: &'static str,
    /// The part of the body that has been forwarded by then.
    pub(super) before: &'static str,
    /// The bytes that follow, on this stream.
    pub(super) bytes: fn(u32) -> Vec<u8>,
    pub(super) then: Then,
    pub(super) ends: Ends,
}

/// The body, in its two halves.
pub(super) const HALF: &str = "half";
pub(super) const WHOLE: &str = "halfrest";

impl Row {
    /// Returns what that reader must see; `reset` is what it sees of a truncated message over
    /// HTTP/2.
    pub(super) fn expected<'s>(&self, reader: Reader, reset: &'s str) -> &'s str {
        match (reader, self.ends) {
            (_, Whole) => "whole",
            (Reader::Http2, _) => reset,
            (_, AtItsLength) => "whole, then closed",
            // Without a length the body ends with the connection, and a reset is not a regular end.
            (Reader::Http10, CutOff) if !self.has_length() => "cut off by a reset",
            (_, CutOff) => "cut off",
        }
    }

    pub(super) const fn has_length(&self) -> bool {
        matches!(self.form, Form::Length | Form::Http2Length)
    }

    pub(super) fn check(&self, reader: Reader, reset: &str, seen: &str, failed: &mut Vec<String>) {
        let expected = self.expected(reader, reset);
        if seen != expected {
            let Self { form, name, .. } = self;
            failed.push(format!(
                "{form:?} to {reader:?}: {name}\n  seen:     {seen}\n  expected: {expected}"
            ));
        }
    }
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

fn goaway(stream: u32, code: u32) -> Vec<u8> {
    let payload = [stream.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

fn data(stream: u32, text: &str) -> Vec<u8> {
    frame(DATA, 0, stream, text.as_bytes())
}

fn last(stream: u32, text: &str) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, text.as_bytes())
}

fn trailers(stream: u32) -> Vec<u8> {
    headers(stream, &[("x-sum", "1")])
}

const fn row(
    form: Form,
    name: &'static str,
    bytes: fn(u32) -> Vec<u8>,
    then: Then,
    ends: Ends,
) -> Row {
    Row {
        form,
        name,
        before: HALF,
        bytes,
        then,
        ends,
    }
}

/// The row when the whole body has been forwarded, but not its end.
const fn all_of_it(row: Row) -> Row {
    Row {
        before: WHOLE,
        ..row
    }
}

/// Concatenates two parts.
fn both(mut first: Vec<u8>, second: Vec<u8>) -> Vec<u8> {
    first.extend(second);
    first
}

/// All rows.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = lengths();
    rows.extend(chunks());
    rows.extend(until_close());
    for form in [Form::Http2Length, Form::Http2] {
        rows.extend(http2(form));
    }
    let length = Form::Http2Length;
    rows.extend([
        row(
            length,
            "END_STREAM too early",
            |s| last(s, "re"),
            Stays,
            CutOff,
        ),
        row(
            length,
            "END_STREAM on the trailers, too early",
            trailers,
            Stays,
            CutOff,
        ),
        row(
            length,
            "END_STREAM on an empty DATA, too early",
            |s| last(s, ""),
            Stays,
            CutOff,
        ),
        row(
            length,
            "more DATA than announced, with END_STREAM",
            |s| last(s, "restmore"),
            Stays,
            CutOff,
        ),
        all_of_it(row(
            length,
            "all octets without END_STREAM, then RST_STREAM(NO_ERROR)",
            |s| reset(s, 0),
            Stays,
            AtItsLength,
        )),
        all_of_it(row(
            length,
            "all octets without END_STREAM, then RST_STREAM(CANCEL)",
            |s| reset(s, 8),
            Stays,
            AtItsLength,
        )),
        all_of_it(row(
            length,
            "all octets without END_STREAM, then the end of the connection",
            |_| Vec::new(),
            Fin,
            AtItsLength,
        )),
        row(
            Form::Http2,
            "more DATA, but no END_STREAM, then RST_STREAM(NO_ERROR)",
            |s| both(data(s, "rest"), reset(s, 0)),
            Stays,
            CutOff,
        ),
        row(
            Form::Http2,
            "more DATA, but no END_STREAM, then the end of the connection",
            |s| data(s, "rest"),
            Fin,
            CutOff,
        ),
    ]);
    rows
}

fn lengths() -> Vec<Row> {
    let length = |name, bytes, then, ends| row(Form::Length, name, bytes, then, ends);
    vec![
        length("all octets", |_| b"rest".to_vec(), Stays, Whole),
        length(
            "all octets, then the end of the connection",
            |_| b"rest".to_vec(),
            Fin,
            Whole,
        ),
        length(
            "the connection ends in the middle (FIN)",
            |_| b"res".to_vec(),
            Fin,
            CutOff,
        ),
        length(
            "the connection is reset in the middle (RST)",
            |_| Vec::new(),
            Rst,
            CutOff,
        ),
    ]
}

fn chunks() -> Vec<Row> {
    let chunked = |name, bytes, then, ends| row(Form::Chunked, name, bytes, then, ends);
    vec![
        chunked(
            "the last chunk",
            |_| b"4\r\nrest\r\n0\r\n\r\n".to_vec(),
            Stays,
            Whole,
        ),
        chunked(
            "the last chunk with trailers",
            |_| b"4\r\nrest\r\n0\r\nx-sum: 1\r\n\r\n".to_vec(),
            Stays,
            Whole,
        ),
        chunked(
            "the connection ends within a chunk (FIN)",
            |_| b"4\r\nres".to_vec(),
            Fin,
            CutOff,
        ),
        chunked(
            "the connection ends after a chunk (FIN)",
            |_| b"4\r\nrest\r\n".to_vec(),
            Fin,
            CutOff,
        ),
        chunked(
            "the connection ends within the last chunk",
            |_| b"4\r\nrest\r\n0\r\n".to_vec(),
            Fin,
            CutOff,
        ),
        chunked(
            "the connection is reset after a chunk (RST)",
            |_| Vec::new(),
            Rst,
            CutOff,
        ),
        chunked(
            "a chunk's size is no number",
            |_| b"x\r\n".to_vec(),
            Stays,
            CutOff,
        ),
        chunked(
            "a chunk is longer than it says",
            |_| b"2\r\nrest\r\n0\r\n\r\n".to_vec(),
            Stays,
            CutOff,
        ),
        chunked(
            "the connection ends within the trailers",
            |_| b"4\r\nrest\r\n0\r\nx-sum: 1\r\n".to_vec(),
            Fin,
            CutOff,
        ),
        chunked(
            "trailers that are no fields",
            |_| b"4\r\nrest\r\n0\r\nx sum\r\n\r\n".to_vec(),
            Stays,
            CutOff,
        ),
    ]
}

fn until_close() -> Vec<Row> {
    let close = |name, bytes, then, ends| row(Form::UntilClose, name, bytes, then, ends);
    vec![
        close(
            "the connection ends (FIN): nothing else could",
            |_| b"rest".to_vec(),
            Fin,
            Whole,
        ),
        close("the connection is reset (RST)", |_| Vec::new(), Rst, CutOff),
    ]
}

/// The rows that are the same with and without a length.
fn http2(form: Form) -> Vec<Row> {
    let has_length = form == Form::Http2Length;
    let with_all_octets = if has_length { AtItsLength } else { CutOff };
    let row = |name, bytes, then, ends| row(form, name, bytes, then, ends);
    vec![
        row(
            "END_STREAM with the last octets",
            |s| last(s, "rest"),
            Stays,
            Whole,
        ),
        row(
            "END_STREAM on an empty DATA",
            |s| both(data(s, "rest"), last(s, "")),
            Stays,
            Whole,
        ),
        row(
            "END_STREAM on trailers",
            |s| both(data(s, "rest"), trailers(s)),
            Stays,
            Whole,
        ),
        row("RST_STREAM(NO_ERROR)", |s| reset(s, 0), Stays, CutOff),
        row("RST_STREAM(INTERNAL_ERROR)", |s| reset(s, 2), Stays, CutOff),
        row("RST_STREAM(STREAM_CLOSED)", |s| reset(s, 5), Stays, CutOff),
        row("RST_STREAM(CANCEL)", |s| reset(s, 8), Stays, CutOff),
        row("the connection ends (FIN)", |_| Vec::new(), Fin, CutOff),
        row("the connection is reset (RST)", |_| Vec::new(), Rst, CutOff),
        row(
            "GOAWAY(NO_ERROR), and the connection ends",
            |s| goaway(s, 0),
            Fin,
            CutOff,
        ),
        row(
            "GOAWAY(INTERNAL_ERROR), and the connection ends",
            |s| goaway(s, 2),
            Fin,
            CutOff,
        ),
        row(
            "the connection ends within a DATA frame with END_STREAM",
            |s| last(s, "rest")[..11].to_vec(),
            Fin,
            CutOff,
        ),
        all_of_it(row(
            "the connection ends within the trailers",
            |s| frame(HEADERS, END_STREAM, s, &block(&[("x-sum", "1")])),
            Fin,
            with_all_octets,
        )),
        all_of_it(row(
            "trailers without END_STREAM",
            |s| frame(HEADERS, END_HEADERS, s, &block(&[("x-sum", "1")])),
            Stays,
            with_all_octets,
        )),
        all_of_it(row(
            "trailers with a pseudo-header field",
            |s| headers(s, &[(":path", "/")]),
            Stays,
            with_all_octets,
        )),
        all_of_it(row(
            "trailers with a name in capitals",
            |s| frame(HEADERS, END_HEADERS | END_STREAM, s, &field("X-Sum", b"1")),
            Stays,
            with_all_octets,
        )),
    ]
}
