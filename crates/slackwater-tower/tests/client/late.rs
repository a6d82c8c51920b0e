//! Probes by HTTP whose connections or replies take longer than a probe may.

use crate::common::{Gauge, addr, pick_ready, prequal, until};
use crate::http::balancer_with;
use core::future::pending;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use slackwater_tower::client::probe::{Connect, Connecting, ProbeStream};
use slackwater_tower::client::{Balancer, HttpProber, HttpProberConfig, ReplicaAddrs};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nx-prequal-rif: 2\r\ncontent-length: 0\r\n\r\n";

/// Connections to a replica that is far away.
#[derive(Debug, Default)]
struct Far {
    opens_in: Duration,
    answers_in: Duration,
    /// How many connections are never opened, before the others.
    hanging: AtomicUsize,
    /// Connections that are being opened.
    opening: Arc<Gauge>,
}

impl Connect for Far {
    fn connect(&self, _addr: SocketAddr) -> Connecting<'_> {
        Box::pin(async move {
            let _opening = self.opening.begin();
            let less = |hanging: usize| hanging.checked_sub(1);
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            if self.hanging.fetch_update(set, fetch, less).is_ok() {
                return pending().await;
            }
            sleep(self.opens_in).await;
            let (client, server) = tokio::io::duplex(4096);
            tokio::spawn(answer(server, self.answers_in));
            Ok(Box::new(client) as Box<dyn ProbeStream>)
        })
    }
}

/// Answers every request until the connection is closed.
async fn answer(mut stream: DuplexStream, after: Duration) {
    let mut request = [0; 2048];
    while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
        sleep(after).await;
        if stream.write_all(REPLY).await.is_err() {
            return;
        }
    }
}

/// How long it takes until three probes are answered.
async fn answered(far: Far) -> Duration {
    let prober = HttpProber::with_connector(HttpProberConfig::default(), far);
    let (balancer, _prober, _drive) = balancer_with(prober, addr(2));
    let began = Instant::now();
    until("answers", || {
        drop(pick_ready(&balancer));
        balancer.counters().probes_answered >= 3
    })
    .await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn connection_that_takes_longer_than_a_probe_is_for_the_next_one() {
    let (ms, none) = (Duration::from_millis, Duration::ZERO);
    // Either alone, and both together, take longer than a probe's 50 ms.
    for (opens_in, answers_in) in [(ms(80), none), (ms(30), ms(30)), (ms(600), ms(40))] {
        let taken = answered(Far {
            opens_in,
            answers_in,
            ..Far::default()
        })
        .await;
        let first = opens_in + answers_in;
        assert!(taken >= first && taken < 2 * first + ms(100), "{taken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn replica_is_probed_again_although_connections_to_it_hang() {
    let taken = answered(Far {
        hanging: AtomicUsize::new(5),
        ..Far::default()
    })
    .await;
    // A replica without an answer is probed once a second.
    assert!(taken < Duration::from_secs(4), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn connections_that_are_opened_are_bounded() {
    let far = Far {
        hanging: AtomicUsize::new(usize::MAX),
        ..Far::default()
    };
    let opening = Arc::clone(&far.opening);
    let config = HttpProberConfig {
        outstanding_max: 8,
        ..HttpProberConfig::default()
    };
    let prober = Arc::new(HttpProber::with_connector(config, far));
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    let _drive = balancer.spawn_drive();
    for port in 1..=100 {
        let (query, probe) = (addr(port), addr(1000 + port));
        balancer.insert(ReplicaAddrs { query, probe }).expect("new");
    }
    let began = Instant::now();
    until("four seconds", || {
        drop(pick_ready(&balancer));
        began.elapsed() >= Duration::from_secs(4)
    })
    .await;
    assert_eq!(opening.most(), 16, "and no others");
}
