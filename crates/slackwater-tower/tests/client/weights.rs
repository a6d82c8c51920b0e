//! Replicas that have more room than others: as many parts as their weight, at one address. Paused time, no sockets.

use crate::common::{HandProber, addr, pick_ready, prequal};
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_core::policy::LeastLoaded;
use slackwater_core::{LoadReport, Rif};
use slackwater_tower::client::{Balancer, InsertError, NoProber};
use std::sync::Arc;

fn weight(weight: u32) -> NonZeroU32 {
    NonZeroU32::new(weight).expect("not 0")
}

#[tokio::test(start_paused = true)]
async fn queries_in_flight_are_as_the_weights() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    balancer.insert(addr(1)).expect("new");
    let heavy = balancer.insert_weighted(addr(2), weight(2)).expect("new");
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
async fn an_address_is_free_when_its_last_part_has_left() {
    let balancer = Balancer::with_seed(Box::new(LeastLoaded::new()), NoProber, 1);
    let parts = balancer.insert_weighted(addr(1), weight(3)).expect("new");
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
async fn a_report_is_of_the_whole_and_counts_as_of_a_part() {
    let prober = Arc::new(HandProber::default());
    let balancer = Balancer::with_seed(prequal(), Arc::clone(&prober), 1);
    let _guard = balancer.spawn_drive();
    balancer.insert_weighted(addr(1), weight(4)).expect("new");
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
