//! Keys of queries, and caches.

use super::*;
use crate::scenario::{Cache, Keys};

const KEYS: Keys = Keys {
    count: 10,
    zipf: 0.9,
    hot_share: 0.1,
};

const CACHE: Cache = Cache {
    entries: 5,
    miss_cost: SECOND,
};

fn keyed(scenario: &mut Scenario) -> (&mut Keys, &mut Cache) {
    let keys = scenario.load.keys.insert(KEYS);
    let cache = scenario.fleet[1].cache.insert(CACHE);
    (keys, cache)
}

#[test]
fn mistakes_of_keys_are_reported() {
    assert_eq!(found(|it| _ = keyed(it)), [""; 0]);
    rejects(
        "load.keys.count",
        |it, count| keyed(it).0.count = count,
        [0, 1_000_001],
    );
    rejects(
        "load.keys.zipf",
        |it, zipf| keyed(it).0.zipf = zipf,
        NOT_FINITE.into_iter().chain([-0.1, 5.1]),
    );
    rejects(
        "load.keys.hot_share",
        |it, share| keyed(it).0.hot_share = share,
        no_share(),
    );
}

#[test]
fn mistakes_of_caches_are_reported() {
    rejects(
        "fleet[1].cache.entries",
        |it, entries| keyed(it).1.entries = entries,
        [0, 1_000_001],
    );
    rejects(
        "fleet[1].cache.miss_cost",
        |it, cost| keyed(it).1.miss_cost = cost,
        [AGES],
    );
    rejects(
        "fleet[1].cache.miss_cost",
        |it, trace: [Duration; 1]| {
            keyed(it);
            it.fleet[1].service = Service::LatencyTrace(trace.as_slice().into());
        },
        [[SECOND]],
    );
    rejects(
        "fleet[1].cache",
        |it, ()| {
            keyed(it);
            it.load.keys = None;
        },
        [()],
    );
}
