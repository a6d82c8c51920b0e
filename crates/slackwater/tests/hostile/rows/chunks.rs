//! Chunked bodies against the grammar. RFC 9112 §7.1
//!
//! The head of such a request has been forwarded by the time the body turns out to be malformed.
//! The replica then sees a request that is cut off, and never its end.

use super::{Group, Row, passed};

const CUT_OFF: &[&str] = &["POST x/a, cut off"];

fn post(body: &str) -> String {
    format!(
        "POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{body}\
         GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"
    )
}

pub(super) fn group() -> Group {
    Group {
        title: "Chunks",
        about: "The replica may have received the head by then. It sees a request that is cut off, never a complete one.",
        rows: rows(),
    }
}

fn rows() -> Vec<Row> {
    let bad = |name, body: &str| passed(name, "400, closed", CUT_OFF, post(body));
    vec![
        bad(
            "a chunk's size beyond 64 bits",
            "10000000000000005\r\nhello\r\n0\r\n\r\n",
        ),
        bad("a chunk's size with `0x`", "0x5\r\nhello\r\n0\r\n\r\n"),
        bad("a chunk's size with a plus", "+5\r\nhello\r\n0\r\n\r\n"),
        bad("a chunk's size below zero", "-5\r\nhello\r\n0\r\n\r\n"),
        bad("no chunk's size", "\r\nhello\r\n0\r\n\r\n"),
        bad(
            "a chunk's size that is no number",
            "five\r\nhello\r\n0\r\n\r\n",
        ),
        bad(
            "a chunk's size with a word behind it",
            "5 5\r\nhello\r\n0\r\n\r\n",
        ),
        bad("a space before a chunk's size", " 5\r\nhello\r\n0\r\n\r\n"),
        bad("a bare LF after a chunk's size", "5\nhello\r\n0\r\n\r\n"),
        bad("a bare CR after a chunk's size", "5\rhello\r\n0\r\n\r\n"),
        bad(
            "a bare LF in a chunk's extension",
            "5;a=b\nc\r\nhello\r\n0\r\n\r\n",
        ),
        bad(
            "a bare CR in a chunk's extension",
            "5;a=\rb\r\nhello\r\n0\r\n\r\n",
        ),
        bad("a chunk longer than its size", "4\r\nhello\r\n0\r\n\r\n"),
        bad("a bare LF after a chunk", "5\r\nhello\n0\r\n\r\n"),
        bad("nothing after a chunk", "5\r\nhello0\r\n\r\n"),
        bad("a bare LF at the end of the body", "5\r\nhello\r\n0\n\n"),
        bad(
            "a trailer with a space before its colon",
            "0\r\na : b\r\n\r\n",
        ),
        bad("a trailer without a colon", "0\r\nGET /x HTTP/1.1\r\n\r\n"),
        bad("a trailer on a continued line", "0\r\na: b\r\n c\r\n\r\n"),
        passed(
            "a megabyte of extensions",
            "400, closed",
            CUT_OFF,
            post(&"1;aaaaaaaaaaaaaaaa\r\nx\r\n".repeat(50_000)),
        ),
        passed(
            "a megabyte of trailers",
            "400, closed",
            CUT_OFF,
            post(&format!(
                "0\r\n{}\r\n",
                "a: bbbbbbbbbbbbbbbb\r\n".repeat(50_000)
            )),
        ),
        passed(
            "extensions by the grammar are left out",
            "200, closed",
            &["POST x/a with 5 bytes"],
            "POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
             5;a=b;c=\"d;e\"\r\nhello\r\n0\r\n\r\n",
        ),
    ]
}
