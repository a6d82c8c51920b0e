//! Thousands of HTTP/2 frames, each of which is allowed. RFC 9113 §10.5

use super::{Does, Group, Row, frames};
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PADDED, PING, PRIORITY, Reader, SETTINGS,
    block, field, frame, get, headers, open, preface, request, reset, setting, streams,
    window_update,
};
use crate::talk::connect;
use core::net::SocketAddr;
use core::pin::Pin;
use tokio::io::AsyncWriteExt;

pub(super) fn group() -> Group {
    Group {
        title: "HTTP/2: floods",
        about: "Frames that request no work (PING, SETTINGS, PRIORITY…) pass. Each costs less than a request of its \
                length, is answered before the next one is read, and leaves nothing behind. Frames that cause work \
                or need memory have a limit.",
        rows: rows(),
    }
}

const CALM: &str = "GOAWAY (ENHANCE_YOUR_CALM), closed";
const FLOOD: usize = 20_000;

/// A field that is put into the table and then referenced again and again: a few bytes that expand
/// to megabytes.
fn bomb() -> Vec<u8> {
    let mut fields = block(&request("GET", "/a"));
    let mut big = field("a", "b".repeat(3900).as_bytes());
    big[0] = 0x40;
    fields.extend(big);
    // Entry 62 is the newest of the table.
    fields.extend([0xbe; 10_000]);
    fields
}

/// Heads with this number of fields of 3,900 bytes, each sent in some 80 bytes except the first,
/// which puts the field into the table.
fn small_bombs(heads: u32, fields: usize, flags: u8) -> Vec<u8> {
    let head = |stream: u32, fields: &[u8]| {
        let block = [&block(&request("GET", "/last/unread")), fields].concat();
        frame(HEADERS, END_HEADERS | flags, stream, &block)
    };
    let mut kept = field("a", "b".repeat(3900).as_bytes());
    kept[0] = 0x40;
    kept.extend(vec![0xbe; fields - 1]);
    let first = head(1, &kept);
    let others = streams(heads).skip(1);
    let others = others.flat_map(|stream| head(stream, &vec![0xbe; fields]));
    first.into_iter().chain(others).collect()
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
        Row {
            name: "rapid reset, one by one: each request has begun when it is taken back, 500 of them",
            does: Does::Act(rapid_reset),
            answer: "closed",
            seen: &[],
        },
        frames(
            "20,000 malformed requests, each of which we have to reset (CVE-2025-8671)",
            "reset (PROTOCOL_ERROR), GOAWAY (ENHANCE_YOUR_CALM), closed",
            streams(20_000)
                .flat_map(|stream| headers(stream, &[(":method", "GET")]))
                .collect(),
        ),
        frames(
            "a head that never ends, in 20,000 CONTINUATION frames (CVE-2024-27316)",
            CALM,
            frame(HEADERS, END_STREAM, 1, &first)
                .into_iter()
                .chain(frame(CONTINUATION, 0, 1, &field("a", b"b")).repeat(FLOOD))
                .collect(),
        ),
        frames(
            "20,000 empty CONTINUATION frames",
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
            "2,000 heads of 80 KB in some 80 bytes each: over the limit, but not far over it",
            "431, GOAWAY (ENHANCE_YOUR_CALM), closed",
            small_bombs(2_001, 20, END_STREAM),
        ),
        frames(
            "100 open requests with heads of 59 KB in some 80 bytes each: within the limit",
            "reset (REFUSED_STREAM)",
            small_bombs(100, 15, 0),
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
        frames(
            "20,000 PING",
            "nothing",
            frame(PING, 0, 0, &[0; 8]).repeat(FLOOD),
        ),
        frames(
            "20,000 PING answers",
            "nothing",
            frame(PING, 1, 0, &[0; 8]).repeat(FLOOD),
        ),
        frames(
            "20,000 SETTINGS",
            "nothing",
            setting(4, 65_535).repeat(FLOOD),
        ),
        frames(
            "20,000 empty SETTINGS",
            "nothing",
            frame(SETTINGS, 0, 0, &[]).repeat(FLOOD),
        ),
        frames(
            "20,000 PRIORITY",
            "nothing",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]).repeat(FLOOD),
        ),
        frames(
            "20,000 WINDOW_UPDATE of 1 byte",
            "nothing",
            window_update(0, 1).repeat(FLOOD),
        ),
        frames(
            "20,000 frames of an unknown kind",
            "nothing",
            frame(0xfa, 0, 0, &[]).repeat(FLOOD),
        ),
        Row {
            seen: &["POST x/unread, cut off"],
            ..frames(
                "20,000 empty DATA frames",
                CALM,
                [upload(1, "/unread"), frame(DATA, 0, 1, &[]).repeat(FLOOD)].concat(),
            )
        },
        Row {
            seen: &["POST x/unread, cut off"],
            ..frames(
                "20,000 DATA frames of nothing but padding",
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
                    frame(DATA, 0, 1, b"a").repeat(10 * FLOOD),
                ]
                .concat(),
            ),
            answer: "nothing",
            seen: &["POST x/unread, cut off"],
        },
        Row {
            name: "another preface",
            does: Does::Bytes(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec()),
            answer: "closed",
            seen: &[],
        },
    ]
}

/// Cancels requests one by one, each when its body has started to arrive at the replica.
fn rapid_reset(proxy: SocketAddr, _: SocketAddr) -> Pin<Box<dyn Future<Output = String> + Send>> {
    Box::pin(async move {
        let (read, mut write) = connect(proxy).await;
        let mut reader = Reader::new(read);
        write.write_all(&preface()).await.unwrap();
        let ping = frame(PING, 0, 0, &[0; 8]);
        let mut taken_back = 0;
        for stream in streams(20_000) {
            let begun = [upload(stream, "/last/unread"), ping.clone()].concat();
            let _ = write.write_all(&begun).await;
            // The answer to a PING shows that everything before it has been read.
            if reader.next_ping().await.is_none() {
                return closed_after(taken_back);
            }
            let _ = write
                .write_all(&[reset(stream), ping.clone()].concat())
                .await;
            taken_back += 1;
            if reader.next_ping().await.is_none() {
                return closed_after(taken_back);
            }
        }
        "served".to_owned()
    })
}

/// The last requests may still be on their way when the proxy closes.
fn closed_after(taken_back: u32) -> String {
    match taken_back {
        501..600 => "closed".to_owned(),
        other => format!("closed after {other}"),
    }
}
