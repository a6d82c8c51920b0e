//! Queries with keys, and replicas with caches.

use super::rig::{SINGLE, everyone, fingerprint, ms, plain, play, regular, same, secs};
use slackwater_sim::scenario::{Cache, Change, Event, Group, Keys};
use slackwater_sim::{Measured, Scenario};

/// Twenty keys of equal popularity.
const KEYS: Keys = Keys {
    count: 20,
    zipf: 0.0,
    hot_share: 0.0,
};

/// One replica that serves 20 queries a second of 10 ms each, one at a time. A miss costs 20 ms
/// more, so that there is never a queue.
fn cached(entries: usize) -> Scenario {
    let group = Group {
        cache: Some(Cache {
            entries,
            miss_cost: ms(20),
        }),
        ..Group::healthy(1, SINGLE)
    };
    let mut scenario = regular(20.0, vec![group], Vec::new());
    scenario.load.keys = Some(KEYS);
    scenario.span = secs(100);
    scenario
}

fn counts(measured: &Measured) -> (u64, u64) {
    (measured.cache_hits, measured.cache_misses)
}

#[test]
fn each_key_is_missed_once_if_the_cache_holds_all() {
    let measured = play(&cached(20), "round_robin");
    assert_eq!(counts(&measured), (measured.queries - 20, 20));
    assert!(same(measured.latency.quantile(0.9), ms(10)));
    assert!(same(measured.latency.quantile(1.0), ms(30)), "a miss");
    let mean = 10.0 + 20.0 * 20.0 / measured.queries as f64;
    let found = measured.latency.mean().as_secs_f64() * 1e3;
    assert!((found - mean).abs() < 1e-6, "{found}, not {mean}");
}

#[test]
fn small_cache_holds_its_share_of_the_keys() {
    let measured = play(&cached(5), "round_robin");
    // The last five keys of twenty equal ones: a quarter, with a deviation of 1 %.
    let share = measured.hit_share();
    assert!((share - 0.25).abs() < 0.05, "{share}");
}

#[test]
fn restarted_replica_has_a_cold_cache() {
    let mut scenario = cached(20);
    scenario.events.push(Event {
        at: secs(50),
        replica: 0,
        change: Change::Restart {
            down_for: ms(1),
            cold_slowness: 1.0,
            warm_after: ms(0),
        },
    });
    let measured = play(&scenario, "round_robin");
    assert_eq!(measured.cache_misses, 40, "each key once more");
    let hits = |seconds| measured.by_second.hit_share_within(seconds);
    assert_eq!(hits(40..50), Some(1.0));
    assert!(hits(50..51).is_some_and(|share| share < 0.7));
    assert_eq!(
        measured.latency_by_block.len(),
        100,
        "latencies are measured by second"
    );
}

#[test]
fn failed_query_leaves_no_key_in_the_cache() {
    use slackwater_sim::scenario::{Failure, FailureCost};
    let mut scenario = cached(20);
    scenario.fleet[0].failure = Some(Failure {
        share: 1.0,
        cost: FailureCost::Share(1.0),
        from: ms(0),
        until: secs(10),
        reported_until: secs(10),
    });
    let measured = play(&scenario, "round_robin");
    assert_eq!(measured.cache_misses, 20, "failures do not count");
    assert_eq!(measured.by_second.hit_share_within(0..9), None);
}

/// A load without keys has the draws that it always had, and keys alone change nothing.
#[test]
fn keys_without_caches_change_no_result() {
    for policy in everyone() {
        let mut scenario = plain(300.0, vec![Group::healthy(4, SINGLE)]);
        let without = play(&scenario, policy);
        scenario.load.keys = Some(KEYS);
        let mut with = play(&scenario, policy);
        assert_eq!(with.latency_by_block.len(), 10);
        with.latency_by_block.clear();
        assert_eq!(fingerprint(&with), fingerprint(&without), "{policy}");
    }
}
