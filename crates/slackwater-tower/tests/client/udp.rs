//! Probes by UDP, end to end with the server's side, and against datagrams that are not valid
//! replies.

use crate::common::{Replica, addr, pick_ready, prequal, udp_prober, until};
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Outcome, PickReason, Prequal};
use slackwater_core::{LoadReport, Rif};
use slackwater_tower::client::{Balancer, ReplicaAddrs, UdpProber, UdpProberConfig};
use slackwater_tower::server::{Load, respond_udp};
use slackwater_tower::wire::ProbeKey;
use slackwater_tower::wire::datagram::{
    DATAGRAM_BYTES_MAX, ProbeReply, decode_request, encode_reply,
};
use std::collections::BTreeSet;
use tokio::net::UdpSocket;

fn key(byte: u8) -> ProbeKey {
    ProbeKey::from_bytes(&[byte; 32]).expect("32 bytes are a key")
}

fn reply(nonce: u64, key: Option<&ProbeKey>) -> Vec<u8> {
    let report = LoadReport::new(Rif::new(3), Some(Duration::from_millis(4)));
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    let bytes = encode_reply(&ProbeReply { nonce, report }, key, &mut datagram);
    datagram[..bytes].to_vec()
}

#[tokio::test]
async fn probes_work_end_to_end() {
    for key in [None, Some(key(7))] {
        let mut replicas = Vec::new();
        for _ in 0..3 {
            replicas.push(Replica::start(Load::new(), key.clone()).await);
        }
        let busy = [(); 5].map(|()| replicas[1].load.arrive());
        let balancer = Balancer::with_seed(prequal(), udp_prober(key, 64), 1);
        let _drive = balancer.spawn_drive();
        for replica in &replicas {
            balancer
                .insert(ReplicaAddrs {
                    query: replica.http,
                    probe: replica.udp,
                })
                .expect("new");
        }
        until("idle probes bring all into the pool", || {
            balancer.snapshot().pool.len() == 3
        })
        .await;
        let snapshot = balancer.snapshot();
        let found = snapshot
            .pool
            .iter()
            .find(|view| balancer.addr(view.replica) == Some(replicas[1].http));
        let found = found.expect("all are");
        assert_eq!((found.rif, found.local), (Rif::new(5), false));
        let lease = pick_ready(&balancer);
        // It is hot if most of the few answers so far had nothing in flight: the limit is 0 then.
        let by_reports = [PickReason::Cold, PickReason::Hot];
        assert!(by_reports.contains(&lease.reason()), "reports decide");
        assert_ne!(lease.addr(), replicas[1].http, "the busy one");
        assert!(lease.view().candidates >= 2);
        lease.finish(Outcome::Success);
        drop(busy);
        let counters = balancer.probe_counters();
        assert!(counters.answered >= 3 && counters.answered <= counters.sent);
        assert_eq!(counters.unauthenticated + counters.malformed, 0);
    }
}

#[tokio::test]
async fn only_the_reply_to_this_probe_counts() {
    let replica = UdpSocket::bind(addr(0)).await.expect("a socket");
    let stranger = UdpSocket::bind(addr(0)).await.expect("a socket");
    let balancer = Balancer::with_seed(prequal(), udp_prober(None, 64), 1);
    let _drive = balancer.spawn_drive();
    balancer
        .insert(replica.local_addr().expect("bound"))
        .expect("new");

    let mut request = [0; DATAGRAM_BYTES_MAX];
    let (bytes, client) = replica.recv_from(&mut request).await.expect("a probe");
    let nonce = decode_request(&request[..bytes], None)
        .expect("a proper one")
        .nonce;
    let proper = reply(nonce, None);
    stranger.send_to(&proper, client).await.expect("sent");
    until("foreign by its address", || {
        balancer.probe_counters().foreign == 1
    })
    .await;
    replica
        .send_to(&reply(nonce ^ (1 << 40), None), client)
        .await
        .expect("sent");
    until("foreign by its nonce", || {
        balancer.probe_counters().foreign == 2
    })
    .await;
    let garbage: [&[u8]; 4] = [b"", b"hello", &proper[..95], &[0; DATAGRAM_BYTES_MAX + 40]];
    for (count, datagram) in (1..).zip(garbage) {
        replica.send_to(datagram, client).await.expect("sent");
        until("malformed", || balancer.probe_counters().malformed == count).await;
    }
    replica
        .send_to(&reply(nonce, Some(&key(7))), client)
        .await
        .expect("sent");
    until("a tag without a key here", || {
        balancer.probe_counters().malformed == 5
    })
    .await;
    assert_eq!(balancer.probe_counters().answered, 0);

    replica.send_to(&proper, client).await.expect("sent");
    until("the answer", || balancer.probe_counters().answered == 1).await;
    replica.send_to(&proper, client).await.expect("sent");
    until("the replay", || balancer.probe_counters().replayed == 1).await;
    assert_eq!(balancer.probe_counters().answered, 1);
}

