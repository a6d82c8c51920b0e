//! Requests whose end is ambiguous: the means of request smuggling. RFC 9112 §6.3, §11.2

use super::{Group, Row, passed, refused};

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n";

/// A POST with these fields, a body, and a request hidden behind it.
fn post(fields: &str, body: &str) -> String {
    format!("POST /a HTTP/1.1\r\nhost: x\r\n{fields}\r\n{body}{HIDDEN}")
}

pub(super) fn group() -> Group {
    Group {
        title: "Lengths that two readers could take for different ones",
        about: "Each row has a second request after the bytes that one of the readers takes for the body.",
        rows: rows(),
    }
}

fn rows() -> Vec<Row> {
    let refuse = |name, fields: &str| refused(name, "400, closed", post(fields, "hello"));
    let chunks = "0\r\n\r\n";
    vec![
        refused(
            "`Content-Length` and `Transfer-Encoding` (CL.TE)",
            "400, closed",
            post(
                "content-length: 39\r\ntransfer-encoding: chunked\r\n",
                chunks,
            ),
        ),
        refused(
            "`Transfer-Encoding` and `Content-Length` (TE.CL)",
            "400, closed",
            post(
                "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
                "27\r\n",
            ),
        ),
        refuse(
            "two different `Content-Length` (CL.CL)",
            "content-length: 5\r\ncontent-length: 0\r\n",
        ),
        refuse(
            "the same `Content-Length` twice",
            "content-length: 5\r\ncontent-length: 5\r\n",
        ),
        refuse("a list in `Content-Length`", "content-length: 5, 5\r\n"),
        refuse("`Content-Length` with a plus", "content-length: +5\r\n"),
        refuse("`Content-Length` below zero", "content-length: -5\r\n"),
        refuse(
            "`Content-Length` with a space in it",
            "content-length: 0 5\r\n",
        ),
        refuse("`Content-Length` in hexadecimal", "content-length: 0x5\r\n"),
        refuse(
            "`Content-Length` with a fraction",
            "content-length: 5.0\r\n",
        ),
        refuse("`Content-Length` without a number", "content-length:\r\n"),
        refuse(
            "`Content-Length` beyond 64 bits, which would wrap to 5",
            "content-length: 18446744073709551621\r\n",
        ),
        passed(
            "`Content-Length` with leading zeros, a number all the same",
            "200, 200, closed",
            &["POST x/a with 5 bytes", "GET x/b"],
            "POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 0005\r\n\r\nhello\
             GET /b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        ),
        refused(
            "an unknown transfer coding (TE.TE)",
            "400, closed",
            post("transfer-encoding: xchunked\r\n", chunks),
        ),
        refused(
            "`chunked` and another coding in two fields",
            "400, closed",
            post(
                "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
                chunks,
            ),
        ),
        refused(
            "`chunked` below another coding",
            "501, closed",
            post("transfer-encoding: gzip, chunked\r\n", chunks),
        ),
        refused(
            "`chunked` twice",
            "400, closed",
            post("transfer-encoding: chunked, chunked\r\n", chunks),
        ),
        refused(
            "`chunked` in quotes",
            "400, closed",
            post("transfer-encoding: \"chunked\"\r\n", chunks),
        ),
        refused(
            "`chunked` after a vertical tab",
            "400, closed",
            post("transfer-encoding: \x0bchunked\r\n", chunks),
        ),
        refused(
            "`Transfer-Encoding` with a space before its colon",
            "400, closed",
            post("transfer-encoding : chunked\r\n", chunks),
        ),
        refused(
            "`chunked` on a continued line (obs-fold)",
            "400, closed",
            post("transfer-encoding:\r\n chunked\r\n", chunks),
        ),
        refused(
            "an empty `Transfer-Encoding`",
            "400, closed",
            post("transfer-encoding:\r\n", chunks),
        ),
        refused(
            "`Transfer-Encoding` in HTTP/1.0, whose readers know no chunks",
            "400, closed",
            format!(
                "POST /a HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}{HIDDEN}"
            ),
        ),
        passed(
            "`cHuNkEd`: codings have no case",
            "200, closed",
            &["POST x/a with 5 bytes"],
            "POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: cHuNkEd\r\nconnection: close\r\n\r\n\
             5\r\nhello\r\n0\r\n\r\n",
        ),
        passed(
            "a request in the body of a GET stays in the body",
            "200, closed",
            &["GET x/a with 33 bytes"],
            format!(
                "GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{HIDDEN}",
                HIDDEN.len()
            ),
        ),
        passed(
            "`Connection: content-length` does not take the length away",
            "200, closed",
            &["POST x/a with 33 bytes"],
            format!(
                "POST /a HTTP/1.1\r\nhost: x\r\nconnection: close, content-length\r\n\
                 content-length: {}\r\n\r\n{HIDDEN}",
                HIDDEN.len()
            ),
        ),
        passed(
            "two requests at once (pipelining) are two, and answered in order",
            "200, 200, closed",
            &["POST x/a with 5 bytes", "GET x/b"],
            "POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello\
             GET /b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        ),
    ]
}
