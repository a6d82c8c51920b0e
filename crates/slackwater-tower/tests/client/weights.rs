//! Replicas with different capacity: as many parts as their weight, at one address. Paused time, no
//! sockets.

use crate::common::{HandProber, addr, pick_ready, prequal};
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_core::policy::LeastLoaded;
use slackwater_core::{LoadReport, Rif};
use slackwater_tower::client::{Balancer, InsertError, Lease, NoProber};
use std::sync::Arc;

const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
const THREE: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);
const FOUR: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);

#[tokio::test(start_paused = true)]
async fn queries_in_flight_are_proportional_to_the_weights() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    balancer.insert(addr(1)).expect("new");
    let heavy = balancer.insert_weighted(addr(2), TWO).expect("new");
    assert_eq!(heavy.len(), 2);
    let held: Vec<_> = (0..30).map(|_| pick_ready(&balancer)).collect();
    let at = |port| {
        held.iter()
            .filter(|lease| lease.addr() == addr(port))
            .count()
    };
    assert_eq!([at(1), at(2)], [10, 20]);
}

#[tokio::test(start_paused = true)]
async fn address_is_free_after_its_last_part_is_removed() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    let parts = balancer.insert_weighted(addr(1), THREE).expect("new");
    for (index, &part) in parts.iter().enumerate() {
        let error = balancer.insert(addr(1)).expect_err("a part is there");
        let InsertError::Duplicate {
            addr: taken,
            replica,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(taken, addr(1));
        assert!(parts[index..].contains(&replica), "one that is still there");
        assert_eq!(balancer.addr(part), Some(addr(1)));
        assert!(balancer.remove(part));
        assert_eq!(balancer.addr(part), None);
    }
    balancer.insert(addr(1)).expect("it is free");
}

#[tokio::test(start_paused = true)]
async fn report_of_a_weighted_replica_is_divided_among_its_parts() {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    let _guard = balancer.spawn_drive();
    balancer.insert_weighted(addr(1), FOUR).expect("new");
    balancer.insert(addr(2)).expect("new");
    let mut answered = 0;
    while answered < 8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for probe in prober.take() {
            let report = LoadReport::new(Rif::new(8), Some(Duration::from_millis(3)));
            prober.reports().report(probe.token, &report);
            answered += 1;
        }
    }
    let pool = balancer.snapshot().pool;
    assert!(pool.len() > 1, "{pool:?}");
    for report in pool {
        let rif = match balancer.addr(report.replica) {
            Some(at) if at == addr(1) => 2,
            _ => 8,
        };
        assert_eq!(report.rif, Rif::new(rif));
        assert_eq!(report.latency, Some(Duration::from_millis(3)));
    }
}

/// Probes that leave before parts are removed, and probes that leave afterwards.
#[tokio::test(start_paused = true)]
async fn reports_are_divided_among_the_parts_that_are_left() {
    for removed_first in [false, true] {
        let prober = Arc::new(HandProber::default());
        let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
        let parts = balancer.insert_weighted(addr(1), FOUR).expect("new");
        let remove = || parts[..2].iter().all(|&part| balancer.remove(part));
        assert!(!removed_first || remove());
        drop(pick_ready(&balancer));
        assert!(removed_first || remove());
        for probe in prober.take() {
            let report = LoadReport::new(Rif::new(8), None);
            prober.reports().report(probe.token, &report);
        }
        let pool = balancer.snapshot().pool;
        assert!(!pool.is_empty());
        for report in pool {
            assert_eq!(report.rif, Rif::new(4), "{removed_first}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn remaining_parts_keep_their_state_if_the_weight_changes() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    balancer.insert(addr(1)).expect("new");
    let parts = balancer.insert_weighted(addr(2), TWO).expect("new");
    let mut held: Vec<_> = (0..30).map(|_| pick_ready(&balancer)).collect();

    let more = balancer.set_weight(parts[1], FOUR).expect("known");
    assert_eq!(more.len(), 4);
    assert_eq!(more[0], parts[1]);
    assert!(more.contains(&parts[0]));
    held.extend((0..20).map(|_| pick_ready(&balancer)));
    let at = |held: &[Lease], port| {
        let there = held.iter().filter(|lease| lease.addr() == addr(port));
        there.count()
    };
    assert_eq!(
        [at(&held, 1), at(&held, 2)],
        [10, 40],
        "20 to the new parts"
    );

    let one = balancer
        .set_weight(parts[1], NonZeroU32::MIN)
        .expect("known");
    assert_eq!(one, [parts[1]]);
    assert_eq!(balancer.addr(parts[0]), None);
    let known = balancer.snapshot().replicas;
    let in_flight = |replica| {
        let view = known.iter().find(|view| view.replica == replica);
        view.expect("known").in_flight
    };
    assert_eq!(known.len(), 2);
    assert_eq!(in_flight(parts[1]), 10, "as before");
    assert_eq!(balancer.set_weight(parts[0], TWO), None, "it has left");
    drop(held);
    assert_eq!(balancer.in_flight(), 0);
}
