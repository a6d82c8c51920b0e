//! A client's streams: requests and their results.

use super::*;

const OK: [(&str, &str); 1] = [(":status", "200")];

fn answer(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    headers(stream, flags, &[&OK[..], fields].concat())
}

fn response(client: &mut Peer, key: Key) -> Poll<Result<StatusCode, Lost>> {
    let polled = client.connection.poll_response(key, &idly());
    polled.map_ok(|head| head.status)
}

#[test]
fn request_and_response_are_exchanged() {
    let mut client = Peer::client();
    let key = client.post();
    assert!(response(&mut client, key).is_pending());
    let mut piece = Bytes::from_static(b"hello");
    assert!(client.send(key, &mut piece, false).is_ready());
    let trailers =
        HeaderMap::from_iter([(HeaderName::from_static("x"), HeaderValue::from_static("y"))]);
    let sent = client.connection.send_trailers(key, &trailers);
    assert_eq!(sent, Ok(()));
    let sent: Vec<_> = client.sent().iter().map(|it| (it.0, it.1)).collect();
    let both = flag::END_HEADERS | flag::END_STREAM;
    assert_eq!(
        sent,
        [
            (kind::HEADERS, flag::END_HEADERS),
            (kind::DATA, 0),
            (kind::HEADERS, both)
        ]
    );
    // An interim response is not the answer.
    client.feed(&headers(1, 0, &[(":status", "103")]));
    assert!(response(&mut client, key).is_pending());
    client.feed(&answer(1, 0, &[("content-length", "5")]));
    assert_eq!(response(&mut client, key), Poll::Ready(Ok(StatusCode::OK)));
    client.feed(&data(1, flag::END_STREAM, b"there"));
    assert!(!client.connection.is_read(key));
    assert_eq!(client.data(key), b"there");
    assert!(client.connection.is_read(key));
    client.drop_stream(key);
    assert_eq!(client.sent(), []);
    assert!(client.connection.streams.is_empty());
}

#[test]
fn malformed_response_ends_the_stream() {
    for (name, octets) in [
        ("data before the head", data(1, 0, b"a")),
        (
            "a head that is not final, and the end",
            headers(1, flag::END_STREAM, &[(":status", "100")]),
        ),
        (
            "a length, and nothing",
            answer(1, flag::END_STREAM, &[("content-length", "5")]),
        ),
        ("no status", headers(1, 0, &[("x", "y")])),
        ("octets that none has", answer(1, 0, &[("x", "a\0b")])),
        ("too large", answer(1, 0, &[("x", "0123456789"); 400])),
    ] {
        let mut client = Peer::client();
        let key = client.get();
        client.sent();
        client.feed(&octets);
        let reason = Reason::PROTOCOL_ERROR;
        assert_eq!(client.resets(), [(1, reason)], "{name}");
        let lost = response(&mut client, key);
        assert!(
            matches!(lost, Poll::Ready(Err(it)) if it == Lost::ByUs(reason)) || lost.is_ready(),
            "{name}: {lost:?}"
        );
        assert_eq!(client.connection.ended(), None, "{name}");
    }
}

#[test]
fn head_and_304_may_have_content_length_without_body() {
    let mut client = Peer::client();
    let uri = "http://x/".parse().expect("a URI");
    let headers_of = Fields::new();
    let head = client
        .connection
        .begin(&Method::HEAD, &uri, &headers_of, true);
    client.get();
    client.sent();
    client.feed(&answer(1, flag::END_STREAM, &[("content-length", "5")]));
    let fields = [(":status", "304"), ("content-length", "5")];
    client.feed(&headers(3, flag::END_STREAM, &fields));
    assert_eq!(client.sent(), []);
    assert!(client.connection.is_read(head));
    // Data exceeds the announced length.
    client.get();
    client.sent();
    client.feed(&headers(5, 0, &fields));
    client.feed(&data(5, flag::END_STREAM, b"12345"));
    assert_eq!(client.resets(), [(5, Reason::PROTOCOL_ERROR)]);
}

