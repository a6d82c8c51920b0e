//! Input that is not a TLS handshake, at a listener that expects one. RFC 8446 §5

use super::{Does, Group, Row, refused};
use crate::frames::preface;

pub(super) fn group() -> Group {
    Group {
        title: TITLE,
        about: "At a listener with TLS. `timeouts.handshake` is 1 s here. An alert may come before the close.",
        rows: rows(),
    }
}

pub(crate) const TITLE: &str = "TLS";

/// A record of a kind, with the version that first handshakes have.
fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind, 3, 1], &length[..], payload].concat()
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// A hello of TLS 1.0: one cipher suite of its time, no extensions.
fn old_hello() -> Vec<u8> {
    let mut body = vec![3, 1];
    body.extend([7; 32]);
    // No session, one cipher, no compression.
    body.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let length = u8::try_from(body.len()).unwrap();
    record(HANDSHAKE, &[&[1, 0, 0, length], &body[..]].concat())
}

fn rows() -> Vec<Row> {
    let bad = |name, bytes: Vec<u8>| refused(name, "closed", bytes);
    let half = &old_hello()[..20];
    vec![
        refused(
            "HTTP/1.1 without TLS",
            "400, closed",
            "GET /a HTTP/1.1\r\nhost: x\r\n\r\n",
        ),
        refused("HTTP/2 without TLS", "400, closed", preface()),
        bad("random bytes", (0..=255).rev().collect()),
        bad(
            "a hello of SSL 2",
            [&[0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10], &[7; 37][..]].concat(),
        ),
        bad("a hello of TLS 1.0", old_hello()),
        bad("an alert in place of a hello", record(ALERT, &[2, 40])),
        bad(
            "data in place of a hello",
            record(DATA, b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"),
        ),
        bad("a record of 65,535 bytes", record(HANDSHAKE, &[1; 65_535])),
        bad(
            "a hello of 16 MiB, in records of 16 KiB",
            [
                record(
                    HANDSHAKE,
                    &[&[1, 0xff, 0xff, 0xff], &[7; 16_000][..]].concat(),
                ),
                record(HANDSHAKE, &[7; 16_000]).repeat(1000),
            ]
            .concat(),
        ),
        bad(
            "100,000 empty records",
            record(HANDSHAKE, &[]).repeat(100_000),
        ),
        bad("a hello in records of 1 byte, without end", {
            let byte = record(HANDSHAKE, &[7]);
            [
                record(HANDSHAKE, &[1, 0xff, 0xff, 0xff]),
                byte.repeat(100_000),
            ]
            .concat()
        }),
        Row {
            name: "half a hello",
            does: Does::Slowly(b"", half.to_vec()),
            answer: "closed",
            seen: &[],
        },
        Row {
            name: "a hello, byte by byte",
            does: Does::Slowly(b"\x16\x03\x01\x20\x00\x01\x00\x1f\xfc", vec![7; 1000]),
            answer: "closed",
            seen: &[],
        },
        Row {
            name: "not a byte",
            does: Does::Slowly(b"", Vec::new()),
            answer: "closed",
            seen: &[],
        },
    ]
}
