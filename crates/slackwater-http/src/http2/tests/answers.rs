//! A server's streams: how they are answered and left.

use super::*;

#[test]
fn complete_response_is_sent_at_once() {
    let mut server = Peer::server();
    server.feed(&get(1));
    let key = server.request();
    server.ok(key, false);
    let mut piece = Bytes::from_static(b"all");
    assert!(server.send(key, &mut piece, true).is_ready());
    server.drop_stream(key);
    let part = server.connection.out().one_part().map(<[u8]>::len);
    assert!(part.is_some(), "in one piece");
    let sent = server.sent();
    assert_eq!((sent[0].0, sent[0].1), (kind::HEADERS, flag::END_HEADERS));
    assert_eq!(sent[1], (kind::DATA, flag::END_STREAM, 1, b"all".to_vec()));
    assert_eq!(sent.len(), 2);
    assert!(server.connection.streams.is_empty());
}

#[test]
fn interim_responses_except_100_are_left_out_while_much_output_waits() {
    let mut server = Peer::server();
    server.feed(&settings(&[(4, 1 << 20)]));
    server.feed(&window_update(0, 1 << 20));
    server.feed(&[get(1), open(3)].concat());
    let (download, upload) = (server.request(), server.request());
    server.ok(download, false);
    let mut piece = large(1 << 20);
    assert!(server.send(download, &mut piece, true).is_pending());
    for status in [StatusCode::EARLY_HINTS, StatusCode::CONTINUE] {
        let headers = Fields::new();
        server.connection.send_interim(upload, status, &headers);
    }
    let heads = server.sent().into_iter().filter(|sent| sent.2 == 3);
    let heads: Vec<_> = heads.map(|(_, _, _, block)| block).collect();
    assert_eq!(heads.len(), 1);
    assert!(heads[0].ends_with(b"100"), "{heads:?}");
}

#[test]
fn complete_response_resets_an_unfinished_request() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    server.ok(key, true);
    server.sent();
    server.drop_stream(key);
    assert_eq!(server.resets(), [(1, Reason::NO_ERROR)]);
}

#[test]
fn unanswered_request_is_reset() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    server.connection.leave_reading(key);
    assert_eq!(server.sent(), []);
    server.connection.leave_writing(key);
    assert_eq!(server.resets(), [(1, Reason::CANCEL)]);
}

#[test]
fn reset_by_the_client_wakes_the_handler() {
    let mut server = Peer::server();
    server.feed(&get(1));
    let key = server.request();
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    assert!(server.connection.poll_lost(key, &cx).is_pending());
    server.feed(&reset(1, Reason::CANCEL));
    assert!(woken.take());
    let lost = Lost::Reset(Reason::CANCEL);
    assert_eq!(server.connection.poll_lost(key, &cx), Poll::Ready(lost));
    let headers = Fields::new();
    let told = server
        .connection
        .respond(key, StatusCode::OK, &headers, true);
    assert_eq!(told, Err(lost));
    server.drop_stream(key);
    assert_eq!(server.sent(), []);
}

#[test]
fn readers_are_woken_by_data_and_end() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    assert!(server.connection.poll_piece(key, &cx).is_pending());
    server.feed(&data(1, 0, b"a"));
    assert!(woken.take());
    assert_eq!(server.data(key), b"a");
    assert!(server.connection.poll_piece(key, &cx).is_pending());
    server.feed(&data(1, flag::END_STREAM, b""));
    assert!(woken.take());
    assert!(server.connection.is_read(key));
}

#[test]
fn large_pieces_are_not_copied() {
    let mut server = Peer::server();
    server.feed(&open(1));
    let key = server.request();
    let mut whole = data(1, 0, &[7; 13_000]);
    whole.extend(data(1, 0, &[8; 100]));
    let octets = Bytes::from(whole);
    let range = octets.as_ptr_range();
    let rest = server.connection.receive(octets.clone());
    assert_eq!(rest, "");
    let mut piece = || match server.connection.poll_piece(key, &idly()) {
        Poll::Ready(Some(Ok(Piece::Data(data)))) => data,
        other => panic!("{other:?}"),
    };
    assert!(range.contains(&piece().as_ptr()));
    // A small piece would keep the whole buffer alive.
    assert!(!range.contains(&piece().as_ptr()));
    let mut out = piece_sent(&large(10_000));
    assert_eq!(out.pop(), None);
}

/// Returns the parts of the output that are copies, after a piece of a body was sent.
fn piece_sent(piece: &Bytes) -> Vec<usize> {
    let mut server = Peer::server();
    server.feed(&get(1));
    let key = server.request();
    server.ok(key, false);
    assert!(server.send(key, &mut piece.clone(), true).is_ready());
    let mut slices = [IoSlice::new(&[]); 3];
    let count = server.connection.out().slices(&mut slices);
    let large = slices[..count].iter().filter(|it| it.len() == piece.len());
    let copies = large.filter(|it| it.as_ptr() != piece.as_ptr());
    copies.map(|it| it.len()).collect()
}
