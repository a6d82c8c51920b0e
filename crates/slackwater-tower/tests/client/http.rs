//! Probes by HTTP, end to end with the server's side, and against replicas that violate the
//! protocol.

use crate::common::{Replica, addr, pick_ready, prequal, until};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use slackwater_core::policy::PickReason;
use slackwater_tower::client::probe::{Connect, Connecting, ProbeStream};
use slackwater_tower::client::{
    Balancer, DriveGuard, HttpProber, HttpProberConfig, ProbeCounters, ReplicaAddrs,
};
use slackwater_tower::server::Load;
use slackwater_tower::wire::ProbeKey;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A balancer with one replica that is probed at `probe`.
fn balancer_for(probe: SocketAddr) -> (Balancer, Arc<HttpProber>, DriveGuard) {
    balancer_with(HttpProber::new(HttpProberConfig::default()), probe)
}

pub(crate) fn balancer_with(
    prober: HttpProber,
    probe: SocketAddr,
) -> (Balancer, Arc<HttpProber>, DriveGuard) {
    let prober = Arc::new(prober);
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    let drive = balancer.spawn_drive();
    balancer
        .insert(ReplicaAddrs {
            query: addr(1),
            probe,
        })
        .expect("new");
    (balancer, prober, drive)
}

/// A server that answers each request with exactly `reply`, and then closes the connection unless
/// it `keeps` it.
async fn raw_server(reply: &'static [u8], keeps: bool) -> (SocketAddr, JoinSet<()>) {
    async fn serve(mut stream: TcpStream, reply: &[u8], keeps: bool) -> std::io::Result<()> {
        let mut request = [0; 2048];
        while stream.read(&mut request).await? > 0 {
            stream.write_all(reply).await?;
            if !keeps {
                return Ok(());
            }
        }
        Ok(())
    }
    let listener = TcpListener::bind(addr(0)).await.expect("a listener");
    let place = listener.local_addr().expect("bound");
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(async move { drop(serve(stream, reply, keeps).await) });
        }
    });
    (place, tasks)
}

#[tokio::test]
async fn probes_work_end_to_end_on_kept_connections() {
    let replicas = [
        Replica::start(Load::new(), None).await,
        Replica::start(Load::new(), None).await,
    ];
    let busy = [(); 5].map(|()| replicas[1].load.arrive());
    let prober = HttpProber::new(HttpProberConfig::default());
    let balancer = Balancer::with_seed(prequal(), prober, 1);
    let _drive = balancer.spawn_drive();
    for replica in &replicas {
        balancer.insert(replica.http).expect("new");
    }
    until("ten answers", || {
        drop(pick_ready(&balancer));
        balancer.counters().probes_answered >= 10
    })
    .await;
    until("both in the pool", || balancer.snapshot().pool.len() == 2).await;
    let lease = pick_ready(&balancer);
    assert_eq!(lease.addr(), replicas[0].http, "the other one is busy");
    assert_eq!(lease.reason(), PickReason::Cold);
    drop(busy);
    for replica in &replicas {
        assert_eq!(replica.accepted.load(Ordering::Relaxed), 1);
    }
    let counters = balancer.probe_counters();
    assert_eq!(counters.answered, balancer.counters().probes_answered);
    assert_eq!(counters.broken + counters.connect_failed, 0);
}

#[tokio::test]
async fn invalid_replies_are_counted_and_their_probes_lost() {
    type Count = fn(&ProbeCounters) -> u64;
    let cases: [(&[u8], Count); 7] = [
        (b"what do you want?\r\n\r\n", |c| c.broken),
        (b"", |c| c.broken),
        (b"HTTP/1.1 200 OK\r\ncontent-len", |c| c.broken),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", |c| c.bad_report),
        (
            b"HTTP/1.1 200 OK\r\nx-prequal-rif: 99999999999999999999999\r\ncontent-length: 0\r\n\r\n",
            |c| c.bad_report,
        ),
        (
            b"HTTP/1.1 200 OK\r\nx-prequal-rif: -1\r\nx-prequal-latency-us: soon\r\ncontent-length: 0\r\n\r\n",
            |c| c.bad_report,
        ),
        (
            b"HTTP/1.1 404 Not Found\r\nx-prequal-rif: 1\r\ncontent-length: 0\r\n\r\n",
            |c| c.bad_status,
        ),
    ];
    for (reply, count) in cases {
        let (place, _server) = raw_server(reply, false).await;
        let (balancer, prober, _drive) = balancer_for(place);
        let shown = String::from_utf8_lossy(reply);
        until(&shown, || count(&balancer.probe_counters()) >= 2).await;
        until("nothing is outstanding", || prober.outstanding() == 0).await;
        assert_eq!(balancer.probe_counters().answered, 0, "{shown}");
        until("silent", || balancer.snapshot().replicas[0].unprobed).await;
        assert_eq!(pick_ready(&balancer).addr(), addr(1), "and still picked");
    }
}

