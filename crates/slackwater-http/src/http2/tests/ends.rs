//! How a connection ends. RFC 9113 §6.8

use super::*;

fn lost(peer: &mut Peer, key: Key) -> Lost {
    match peer.connection.poll_lost(key, &idly()) {
        Poll::Ready(lost) => lost,
        Poll::Pending => panic!("it is not lost"),
    }
}

#[test]
fn graceful_shutdown_sends_two_goaways() {
    let mut server = Peer::server();
    server.feed(&get(1));
    let first = server.request();
    server.connection.announce_leaving();
    let sent = server.sent();
    assert_eq!(
        sent[0],
        (
            kind::GOAWAY,
            0,
            0,
            [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0].to_vec()
        )
    );
    assert_eq!(sent[1].0, kind::PING);
    // A request that was under way is accepted.
    server.feed(&get(3));
    let second = server.request();
    server.feed(&frame(kind::PING, flag::ACK, 0, &[0; 8]));
    assert_eq!(server.sent(), [], "another PING's answer");
    server.feed(&frame(kind::PING, flag::ACK, 0, &sent[1].3));
    assert_eq!(
        server.sent(),
        [(kind::GOAWAY, 0, 0, vec![0, 0, 0, 3, 0, 0, 0, 0])]
    );
    // From now on, nothing is accepted.
    server.feed(&[open(5), data(5, 0, b"a"), reset(5, Reason::CANCEL)].concat());
    assert!(server.connection.next_request().is_none());
    assert_eq!(server.sent(), []);
    for key in [first, second] {
        assert!(!server.connection.is_over());
        server.ok(key, true);
        server.drop_stream(key);
    }
    assert!(server.connection.is_over());
}

#[test]
fn closing_server_wakes_its_task_after_the_last_stream() {
    let mut server = Peer::server();
    server.feed(&get(1));
    let key = server.request();
    server.connection.leave_now();
    server.sent();
    let (woken, waker) = Woken::new();
    server.connection.enter(&Context::from_waker(&waker));
    server.connection.leave();
    server.feed(&reset(1, Reason::CANCEL));
    assert!(!woken.take());
    server.drop_stream(key);
    assert!(woken.take() && server.connection.is_over());
}

#[test]
fn streams_beyond_goaway_were_not_processed() {
    for reason in [Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let mut client = Peer::client();
        let (first, second, third) = (client.get(), client.get(), client.get());
        client.feed(&goaway(1, reason));
        assert_eq!(client.connection.check(), Err(Lost::TurnedAway));
        assert_eq!(lost(&mut client, second), Lost::TurnedAway);
        assert_eq!(lost(&mut client, third), Lost::TurnedAway);
        assert!(client.connection.poll_lost(first, &idly()).is_pending());
        // The last stream that GOAWAY names may still be answered, or not.
        client.connection.end(Ended::Closed);
        let ended = match reason {
            Reason::NO_ERROR => Ended::Closed,
            reason => Ended::GoneAway(reason),
        };
        assert_eq!(lost(&mut client, first), Lost::Connection(ended));
        assert!(!Lost::Connection(ended).is_turned_away());
        for key in [first, second, third] {
            client.drop_stream(key);
        }
        assert!(client.connection.streams.is_empty());
    }
}

#[test]
fn closed_connection_ends_its_streams() {
    let mut client = Peer::client();
    let sent = client.get();
    let (woken, waker) = Woken::new();
    let cx = Context::from_waker(&waker);
    assert!(client.connection.poll_response(sent, &cx).is_pending());
    client.connection.end(Ended::Closed);
    assert!(woken.take());
    assert_eq!(lost(&mut client, sent), Lost::Connection(Ended::Closed));
    let check = client.connection.check();
    assert_eq!(check, Err(Lost::Connection(Ended::Closed)));
    assert!(client.connection.is_over() && client.connection.out().is_empty());
}

#[test]
fn connection_error_ends_all_streams() {
    let mut server = Peer::server();
    server.feed(&[get(1), get(3)].concat());
    let key = server.request();
    server.feed(&data(0, 0, b"a"));
    let ended = Ended::ByUs(Reason::PROTOCOL_ERROR);
    assert_eq!(server.connection.ended(), Some(ended));
    assert_eq!(lost(&mut server, key), Lost::Connection(ended));
    assert!(server.connection.next_request().is_none());
    server.drop_stream(key);
    assert!(server.connection.streams.is_empty());
    // The GOAWAY names the last stream that was processed. Later input is not read.
    let sent = server.sent();
    assert_eq!(sent, [(kind::GOAWAY, 0, 0, vec![0, 0, 0, 3, 0, 0, 0, 1])]);
    server.feed(&frame(kind::PING, 0, 0, &[0; 8]));
    assert_eq!(server.sent(), []);
}

#[test]
fn stream_ids_run_out() {
    let mut client = Peer::client();
    client.connection.next_ours = (1 << 31) - 1;
    assert_eq!(client.connection.check(), Ok(()));
    client.get();
    assert_eq!(client.sent()[0].2, (1 << 31) - 1);
    assert_eq!(client.connection.check(), Err(Lost::TurnedAway));
}

#[test]
fn ping_checks_whether_the_peer_is_alive() {
    let mut client = Peer::client();
    client.connection.ask_whether_alive();
    let sent = client.sent();
    assert_eq!((sent.len(), sent[0].0, sent[0].1), (1, kind::PING, 0));
    client.connection.end(Ended::Closed);
    client.connection.ask_whether_alive();
    assert_eq!(client.sent(), []);
}