#[tokio::test]
async fn only_replies_signed_with_the_key_are_accepted() {
    let replica = UdpSocket::bind(addr(0)).await.expect("a socket");
    let balancer = Balancer::with_seed(prequal(), udp_prober(Some(key(7)), 64), 1);
    let _drive = balancer.spawn_drive();
    balancer
        .insert(replica.local_addr().expect("bound"))
        .expect("new");
    let mut request = [0; DATAGRAM_BYTES_MAX];
    let (bytes, client) = replica.recv_from(&mut request).await.expect("a probe");
    let nonce = decode_request(&request[..bytes], Some(&key(7)))
        .expect("signed")
        .nonce;
    let forged = [reply(nonce, None), reply(nonce, Some(&key(8)))];
    for (count, datagram) in (1..).zip(&forged) {
        replica.send_to(datagram, client).await.expect("sent");
        until("refused", || {
            balancer.probe_counters().unauthenticated == count
        })
        .await;
    }
    replica
        .send_to(&reply(nonce, Some(&key(7))), client)
        .await
        .expect("sent");
    until("the answer", || balancer.probe_counters().answered == 1).await;
}

#[tokio::test]
async fn replica_is_unprobed_until_it_answers_probes() {
    let mute = UdpSocket::bind(addr(0)).await.expect("a socket");
    let replica = mute.local_addr().expect("bound");
    let balancer = Balancer::with_seed(prequal(), udp_prober(None, 64), 1);
    let _drive = balancer.spawn_drive();
    balancer.insert(replica).expect("new");
    until("silent", || balancer.snapshot().replicas[0].unprobed).await;
    drop(pick_ready(&balancer));
    until("answered locally", || balancer.counters().probes_local > 0).await;
    assert_eq!(balancer.counters().probes_answered, 0);

    let responder = tokio::spawn(respond_udp(mute, Load::new(), None));
    until("probed again", || !balancer.snapshot().replicas[0].unprobed).await;
    responder.abort();
}

#[tokio::test]
async fn probes_beyond_the_cap_are_refused_and_counted() {
    let mute = UdpSocket::bind(addr(0)).await.expect("a socket");
    let probe = mute.local_addr().expect("bound");
    let balancer = Balancer::with_seed(prequal(), udp_prober(None, 2), 1);
    for port in 1..9 {
        balancer
            .insert(ReplicaAddrs {
                query: addr(port),
                probe,
            })
            .expect("new");
    }
    // Twelve targets drawn from eight: at least five different ones are probed within the
    // millisecond.
    for _ in 0..4 {
        drop(pick_ready(&balancer));
    }
    until("both are sent", || balancer.probe_counters().sent == 2).await;
    let counters = balancer.probe_counters();
    let policy = balancer.counters();
    assert!(counters.refused_full >= 3, "{counters:?}");
    assert_eq!(counters.refused_full, policy.probes_sent - 2);
    assert_eq!(counters.refused_full, policy.probes_unsent);
    assert_eq!(
        policy.probes_lost, 0,
        "our own congestion is no evidence about a replica"
    );
}

#[tokio::test]
async fn a_draining_replica_gets_no_queries_until_it_is_back() {
    let replicas = [
        Replica::start(Load::new(), None).await,
        Replica::start(Load::new(), None).await,
        Replica::start(Load::new(), None).await,
    ];
    let balancer = Balancer::with_seed(prequal(), udp_prober(None, 64), 1);
    let _drive = balancer.spawn_drive();
    for replica in &replicas {
        balancer.insert(replica.udp).expect("new");
    }
    let draining = |balancer: &Balancer| balancer.snapshot().replicas[0].draining;
    replicas[0].load.set_draining(true);
    until("it reports draining", || draining(&balancer)).await;
    let picked: BTreeSet<_> = (0..50).map(|_| pick_ready(&balancer).addr()).collect();
    assert!(!picked.contains(&replicas[0].udp));

    replicas[0].load.set_draining(false);
    until("it reports that it is back", || !draining(&balancer)).await;
    until("picked", || pick_ready(&balancer).addr() == replicas[0].udp).await;
}

#[tokio::test]
async fn ipv6_has_its_own_socket_and_unsupported_families_are_refused() {
    let v4_only = Balancer::with_seed(prequal(), udp_prober(None, 64), 1);
    let here = SocketAddr::from((Ipv6Addr::LOCALHOST, 9));
    v4_only.insert(here).expect("new");
    drop(pick_ready(&v4_only));
    assert_eq!(v4_only.probe_counters().refused_unsupported, 1);

    let Ok(socket) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).await else {
        // A machine without IPv6. The default prober must work all the same, and there is nothing
        // else to test.
        default_prober();
        return;
    };
    let replica = socket.local_addr().expect("bound");
    let responder = tokio::spawn(respond_udp(socket, Load::new(), None));
    let prober = UdpProber::bind(&UdpProberConfig {
        local_v4: None,
        local_v6: Some(Ipv6Addr::LOCALHOST),
        ..UdpProberConfig::default()
    })
    .expect("a socket on loopback");
    let balancer = Balancer::with_seed(prequal(), prober, 1);
    let _drive = balancer.spawn_drive();
    balancer.insert(replica).expect("new");
    until("an answer", || balancer.counters().probes_answered > 0).await;
    responder.abort();
}

