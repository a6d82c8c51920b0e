//! The UDP responder, with all that a network can send it.

use crate::eventually;
use core::time::Duration;
use slackwater_core::{LoadScale, Rif};
use slackwater_tower::server::{End, Load, respond_udp};
use slackwater_tower::wire::ProbeKey;
use slackwater_tower::wire::datagram::{
    DATAGRAM_BYTES_MAX, Malformed, ProbeReply, ProbeRequest, decode_reply, encode_reply,
    encode_request,
};
use tokio::net::UdpSocket;

const IPV4: &str = "127.0.0.1:0";
const IPV6: &str = "[::1]:0";

fn key(byte: u8) -> ProbeKey {
    ProbeKey::from_bytes(&[byte; 32]).unwrap()
}

fn request(nonce: u64, hint: &[u8], key: Option<&ProbeKey>) -> Vec<u8> {
    let mut into = [0; DATAGRAM_BYTES_MAX];
    let bytes = encode_request(&ProbeRequest { nonce, hint }, key, &mut into).unwrap();
    into[..bytes].to_vec()
}

/// A responder, and a client's socket connected to it.
async fn respond(load: &Load, key: Option<ProbeKey>, address: &str) -> UdpSocket {
    let responder = UdpSocket::bind(address).await.unwrap();
    let client = UdpSocket::bind(address).await.unwrap();
    client
        .connect(responder.local_addr().unwrap())
        .await
        .unwrap();
    tokio::spawn(respond_udp(responder, load.clone(), key));
    client
}

/// The next reply, with its size.
async fn receive(client: &UdpSocket, key: Option<&ProbeKey>) -> (ProbeReply, usize) {
    let mut datagram = [0; DATAGRAM_BYTES_MAX + 1];
    let receiving = client.recv(&mut datagram);
    let bytes = tokio::time::timeout(Duration::from_secs(20), receiving)
        .await
        .expect("a reply")
        .unwrap();
    (decode_reply(&datagram[..bytes], key).unwrap(), bytes)
}

/// Sends a probe with a new nonce, and expects its answer as the next datagram: nothing sent before
/// was answered.
async fn assert_answers_this_one_only(client: &UdpSocket, key: Option<&ProbeKey>) {
    let nonce = 0xffff_0000_ffff_0000;
    client.send(&request(nonce, b"", key)).await.unwrap();
    assert_eq!(receive(client, key).await.0.nonce, nonce);
}

#[tokio::test]
async fn reply_reports_the_current_load() {
    for address in [IPV4, IPV6] {
        let load = Load::builder()
            .hint_scale(|hint| LoadScale::from_1024ths(u16::from(hint == b"warm") * 101 + 1))
            .build();
        let client = respond(&load, None, address).await;
        let query = load.arrive();
        let asked = request(41, b"", None);
        client.send(&asked).await.unwrap();
        let (reply, bytes) = receive(&client, None).await;
        assert_eq!((reply.nonce, reply.report.rif), (41, Rif::new(1)));
        assert_eq!(reply.report.latency, None);
        assert!(reply.report.incarnation.is_some() && !reply.report.draining);
        assert_eq!(bytes, asked.len(), "no amplification");
        query.finish(End::Success);
        load.set_draining(true);
        client.send(&request(42, b"warm", None)).await.unwrap();
        let (reply, _) = receive(&client, None).await;
        assert_eq!((reply.nonce, reply.report.rif), (42, Rif::ZERO));
        assert!(reply.report.draining && reply.report.latency.is_some());
        assert_eq!(reply.report.load_scale.in_1024ths(), 102);
        assert_eq!(load.counts().udp_answered, 2);
    }
}

#[tokio::test]
async fn only_signed_probes_are_answered_with_a_key() {
    let load = Load::new();
    let client = respond(&load, Some(key(1)), IPV4).await;
    let asked = request(1, b"hint", Some(&key(1)));
    client.send(&asked).await.unwrap();
    let (reply, bytes) = receive(&client, Some(&key(1))).await;
    assert_eq!(reply.nonce, 1);
    assert!(bytes <= asked.len());

    client.send(&request(2, b"", None)).await.unwrap();
    client.send(&request(3, b"", Some(&key(2)))).await.unwrap();
    let mut altered = asked.clone();
    altered[12] ^= 1;
    client.send(&altered).await.unwrap();
    assert_answers_this_one_only(&client, Some(&key(1))).await;
    assert_eq!(load.counts().udp_refused(Malformed::Unkeyed), 1);
    assert_eq!(load.counts().udp_refused(Malformed::Authentication), 2);
}

#[tokio::test]
async fn keys_change_without_a_gap() {
    let load = Load::new();
    let client = respond(&load, Some(key(2).accepting(&key(1))), IPV4).await;
    client.send(&request(1, b"", Some(&key(1)))).await.unwrap();
    let late_client = key(1).accepting(&key(2));
    assert_eq!(receive(&client, Some(&late_client)).await.0.nonce, 1);
    assert_answers_this_one_only(&client, Some(&key(2))).await;
}

