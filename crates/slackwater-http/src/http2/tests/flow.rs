//! Windows, and the order in which streams send. RFC 9113 §5.2, §6.9

use super::*;

/// The number of octets of data in these frames.
fn data_sent(frames: &[Sent]) -> usize {
    let data = frames.iter().filter(|frame| frame.0 == kind::DATA);
    data.map(|frame| frame.3.len()).sum()
}

/// A server that has sent the heads of `count` responses.
fn answering(count: u32) -> (Peer, Vec<Key>) {
    let mut server = Peer::server();
    let keys = (0..count).map(|index| {
        server.feed(&get(1 + 2 * index));
        let key = server.request();
        server.ok(key, false);
        key
    });
    let keys = keys.collect();
    server.sent();
    (server, keys)
}

#[test]
fn sent_data_stays_within_the_window() {
    let (mut server, keys) = answering(1);
    let mut piece = large(70_000);
    assert!(server.send(keys[0], &mut piece, true).is_pending());
    let sent = server.sent();
    assert_eq!(data_sent(&sent), 65_535);
    assert!(sent.iter().all(|frame| frame.3.len() <= FRAME_BYTES_FIRST));
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    let poll = |server: &mut Peer, piece: &mut Bytes| {
        server.connection.poll_send(keys[0], piece, true, &cx)
    };
    assert!(poll(&mut server, &mut piece).is_pending());
    server.feed(&window_update(0, 10_000));
    assert!(!woken.take(), "its own window is shut");
    server.feed(&window_update(1, 10_000));
    assert!(woken.take());
    assert_eq!(poll(&mut server, &mut piece), Poll::Ready(Ok(())));
    let sent = server.sent();
    assert_eq!((data_sent(&sent), sent.len()), (70_000 - 65_535, 1));
    assert_eq!(sent[0].1, flag::END_STREAM);
}

#[test]
fn window_may_shrink_below_sent_data() {
    let (mut server, keys) = answering(1);
    let mut piece = large(1000);
    assert!(server.send(keys[0], &mut piece, false).is_ready());
    server.sent();
    server.feed(&settings(&[(4, 500)]));
    server.sent();
    let mut piece = large(10);
    assert!(server.send(keys[0], &mut piece, false).is_pending());
    server.feed(&window_update(1, 500));
    assert!(server.send(keys[0], &mut piece, false).is_pending());
    server.feed(&settings(&[(4, 505)]));
    server.sent();
    assert!(server.send(keys[0], &mut piece, false).is_pending());
    assert_eq!(data_sent(&server.sent()), 5);
    server.feed(&settings(&[(4, u32::MAX >> 1)]));
    assert_eq!(server.connection.ended(), None);
    server.feed(&window_update(1, 5000));
    assert_eq!(server.resets(), [(1, Reason::FLOW_CONTROL_ERROR)]);
}

#[test]
fn window_overflow_by_settings_ends_the_connection() {
    let (mut server, _) = answering(1);
    server.feed(&window_update(1, (1 << 31) - 1 - 65_535));
    server.feed(&settings(&[(4, 65_536)]));
    assert_eq!(server.goaway(), Some(Reason::FLOW_CONTROL_ERROR));
}

#[test]
fn settings_do_not_affect_closed_streams() {
    let (mut server, keys) = answering(1);
    server.feed(&window_update(1, (1 << 31) - 1 - 65_535));
    assert!(server.send(keys[0], &mut large(1), true).is_ready());
    server.feed(&settings(&[(4, 65_540)]));
    assert_eq!(server.connection.ended(), None);
}

#[test]
fn frame_size_follows_the_peer_setting() {
    let (mut server, keys) = answering(1);
    server.feed(&settings(&[(5, 20_000)]));
    let mut piece = large(50_000);
    assert!(server.send(keys[0], &mut piece, false).is_ready());
    let lengths: Vec<_> = server.sent()[1..].iter().map(|it| it.3.len()).collect();
    assert_eq!(lengths, [20_000, 20_000, 10_000]);
}

#[test]
fn empty_last_frame_needs_no_window() {
    let (mut server, keys) = answering(1);
    let mut piece = large(65_535);
    assert!(server.send(keys[0], &mut piece, false).is_ready());
    server.sent();
    let end = server.send(keys[0], &mut Bytes::new(), true);
    assert_eq!(end, Poll::Ready(Ok(())));
    let end = (kind::DATA, flag::END_STREAM, 1, vec![]);
    assert_eq!(server.sent(), [end]);
}