#[test]
fn peer_limits_the_number_of_streams() {
    let mut client = Peer::client();
    client.feed(&settings(&[(3, 1)]));
    let first = client.get();
    assert!(!client.connection.has_room());
    client.feed(&answer(1, flag::END_STREAM, &[]));
    assert!(client.connection.has_room());
    assert!(response(&mut client, first).is_ready());
    client.feed(&settings(&[(3, 0)]));
    assert!(!client.connection.has_room());
    assert_eq!(client.connection.check(), Ok(()), "it may change its mind");
    // No number is left for another stream.
    client.connection.next_ours = (1 << 31) + 1;
    assert_eq!(client.connection.check(), Err(Lost::TurnedAway));
}

#[test]
fn before_settings_100_streams_are_allowed() {
    let mut client = Peer::new(Role::Client);
    assert_eq!(client.connection.streams_max(), 100);
    for _ in 0..100 {
        assert!(client.connection.has_room());
        client.get();
    }
    assert!(!client.connection.has_room());
    client.feed(&settings(&[]));
    assert!(client.connection.has_room());
}

#[test]
fn data_before_a_reset_is_delivered_first() {
    let mut client = Peer::client();
    let key = client.get();
    client.feed(&answer(1, 0, &[]));
    client.feed(&[data(1, 0, b"half"), reset(1, Reason::CANCEL)].concat());
    assert!(response(&mut client, key).is_ready());
    assert_eq!(client.data(key), b"half");
    let lost = client.connection.poll_piece(key, &idly());
    assert!(matches!(
        lost,
        Poll::Ready(Some(Err(Lost::Reset(Reason::CANCEL))))
    ));
}

#[test]
fn reset_after_a_complete_response_keeps_it() {
    let mut client = Peer::client();
    let key = client.post();
    client.feed(&answer(1, flag::END_STREAM, &[]));
    client.feed(&reset(1, Reason::NO_ERROR));
    assert!(response(&mut client, key).is_ready());
    let end = client.connection.poll_piece(key, &idly());
    assert!(matches!(end, Poll::Ready(None)));
    let lost = client.send(key, &mut large(1), true);
    assert_eq!(lost, Poll::Ready(Err(Lost::Reset(Reason::NO_ERROR))));
}

#[test]
fn only_refused_streams_count_as_turned_away() {
    for (reason, expected) in [(Reason::REFUSED_STREAM, true), (Reason::CANCEL, false)] {
        let mut client = Peer::client();
        let key = client.get();
        client.feed(&reset(1, reason));
        let Poll::Ready(Err(lost)) = response(&mut client, key) else {
            panic!("no response is expected");
        };
        assert_eq!(lost.is_turned_away(), expected);
    }
}

#[test]
fn push_promise_is_an_error() {
    let mut client = Peer::client();
    client.get();
    client.sent();
    client.feed(&frame(
        kind::PUSH_PROMISE,
        flag::END_HEADERS,
        1,
        &[0, 0, 0, 2],
    ));
    assert_eq!(client.goaway(), Some(Reason::PROTOCOL_ERROR));
    let mut client = Peer::client();
    client.feed(&answer(2, 0, &[]));
    assert_eq!(client.goaway(), Some(Reason::PROTOCOL_ERROR));
    let mut client = Peer::client();
    client.feed(&answer(1, 0, &[]));
    assert_eq!(client.goaway(), Some(Reason::PROTOCOL_ERROR));
}

#[test]
fn long_heads_use_continuation_frames() {
    let mut client = Peer::client();
    let value = HeaderValue::from_str(&"v".repeat(20_000)).expect("a value");
    let fields = Fields::from_iter([("x", value)]);
    let uri = "http://x/".parse().expect("a URI");
    client.connection.begin(&Method::GET, &uri, &fields, true);
    let sent = client.sent();
    let frames: Vec<_> = sent.iter().map(|it| (it.0, it.1, it.2)).collect();
    assert_eq!(
        frames,
        [
            (kind::HEADERS, flag::END_STREAM, 1),
            (kind::CONTINUATION, flag::END_HEADERS, 1)
        ]
    );
    assert_eq!(sent[0].3.len(), FRAME_BYTES_FIRST);
}
