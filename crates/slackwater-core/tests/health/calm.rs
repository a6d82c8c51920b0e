//! Few queries, few replicas: an occasional failure is chance, and a replica that really fails is
//! still found.

use crate::fleet::{Client, KINDS, MS, Manner, SECOND};
use core::time::Duration;
use slackwater_core::health::{HealthSettings, HealthState};
use slackwater_core::{LoadReport, Rif};

fn calm(kind: &str, replicas: usize, gap: Duration) -> Client {
    let mut client = Client::new(kind, replicas, HealthSettings::default());
    client.gap = gap;
    client
}

fn failing(fails: u32) -> Manner {
    Manner {
        fails,
        ..Manner::default()
    }
}

#[test]
fn a_single_failure_lowers_no_share() {
    for kind in KINDS {
        for (replicas, gap) in [(4, 100), (4, 500), (2, 250), (8, 100)] {
            let mut client = calm(kind, replicas, gap * MS);
            client.run(20 * SECOND);
            client.manners[1] = failing(100);
            while client.run(client.gap).failed == 0 {}
            client.manners[1] = failing(0);
            for _ in 0..150 {
                client.run(100 * MS);
                assert_eq!(client.view(1).state, HealthState::Sound, "{kind}");
            }
        }
    }
}

#[test]
fn rare_failures_at_low_load_eject_no_replica() {
    for kind in ["random", "least_loaded"] {
        for (replicas, gap) in [(4, 500), (4, 125), (8, 50)] {
            for fails_rarely in [5, 10, 20] {
                let mut client = calm(kind, replicas, gap * MS);
                for manner in &mut client.manners {
                    manner.fails_rarely = fails_rarely;
                }
                let shown = client.run(10_000 * client.gap);
                let counters = client.counters();
                let those = format!("{kind}: {replicas}, {gap} ms, {fails_rarely} in 1,000");
                assert!(shown.failed > 3, "{those}");
                assert_eq!((counters.ejections, counters.spared), (0, 0), "{those}");
            }
        }
    }
}

#[test]
fn replica_that_always_fails_is_ejected_after_five_queries() {
    for (replicas, gap) in [(2, 500), (4, 500), (8, 100)] {
        let mut client = calm("round_robin", replicas, gap * MS);
        client.run(20 * SECOND);
        client.manners[1] = failing(100);
        let shown = client.run(60 * SECOND);
        assert!(shown.failed - shown.trials <= 5, "{shown:?}");
        assert_eq!(client.view(1).state, HealthState::Ejected);
    }
}

#[test]
fn replica_that_fails_half_is_ejected_within_a_minute_at_10_qps() {
    for (kind, replicas) in [("random", 4), ("least_loaded", 4), ("round_robin", 8)] {
        let mut client = calm(kind, replicas, 100 * MS);
        client.run(20 * SECOND);
        client.manners[1] = failing(50);
        client.run(60 * SECOND);
        assert!(client.counters().ejections > 0, "{kind}");
        let shown = client.run(600 * SECOND);
        let all = 1_000 / u32::try_from(replicas).expect("few") / 2;
        assert!(shown.failed_per_mille() < all / 5, "{kind}: {shown:?}");
    }
}

#[test]
fn report_weighs_as_much_as_queries_sent_to_the_replica() {
    // One of the ten queries in the report's window failed.
    for (share, state) in [
        (100_000, HealthState::Sound),
        (900_000, HealthState::Ejected),
    ] {
        let mut client = calm("round_robin", 4, 125 * MS);
        client.run(20 * SECOND);
        let mut report = LoadReport::new(Rif::ZERO, None);
        report.error_millionths = Some(share);
        for _ in 0..30 {
            client.hear(1, &report);
            client.run(500 * MS);
        }
        assert_eq!(client.view(1).state, state, "{share}");
    }
}