#[test]
fn streams_take_turns_on_the_connection_window() {
    let (mut server, keys) = answering(3);
    let mut pieces = vec![large(60_000); 3];
    let wakers: Vec<_> = (0..3).map(|_| Woken::new()).collect();
    let mut sent = [0; 3];
    let mut order = Vec::new();
    for round in 0..100 {
        for index in 0..3 {
            let (woken, waker) = &wakers[index];
            if pieces[index].is_empty() || (round > 0 && !woken.take()) {
                continue;
            }
            let cx = Context::from_waker(waker);
            let _ = (server.connection).poll_send(keys[index], &mut pieces[index], false, &cx);
            let now = data_sent(&server.sent());
            if round > 0 && now > 0 {
                order.push(index);
            }
            sent[index] += now;
        }
        server.feed(&window_update(0, 16_384));
    }
    assert_eq!(sent, [60_000; 3], "none is forgotten");
    // The first stream got most of the window; the others continued in turn.
    assert!(
        order[..4].contains(&1) && order[..4].contains(&2),
        "{order:?}"
    );
}

#[test]
fn an_unused_turn_is_passed_on() {
    let (mut server, keys) = answering(3);
    let mut first = large(65_535);
    assert!(server.send(keys[0], &mut first, false).is_ready());
    server.sent();
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    let mut piece = large(10);
    assert!(server.send(keys[1], &mut piece.clone(), false).is_pending());
    let waits = server.connection.poll_send(keys[2], &mut piece, false, &cx);
    assert!(waits.is_pending());
    server.feed(&window_update(0, 5));
    assert!(!woken.take(), "there is room for one");
    server.drop_stream(keys[1]);
    assert!(woken.take());
}

#[test]
fn output_buffer_is_bounded() {
    let (mut server, keys) = answering(1);
    server.feed(&settings(&[(4, 1 << 30)]));
    server.feed(&window_update(0, 1 << 30));
    let mut piece = large(1 << 20);
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    assert!(
        server
            .connection
            .poll_send(keys[0], &mut piece, false, &cx)
            .is_pending()
    );
    let waiting = server.connection.out.len();
    assert!((128 << 10..160 << 10).contains(&waiting), "{waiting}");
    assert!(!woken.take());
    server.connection.written(100_000);
    assert!(woken.take());
}

#[test]
fn slow_reader_buffers_at_most_one_window() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    for _ in 0..10 {
        server.feed(&data(1, 0, &[0; 10_000]));
    }
    assert_eq!(server.sent(), [], "nothing was taken");
    assert_eq!(server.data(key).len(), 100_000);
    let more: Vec<_> = server.sent().iter().map(|it| (it.0, it.2)).collect();
    assert!(more.iter().all(|it| *it == (kind::WINDOW_UPDATE, 1)));
    assert!((1..=2).contains(&more.len()), "sent by halves: {more:?}");
    server.feed(&data(1, 0, &[0; 10_000]));
    assert_eq!(server.connection.ended(), None);
}

#[test]
fn padding_returns_its_window_without_reads() {
    let mut server = Peer::server();
    server.feed(&open(1));
    server.request();
    // One octet of data; the rest, up to the size of both windows, is padding.
    let mut payload = [0; 200];
    payload[0] = 198;
    let mut given_back = [0; 2];
    for _ in 0..3000 {
        server.feed(&data(1, flag::PADDED, &payload));
        for (kind, _, stream, payload) in server.sent() {
            let more = payload.try_into().map(u32::from_be_bytes);
            assert_eq!(kind, kind::WINDOW_UPDATE);
            given_back[stream as usize] += more.expect("a number");
        }
    }
    assert_eq!(server.connection.ended(), None);
    let padding = 3000 * 199;
    for (back, window) in given_back.into_iter().zip([1 << 20, STREAM_WINDOW]) {
        assert!(
            back <= padding && back >= padding - window / 2,
            "{given_back:?}"
        );
    }
}