#[tokio::test]
async fn server_that_closes_after_each_answer_loses_no_probe() {
    let reply = b"HTTP/1.1 200 OK\r\nx-prequal-rif: 2\r\ncontent-length: 0\r\n\r\n";
    let (place, _server) = raw_server(reply, false).await;
    let (balancer, _prober, _drive) = balancer_for(place);
    until("five answers", || balancer.counters().probes_answered >= 5).await;
    let counters = balancer.probe_counters();
    assert_eq!((counters.broken, counters.timed_out), (0, 0));
}

#[tokio::test]
async fn long_body_closes_the_connection_and_its_report_counts() {
    let head = b"HTTP/1.1 200 OK\r\nx-prequal-rif: 2\r\ncontent-length: 100000\r\n\r\n".to_vec();
    let reply: &'static [u8] = [head, vec![b'x'; 100_000]].concat().leak();
    let (place, _server) = raw_server(reply, true).await;
    let (balancer, prober, _drive) = balancer_for(place);
    until("three answers", || balancer.counters().probes_answered >= 3).await;
    until("nothing is outstanding", || prober.outstanding() == 0).await;
    assert_eq!(balancer.probe_counters().broken, 0);
}

#[tokio::test]
async fn answered_probe_ends_even_if_its_body_never_arrives() {
    let reply = b"HTTP/1.1 200 OK\r\nx-prequal-rif: 2\r\ncontent-length: 10\r\n\r\n";
    let (place, _server) = raw_server(reply, true).await;
    let (balancer, prober, _drive) = balancer_for(place);
    until("five answers", || balancer.counters().probes_answered >= 5).await;
    until("nothing is outstanding", || prober.outstanding() == 0).await;
    let counters = balancer.probe_counters();
    let ends = counters.answered + counters.timed_out + counters.broken;
    assert!(ends <= counters.sent, "each ended once: {counters:?}");
}

#[tokio::test]
async fn hanging_replica_delays_no_pick_and_leaves_no_state() {
    // The backlog takes connections, but nothing reads from them.
    let listener = TcpListener::bind(addr(0)).await.expect("a listener");
    let hanging = listener.local_addr().expect("bound");
    let (balancer, prober, _drive) = balancer_for(hanging);
    until("a probe hangs", || prober.outstanding() == 1).await;
    for _ in 0..100 {
        // Ready at the first poll: this is what no delay means.
        drop(pick_ready(&balancer));
    }
    until("cut off", || balancer.probe_counters().timed_out >= 3).await;
    until("silent", || balancer.snapshot().replicas[0].unprobed).await;
    until("nothing is outstanding", || prober.outstanding() == 0).await;
    assert!(balancer.counters().probes_lost >= 3);
}

#[tokio::test]
async fn probes_beyond_the_cap_are_refused_and_counted() {
    let listener = TcpListener::bind(addr(0)).await.expect("a listener");
    let hanging = listener.local_addr().expect("bound");
    let prober = Arc::new(HttpProber::new(HttpProberConfig {
        outstanding_max: 2,
        ..HttpProberConfig::default()
    }));
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    for port in 1..9 {
        balancer
            .insert(ReplicaAddrs {
                query: addr(port),
                probe: hanging,
            })
            .expect("new");
    }
    // Twelve targets drawn from eight: at least five different ones are probed within the
    // millisecond.
    for _ in 0..4 {
        drop(pick_ready(&balancer));
    }
    assert_eq!(prober.outstanding(), 2);
    let refused = balancer.probe_counters().refused_full;
    let policy = balancer.counters();
    assert!(refused >= 3, "{policy:?}");
    assert_eq!(
        (policy.probes_sent, policy.probes_unsent, policy.probes_lost),
        (refused + 2, refused, 0)
    );
}

#[tokio::test]
async fn prober_carries_only_the_probes_of_its_first_balancer() {
    let prober = Arc::new(HttpProber::new(HttpProberConfig::default()));
    let [owner, second] =
        [1, 2].map(|seed| Balancer::with_seed(prequal(), Arc::clone(&prober), seed));
    for (balancer, probes) in [(&second, 0), (&owner, 1)] {
        balancer.insert(addr(1)).expect("new");
        drop(pick_ready(balancer));
        assert_eq!(prober.outstanding(), probes);
    }
}

