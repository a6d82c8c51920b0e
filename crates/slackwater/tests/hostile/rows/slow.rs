//! Slow clients: slow loris and its variants. The tests' timeouts are 1 s for a head and 2 s for
//! silence.

use super::{Does, Group, Row};
use crate::frames;
use crate::proxy::PATIENCE;
use crate::talk::{connect, write_all};
use core::net::SocketAddr;
use core::pin::Pin;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

pub(super) fn group() -> Group {
    Group {
        title: "Too slow",
        about: "`timeouts.head` is 1 s and `timeouts.idle` 2 s here.",
        rows: rows(),
    }
}

fn slowly(name: &'static str, answer: &'static str, start: &'static [u8], rest: &str) -> Row {
    Row {
        name,
        does: Does::Slowly(start, rest.repeat(2000).into_bytes()),
        answer,
        seen: &[],
    }
}

fn rows() -> Vec<Row> {
    vec![
        slowly("a request line, byte by byte", "closed", b"GET /", "a"),
        slowly(
            "fields, byte by byte",
            "closed",
            b"GET /a HTTP/1.1\r\nhost: x\r\n",
            "a: b\r\n",
        ),
        Row {
            name: "half of HTTP/2's preface, byte by byte",
            does: Does::Slowly(b"", b"PRI * HTTP/2.0\r\n".to_vec()),
            answer: "closed",
            seen: &[],
        },
        slowly("no byte at all", "closed", b"", ""),
        Row {
            name: "half of the last line of HTTP/2's preface",
            does: Does::Bytes(b"PRI * HTTP/2.0\r\n\r\nSM".to_vec()),
            answer: "closed",
            seen: &[],
        },
        Row {
            name: "a body that stops",
            does: Does::Slowly(
                b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhello",
                Vec::new(),
            ),
            answer: "408, closed",
            seen: &["POST x/a, cut off"],
        },
        Row {
            name: "a chunked body that stops within a chunk's size",
            does: Does::Slowly(
                b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1",
                Vec::new(),
            ),
            answer: "408, closed",
            seen: &["POST x/a, cut off"],
        },
        Row {
            name: "64 MiB asked for and not read",
            does: Does::Act(unread),
            answer: "200",
            seen: &["GET x/large"],
        },
        Row {
            name: "HTTP/2: eight times 64 MiB asked for, with a window of zero",
            does: Does::Act(unread_http2),
            answer: "200",
            seen: &["GET x/large"; 8],
        },
    ]
}

/// Number of another client's requests that give the proxy time to read all that it would read.
const ROUNDS: usize = 200;

async fn others_are_served(proxy: SocketAddr) {
    let (mut read, write) = connect(proxy).await;
    let _writing = write_all(
        write,
        "GET /other/all HTTP/1.1\r\nhost: x\r\n\r\n"
            .repeat(ROUNDS)
            .into(),
    );
    let mut heard = Vec::new();
    while String::from_utf8_lossy(&heard)
        .matches("HTTP/1.1 200")
        .count()
        < ROUNDS
    {
        let read = timeout(PATIENCE, read.read_buf(&mut heard)).await;
        assert_ne!(read.unwrap().unwrap(), 0);
    }
}

fn unread(proxy: SocketAddr, _: SocketAddr) -> Pin<Box<dyn Future<Output = String> + Send>> {
    Box::pin(async move {
        let (mut read, write) = connect(proxy).await;
        let request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
        let _write = write_all(write, request).await.unwrap();
        let mut head = [0; 12];
        read.read_exact(&mut head).await.unwrap();
        others_are_served(proxy).await;
        String::from_utf8_lossy(&head[9..]).into_owned()
    })
}

fn unread_http2(proxy: SocketAddr, _: SocketAddr) -> Pin<Box<dyn Future<Output = String> + Send>> {
    const NO_WINDOW: (u16, u32) = (4, 0);
    Box::pin(async move {
        let (read, write) = connect(proxy).await;
        let mut bytes = frames::preface();
        bytes.extend(frames::setting(NO_WINDOW.0, NO_WINDOW.1));
        bytes.extend(frames::streams(8).flat_map(|stream| frames::get(stream, "/large")));
        let _write = write_all(write, bytes).await.unwrap();
        let mut reader = frames::Reader::new(read);
        let mut answered = 0;
        while answered < 8 {
            match reader.next().await {
                Some(frames::Heard::Status(_, 200)) => answered += 1,
                other => return format!("{other:?}"),
            }
        }
        others_are_served(proxy).await;
        "200".to_owned()
    })
}
