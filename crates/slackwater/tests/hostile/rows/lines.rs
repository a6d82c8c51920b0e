//! Field lines against the grammar. RFC 9112 §2.2, §5; RFC 9110 §5.5

use super::{Group, Row, passed, refused};

fn with(line: &[u8]) -> Vec<u8> {
    [
        b"GET /a HTTP/1.1\r\nhost: x\r\n",
        line,
        b"\r\nconnection: close\r\n\r\n",
    ]
    .concat()
}

pub(super) fn group() -> Group {
    Group {
        title: "Lines, names and values",
        about: "",
        rows: rows(),
    }
}

fn rows() -> Vec<Row> {
    let bad = |name, line: &[u8]| refused(name, "400, closed", with(line));
    vec![
        bad("a bare LF between fields", b"a: b\nc: d"),
        bad("a bare CR between fields", b"a: b\rc: d"),
        bad("a bare CR at the end of a value", b"a: b\r\r"),
        refused(
            "bare LFs for the whole head",
            "400, closed",
            "GET /a HTTP/1.1\nhost: x\nconnection: close\n\n",
        ),
        refused(
            "a bare LF at the end of the head",
            "400, closed",
            "GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\n",
        ),
        bad("NUL in a value", b"a: b\0c"),
        bad("NUL in a name", b"a\0b: c"),
        bad("DEL in a value", b"a: b\x7f"),
        bad("a control character in a value", b"a: b\x01"),
        bad("a space before the colon", b"a : b"),
        bad("a tab before the colon", b"a\t: b"),
        bad("no colon", b"a"),
        bad("no name", b": a"),
        bad("a name in parentheses", b"(a): b"),
        bad("a name with a space in it", b"a b: c"),
        bad("a name beyond ASCII", "ä: b".as_bytes()),
        bad("a value on a continued line (obs-fold)", b"a: b\r\n c"),
        refused(
            "a space before the first field",
            "400, closed",
            "GET /a HTTP/1.1\r\n host: x\r\nhost: x\r\nconnection: close\r\n\r\n",
        ),
        passed(
            "bytes beyond ASCII in a value, which are allowed",
            "200, closed",
            &["GET x/a"],
            with("a: ä".as_bytes()),
        ),
        passed(
            "an empty value, which is allowed",
            "200, closed",
            &["GET x/a"],
            with(b"a:"),
        ),
        passed(
            "an empty line before a request, which is allowed",
            "200, closed",
            &["GET x/a"],
            "\r\nGET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        ),
        refused(
            "an unknown expectation",
            "417, closed",
            with(b"expect: 200-ok"),
        ),
    ]
}
