//! Synchronous mode: quorum, deadline and hint, by hand in paused time and over both carriers.

use crate::common::{HandProber, Replica, addr, prequal_sync, udp_prober, until};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use slackwater_core::policy::prequal::{PrequalSettings, PrequalSync};
use slackwater_core::policy::{Outcome, PickReason, Query};
use slackwater_core::{LoadReport, LoadScale, Rif};
use slackwater_tower::client::{
    Balancer, HttpProber, HttpProberConfig, Lease, NoProber, Picked, Prober, ReplicaAddrs,
};
use slackwater_tower::server::Load;
use std::sync::Arc;

fn report(rif: u32) -> LoadReport {
    LoadReport::new(Rif::new(rif), Some(Duration::from_millis(u64::from(rif))))
}

fn hand_balancer(replicas: u16) -> (Balancer, Arc<HandProber>) {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(prequal_sync(), Arc::clone(&prober), 1);
    for port in 1..=replicas {
        balancer.insert(addr(port)).expect("new");
    }
    (balancer, prober)
}

async fn choose(balancer: &Balancer, hint: Option<&[u8]>) -> Lease {
    let chosen = balancer.choose(Query::first(), hint).await;
    chosen.expect("a replica is known")
}

#[tokio::test(start_paused = true)]
async fn two_of_three_answers_are_a_quorum() {
    let (balancer, prober) = hand_balancer(3);
    let choosing = tokio::spawn({
        let balancer = balancer.clone();
        async move { choose(&balancer, Some(b"user-17")).await }
    });
    tokio::task::yield_now().await;
    let sent = prober.take();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|probe| &probe.hint[..] == b"user-17"));
    assert!(
        sent.iter()
            .all(|probe| probe.deadline.as_nanos() == 3_000_000)
    );
    prober.reports().report(sent[0].token, &report(5));
    tokio::task::yield_now().await;
    assert!(!choosing.is_finished(), "one is not enough");
    prober.reports().report(sent[1].token, &report(2));
    let lease = choosing.await.expect("no panic");
    assert_eq!(lease.replica(), sent[1].replica);
    assert_eq!(lease.view().candidates, 2);

    // Too late: these change nothing.
    prober.reports().report(sent[2].token, &report(0));
    prober.reports().lost(sent[0].token);
    lease.finish(Outcome::Success);
    let counters = balancer.counters();
    assert_eq!((counters.rounds, counters.reports_late), (1, 1));
    assert_eq!(balancer.in_flight(), 0);
}

/// Only the scout's answer shows that a replica no longer drains.
#[tokio::test(start_paused = true)]
async fn the_largest_round_has_room_for_the_probe_of_its_scout() {
    let most = PrequalSettings {
        sync_probes: 8,
        ..PrequalSettings::default()
    };
    let prober = Arc::new(HandProber::default());
    let policy = Box::new(PrequalSync::new(most.validate().expect("in range")));
    let balancer = Balancer::with_seed(policy, Arc::clone(&prober), 1);
    for port in 1..=9 {
        balancer.insert(addr(port)).expect("new");
    }
    let mut draining = None;
    let mut sent_at_once = Vec::new();
    for round in 0..50 {
        let choosing = tokio::spawn({
            let balancer = balancer.clone();
            async move { choose(&balancer, None).await }
        });
        tokio::task::yield_now().await;
        let sent = prober.take();
        let first = *draining.get_or_insert(sent[0].replica);
        for probe in &sent {
            let mut answer = report(1);
            answer.draining = round == 0 && probe.replica == first;
            prober.reports().report(probe.token, &answer);
        }
        sent_at_once.push(sent.len());
        choosing.await.expect("no panic").finish(Outcome::Success);
    }
    assert_eq!(sent_at_once.iter().max(), Some(&9));
    let all: usize = sent_at_once.iter().sum();
    assert_eq!(balancer.counters().probes_sent, all as u64);
}

