//! HTTP/1.1 requests that two parsers could interpret differently, assembled at random from parts
//! that are valid, invalid, or ambiguous.

use crate::siege::draws::Draws;

/// The bytes of a connection: an ambiguous request, perhaps with one hidden in its body, and a
/// plain one after it.
///
/// The targets: `/m{number}` of the ambiguous request, `/m{number}s` of the hidden one,
/// `/m{number}b` of the plain one.
pub(super) fn mutant(draws: &mut Draws, number: usize) -> Vec<u8> {
    let hidden = format!("GET /m{number}s HTTP/1.1\r\nhost: siege.test\r\n\r\n");
    let method = draws.mostly(
        12,
        &["POST", "GET", "PUT", "post", "GE T", "POST\0", "\u{b}POST"],
    );
    let target = target(draws, number);
    let version = draws.mostly(
        16,
        &[
            "HTTP/1.1",
            "HTTP/1.0",
            "http/1.1",
            "HTTP/1.10",
            "HTTP/2.0",
            "HTTP/1.1 ",
            "HTTP/ 1.1",
            "",
        ],
    );
    let space = draws.mostly(30, &[" ", "  ", "\t", "\u{b}", "\u{a0}"]);
    let mut lines = vec![format!("{method}{space}{target}{space}{version}")];
    lines.extend(host(draws));
    let body = body(draws, &hidden);
    lines.extend(framing(draws, &body));
    if draws.one_in(6) {
        let extra = draws.pick(&[
            "x-a: b\r\n c",
            " x-a: b",
            "x-a : b",
            "x-a\t: b",
            "x-a",
            ": b",
            "x-a: \0",
            "x-a: b\rx-b: c",
            "connection: content-length",
            "connection: transfer-encoding",
            "connection: close, host",
            "expect: 100-continue",
            "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAAQAAP__",
            "x-http-method-override: CONNECT",
            "max-forwards: 0",
            "te: chunked",
        ]);
        lines.push(extra.to_owned());
    }
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend(line.as_bytes());
        bytes.extend(line_end(draws).as_bytes());
    }
    bytes.extend(line_end(draws).as_bytes());
    bytes.extend(body.as_bytes());
    // Latin-1 if a part has such a byte; otherwise the wire carries UTF-8.
    let plain =
        format!("GET /m{number}b HTTP/1.1\r\nhost: siege.test\r\nconnection: close\r\n\r\n");
    bytes.extend(plain.as_bytes());
    bytes
}

fn line_end(draws: &mut Draws) -> &'static str {
    draws.mostly(80, &["\r\n", "\n", "\r", "\r\r\n", "\n\r", "\r\n "])
}

fn target(draws: &mut Draws, number: usize) -> String {
    match draws.below(40) {
        0 => format!("http://siege.test/m{number}"),
        1 => format!("//m{number}"),
        2 => format!("/a/../m{number}"),
        3 => format!("/a b/m{number}"),
        4 => format!("/%0d%0a/m{number}"),
        5 => format!("http://other.test/m{number}"),
        6 => format!("siege.test/m{number}"),
        7 => format!("/\\m{number}/m{number}"),
        8 => format!("/?/m{number}"),
        9 => format!("/#/m{number}"),
        10 => format!("http://user@siege.test/m{number}"),
        _ => format!("/m{number}"),
    }
}

fn host(draws: &mut Draws) -> Vec<String> {
    let host = draws.mostly(
        12,
        &[
            "host: siege.test",
            "Host:siege.test",
            "host: siege.test\t ",
            "host: siege.test:80",
            "host: siege.test:",
            "host: siege.test\r\nhost: siege.test",
            "host: siege.test\r\nhost: other.test",
            "host: siege.test, other.test",
            "host : siege.test",
            "host: siege.test/m",
            "host: user@siege.test",
            "host: [::1",
            "host: a:8o",
            "host:",
            "hosT: siege.test\r\n other.test",
            "x-no-host: here",
        ],
    );
    vec![host.to_owned()]
}

