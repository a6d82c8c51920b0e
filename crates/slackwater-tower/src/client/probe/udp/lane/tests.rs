//! A lane, with replicas that answer when a test calls for it.

use super::super::nonces::tests::token;
use super::*;
use crate::client::rounds::Rounds;
use crate::client::{Balancer, NoProber};
use crate::wire::datagram::{DATAGRAM_BYTES_MAX, decode_request, encode_reply};
use bytes::Bytes;
use slackwater_core::policy::{
    Decision, Event, Policy, Prequal, PrequalConfig, PrequalSync, Query,
};
use slackwater_core::{NoDraw, ReplicaIds, Rif, SplitMix64};
use std::sync::Arc;

const LOCALHOST: SocketAddr =
    SocketAddr::new(core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 0);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(LOCALHOST).expect("a socket");
    socket.set_nonblocking(true).expect("a socket of ours");
    socket
}

fn lane(outstanding_max: u32) -> Lane {
    Lane::new(socket(), None, outstanding_max).expect("randomness")
}

fn probe(addr: SocketAddr, sent_at: Instant, deadline: Instant) -> ProbeToSend {
    ProbeToSend {
        token: token(),
        replica: ReplicaIds::new().allocate().expect("room"),
        addr,
        sent_at,
        deadline,
        hint: Bytes::new(),
    }
}

fn due(ms: u64) -> Instant {
    Instant::EPOCH + Duration::from_millis(ms)
}

/// A way to report answers, and the balancer that keeps it valid.
fn reports() -> (Reports, Balancer) {
    let policy = Box::new(Prequal::new(PrequalConfig::default()));
    let balancer = Balancer::new(policy, NoProber);
    (Reports::new(Arc::downgrade(&balancer.shared)), balancer)
}

/// A replica that answers the probes it has received when `answer` is called.
struct Replica {
    socket: UdpSocket,
    addr: SocketAddr,
}

impl Replica {
    fn new() -> Self {
        let socket = socket();
        let addr = socket.local_addr().expect("bound");
        Self { socket, addr }
    }

    /// Answers all probes. On loopback a sent datagram is there at once.
    fn answer(&self) -> usize {
        let mut asked = [0; DATAGRAM_BYTES_MAX];
        let mut answered = 0;
        while let Ok((bytes, client)) = self.socket.recv_from(&mut asked) {
            let nonce = decode_request(&asked[..bytes], None)
                .expect("a probe")
                .nonce;
            let report = LoadReport::new(Rif::new(3), None);
            let mut reply = [0; DATAGRAM_BYTES_MAX];
            let bytes = encode_reply(&ProbeReply { nonce, report }, None, &mut reply);
            self.socket.send_to(&reply[..bytes], client).expect("sent");
            answered += 1;
        }
        answered
    }
}

/// Answers that the lane has read so far. Does not make it read more.
fn answered(lane: &Lane) -> u64 {
    lane.lock().counters.answered
}

#[test]
fn queue_without_a_sending_task_is_bounded() {
    let lane = lane(16);
    let addr = SocketAddr::from(([127, 0, 0, 1], 9));
    for ms in 0..100 {
        // Each call finds the nonce slots of all earlier ones free again.
        let now = due(ms);
        let deadline = now + Duration::from_millis(1);
        let queued = lane.enqueue(probe(addr, now, deadline), true);
        assert_eq!(queued.err(), (ms >= 16).then_some(Refused::Full), "{ms}");
    }
    assert_eq!(lane.lock().queue.len(), 16);
    assert_eq!(lane.counters().refused_full, 84);
}

#[test]
fn socket_that_keeps_failing_ends_the_turn() {
    let lane = lane(2);
    let reports = Reports::new(std::sync::Weak::new());
    let mut inbox = Inbox::new(LOCALHOST);
    let mut calls = 0;
    let failing = |_: &mut Incoming, _| {
        calls += 1;
        Err(io::ErrorKind::NetworkDown.into())
    };
    let turn = lane.receive_turn(failing, &mut inbox, BATCH, None, &reports);
    assert_eq!((turn, calls), (Turn::Failing, REPLIES_AT_ONCE));
    let drained = |_: &mut Incoming, _| Err(io::ErrorKind::WouldBlock.into());
    let turn = lane.receive_turn(drained, &mut inbox, BATCH, None, &reports);
    assert_eq!(turn, Turn::Drained);
}

#[tokio::test(start_paused = true)]
async fn queued_probe_past_its_deadline_is_not_sent() {
    let lane = lane(2);
    let replica = Replica::new();
    let (reports, _balancer) = reports();
    for deadline in [due(3), due(9)] {
        let queued = lane.enqueue(probe(replica.addr, Instant::EPOCH, deadline), true);
        queued.expect("room");
    }
    let sent = Sending::new().send_queued(&lane, Some(due(3)), &reports);
    assert!(sent.is_ready());
    let counters = lane.counters();
    assert_eq!((counters.sent, counters.send_failed), (1, 1));
    assert_eq!(replica.answer(), 1);
    assert_eq!(lane.lock().nonces.awaited(due(3)), 1);
}

