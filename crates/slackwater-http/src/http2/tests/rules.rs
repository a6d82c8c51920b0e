//! Frames that are not allowed. RFC 9113 §4 to §6

use super::*;

/// Returns a server that has received these octets after a preface and settings; streams 1 (open),
/// 3 (half-closed) and 5 (closed) exist.
fn after(octets: &[u8]) -> Peer {
    let mut server = Peer::server();
    server.feed(&[open(1), get(3), get(5)].concat());
    for id in [1, 3, 5] {
        let key = server.request();
        if id == 5 {
            server.ok(key, true);
            server.drop_stream(key);
        }
    }
    server.sent();
    server.feed(octets);
    server
}

#[test]
fn connection_errors_of_messages() {
    let protocol = Reason::PROTOCOL_ERROR;
    let size = Reason::FRAME_SIZE_ERROR;
    let part = block(&GET);
    let unfinished = |stream| frame(kind::HEADERS, flag::END_STREAM, stream, &part);
    for (name, octets, reason) in [
        ("DATA on 0", data(0, 0, b"a"), protocol),
        ("DATA on idle", data(9, 0, b"a"), protocol),
        ("DATA on an even stream", data(2, 0, b"a"), protocol),
        (
            "DATA of padding only, too much",
            data(1, flag::PADDED, &[1]),
            protocol,
        ),
        (
            "DATA without its padding's length",
            data(1, flag::PADDED, &[]),
            size,
        ),
        ("HEADERS on 0", get(0), protocol),
        ("HEADERS on an even stream", get(8), protocol),
        ("HEADERS on a closed stream", get(5), Reason::STREAM_CLOSED),
        (
            "HEADERS with too much padding",
            frame(kind::HEADERS, flag::END_HEADERS | flag::PADDED, 7, &[9, 0]),
            protocol,
        ),
        (
            "HEADERS too short for a priority",
            frame(
                kind::HEADERS,
                flag::END_HEADERS | flag::PRIORITY,
                7,
                &[0; 4],
            ),
            size,
        ),
        (
            "HEADERS that are no HPACK",
            frame(kind::HEADERS, flag::END_HEADERS, 7, &[0x80]),
            Reason::COMPRESSION_ERROR,
        ),
        (
            "CONTINUATION of nothing",
            frame(kind::CONTINUATION, flag::END_HEADERS, 1, &part),
            protocol,
        ),
        (
            "CONTINUATION of another stream",
            [
                unfinished(7),
                frame(kind::CONTINUATION, flag::END_HEADERS, 9, &[]),
            ]
            .concat(),
            protocol,
        ),
        (
            "another frame before CONTINUATION",
            [unfinished(7), window_update(0, 1)].concat(),
            protocol,
        ),
        (
            "an unknown frame before CONTINUATION",
            [unfinished(7), frame(0xfa, 0, 7, &[])].concat(),
            protocol,
        ),
        (
            "a frame that is too long",
            frame(0xfa, 0, 0, &large(FRAME_BYTES_FIRST + 1)),
            size,
        ),
    ] {
        assert_eq!(after(&octets).goaway(), Some(reason), "{name}");
    }
}

#[test]
fn connection_errors_of_control_frames() {
    let protocol = Reason::PROTOCOL_ERROR;
    let size = Reason::FRAME_SIZE_ERROR;
    for (name, octets, reason) in [
        (
            "PRIORITY on 0",
            frame(kind::PRIORITY, 0, 0, &[0; 5]),
            protocol,
        ),
        ("RST_STREAM on 0", reset(0, Reason::CANCEL), protocol),
        ("RST_STREAM on idle", reset(7, Reason::CANCEL), protocol),
        (
            "RST_STREAM of 3 octets",
            frame(kind::RST_STREAM, 0, 1, &[0; 3]),
            size,
        ),
        (
            "SETTINGS on a stream",
            frame(kind::SETTINGS, 0, 1, &[]),
            protocol,
        ),
        (
            "SETTINGS that acknowledge and set",
            frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
            size,
        ),
        (
            "PUSH_PROMISE",
            frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2]),
            protocol,
        ),
        (
            "PING on a stream",
            frame(kind::PING, 0, 1, &[0; 8]),
            protocol,
        ),
        ("PING of 7 octets", frame(kind::PING, 0, 0, &[0; 7]), size),
        (
            "GOAWAY on a stream",
            frame(kind::GOAWAY, 0, 1, &[0; 8]),
            protocol,
        ),
        (
            "GOAWAY of 7 octets",
            frame(kind::GOAWAY, 0, 0, &[0; 7]),
            size,
        ),
        ("WINDOW_UPDATE of 0", window_update(0, 0), protocol),
        ("WINDOW_UPDATE on idle", window_update(7, 1), protocol),
        (
            "WINDOW_UPDATE of 3 octets",
            frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]),
            size,
        ),
        (
            "a window beyond its maximum",
            window_update(0, (1 << 31) - 1),
            Reason::FLOW_CONTROL_ERROR,
        ),
    ] {
        assert_eq!(after(&octets).goaway(), Some(reason), "{name}");
    }
}