#[tokio::test]
async fn invalid_datagram_is_counted_and_not_answered() {
    let load = Load::new();
    let client = respond(&load, None, IPV4).await;
    let good = request(1, b"user-17", None);
    let mut reply = [0; DATAGRAM_BYTES_MAX];
    let report = load.report(None);
    let reply_bytes = encode_reply(&ProbeReply { nonce: 1, report }, None, &mut reply);
    let mut later_version = good.clone();
    later_version[4] = 2;
    let refused: [(&[u8], Malformed); 8] = [
        (b"", Malformed::TooShort),
        (&good[..95], Malformed::TooShort),
        (&[0x55; 300], Malformed::NotAProbe),
        (&[0; 1_400], Malformed::TooLong),
        (&later_version, Malformed::Version),
        (&reply[..reply_bytes], Malformed::Kind),
        (&request(1, b"", Some(&key(1))), Malformed::Keyed),
        (&good[..good.len() - 1], Malformed::Hint),
    ];
    for (datagram, _) in refused {
        client.send(datagram).await.unwrap();
    }
    assert_answers_this_one_only(&client, None).await;
    let counts = load.counts();
    for reason in Malformed::ALL {
        let sent = refused
            .iter()
            .filter(|(_, verdict)| *verdict == reason)
            .count();
        assert_eq!(counts.udp_refused(reason), sent as u64, "{}", reason.name());
    }
    assert_eq!((counts.udp_answered, counts.udp_receive_errors), (1, 0));
}

#[tokio::test]
async fn datagram_of_the_maximal_size_is_answered_and_a_longer_one_not() {
    let load = Load::new();
    let client = respond(&load, None, IPV4).await;
    let mut datagram = request(5, b"", None);
    datagram.resize(DATAGRAM_BYTES_MAX + 1, 0);
    client.send(&datagram).await.unwrap();
    client.send(&datagram[..DATAGRAM_BYTES_MAX]).await.unwrap();
    assert_eq!(receive(&client, None).await.0.nonce, 5);
    let counts = load.counts();
    assert_eq!(
        (counts.udp_answered, counts.udp_refused(Malformed::TooLong)),
        (1, 1)
    );
}

#[tokio::test]
async fn replayed_probe_is_answered_with_the_current_load() {
    // Replies contain no state of the client: a replay learns no more than the first sender did.
    // The nonce protects the client.
    let load = Load::new();
    let client = respond(&load, Some(key(1)), IPV4).await;
    let recorded = request(9, b"", Some(&key(1)));
    client.send(&recorded).await.unwrap();
    let (first, _) = receive(&client, Some(&key(1))).await;
    let _query = load.arrive();
    client.send(&recorded).await.unwrap();
    let (second, _) = receive(&client, Some(&key(1))).await;
    assert_eq!((first.nonce, first.report.rif), (9, Rif::ZERO));
    assert_eq!((second.nonce, second.report.rif), (9, Rif::new(1)));
}

#[tokio::test]
async fn burst_larger_than_a_turn_is_answered_completely() {
    let load = Load::new();
    let responder = UdpSocket::bind(IPV4).await.unwrap();
    let client = UdpSocket::bind(IPV4).await.unwrap();
    client
        .connect(responder.local_addr().unwrap())
        .await
        .unwrap();
    for nonce in 0..100 {
        client.send(&request(nonce, b"", None)).await.unwrap();
    }
    tokio::spawn(respond_udp(responder, load.clone(), None));
    for nonce in 0..100 {
        assert_eq!(receive(&client, None).await.0.nonce, nonce);
    }
    assert_eq!(load.counts().udp_answered, 100);
}

#[tokio::test]
async fn departed_clients_do_not_end_the_responder() {
    let load = Load::new();
    let responder = UdpSocket::bind(IPV4).await.unwrap();
    // A host that no other test uses, so that its port stays free.
    let gone = UdpSocket::bind("127.96.0.1:0").await.unwrap();
    let gone_address = gone.local_addr().unwrap();
    // Only a connected socket reports replies that were not delivered: "connection refused" on
    // receiving.
    responder.connect(gone_address).await.unwrap();
    let address = responder.local_addr().unwrap();
    gone.send_to(&request(1, b"", None), address).await.unwrap();
    drop(gone);
    tokio::spawn(respond_udp(responder, load.clone(), None));
    eventually("its reply is sent", || load.counts().udp_answered == 1).await;
    let back = UdpSocket::bind(gone_address).await.unwrap();
    back.connect(address).await.unwrap();
    assert_answers_this_one_only(&back, None).await;
    let errors = load.counts().udp_receive_errors;
    assert_eq!(errors, 1, "the network's answer to the first reply");
}

#[tokio::test]
async fn unsendable_replies_are_dropped_and_counted() {
    let load = Load::new();
    let responder = UdpSocket::bind(IPV4).await.unwrap();
    let client = UdpSocket::bind(IPV4).await.unwrap();
    let address = responder.local_addr().unwrap();
    responder
        .connect(client.local_addr().unwrap())
        .await
        .unwrap();
    socket2::SockRef::from(&responder)
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    tokio::spawn(respond_udp(responder, load.clone(), None));
    for nonce in 0..3 {
        let asked = request(nonce, b"", None);
        client.send_to(&asked, address).await.unwrap();
    }
    eventually("all three are counted", || load.counts().udp_unsent == 3).await;
    assert_eq!(load.counts().udp_answered, 0);
}
