//! `docs/reference/endings.md`, made from the table and from the tests apart.

use super::apart::APART;
use super::peers::Reader;
use super::table::{FORMS, Form, rows};
use core::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = "\
# How messages end

A request or a response that ends before its end is passed on as one that was cut off. No replica stores half of an upload as if it were all of
it, and no client takes half of a response for a whole one. This page is made from the table that the tests play against the
real process (`cargo test -p slackwater --test serve endings`; `BLESS=1` rewrites the page).

## The rule

| protocol of the sender | a message is whole when | otherwise it is cut off |
|---|---|---|
| HTTP/1.1, `Content-Length` | all octets have come | the connection ends or is reset before |
| HTTP/1.1, chunked | the last chunk and its trailers have come, up to the empty line | the connection ends or is reset before, or what comes is no chunk |
| HTTP/1.1 response without either | the connection ends in order (FIN; over TLS close_notify) | the connection is reset; over TLS, ends without close_notify |
| HTTP/2 | END_STREAM has come, with exactly as many octets as the `content-length`, if there is one | the stream is reset with any code, NO_ERROR included; the connection ends; what comes breaks the rules of HTTP/2 |

| protocol of the receiver | a message that is cut off |
|---|---|
| HTTP/1.1 | its connection is closed before all octets, or before the last chunk |
| HTTP/1.0 client, response without a length | its connection is reset (RST; over TLS, closed without close_notify): an end would say that all has come |
| HTTP/2 | its stream is reset: a request with CANCEL, a response with INTERNAL_ERROR; never END_STREAM |
| a tunnel | its connection is reset |

`RST_STREAM(NO_ERROR)` is no end. It asks a client to stop an upload after a response that is whole, and END_STREAM has said so by then (RFC 9113
§8.1). It has its effect on the upload, and none on the response.

A message over HTTP/2 of which all octets that its `content-length` announces have come, but not END_STREAM, is cut off. A receiver over
HTTP/1 has all octets by then and takes the message for whole: nothing can be taken back. Its connection is closed, and is
not used again. The response counts as `broken`.
";

const TABLES: &str = "
## The table

Each row is played as a request (to replicas over HTTP/1.1 and HTTP/2) and as a response (to clients over HTTP/1.1, HTTP/1.0 and
HTTP/2). Half of the body has been passed on before, or all of it where the row says so.
";

/// What a reader sees, for the page.
fn told(seen: &str) -> &str {
    match seen {
        "cut off by a reset" => "cut off (RST)",
        "RST_STREAM" => "cut off (RST_STREAM)",
        seen => seen,
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned() + TABLES;
    let rows = rows();
    for (form, title) in FORMS {
        let to = match form {
            Form::UntilClose => "client",
            _ => "replica or client",
        };
        let _ = write!(
            page,
            "\n### {title}\n\n| how it ends | HTTP/1.1 {to} | HTTP/1.0 client | HTTP/2 {to} |\n\
             |---|---|---|---|\n"
        );
        for row in rows.iter().filter(|row| row.form == form) {
            let seen = |reader| told(row.expected(reader, "RST_STREAM"));
            let (http11, http10) = (seen(Reader::Http11), seen(Reader::Http10));
            let http2 = seen(Reader::Http2);
            let _ = writeln!(page, "| {} | {http11} | {http10} | {http2} |", row.name);
        }
    }
    for (title, rows) in APART {
        let _ = write!(
            page,
            "\n## {title}\n\n| what ends | what the other side sees |\n|---|---|\n"
        );
        for (ends, seen) in *rows {
            let _ = writeln!(page, "| {ends} | {seen} |");
        }
    }
    page
}

#[test]
fn the_page_is_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/endings.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "BLESS=1 rewrites docs/reference/endings.md"
    );
}