#[test]
fn stream_errors_reset_the_stream() {
    let protocol = Reason::PROTOCOL_ERROR;
    let on_itself = |stream: u32| [&stream.to_be_bytes()[..], &[0]].concat();
    let with_priority = [&on_itself(7)[..], &block(&GET)].concat();
    let flags = flag::END_HEADERS | flag::PRIORITY;
    let length = |length| [&GET[..], &[("content-length", length)]].concat();
    for (name, octets, stream, reason) in [
        (
            "DATA behind the end",
            data(3, 0, b"a"),
            3,
            Reason::STREAM_CLOSED,
        ),
        (
            "DATA on a closed stream",
            data(5, 0, b"a"),
            5,
            Reason::STREAM_CLOSED,
        ),
        ("HEADERS behind the end", get(3), 3, Reason::STREAM_CLOSED),
        ("trailers that do not end", open(1), 1, protocol),
        (
            "a request without a path",
            headers(7, flag::END_STREAM, &GET[..3]),
            7,
            protocol,
        ),
        (
            "a length without a body",
            headers(7, flag::END_STREAM, &length("1")),
            7,
            protocol,
        ),
        (
            "less than was announced",
            [headers(7, 0, &length("2")), data(7, flag::END_STREAM, b"a")].concat(),
            7,
            protocol,
        ),
        (
            "more than was announced",
            [headers(7, 0, &length("2")), data(7, 0, b"abc")].concat(),
            7,
            protocol,
        ),
        (
            "PRIORITY of itself",
            frame(kind::PRIORITY, 0, 9, &on_itself(9)),
            9,
            protocol,
        ),
        (
            "PRIORITY of 4 octets",
            frame(kind::PRIORITY, 0, 1, &[0; 4]),
            1,
            Reason::FRAME_SIZE_ERROR,
        ),
        (
            "HEADERS that depend on themselves",
            frame(kind::HEADERS, flags, 7, &with_priority),
            7,
            protocol,
        ),
        ("WINDOW_UPDATE of 0", window_update(1, 0), 1, protocol),
        (
            "a window beyond its maximum",
            window_update(1, (1 << 31) - 1),
            1,
            Reason::FLOW_CONTROL_ERROR,
        ),
    ] {
        let mut server = after(&octets);
        assert_eq!(server.resets(), [(stream, reason)], "{name}");
        // The other streams continue.
        server.feed(&get(11));
        while let Some((_, head)) = server.connection.next_request() {
            assert_eq!(head.method, Method::GET, "{name}");
        }
        assert_eq!(server.connection.last_theirs, 11, "{name}");
        assert_eq!(server.connection.ended(), None, "{name}");
    }
}

#[test]
fn harmless_frames_are_ignored() {
    for (name, octets) in [
        ("PRIORITY", frame(kind::PRIORITY, 0, 7, &[0; 5])),
        ("an unknown frame", frame(0xfa, 0xff, 7, b"whatever")),
        ("RST_STREAM on a closed stream", reset(5, Reason::CANCEL)),
        ("WINDOW_UPDATE on a closed stream", window_update(5, 1)),
        (
            "an answer to no PING",
            frame(kind::PING, flag::ACK, 0, &[0; 8]),
        ),
        (
            "the acknowledgement",
            frame(kind::SETTINGS, flag::ACK, 0, &[]),
        ),
    ] {
        let mut server = after(&octets);
        assert_eq!(server.sent(), [], "{name}");
        assert_eq!(server.connection.ended(), None, "{name}");
    }
}

#[test]
fn ping_and_settings_are_acknowledged() {
    let mut server = after(&frame(kind::PING, 0, 0, b"whatever"));
    let answer = (kind::PING, flag::ACK, 0, b"whatever".to_vec());
    assert_eq!(server.sent(), [answer]);
    server.feed(&settings(&[(3, 7)]));
    assert_eq!(server.sent(), [(kind::SETTINGS, flag::ACK, 0, vec![])]);
}

#[test]
fn frames_after_our_reset_are_not_errors() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    server.drop_stream(key);
    assert_eq!(server.resets(), [(1, Reason::CANCEL)]);
    let before = server.connection.receives;
    server.feed(&data(1, 0, &[0; 1000]));
    server.feed(&window_update(1, 5));
    // It still changes the table and the connection's window.
    let mut indexed = block(&[("x", "y")]);
    indexed[0] = 0x40;
    let flags = flag::END_HEADERS | flag::END_STREAM;
    server.feed(&frame(kind::HEADERS, flags, 1, &indexed));
    assert_eq!(server.sent(), []);
    let mut with_indexed = block(&GET);
    with_indexed.push(0x80 + 62);
    server.feed(&frame(kind::HEADERS, flags, 3, &with_indexed));
    let (_, head) = server.connection.next_request().expect("a request");
    assert_eq!(head.headers.get("x").expect("a field"), "y");
    for _ in 0..100 {
        server.feed(&data(1, 0, &[0; 16_000]));
    }
    assert_eq!(server.connection.ended(), None, "from {before:?}");
    assert!(
        server
            .sent()
            .iter()
            .all(|frame| frame.0 == kind::WINDOW_UPDATE && frame.2 == 0)
    );
}