/// Bodies by framing: plain, or chunked in many variants.
fn body(draws: &mut Draws, hidden: &str) -> String {
    let size = format!("{:x}", hidden.len());
    match draws.below(16) {
        0 => String::new(),
        1 | 2 => hidden.to_owned(),
        3 => format!("0\r\n\r\n{hidden}"),
        4 => format!("{size}\r\n{hidden}\r\n0\r\n\r\n"),
        5 => format!("0{size}\r\n{hidden}\r\n000\r\n\r\n"),
        _ => {
            let size = draws.mostly(
                3,
                &[
                    "5",
                    "5;a=b",
                    "5 ",
                    "5\t;a",
                    " 5",
                    "05",
                    "+5",
                    "-5",
                    "0x5",
                    "5;\"a\nb\"",
                    "5;a\rb",
                    "5\0",
                    "ffffffffffffffff5",
                    "00000000000000000005",
                    "5,5",
                    "6",
                    "4",
                    "",
                ],
            );
            let after_size = draws.mostly(10, &["\r\n", "\n", "\r", "\r\r\n", "\n\r\n", ""]);
            let after_data = draws.mostly(10, &["\r\n", "\n", "\r", "", "\r\n\r\n", "x\r\n"]);
            let last = draws.mostly(10, &["0", "00", "0;a", "0 ", "-0", "0x0", ""]);
            let after_last = draws.mostly(10, &["\r\n", "\n", "\r", "\r\r\n"]);
            let trailers = draws.mostly(
                4,
                &[
                    "",
                    "x-a: b\r\n",
                    "content-length: 5\r\n",
                    "transfer-encoding: chunked\r\n",
                    "host: other.test\r\n",
                    "x-a : b\r\n",
                    "x-a: b\r\n c\r\n",
                    "x-a\r\n",
                    "x-a: b\n",
                ],
            );
            let end = draws.mostly(6, &["\r\n", "\n", "\r"]);
            let behind = draws.mostly(3, &["", hidden]);
            format!("{size}{after_size}hello{after_data}{last}{after_last}{trailers}{end}{behind}")
        }
    }
}

/// Fields that determine the body's length.
fn framing(draws: &mut Draws, body: &str) -> Vec<String> {
    let right = body.len().to_string();
    let length = match draws.below(40) {
        0 => format!("+{right}"),
        1 => format!("0{right}"),
        2 => format!("{right}, {right}"),
        3 => format!("{right}\r\ncontent-length: {right}"),
        4 => format!("{right}\r\ncontent-length: 5"),
        5 => format!("5\r\ncontent-length: {right}"),
        6 => format!("0x{:x}", body.len()),
        7 => "-1".to_owned(),
        8 => "5".to_owned(),
        9 => "0".to_owned(),
        10 => format!("18446744073709551616{right}"),
        11 => format!("{right}.0"),
        12 => format!("{right} 0"),
        13 => format!("\r\n {right}"),
        14 => format!("\u{b}{right}"),
        15 => "1e1".to_owned(),
        _ => right,
    };
    let length_name = draws.mostly(
        10,
        &[
            "content-length",
            "Content-Length",
            "content-length ",
            "content_length",
            "content-length\0",
            " content-length",
        ],
    );
    let coding = draws.mostly(
        3,
        &[
            "chunked",
            "Chunked",
            "chunked ",
            "\tchunked",
            "chunked\u{b}",
            "\u{b}chunked",
            "xchunked",
            "chunked, identity",
            "identity, chunked",
            "identity",
            "gzip, chunked",
            "chunked, gzip",
            "chunked, chunked",
            "chunked;q=1",
            "\"chunked\"",
            "\r\n chunked",
            "chunked\r\ntransfer-encoding: identity",
            "identity\r\ntransfer-encoding: chunked",
            "chunked\0",
            ",chunked",
            "chunked,",
            "",
        ],
    );
    let coding_name = draws.mostly(
        8,
        &[
            "transfer-encoding",
            "TRANSFER-ENCODING",
            "transfer-encoding ",
            "transfer_encoding",
            " transfer-encoding",
            "x: y\ntransfer-encoding",
            "x: y\rtransfer-encoding",
            "transfer-encoding\u{b}",
            "\0transfer-encoding",
        ],
    );
    let length = format!("{length_name}: {length}");
    let coding = format!("{coding_name}: {coding}");
    match draws.below(8) {
        0..=2 => vec![length],
        3 | 4 => vec![coding],
        5 => vec![length, coding],
        6 => vec![coding, length],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_makes_the_same_mostly_distinct_requests() {
        let all = |seed| {
            let mut draws = Draws::new(seed, 0);
            (0..300).map(|_| mutant(&mut draws, 7)).collect::<Vec<_>>()
        };
        assert_eq!(all(3), all(3));
        let mut unlike = all(3);
        unlike.sort_unstable();
        unlike.dedup();
        assert!(unlike.len() > 250, "{}", unlike.len());
    }
}
