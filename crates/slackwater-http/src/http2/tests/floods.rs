//! Allowed frames, but too many of them. RFC 9113 §10.5

use super::*;

const CALM: Option<Reason> = Some(Reason::ENHANCE_YOUR_CALM);

/// Sends these octets to a server repeatedly. Returns after how often it ends the connection.
fn until_calm(mut octets: impl FnMut(u32) -> Vec<u8>) -> Option<u32> {
    let mut server = Peer::server();
    for turn in 0..30_000 {
        server.feed(&octets(1 + 2 * turn));
        while let Some((key, _)) = server.connection.next_request() {
            server.drop_stream(key);
        }
        if server.connection.ended().is_some() {
            assert_eq!(server.goaway(), CALM);
            return Some(turn);
        }
        server.octets();
    }
    None
}

#[test]
fn malformed_streams_are_limited() {
    let malformed = until_calm(|stream| headers(stream, flag::END_STREAM, &GET[..1]));
    assert_eq!(malformed, Some(1024));
    let overflown = until_calm(|stream| [open(stream), window_update(stream, 0)].concat());
    assert_eq!(overflown, Some(200), "they were not taken, either");
}

/// A request that is answered with 431: small on the wire, and large when its fields are read from
/// the table.
fn too_large(stream: u32) -> Vec<u8> {
    let mut fields = block(&GET);
    // A field of 4,000 octets that enters the table as entry 62, and then four references to it.
    fields.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    fields.extend([b'v'; 4000]);
    fields.extend([0xbe; 4]);
    frame(
        kind::HEADERS,
        flag::END_HEADERS | flag::END_STREAM,
        stream,
        &fields,
    )
}

#[test]
fn too_large_heads_are_limited() {
    assert_eq!(until_calm(too_large), Some(1024));
}

#[test]
fn good_requests_outweigh_occasional_large_heads() {
    let mut server = Peer::server();
    for turn in 0..2000 {
        let stream = 1 + 4 * turn;
        server.feed(&too_large(stream));
        server.feed(&get(stream + 2));
        let key = server.request();
        server.ok(key, true);
        server.drop_stream(key);
        server.octets();
    }
    assert_eq!(server.connection.ended(), None);
}

#[test]
fn refused_streams_are_limited() {
    let mut server = Peer::server();
    for stream in 0..STREAMS_MAX {
        server.feed(&open(1 + 2 * stream));
    }
    let mut refused = 0;
    while server.connection.ended().is_none() {
        server.feed(&get(1 + 2 * (STREAMS_MAX + refused)));
        refused += 1;
        assert!(refused < 30_000, "it goes on forever");
    }
    assert_eq!((server.goaway(), refused), (CALM, 1025));
}

#[test]
fn good_streams_outweigh_malformed_ones() {
    let mut server = Peer::server();
    for turn in 0..5000 {
        let stream = 1 + 4 * turn;
        server.feed(&headers(stream, flag::END_STREAM, &GET[..1]));
        server.feed(&get(stream + 2));
        let key = server.request();
        server.ok(key, true);
        server.drop_stream(key);
        server.octets();
    }
    assert_eq!(server.connection.ended(), None);
}

#[test]
fn requests_cancelled_before_acceptance_are_limited() {
    let taken_back = until_calm(|stream| [get(stream), reset(stream, Reason::CANCEL)].concat());
    assert_eq!(taken_back, Some(200));
}

#[test]
fn accepted_requests_outweigh_cancelled_ones() {
    let mut turn = 0;
    let taken_back = until_calm(|stream| {
        turn += 1;
        let request = get(stream);
        if turn % 2 == 0 {
            return request;
        }
        [request, reset(stream, Reason::CANCEL)].concat()
    });
    assert_eq!(taken_back, None);
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let mut server = Peer::server();
    for stream in 0..=STREAMS_MAX {
        server.feed(&open(1 + 2 * stream));
    }
    assert_eq!(server.resets(), [(21, Reason::REFUSED_STREAM)]);
    // Another stream is allowed when one has ended.
    let key = server.request();
    server.ok(key, true);
    server.drop_stream(key);
    server.sent();
    server.feed(&open(23));
    assert_eq!(server.resets(), []);
}

/// A request of 15 references to one field of 1,000 octets: 15,661 octets, of which few are sent.
fn of_references(stream: u32) -> Vec<u8> {
    let mut fields = block(&GET);
    // The literal takes its place in the table as entry 62.
    if stream == 1 {
        fields.extend([0x40, 1, b'x', 0x7f, 0xe9, 0x06]);
        fields.extend([b'v'; 1000]);
    } else {
        fields.push(0xbe);
    }
    fields.extend([0xbe; 14]);
    frame(kind::HEADERS, flag::END_HEADERS, stream, &fields)
}

#[test]
fn heads_of_open_requests_are_limited_together() {
    let mut server = Peer::server();
    // Ten streams of 8 KiB, and one head of 16 KiB.
    let heads_max = 10 * 8192 + 16_384;
    for stream in 0..STREAMS_MAX {
        server.feed(&of_references(1 + 2 * stream));
    }
    let (key, head) = server.connection.next_request().unwrap();
    let admitted = heads_max / head.bytes;
    assert_eq!((head.bytes, admitted), (15_661, 6));
    let refused: Vec<_> = (13..20)
        .step_by(2)
        .map(|id| (id, Reason::REFUSED_STREAM))
        .collect();
    assert_eq!(server.resets(), refused);
    // A small head has room, and so has a large one when another has ended.
    server.feed(&get(21));
    server.ok(key, true);
    server.drop_stream(key);
    server.sent();
    server.feed(&of_references(23));
    assert_eq!(server.resets(), []);
    server.feed(&of_references(25));
    assert_eq!(server.resets(), [(25, Reason::REFUSED_STREAM)]);
}

