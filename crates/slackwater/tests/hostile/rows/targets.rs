//! Request lines, and hosts that two parsers could read differently. RFC 9112 §3

use super::{Group, Row, passed, refused};

fn line(line: &str) -> String {
    format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n")
}

fn host(fields: &str) -> String {
    format!("GET /a HTTP/1.1\r\n{fields}connection: close\r\n\r\n")
}

pub(super) fn group() -> Group {
    Group {
        title: "Request lines, targets and hosts",
        about: "",
        rows: rows(),
    }
}

fn rows() -> Vec<Row> {
    let bad = |name, bytes: String| refused(name, "400, closed", bytes);
    vec![
        bad("two spaces before the target", line("GET  /a HTTP/1.1")),
        bad("two spaces before the version", line("GET /a  HTTP/1.1")),
        bad("a space in the target", line("GET /a b HTTP/1.1")),
        bad("a tab for a space", line("GET\t/a\tHTTP/1.1")),
        bad("a space before the method", line(" GET /a HTTP/1.1")),
        bad("a space after the version", line("GET /a HTTP/1.1 ")),
        bad("a bare CR in the request line", line("GET /a\r HTTP/1.1")),
        bad("no version (HTTP/0.9)", line("GET /a")),
        bad("a version in lower case", line("GET /a http/1.1")),
        bad("a version with two digits", line("GET /a HTTP/1.10")),
        bad("a method that is no token", line("GE(T /a HTTP/1.1")),
        bad("no method", line(" /a HTTP/1.1")),
        bad("a fragment in the target", line("GET /a#b HTTP/1.1")),
        bad("NUL in the target", line("GET /a\0 HTTP/1.1")),
        bad("a target without a slash", line("GET a HTTP/1.1")),
        bad(
            "a target that is a host and a port",
            line("GET x:80 HTTP/1.1"),
        ),
        bad("`*` as the target of GET", line("GET * HTTP/1.1")),
        refused(
            "HTTP/2.0 in a request line",
            "505, closed",
            line("GET /a HTTP/2.0"),
        ),
        refused(
            "HTTP/3.7 in a request line",
            "505, closed",
            line("GET /a HTTP/3.7"),
        ),
        refused("CONNECT", "501, closed", line("CONNECT x:443 HTTP/1.1")),
        refused(
            "a request in the tunnel that was asked for",
            "501, closed",
            "CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\nGET /b HTTP/1.1\r\nhost: x\r\n\r\n",
        ),
        bad("CONNECT without a port", line("CONNECT x HTTP/1.1")),
        bad("CONNECT with an empty port", line("CONNECT x: HTTP/1.1")),
        bad("CONNECT with port 0", line("CONNECT x:0 HTTP/1.1")),
        bad(
            "CONNECT with a port that is none",
            line("CONNECT x:65536 HTTP/1.1"),
        ),
        bad("CONNECT without a host", line("CONNECT :443 HTTP/1.1")),
        bad("CONNECT with a user", line("CONNECT u@x:443 HTTP/1.1")),
        bad("CONNECT with a path", line("CONNECT x:443/a HTTP/1.1")),
        bad("CONNECT with a path alone", line("CONNECT /a HTTP/1.1")),
        bad(
            "CONNECT with a whole URI",
            line("CONNECT http://x:443/ HTTP/1.1"),
        ),
        bad(
            "CONNECT with a body",
            line("CONNECT x:443 HTTP/1.1\r\ncontent-length: 5"),
        ),
        bad(
            "CONNECT with a body in chunks",
            line("CONNECT x:443 HTTP/1.1\r\ntransfer-encoding: chunked"),
        ),
        refused(
            "the first bytes of TLS where there is none",
            "400, closed",
            *b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on",
        ),
        bad(
            "a PROXY header where none is expected",
            line("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /a HTTP/1.1"),
        ),
        bad("no `Host`", host("")),
        bad("two `Host` fields", host("host: x\r\nhost: y\r\n")),
        bad("the same `Host` twice", host("host: x\r\nhost: x\r\n")),
        bad("a list in `Host`", host("host: x, y\r\n")),
        bad("a path in `Host`", host("host: x/../y\r\n")),
        bad("a user in `Host`", host("host: x@y\r\n")),
        bad("a space in `Host`", host("host: x y\r\n")),
        bad("a query in `Host`", host("host: x?y\r\n")),
        bad("a backslash in `Host`", host("host: x\\y\r\n")),
        bad("a port in `Host` that is none", host("host: x:8o\r\n")),
        bad("a port in `Host` beyond 65,535", host("host: x:65536\r\n")),
        bad(
            "a bracket in `Host` that stays open",
            host("host: [::1\r\n"),
        ),
        bad("brackets in `Host` around a name", host("host: [x]\r\n")),
        bad("NUL encoded in `Host`", host("host: x%00y\r\n")),
        bad("a slash encoded in `Host`", host("host: x%2Fy\r\n")),
        bad(
            "a `Host` that is none beside a target that names a host",
            "GET http://y/a HTTP/1.1\r\nhost: x:8o\r\nconnection: close\r\n\r\n".to_owned(),
        ),
        bad(
            "an octet beyond ASCII in the target",
            line("GET /\u{e9} HTTP/1.1"),
        ),
        bad("DEL in the target", line("GET /a\x7fb HTTP/1.1")),
        passed(
            "an octet beyond ASCII encoded in a target",
            "200, closed",
            &["GET x/%C3%A9"],
            line("GET /%C3%A9 HTTP/1.1"),
        ),
        passed(
            "a method of letters that no method has, but a token may",
            "200, closed",
            &["!#$% x/a"],
            line("!#$% /a HTTP/1.1"),
        ),
        passed(
            "a target that names a host beside `Host`: the target counts, for everybody",
            "200, closed",
            &["GET y/a"],
            line("GET http://y/a HTTP/1.1"),
        ),
        passed(
            "a target that names a user: the user is left out",
            "200, closed",
            &["GET y/a"],
            line("GET http://u:p@y/a HTTP/1.1"),
        ),
        passed(
            "`Connection: host` does not take the host away",
            "200, closed",
            &["GET x/a"],
            host("host: x\r\nconnection: host\r\n"),
        ),
        passed(
            "line ends encoded in a target stay encoded",
            "200, closed",
            &["GET x/a%0d%0ahost:%20y"],
            line("GET /a%0d%0ahost:%20y HTTP/1.1"),
        ),
    ]
}
