//! Heads beyond `limits.head_bytes_max` and `limits.head_fields_max`.

use super::{Group, Row, passed, refused};

fn with(lines: &str) -> String {
    format!("GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{lines}\r\n")
}

pub(super) fn group() -> Group {
    Group {
        title: "Too much of anything",
        about: "",
        rows: rows(),
    }
}

fn rows() -> Vec<Row> {
    vec![
        refused(
            "a target of 10 MB",
            "414, closed",
            format!(
                "GET /{} HTTP/1.1\r\nhost: x\r\n\r\n",
                "a".repeat(10_000_000)
            ),
        ),
        refused(
            "a method of 10 MB",
            "431, closed",
            format!("{} / HTTP/1.1\r\nhost: x\r\n\r\n", "A".repeat(10_000_000)),
        ),
        refused(
            "a field of 10 MB",
            "431, closed",
            with(&format!("a: {}\r\n", "b".repeat(10_000_000))),
        ),
        refused(
            "a name of 10 MB",
            "431, closed",
            with(&format!("{}: a\r\n", "b".repeat(10_000_000))),
        ),
        refused("101 fields", "431, closed", with(&"a: b\r\n".repeat(99))),
        passed(
            "100 fields, as many as may be",
            "200, closed",
            &["GET x/a"],
            with(&"a: b\r\n".repeat(98)),
        ),
        refused(
            "a million fields",
            "431, closed",
            with(&"a: b\r\n".repeat(1_000_000)),
        ),
        refused(
            "a megabyte of empty lines before a request",
            "400, closed",
            format!("{}{}", "\r\n".repeat(500_000), with("")),
        ),
    ]
}