#[tokio::test(start_paused = true)]
async fn queue_of_any_length_is_sent_and_answered() {
    let replica = Replica::new();
    let (reports, balancer) = reports();
    let mut sending = Sending::new();
    let mut told = 0;
    for count in [1, 2, 5, BATCH, BATCH + 1, 3 * BATCH + 7] {
        let lane = lane(64);
        lane.reports.set(reports.clone()).expect("none yet");
        for _ in 0..count {
            let queued = lane.enqueue(probe(replica.addr, Instant::EPOCH, due(50)), true);
            queued.expect("room");
        }
        assert!(
            sending
                .send_queued(&lane, Some(due(1)), &reports)
                .is_ready()
        );
        assert_eq!(replica.answer(), count);
        assert_eq!(answered(&lane), 0, "the socket has not been read");
        lane.collect(due(2));
        assert_eq!(lane.lock().counters.sent, count as u64);
        assert_eq!(answered(&lane), count as u64);
        assert_eq!(lane.lock().nonces.awaited(due(2)), 0);
        // A balancer that did not send these probes gets their answers all the same.
        told += count as u64;
        assert_eq!(balancer.counters().reports_late, told);
    }
}

#[tokio::test(start_paused = true)]
async fn picks_in_quick_succession_read_the_socket_once() {
    let replica = Replica::new();
    let (reports, _balancer) = reports();
    let lane = lane(64);
    lane.reports.set(reports.clone()).expect("none yet");
    let mut sending = Sending::new();
    let mut ask = |now: Instant| {
        let queued = lane.enqueue(
            probe(replica.addr, now, now + Duration::from_millis(50)),
            true,
        );
        queued.expect("room");
        assert!(sending.send_queued(&lane, Some(now), &reports).is_ready());
        replica.answer()
    };
    let at = |us| due(1) + Duration::from_micros(us);
    ask(at(0));
    lane.collect(at(0));
    assert_eq!(answered(&lane), 1);
    ask(at(10));
    lane.collect(at(99));
    assert_eq!(answered(&lane), 1, "a moment ago it was empty");
    lane.collect(at(100));
    assert_eq!(answered(&lane), 2);
    // With no answer awaited, the socket is not read, whatever it holds.
    replica
        .socket
        .send_to(b"nonsense", lane.socket.local_addr().expect("bound"))
        .expect("sent");
    lane.collect(at(900));
    assert_eq!(lane.lock().counters.malformed, 0);
    assert_eq!(lane.lock().collected_at, Some(at(100)));
    assert_eq!(
        lane.counters().malformed,
        1,
        "reading the counts reads the socket"
    );
}

/// Lets the lane's task and the runtime's view of its sockets start, while time stands still.
async fn settle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

/// A lane and its running task.
async fn running(reports: Reports) -> (Arc<Lane>, tokio::task::JoinHandle<()>) {
    let lane = Arc::new(lane(64));
    let running = Arc::clone(&lane);
    let task = tokio::spawn(async move { running.run(reports).await });
    settle().await;
    (lane, task)
}

#[tokio::test(start_paused = true)]
async fn answers_wake_no_task_and_are_read_when_due() {
    let replica = Replica::new();
    let (reports, balancer) = reports();
    let (lane, task) = running(reports).await;
    for after in [10, 5] {
        let now = balancer.now();
        let deadline = now + Duration::from_millis(4 * after);
        let before = answered(&lane);
        lane.enqueue(probe(replica.addr, now, deadline), true)
            .expect("room");
        settle().await;
        assert_eq!(replica.answer(), 1, "the task has sent it");
        settle().await;
        assert_eq!(answered(&lane), before);
        tokio::time::advance(Duration::from_millis(after - 1)).await;
        settle().await;
        assert_eq!(answered(&lane), before);
        tokio::time::advance(Duration::from_millis(2)).await;
        settle().await;
        assert_eq!(answered(&lane), before + 1);
    }
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn answers_due_immediately_wake_the_task() {
    let replica = Replica::new();
    let (reports, balancer) = reports();
    let (lane, task) = running(reports).await;
    let now = balancer.now();
    lane.enqueue(
        probe(replica.addr, now, now + Duration::from_millis(4)),
        true,
    )
    .expect("room");
    assert!(!lane.lock().listens);
    lane.enqueue(
        probe(replica.addr, now, now + Duration::from_millis(3)),
        true,
    )
    .expect("room");
    settle().await;
    assert_eq!(replica.answer(), 2);
    settle().await;
    assert_eq!(
        answered(&lane),
        2,
        "no time has passed, and no call has read the socket"
    );
    task.abort();
}

#[test]
fn answers_awaited_by_a_query_wake_the_task() {
    let mut policy = PrequalSync::new(PrequalConfig::default());
    let mut ids = ReplicaIds::new();
    let replicas: Vec<_> = (0..4).map(|_| ids.allocate().expect("room")).collect();
    for &replica in &replicas {
        policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
    }
    let decision = policy.choose(
        Instant::EPOCH,
        Query::first(),
        &mut SplitMix64::new(1),
        None,
    );
    let Decision::Probe(round) = decision else {
        panic!("{decision:?}");
    };
    let id = Rounds::default().begin(round).expect("room");
    let lane = lane(2);
    let wanted = probe(LOCALHOST, Instant::EPOCH, due(1_000));
    lane.enqueue(wanted.clone(), true).expect("room");
    assert!(!lane.lock().listens);
    let token = ProbeToken::of_round(id, replicas[0]);
    lane.enqueue(ProbeToSend { token, ..wanted }, true)
        .expect("room");
    assert!(lane.lock().listens);
}
