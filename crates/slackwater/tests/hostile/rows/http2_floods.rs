//! HTTP/2 frames by the thousand, each of them allowed. RFC 9113 §10.5

use super::{Does, Group, Row, frames};
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PING, PRIORITY, SETTINGS, block,
    field, frame, get, headers, open, preface, request, reset, setting, streams, window_update,
};

pub(super) fn group() -> Group {
    Group {
        title: "HTTP/2: floods",
        about: "",
        rows: rows(),
    }
}

const CALM: &str = "GOAWAY (ENHANCE_YOUR_CALM), closed";
const FLOOD: usize = 100_000;

/// A field that is put into the table, and then asked for again and again: a few bytes that mean megabytes.
fn bomb() -> Vec<u8> {
    let mut fields = block(&request("GET", "/a"));
    let mut big = field("a", "b".repeat(3900).as_bytes());
    big[0] = 0x40;
    fields.extend(big);
    // 62 is the newest entry of the table.
    fields.extend([0x80 | 62; 10_000]);
    fields
}

fn upload(stream: u32, path: &str) -> Vec<u8> {
    open(stream, &request("POST", path))
}

fn rows() -> Vec<Row> {
    let first = block(&request("GET", "/a"));
    vec![
        frames(
            "rapid reset: 20,000 requests, each taken back at once (CVE-2023-44487)",
            CALM,
            streams(20_000)
                .flat_map(|stream| [get(stream, "/a"), reset(stream)].concat())
                .collect(),
        ),
        frames(
            "20,000 malformed requests, each of which we have to reset (CVE-2025-8671)",
            CALM,
            streams(20_000)
                .flat_map(|stream| headers(stream, &[(":method", "GET")]))
                .collect(),
        ),
        frames(
            "a head that never ends, in 100,000 CONTINUATION frames (CVE-2024-27316)",
            CALM,
            frame(HEADERS, END_STREAM, 1, &first)
                .into_iter()
                .chain(frame(CONTINUATION, 0, 1, &field("a", b"b")).repeat(FLOOD))
                .collect(),
        ),
        frames(
            "100,000 empty CONTINUATION frames",
            CALM,
            frame(HEADERS, END_STREAM, 1, &first)
                .into_iter()
                .chain(frame(CONTINUATION, 0, 1, &[]).repeat(FLOOD))
                .collect(),
        ),
        frames(
            "10,000 bytes that mean 40 MB of fields (HPACK bomb)",
            CALM,
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb()),
        ),
        frames(
            "a field of 15 KiB, five times in one head",
            "431",
            frame(HEADERS, END_STREAM, 1, &first)
                .into_iter()
                .chain((0..5).flat_map(|part| {
                    let flags = if part == 4 { END_HEADERS } else { 0 };
                    let value = "b".repeat(15 << 10);
                    frame(CONTINUATION, flags, 1, &field("a", value.as_bytes()))
                }))
                .collect(),
        ),
        frames("101 fields over HTTP/2", "431", {
            let mut fields = request("GET", "/a");
            fields.extend([("a", "b"); 101]);
            headers(1, &fields)
        }),
        frames("100,000 PING", CALM, frame(PING, 0, 0, &[0; 8]).repeat(FLOOD)),
        frames("100,000 PING answers", CALM, frame(PING, 1, 0, &[0; 8]).repeat(FLOOD)),
        frames("100,000 SETTINGS", CALM, setting(4, 65_535).repeat(FLOOD)),
        frames("100,000 empty SETTINGS", CALM, frame(SETTINGS, 0, 0, &[]).repeat(FLOOD)),
        frames(
            "100,000 PRIORITY",
            CALM,
            frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]).repeat(FLOOD),
        ),
        frames(
            "100,000 WINDOW_UPDATE of 1 byte",
            CALM,
            window_update(0, 1).repeat(FLOOD),
        ),
        frames("100,000 frames of an unknown kind", CALM, frame(0xfa, 0, 0, &[]).repeat(FLOOD)),
        Row {
            seen: &["POST x/unread, cut off"],
            ..frames(
                "100,000 empty DATA frames",
                CALM,
                [upload(1, "/unread"), frame(DATA, 0, 1, &[]).repeat(FLOOD)].concat(),
            )
        },
        Row {
            seen: &["POST x/unread, cut off"],
            ..frames(
                "100,000 DATA frames of nothing but padding",
                CALM,
                [
                    upload(1, "/unread"),
                    frame(DATA, PADDED, 1, &[1, 0]).repeat(FLOOD),
                ]
                .concat(),
            )
        },
        Row {
            name: "200,000 DATA frames of 1 byte, for a replica that does not read",
            does: Does::Http2(
                [
                    upload(1, "/unread"),
                    frame(DATA, 0, 1, b"a").repeat(2 * FLOOD),
                ]
                .concat(),
            ),
            answer: CALM,
            seen: &["POST x/unread, cut off"],
        },
        Row {
            name: "no end of HTTP/2's preface",
            does: Does::Bytes(b"PRI * HTTP/2.0\r\n\r\nSM".to_vec()),
            answer: "closed",
            seen: &[],
        },
        Row {
            name: "another preface",
            does: Does::Bytes(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec()),
            answer: "closed",
            seen: &[],
        },
        Row {
            name: "a request in place of the first SETTINGS",
            does: Does::Bytes([&preface()[..24], &get(1, "/a")].concat()),
            answer: "GOAWAY (PROTOCOL_ERROR), closed",
            seen: &[],
        },
    ]
}