#[test]
fn data_beyond_the_window_is_an_error() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    for _ in 0..10 {
        server.feed(&data(1, 0, &[0; 10_000]));
    }
    server.feed(&data(1, 0, &[0]));
    assert_eq!(server.resets(), [(1, Reason::FLOW_CONTROL_ERROR)]);
    // Data that arrived before the error can still be read, followed by the error.
    assert_eq!(server.data(key).len(), 100_000);
    let lost = server.connection.poll_piece(key, &idly());
    let expected = Lost::ByUs(Reason::FLOW_CONTROL_ERROR);
    assert!(matches!(lost, Poll::Ready(Some(Err(lost))) if lost == expected));
}

#[test]
fn connection_window_is_enforced() {
    let mut server = Peer::server();
    // Eleven windows of streams exceed the window of the connection.
    for index in 0..10 {
        server.feed(&open(1 + 2 * index));
        for _ in 0..10 {
            server.feed(&data(1 + 2 * index, 0, &[0; 10_000]));
        }
    }
    let key = server.request();
    server.drop_stream(key);
    server.sent();
    server.feed(&open(21));
    for _ in 0..5 {
        server.feed(&data(21, 0, &[0; 10_000]));
    }
    assert_eq!(server.goaway(), Some(Reason::FLOW_CONTROL_ERROR));
}

#[test]
fn discarded_data_returns_its_window() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    server.connection.leave_reading(key);
    for _ in 0..10 {
        server.feed(&data(1, 0, &[0; 10_000]));
    }
    server.feed(&open(3));
    for _ in 0..5 {
        server.feed(&data(3, 0, &[0; 10_000]));
    }
    server
        .connection
        .leave_reading(server.connection.streams.find(3).expect("open"));
    let receives = server.connection.receives;
    assert_eq!(receives.missing(), 0, "all came back");
}

#[test]
fn request_taken_back_before_it_is_accepted_returns_its_window() {
    let mut server = Peer::server();
    let octets = [open(1), data(1, 0, &[0; 10_000]), reset(1, Reason::CANCEL)];
    server.feed(&octets.concat());
    assert_eq!(server.connection.receives.missing(), 10_000);
    assert!(server.connection.next_request().is_none());
    assert_eq!(server.connection.receives.missing(), 0);
}

/// A client whose server has a window of a mebibyte for each stream, and one for the connection.
fn uploading() -> Peer {
    let mut client = Peer::client();
    client.feed(&settings(&[(4, 1 << 20)]));
    client.feed(&window_update(0, (1 << 20) - 65_535));
    client.sent();
    client
}

/// Starts a stream, and returns how much of a body of `length` it can send at once.
fn upload(client: &mut Peer, length: usize) -> (Key, usize) {
    let key = client.post();
    let mut piece = large(length);
    let mut sent = 0;
    // The body is larger than the output may be at once.
    while client.send(key, &mut piece, false).is_pending() {
        let now = data_sent(&client.sent());
        sent += now;
        if now == 0 {
            return (key, sent);
        }
    }
    (key, sent + data_sent(&client.sent()))
}

#[test]
fn long_uploads_leave_window_for_short_ones() {
    let mut client = uploading();
    let (_, sent) = upload(&mut client, 100_000);
    assert_eq!(sent, 100_000);
    assert!(!client.connection.is_short_of_window());
    let (long, sent) = upload(&mut client, 1 << 20);
    assert_eq!(sent, (3 << 18) - 100_000, "a quarter is kept");
    assert!(client.connection.is_short_of_window());
    for length in [100, 16 << 10] {
        let (_, sent) = upload(&mut client, length);
        assert_eq!(sent, length, "short ones pass");
    }
    let (_, sent) = upload(&mut client, (16 << 10) + 1);
    assert_eq!(sent, 16 << 10, "and no more than that");
    // Octets that are read make room again.
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    let mut piece = large(10);
    let polled = (client.connection).poll_send(long, &mut piece, false, &cx);
    assert!(polled.is_pending());
    client.feed(&window_update(0, 400_000));
    assert!(!client.connection.is_short_of_window());
    assert!(woken.take());
    assert!(client.send(long, &mut piece, false).is_ready());
}

