//! HTTP/2 frames that the protocol does not allow. RFC 9113 §4 to §6, RFC 7541

use super::{Group, Row, frames};
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PING, PRIORITY, RST_STREAM,
    SETTINGS, block, frame, get, headers, request, reset, setting, window_update,
};

pub(super) fn group() -> Group {
    Group {
        title: "HTTP/2: frames against the rules",
        about: "",
        rows: rows(),
    }
}

fn rows() -> Vec<Row> {
    let broken = |name, bytes| frames(name, "GOAWAY (PROTOCOL_ERROR), closed", bytes);
    let sized = |name, bytes| frames(name, "GOAWAY (FRAME_SIZE_ERROR), closed", bytes);
    let packed = |name, fields: &[u8]| {
        let bytes = frame(HEADERS, END_HEADERS | END_STREAM, 1, fields);
        frames(name, "GOAWAY (COMPRESSION_ERROR), closed", bytes)
    };
    let first = block(&request("GET", "/a"));
    vec![
        broken("HEADERS on stream 0", get(0, "/a")),
        broken("HEADERS on an even stream", get(2, "/a")),
        broken("DATA on stream 0", frame(DATA, 0, 0, b"a")),
        broken(
            "DATA on a stream that was not opened",
            frame(DATA, 0, 5, b"a"),
        ),
        broken("RST_STREAM on a stream that was not opened", reset(5)),
        broken(
            "WINDOW_UPDATE on a stream that was not opened",
            window_update(5, 1),
        ),
        broken(
            "CONTINUATION without HEADERS",
            frame(CONTINUATION, END_HEADERS, 1, &first),
        ),
        broken("another frame between HEADERS and CONTINUATION", {
            let mut bytes = frame(HEADERS, END_STREAM, 1, &first);
            bytes.extend(frame(PING, 0, 0, &[0; 8]));
            bytes
        }),
        broken("CONTINUATION of another stream", {
            let mut bytes = frame(HEADERS, END_STREAM, 1, &first);
            bytes.extend(frame(CONTINUATION, END_HEADERS, 3, &first));
            bytes
        }),
        broken(
            "padding longer than the frame",
            frame(HEADERS, END_HEADERS | PADDED, 1, &[200, 0]),
        ),
        broken(
            "PUSH_PROMISE from a client",
            frame(5, END_HEADERS, 1, &first),
        ),
        broken("PING on a stream", frame(PING, 0, 1, &[0; 8])),
        broken("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[])),
        frames(
            "a stream that depends on itself",
            "reset (PROTOCOL_ERROR)",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]),
        ),
        broken(
            "a WINDOW_UPDATE of 0 for the connection",
            window_update(0, 0),
        ),
        broken("ENABLE_PUSH = 2", setting(2, 2)),
        broken("MAX_FRAME_SIZE below 16,384", setting(5, 1)),
        broken("MAX_FRAME_SIZE beyond 24 bits", setting(5, 1 << 24)),
        frames(
            "an initial window beyond 31 bits",
            "GOAWAY (FLOW_CONTROL_ERROR), closed",
            setting(4, 1 << 31),
        ),
        frames(
            "a connection's window beyond 31 bits",
            "GOAWAY (FLOW_CONTROL_ERROR), closed",
            window_update(0, (1 << 31) - 1),
        ),
        frames(
            "a frame of 17 KiB, above the limit of 16",
            "GOAWAY (FRAME_SIZE_ERROR), closed",
            frame(PING, 0, 0, &[0; 17 << 10]),
        ),
        sized("PING of 7 bytes", frame(PING, 0, 0, &[0; 7])),
        sized("SETTINGS of 5 bytes", frame(SETTINGS, 0, 0, &[0; 5])),
        sized(
            "SETTINGS that acknowledge and set",
            frame(SETTINGS, 1, 0, &[0; 6]),
        ),
        sized("WINDOW_UPDATE of 3 bytes", frame(8, 0, 0, &[0; 3])),
        sized("RST_STREAM of 3 bytes", frame(RST_STREAM, 0, 1, &[0; 3])),
        packed("a field that no table has", &[0xff, 0x80, 0x01]),
        packed("index 0", &[0x80]),
        packed(
            "a table larger than was offered",
            &[0x3f, 0xff, 0xff, 0xff, 0x7f],
        ),
        packed(
            "a length beyond 32 bits",
            &[0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        packed("a name that ends with the frame", &[0, 5, b'a']),
        packed(
            "Huffman code with its end-of-string",
            &[0, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
        ),
        frames(
            "a stream below one that was opened",
            "reset (PROTOCOL_ERROR), GOAWAY (STREAM_CLOSED), closed",
            {
                let mut bytes = headers(5, &request("GET", "a"));
                bytes.extend(get(3, "/a"));
                bytes
            },
        ),
    ]
}
