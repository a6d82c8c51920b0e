//! `docs/research/endings.md`, made from the table and from the separate tests.

use super::apart::APART;
use super::peers::Reader;
use super::table::{FORMS, Form, rows};
use core::fmt::Write;
use std::path::Path;

const INTRODUCTION: &str = "\
# How messages end: each way that is tested

[The rule](../reference/endings.md): an incomplete message is passed on as cut off. This page is
generated from the table that the tests run against the real process (`cargo test -p slackwater
--test serve endings`; `BLESS=1` rewrites the page).
";

const TABLES: &str = "
## The table

Each row is run as a request (to replicas over HTTP/1.1 and HTTP/2) and as a response (to clients
over HTTP/1.1, HTTP/1.0 and HTTP/2). Half of the body was passed on before, or all of it where the
row states it.
";

/// What a reader sees, in the words of the page.
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
fn page_matches_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/research/endings.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(written == page, "BLESS=1 rewrites docs/research/endings.md");
}