#[test]
fn upload_is_unread_until_window_update_or_end_of_stream() {
    let mut client = uploading();
    let (_, _) = upload(&mut client, 16 << 10);
    assert!(!client.connection.has_unread(), "a short one is none");
    // Half of the connection's window is left.
    let half = (1 << 19) - (16 << 10);
    let (long, _) = upload(&mut client, half);
    assert!(!client.connection.has_unread());
    client.drop_stream(long);
    for ends in [reset(3, Reason::CANCEL), window_update(3, 1 << 14)] {
        let (key, sent) = upload(&mut client, (16 << 10) + 1);
        assert_eq!(sent, (16 << 10) + 1);
        assert!(client.connection.has_unread());
        let stream = client.connection.streams[key].id.to_be_bytes();
        // Make the frame one of this stream.
        let mut frame = ends.clone();
        frame[5..9].copy_from_slice(&stream);
        client.feed(&frame);
        assert!(!client.connection.has_unread());
    }
    let (key, _) = upload(&mut client, 100_000);
    assert!(client.connection.has_unread());
    client.drop_stream(key);
    assert!(!client.connection.has_unread());
}

#[test]
fn server_responses_may_use_the_full_window() {
    let (mut server, keys) = answering(1);
    let mut piece = large(65_535);
    assert!(server.send(keys[0], &mut piece, true).is_ready());
    assert_eq!(data_sent(&server.sent()), 65_535);
}

#[test]
fn last_of_several_window_settings_counts() {
    let (mut server, keys) = answering(1);
    server.feed(&settings(&[(4, 0)]));
    server.sent();
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    let mut piece = large(10);
    let polled = (server.connection).poll_send(keys[0], &mut piece, false, &cx);
    assert!(polled.is_pending());
    let open_and_shut = [settings(&[(4, 5)]), settings(&[(4, 0)])].concat();
    server.feed(&open_and_shut);
    assert!(!woken.take(), "it is shut as before");
    server.feed(&[open_and_shut, settings(&[(4, 7)])].concat());
    assert!(woken.take());
    assert!(server.send(keys[0], &mut piece, false).is_pending());
    assert_eq!(data_sent(&server.sent()), 7);
}

#[test]
fn window_may_shrink_and_grow_in_one_read() {
    let (mut server, _) = answering(1);
    let shrink = settings(&[(4, 0)]);
    server.feed(&[shrink, window_update(1, (1 << 31) - 1)].concat());
    assert_eq!((server.resets(), server.connection.ended()), (vec![], None));
}

#[test]
fn short_uploads_use_the_reserved_window() {
    let mut client = uploading();
    let long = client.post();
    let mut piece = large(1 << 20);
    // Send until only the reserved part of the window is left, and the output is full.
    while !client.connection.is_short_of_window() {
        assert!(client.send(long, &mut piece, false).is_pending());
        if !client.connection.is_short_of_window() {
            client.octets();
        }
    }
    let mut crowd = Vec::new();
    while client.connection.out.len() < 128 << 10 {
        let key = client.post();
        let _ = client.send(key, &mut large(16 << 10), false);
        crowd.push(key);
    }
    let short = client.post();
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    let mut piece = large(100);
    let polled = (client.connection).poll_send(short, &mut piece, true, &cx);
    assert!(polled.is_pending());
    client.octets();
    assert!(woken.take(), "there is room for it");
    assert!(client.send(short, &mut piece, true).is_ready());
}

#[test]
fn partially_sent_piece_wakes_the_socket_owner() {
    let (woken, waker) = Woken::new();
    let mut client = uploading();
    let key = client.post();
    client.connection.enter(&Context::from_waker(&waker));
    client.sent();
    client.connection.leave();
    assert!(client.send(key, &mut large(1 << 20), false).is_pending());
    assert!(woken.take(), "the socket's owner has something to write");
}

#[test]
fn reserved_window_is_bounded() {
    let mut client = Peer::client();
    client.feed(&window_update(0, (1 << 31) - 1 - 65_535));
    assert_eq!(client.connection.kept().room, 1 << 20);
    assert_eq!(client.connection.kept().of_stream, 16 << 10);
}

#[test]
fn only_written_message_bytes_are_progress() {
    let (mut server, keys) = answering(1);
    assert_eq!(server.connection.carried(), 9 + 1, "the head");
    server.feed(&frame(kind::PING, 0, 0, &[0; 8]));
    server.sent();
    assert_eq!(server.connection.carried(), 10);
    assert!(server.send(keys[0], &mut large(5), false).is_ready());
    assert_eq!(server.connection.carried(), 10, "not yet");
    server.sent();
    assert_eq!(server.connection.carried(), 10 + 9 + 5);
}