#[tokio::test]
async fn a_refused_connection_is_not_tried_again_at_once() {
    let gone = {
        let listener = TcpListener::bind(addr(0)).await.expect("a listener");
        listener.local_addr().expect("bound")
    };
    let (balancer, _prober, _drive) = balancer_for(gone);
    until("refused", || balancer.probe_counters().connect_failed == 1).await;
    until("spared", || {
        drop(pick_ready(&balancer));
        balancer.probe_counters().refused_back_off >= 1
    })
    .await;
    until("tried again", || {
        drop(pick_ready(&balancer));
        balancer.probe_counters().connect_failed >= 2
    })
    .await;
}

#[tokio::test]
async fn departed_replica_keeps_no_connection() {
    let replica = Replica::start(Load::new(), None).await;
    let prober = HttpProber::new(HttpProberConfig::default());
    let balancer = Balancer::with_seed(prequal(), prober, 1);
    let _drive = balancer.spawn_drive();
    let first = balancer.insert(replica.http).expect("new");
    let answered = |balancer: &Balancer| balancer.counters().probes_answered;
    until("three answers", || answered(&balancer) >= 3).await;
    assert_eq!(replica.accepted.load(Ordering::Relaxed), 1);
    balancer.remove(first);
    balancer.insert(replica.http).expect("it is free again");
    let before = answered(&balancer);
    until("answers", || answered(&balancer) >= before + 2).await;
    assert_eq!(replica.accepted.load(Ordering::Relaxed), 2);
}

fn key(digit: char) -> ProbeKey {
    let digits: String = core::iter::repeat_n(digit, 32).collect();
    digits.parse().expect("a key")
}

/// Makes a balancer that signs its probes with `ours`, and one replica with the key `theirs`.
async fn signed(
    ours: Option<ProbeKey>,
    theirs: Option<ProbeKey>,
) -> (Balancer, DriveGuard, Replica) {
    let replica = Replica::start(Load::new(), theirs).await;
    let prober = HttpProber::new(HttpProberConfig {
        key: ours,
        ..HttpProberConfig::default()
    });
    let balancer = Balancer::with_seed(prequal(), prober, 1);
    let drive = balancer.spawn_drive();
    let probe = replica.http;
    balancer
        .insert(ReplicaAddrs {
            query: addr(1),
            probe,
        })
        .expect("new");
    (balancer, drive, replica)
}

#[tokio::test]
async fn probes_work_with_the_same_key_on_both_sides() {
    let (balancer, _drive, replica) = signed(Some(key('a')), Some(key('a'))).await;
    until("answers", || {
        drop(pick_ready(&balancer));
        balancer.counters().probes_answered >= 3
    })
    .await;
    let counts = replica.load.counts();
    assert_eq!(counts.http_refused, 0);
    assert_eq!(balancer.probe_counters().bad_report, 0);
}

#[tokio::test]
async fn without_the_key_a_replica_reports_nothing() {
    for ours in [None, Some(key('b'))] {
        let (balancer, _drive, replica) = signed(ours, Some(key('a'))).await;
        until("refusals", || {
            drop(pick_ready(&balancer));
            balancer.probe_counters().bad_status >= 2
        })
        .await;
        assert_eq!(replica.load.counts().http_answered, 0);
        assert_eq!(balancer.counters().probes_answered, 0);
    }
}

#[tokio::test]
async fn unsigned_report_is_rejected() {
    let (balancer, _drive, replica) = signed(Some(key('a')), None).await;
    until("reports", || {
        drop(pick_ready(&balancer));
        balancer.probe_counters().bad_report >= 2
    })
    .await;
    assert!(replica.load.counts().http_answered >= 2);
    assert_eq!(balancer.counters().probes_answered, 0);
}

/// Connects to another address than the requested one, and counts.
#[derive(Debug)]
struct Detour(SocketAddr, Arc<AtomicUsize>);

impl Connect for Detour {
    fn connect(&self, _addr: SocketAddr) -> Connecting<'_> {
        Box::pin(async move {
            self.1.fetch_add(1, Ordering::Relaxed);
            let stream = TcpStream::connect(self.0).await?;
            Ok(Box::new(stream) as Box<dyn ProbeStream>)
        })
    }
}

#[tokio::test]
async fn custom_connector_opens_the_connections() {
    let replica = Replica::start(Load::new(), None).await;
    let opened = Arc::new(AtomicUsize::new(0));
    let detour = Detour(replica.http, Arc::clone(&opened));
    let prober = HttpProber::with_connector(HttpProberConfig::default(), detour);
    let (balancer, _prober, _drive) = balancer_with(prober, addr(2));
    until("answers", || {
        drop(pick_ready(&balancer));
        balancer.counters().probes_answered >= 3
    })
    .await;
    assert_eq!(opened.load(Ordering::Relaxed), 1, "and kept");
}