#[tokio::test(start_paused = true)]
async fn pick_uses_the_answers_received_by_the_deadline() {
    let (balancer, prober) = hand_balancer(3);
    for answers in [1, 0] {
        let started = tokio::time::Instant::now();
        let choosing = tokio::spawn({
            let balancer = balancer.clone();
            async move { choose(&balancer, None).await }
        });
        tokio::task::yield_now().await;
        let sent = prober.take();
        for probe in &sent[..answers] {
            prober.reports().report(probe.token, &report(5));
        }
        let lease = choosing.await.expect("no panic");
        let waited = started.elapsed();
        assert!((3..=4).contains(&waited.as_millis()), "{waited:?}");
        assert!(lease.view().probing >= Duration::from_millis(3), "[S4]");
        if answers == 1 {
            assert_eq!(lease.reason(), PickReason::SoleAnswer);
            assert_eq!(lease.replica(), sent[0].replica);
        } else {
            assert_eq!(lease.reason(), PickReason::Fallback);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_does_not_wait_for_lost_or_refused_probes() {
    let (balancer, prober) = hand_balancer(3);
    let started = tokio::time::Instant::now();
    let choosing = tokio::spawn({
        let balancer = balancer.clone();
        async move { choose(&balancer, None).await }
    });
    tokio::task::yield_now().await;
    for probe in prober.take() {
        prober.reports().lost(probe.token);
    }
    let lease = choosing.await.expect("no panic");
    assert_eq!(lease.reason(), PickReason::Fallback);

    let refusing = Balancer::with_seed(prequal_sync(), NoProber, 1);
    for port in 1..4 {
        refusing.insert(addr(port)).expect("new");
    }
    assert_eq!(choose(&refusing, None).await.reason(), PickReason::Fallback);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn late_answers_to_a_dropped_round_are_ignored() {
    let (balancer, prober) = hand_balancer(3);
    let mut cx = Context::from_waker(Waker::noop());
    let mut stale = Vec::new();
    for _ in 0..3 {
        let Picked::Probing(mut round) = balancer.pick(Query::first()) else {
            panic!("three replicas are worth asking");
        };
        round.send(&bytes::Bytes::new());
        assert_eq!(round.poll_ready(&mut cx), Poll::Pending);
        drop(round);
        stale.extend(prober.take());
    }
    let Picked::Probing(mut round) = balancer.pick(Query::first()) else {
        panic!("three replicas are worth asking");
    };
    round.send(&bytes::Bytes::new());
    for probe in stale {
        prober.reports().report(probe.token, &report(1));
    }
    assert_eq!(round.poll_ready(&mut cx), Poll::Pending, "none was for it");
    assert_eq!(balancer.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn pick_is_random_beyond_the_cap_of_concurrent_rounds() {
    let (balancer, _prober) = hand_balancer(3);
    let mut rounds = Vec::new();
    let lease = loop {
        match balancer.pick(Query::first()) {
            Picked::Probing(round) => rounds.push(round),
            Picked::Ready(lease) => break lease,
            Picked::NoReplica => panic!("three are known"),
        }
    };
    assert_eq!(rounds.len(), 4096);
    assert_eq!(lease.reason(), PickReason::Fallback);
    rounds.pop();
    assert!(matches!(balancer.pick(Query::first()), Picked::Probing(_)));
}

#[tokio::test(start_paused = true)]
async fn hint_that_fits_no_probe_is_left_out() {
    for (bytes, sent_bytes) in [(256, 256), (257, 0)] {
        let (balancer, prober) = hand_balancer(3);
        let hint = vec![7; bytes];
        let choosing = tokio::spawn(async move { choose(&balancer, Some(&hint)).await });
        tokio::task::yield_now().await;
        let sent: Vec<usize> = prober.take().iter().map(|it| it.hint.len()).collect();
        assert_eq!(sent, [sent_bytes; 3]);
        choosing.abort();
    }
}

/// Ten times busier than the others, but it has the data for the hint.
fn warm() -> Load {
    Load::builder()
        .hint_scale(|hint| LoadScale::from_1024ths(if hint == b"user-17" { 10 } else { 1024 }))
        .build()
}

async fn hints_attract(prober: impl Prober, probe: fn(&Replica) -> core::net::SocketAddr) {
    let replicas = [
        Replica::start(warm(), None).await,
        Replica::start(Load::new(), None).await,
    ];
    let mut busy: Vec<_> = (0..10).map(|_| replicas[0].load.arrive()).collect();
    busy.push(replicas[1].load.arrive());
    let balancer = Balancer::with_seed(prequal_sync(), prober, 1);
    for replica in &replicas {
        let addrs = ReplicaAddrs {
            query: replica.http,
            probe: probe(replica),
        };
        balancer.insert(addrs).expect("new");
    }
    // The first rounds may reach their deadline while connections are opened. From then on both
    // answer.
    for (hint, expected) in [(&b"user-17"[..], 0), (b"user-18", 1), (b"", 1)] {
        let mut both = None;
        while both.is_none() {
            let lease = choose(&balancer, Some(hint)).await;
            both = (lease.view().candidates == 2).then_some(lease);
        }
        let lease = both.expect("the loop ends with one");
        assert_eq!(lease.addr(), replicas[expected].http, "{hint:?}");
    }
    until("all came back", || balancer.in_flight() == 0).await;
}

#[tokio::test]
async fn a_hint_attracts_its_query_over_udp() {
    hints_attract(udp_prober(None, 64), |replica| replica.udp).await;
}

#[tokio::test]
async fn a_hint_attracts_its_query_over_http() {
    let prober = HttpProber::new(HttpProberConfig::default());
    hints_attract(prober, |replica| replica.http).await;
}