#[tokio::test]
async fn fleet_of_ipv4_and_ipv6_replicas_is_probed_completely() {
    let mut sockets = Vec::new();
    for _ in 0..2 {
        sockets.push(UdpSocket::bind(addr(0)).await.expect("a socket"));
        // Without IPv6 there is one address family less to test.
        sockets.extend(UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).await.ok());
    }
    let balancer = Balancer::with_seed(prequal(), default_prober(), 1);
    let _drive = balancer.spawn_drive();
    let mut responders = tokio::task::JoinSet::new();
    for socket in sockets {
        let replica = socket.local_addr().expect("bound");
        balancer.insert(replica).expect("new");
        responders.spawn(respond_udp(socket, Load::new(), None));
    }
    until("each has answered", || {
        balancer.snapshot().pool.len() == responders.len()
    })
    .await;
    let counters = balancer.probe_counters();
    assert_eq!(counters.foreign + counters.replayed + counters.malformed, 0);
}

#[tokio::test]
async fn a_mapped_ipv4_address_is_probed_over_ipv4() {
    let replica = Replica::start(Load::new(), None).await;
    let balancer = Balancer::with_seed(prequal(), default_prober(), 1);
    let _drive = balancer.spawn_drive();
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let mapped = SocketAddr::from((mapped, replica.udp.port()));
    balancer.insert(mapped).expect("new");
    until("an answer", || balancer.counters().probes_answered > 0).await;
}

fn default_prober() -> UdpProber {
    UdpProber::bind(&UdpProberConfig::default()).expect("IPv4 is enough")
}

/// A replica that answers received probes when `answer` is called. On loopback a sent datagram is
/// there at once.
struct ByHand(std::net::UdpSocket);

impl ByHand {
    fn new() -> Self {
        let socket = std::net::UdpSocket::bind(addr(0)).expect("a socket");
        socket.set_nonblocking(true).expect("a socket of ours");
        Self(socket)
    }

    fn addr(&self) -> SocketAddr {
        self.0.local_addr().expect("bound")
    }

    /// Answers all probes, and returns their number.
    fn answer(&self) -> usize {
        let mut asked = [0; DATAGRAM_BYTES_MAX];
        let mut answered = 0;
        while let Ok((bytes, client)) = self.0.recv_from(&mut asked) {
            let request = decode_request(&asked[..bytes], None).expect("a proper one");
            let reply = reply(request.nonce, None);
            self.0.send_to(&reply, client).expect("sent");
            answered += 1;
        }
        answered
    }
}

/// Lets all tasks do what they can while time stands still.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn pick_uses_answers_that_are_still_in_the_socket() {
    let replicas = [ByHand::new(), ByHand::new(), ByHand::new()];
    let balancer = Balancer::with_seed(prequal(), udp_prober(None, 64), 1);
    for replica in &replicas {
        balancer.insert(replica.addr()).expect("new");
    }
    // No replica has answered yet, and three probes leave.
    assert_eq!(pick_ready(&balancer).reason(), PickReason::Fallback);
    settle().await;
    assert_eq!(replicas.each_ref().map(ByHand::answer), [1, 1, 1]);
    settle().await;
    let lease = pick_ready(&balancer);
    assert!(matches!(lease.reason(), PickReason::Cold | PickReason::Hot));
    assert_eq!(lease.view().candidates, 3);
}

#[tokio::test(start_paused = true)]
async fn answers_are_read_before_idle_probes_are_sent() {
    let replica = ByHand::new();
    let settings = PrequalSettings {
        probe_idle_max: Duration::from_millis(5),
        ..PrequalSettings::default()
    };
    let policy = Prequal::new(settings.validate().expect("a short time is one"));
    let balancer = Balancer::with_seed(Box::new(policy), udp_prober(None, 64), 1);
    let _drive = balancer.spawn_drive();
    balancer.insert(replica.addr()).expect("new");
    settle().await;
    assert_eq!(replica.answer(), 1);
    for step in 0..10 {
        tokio::time::advance(Duration::from_millis(6)).await;
        settle().await;
        assert_eq!(replica.answer(), 1, "its probe is no longer out: {step}");
    }
}

#[tokio::test]
async fn prober_without_an_address_is_an_error_that_names_the_field() {
    let error = UdpProber::bind(&UdpProberConfig {
        local_v4: None,
        local_v6: None,
        ..UdpProberConfig::default()
    })
    .expect_err("nowhere to send from");
    assert!(error.to_string().contains("local_v4"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn prober_carries_only_the_probes_of_its_first_balancer() {
    let replica = ByHand::new();
    let prober = std::sync::Arc::new(udp_prober(None, 64));
    let [owner, second] =
        [1, 2].map(|seed| Balancer::with_seed(prequal(), std::sync::Arc::clone(&prober), seed));
    for (balancer, probes) in [(&second, 0), (&owner, 1)] {
        balancer.insert(replica.addr()).expect("new");
        drop(pick_ready(balancer));
        settle().await;
        assert_eq!(replica.answer(), probes);
        settle().await;
        assert_eq!(balancer.counters().probes_answered, probes as u64);
    }
}
