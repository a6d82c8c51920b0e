//! HTTP/2 heads that would mean something else when converted to HTTP/1.1. RFC 9113 §8.2, §8.3,
//! §10.3

use super::{Does, Group, Row, frames};
use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, field, frame, headers, open, request};

pub(super) fn group() -> Group {
    Group {
        title: "HTTP/2: heads that HTTP/1.1 would read otherwise",
        about: "A good request follows on the same connection and gets a response.",
        rows: rows(),
    }
}

const MALFORMED: &str = "reset (PROTOCOL_ERROR)";

/// A GET with one more field.
fn with(name: &str, value: &str) -> Vec<u8> {
    let mut fields = request("GET", "/a");
    fields.push((name, value));
    headers(1, &fields)
}

/// A POST with one more field and a body of five bytes.
fn post(extra: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = request("POST", "/a");
    fields.extend(extra);
    let mut bytes = open(1, &fields);
    bytes.extend(frame(DATA, END_STREAM, 1, b"hello"));
    bytes
}

/// A GET where one pseudo-header field has another value.
fn replaced(name: &str, value: &str) -> Vec<u8> {
    let mut fields = request("GET", "/a");
    for field in &mut fields {
        if field.0 == name {
            field.1 = value;
        }
    }
    headers(1, &fields)
}

fn without(name: &str) -> Vec<u8> {
    let mut fields = request("GET", "/a");
    fields.retain(|field| field.0 != name);
    headers(1, &fields)
}

fn rows() -> Vec<Row> {
    let malformed = |name, bytes| frames(name, MALFORMED, bytes);
    let broken = |name, bytes| frames(name, "GOAWAY (PROTOCOL_ERROR), closed", bytes);
    let passed = |name, seen, bytes| Row {
        name,
        does: Does::Http2(bytes),
        answer: "200",
        seen,
    };
    let long = request("POST", "/a");
    vec![
        Row {
            seen: &["POST x/a, cut off"],
            ..malformed(
                "a body shorter than `content-length`",
                post(&[("content-length", "39")]),
            )
        },
        Row {
            seen: &["POST x/a, cut off"],
            ..malformed(
                "a body longer than `content-length`",
                post(&[("content-length", "4")]),
            )
        },
        malformed(
            "a body although `content-length` is 0",
            post(&[("content-length", "0")]),
        ),
        malformed(
            "two `content-length`",
            post(&[("content-length", "5"), ("content-length", "4")]),
        ),
        malformed(
            "`content-length` with a plus over HTTP/2",
            post(&[("content-length", "+5")]),
        ),
        malformed(
            "`content-length` without a body",
            with("content-length", "5"),
        ),
        malformed(
            "`transfer-encoding`",
            post(&[("transfer-encoding", "chunked")]),
        ),
        malformed("`connection`", with("connection", "close")),
        malformed("`keep-alive`", with("keep-alive", "timeout=5")),
        malformed("`proxy-connection`", with("proxy-connection", "keep-alive")),
        malformed("`upgrade`", with("upgrade", "websocket")),
        malformed("`te` other than `trailers`", with("te", "gzip")),
        broken("a name in upper case", with("A", "b")),
        broken("an empty name", with("", "b")),
        broken("a name with a space", with("a b", "c")),
        broken("a name with a colon", with("a:", "b")),
        broken("CR LF in a name", with("a\r\nb", "c")),
        broken(
            "CR LF and a field in a value",
            with("a", "b\r\ntransfer-encoding: chunked"),
        ),
        broken("LF in a value", with("a", "b\nc")),
        broken("CR in a value", with("a", "b\rc")),
        broken("NUL in a value over HTTP/2", with("a", "b\0c")),
        malformed(
            "CR LF in `:path`",
            replaced(":path", "/a HTTP/1.1\r\nhost: y\r\n\r\n"),
        ),
        malformed(
            "a space and a version in `:path`",
            replaced(":path", "/a HTTP/1.1"),
        ),
        malformed("an empty `:path`", replaced(":path", "")),
        malformed("`:path` without a slash", replaced(":path", "a")),
        malformed("a whole URL in `:path`", replaced(":path", "http://y/a")),
        broken(
            "CR LF in `:method`",
            replaced(":method", "GET /a HTTP/1.1\r\nb: c\r\n"),
        ),
        broken("a space in `:method`", replaced(":method", "GET /b")),
        broken("an empty `:method`", replaced(":method", "")),
        malformed("a URL in `:scheme`", replaced(":scheme", "http://y/?")),
        malformed("CR LF in `:authority`", replaced(":authority", "x\r\na: b")),
        malformed(
            "an octet beyond ASCII in `:path`",
            replaced(":path", "/\u{e9}"),
        ),
        frames(
            "a port in `:authority` that is none",
            "400",
            replaced(":authority", "x:8o"),
        ),
        malformed(
            "a bracket in `:authority` that stays open",
            replaced(":authority", "[::1"),
        ),
        malformed(
            "NUL encoded in `:authority`",
            replaced(":authority", "x%00y"),
        ),
        malformed("a path in `:authority`", replaced(":authority", "x/y")),
        frames(
            "a user in `:authority`",
            "400",
            replaced(":authority", "u@x"),
        ),
        frames(
            "`:authority` and `host` that differ",
            "400",
            with("host", "y"),
        ),
        frames("two `host` fields", "400", {
            let mut fields = request("GET", "/a");
            fields.extend([("host", "x"), ("host", "x")]);
            headers(1, &fields)
        }),
        passed(
            "`:authority` and `host` that agree",
            &["GET x/a"],
            with("host", "x"),
        ),
        passed("`host` without `:authority`", &["GET x/a"], {
            let mut fields = request("GET", "/a");
            fields.retain(|field| field.0 != ":authority");
            fields.push(("host", "x"));
            headers(1, &fields)
        }),
        frames(
            "neither `:authority` nor `host`",
            "400",
            without(":authority"),
        ),
        malformed("no `:method`", without(":method")),
        malformed("no `:scheme`", without(":scheme")),
        malformed("no `:path`", without(":path")),
        malformed("`:path` twice", with(":path", "/b")),
        malformed(
            "a pseudo-header field after others",
            headers(1, &{
                let mut fields = request("GET", "/a");
                fields.insert(3, ("a", "b"));
                fields
            }),
        ),
        broken("an unknown pseudo-header field", with(":a", "b")),
        malformed("a response's `:status`", with(":status", "200")),
        frames(
            "CONNECT over HTTP/2",
            "501",
            headers(1, &[(":method", "CONNECT"), (":authority", "x:443")]),
        ),
        malformed(
            "extended CONNECT, which was not offered",
            headers(1, &{
                let mut fields = request("CONNECT", "/a");
                fields.push((":protocol", "websocket"));
                fields
            }),
        ),
        Row {
            seen: &["POST x/a, cut off"],
            ..malformed("pseudo-header fields in trailers", {
                let mut bytes = open(1, &long);
                bytes.extend(frame(DATA, 0, 1, b"hello"));
                let trailers = field(":path", b"/b");
                bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers));
                bytes
            })
        },
        Row {
            seen: &["POST x/a, cut off"],
            ..broken("CR LF in trailers", {
                let mut bytes = open(1, &long);
                bytes.extend(frame(DATA, 0, 1, b"hello"));
                let trailers = field("a", b"b\r\n\r\nGET /hidden HTTP/1.1\r\nhost: x\r\n\r\n");
                bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers));
                bytes
            })
        },
    ]
}
