//! HTTP/2 requests whose fields could change their meaning when they are written as HTTP/1.1.

use crate::siege::draws::Draws;
use crate::siege::wire::frames::{self, END_STREAM, field, frame};

/// The frames of stream 1, after a preface, and a plain request on stream 3. The targets are the
/// same as with HTTP/1.1.
pub(super) fn mutant(draws: &mut Draws, number: usize) -> Vec<u8> {
    let hidden = format!("GET /m{number}s HTTP/1.1\r\nhost: siege.test\r\n\r\n");
    let mut fields = pseudo(draws, number, &hidden);
    for _ in 0..draws.below(4) {
        fields.push(regular(draws, &hidden));
    }
    // Pseudo-header fields must come before all others.
    if draws.one_in(8) {
        let from = draws.below(fields.len());
        let last = fields.remove(from);
        fields.push(last);
    }
    if draws.one_in(12) {
        let twice = fields[draws.below(fields.len())].clone();
        fields.push(twice);
    }
    let block: Vec<_> = fields
        .iter()
        .flat_map(|(name, value)| field(name, value))
        .collect();
    let mut bytes = frames::preface(65_535);
    match draws.below(4) {
        0 => bytes.extend(frames::headers(1, &block, true)),
        1 => {
            bytes.extend(frames::headers(1, &block, false));
            bytes.extend(frame(frames::DATA, 0, 1, hidden.as_bytes()));
            let (name, value) = regular(draws, &hidden);
            bytes.extend(frames::headers(1, &field(&name, &value), true));
        }
        _ => {
            bytes.extend(frames::headers(1, &block, false));
            bytes.extend(frame(frames::DATA, END_STREAM, 1, hidden.as_bytes()));
        }
    }
    bytes.extend(frames::get(3, &format!("/m{number}b")));
    bytes
}

type Field = (Vec<u8>, Vec<u8>);

fn pseudo(draws: &mut Draws, number: usize, hidden: &str) -> Vec<Field> {
    let path = format!("/m{number}");
    let split = format!("/m{number} HTTP/1.1\r\nhost: x\r\n\r\n{hidden}");
    let space = format!("/m{number} HTTP/1.1");
    let absolute = format!("http://siege.test/m{number}");
    let method = draws.mostly(
        6,
        &[
            "POST",
            "GET",
            "POST /x HTTP/1.1\r\n",
            "",
            "CONNECT",
            "PO ST",
            "POST\0",
        ],
    );
    let scheme = draws.mostly(10, &["http", "https", "http://x/?", "", "h\r\n"]);
    let authority = draws.mostly(
        6,
        &[
            "siege.test",
            "siege.test\r\nx: y",
            "user@siege.test",
            "siege.test/m",
            "",
            "a b",
            "siege.test:80",
        ],
    );
    let path = draws.mostly(
        6,
        &[
            path.as_str(),
            &split,
            &space,
            &absolute,
            "",
            "*",
            "m",
            "/\0",
            "/#",
        ],
    );
    [
        (":method", method),
        (":scheme", scheme),
        (":authority", authority),
        (":path", path),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}

fn regular(draws: &mut Draws, hidden: &str) -> Field {
    let injected = format!("b\r\n\r\n{hidden}");
    let name = draws.pick(&[
        "x-a",
        "content-length",
        "transfer-encoding",
        "host",
        "connection",
        "te",
        "upgrade",
        "keep-alive",
        "proxy-connection",
        "expect",
        "x-a: b\r\nx-b",
        "x a",
        "X-A",
        "x-a:",
        "",
        "x\0a",
        ":status",
        ":path",
        ":other",
        "content_length",
        "cookie",
        "x-\u{e9}",
    ]);
    let length = hidden.len().to_string();
    let value = draws.pick(&[
        "b",
        "5",
        "0",
        length.as_str(),
        "chunked",
        "trailers",
        "siege.test",
        "close",
        "100-continue",
        "b\r\nx-b: c",
        injected.as_str(),
        "b\nc",
        "b\rc",
        "b\0c",
        " b",
        "b ",
        "",
        "\u{e9}",
    ]);
    (name.into(), value.into())
}