#[test]
fn continuation_frames_are_limited() {
    let mut server = Peer::server();
    server.feed(&frame(kind::HEADERS, 0, 1, &block(&GET)));
    let mut frames = 0;
    while server.connection.ended().is_none() {
        server.feed(&frame(kind::CONTINUATION, 0, 1, &[]));
        frames += 1;
    }
    assert_eq!((server.goaway(), frames), (CALM, 8 + 64));
    let mut server = Peer::server();
    server.feed(&frame(kind::HEADERS, 0, 1, &block(&GET)));
    let mut octets = 0;
    while server.connection.ended().is_none() {
        server.feed(&frame(kind::CONTINUATION, 0, 1, &[0; 10_000]));
        octets += 10_000;
    }
    assert_eq!((server.goaway(), octets), (CALM, 70_000));
}

#[test]
fn too_large_head_gets_a_response_and_the_connection_continues() {
    let mut server = Peer::server();
    let value = "v".repeat(100);
    let many = [&GET[..], &[("x", &value[..]); 120]].concat();
    let flags = [0, flag::END_HEADERS];
    let block = block(&many);
    let (first, second) = block.split_at(10_000);
    server.feed(&frame(kind::HEADERS, flags[0], 1, first));
    server.feed(&frame(kind::CONTINUATION, flags[1], 1, second));
    let sent = server.sent();
    assert_eq!((sent[0].0, sent[0].2), (kind::HEADERS, 1));
    assert_eq!(sent[0].1, flag::END_HEADERS | flag::END_STREAM);
    assert_eq!(sent[1], (kind::RST_STREAM, 0, 1, vec![0; 4]));
    server.feed(&data(1, flag::END_STREAM, b"under way"));
    server.feed(&get(3));
    server.request();
    assert_eq!(server.connection.ended(), None);
}

#[test]
fn empty_data_frames_are_limited() {
    let mut server = Peer::server();
    server.feed(&open(1));
    for _ in 0..1000 {
        server.feed(&data(1, flag::PADDED, &[1, 0]));
    }
    assert_eq!(server.connection.ended(), None);
    server.feed(&data(1, 0, b"a"));
    server.feed(&data(1, 0, b""));
    assert_eq!(server.connection.ended(), None);
    server.feed(&data(1, 0, b""));
    assert_eq!(server.goaway(), CALM);
}

#[test]
fn tiny_data_frames_are_limited() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let frames = data(1, 0, b"a").repeat(21_846);
    server.feed(&frames);
    assert_eq!(server.connection.ended(), None);
    server.feed(&data(1, 0, b"a").repeat(2));
    assert_eq!(server.goaway(), CALM);
}

#[test]
fn input_pauses_while_the_peer_does_not_read() {
    let mut server = Peer::server();
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    let mut pings = 0;
    while server.connection.wants_more() {
        server.feed(&ping);
        pings += 1;
    }
    assert_eq!(pings, (256_usize << 10).div_ceil(17));
    server.octets();
    assert!(server.connection.wants_more());
}

#[test]
fn work_of_one_receive_call_is_bounded() {
    let mut server = Peer::server();
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    let mut rest = Bytes::from(ping.repeat(600));
    let mut turns = Vec::new();
    while !rest.is_empty() {
        rest = server.connection.receive(rest);
        turns.push(server.sent().len());
    }
    assert_eq!(turns, [128, 128, 128, 128, 88]);
    // Heads are more work, and longer heads are even more.
    let mut stream = 1;
    let mut of_heads = |block: Vec<u8>| {
        let mut server = Peer::server();
        let requests = (0..100).flat_map(|_| {
            stream += 2;
            frame(kind::HEADERS, 5, stream, &block)
        });
        let rest = server.connection.receive(requests.collect());
        100 - rest.len() / (HEAD_BYTES + block.len())
    };
    assert_eq!(of_heads(block(&GET)), 32);
    let value = "v".repeat(120);
    let long = block(&[&GET[..], &[("x", &value[..]); 11]].concat());
    assert_eq!((long.len() / 64, of_heads(long)), (22, 5));
}

#[test]
fn short_remainder_does_not_retain_a_large_buffer() {
    let mut server = Peer::server();
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    let read = Bytes::from(ping.repeat(600));
    let range = read.as_ptr_range();
    let rest = server.connection.receive(read.clone());
    assert!(rest.len() < 8 << 10 && !range.contains(&rest.as_ptr()));
    let many = Bytes::from(ping.repeat(6000));
    let range = many.as_ptr_range();
    let rest = server.connection.receive(many.clone());
    assert!(range.contains(&rest.as_ptr()), "a long one is not copied");
}

#[test]
fn window_size_changes_are_limited() {
    let mut changes = 0;
    let flipped = until_calm(|_| {
        changes += 1;
        settings(&[(4, changes % 2)])
    });
    assert_eq!(flipped, Some(1024));
    let same = until_calm(|_| settings(&[(4, 7)]));
    assert_eq!(same, None, "what changes nothing costs nothing");
}

#[test]
fn late_frames_on_closed_streams_are_limited() {
    let late = [
        data(1, 0, b"late"),
        headers(1, 0, &[(":status", "103")]),
        window_update(1, 1),
        reset(1, Reason::CANCEL),
    ];
    for frame in late {
        let mut client = Peer::client();
        let key = client.get();
        client.drop_stream(key);
        client.sent();
        for _ in 0..2 * 4096 {
            client.feed(&frame);
        }
        assert_eq!(client.connection.ended(), None);
        client.feed(&frame);
        assert_eq!(client.goaway(), CALM);
    }
}
