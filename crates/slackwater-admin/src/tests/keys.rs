//! Keys in the facts of a worker, and an agent's hints.

use slackwater_core::keys::{KeyHash, KeySettings, KeyView, keyed};
use slackwater_core::policy::{Decision, Event, Outcome, Query, Settings};
use slackwater_core::{Instant, NoDraw, ReplicaId, SplitMix64};
use slackwater_telemetry::facts::HintFacts;

/// The hints of an agent.
pub(super) const HINTS: HintFacts = HintFacts {
    entries: 7,
    hits: 5,
    misses: 2,
};

/// The keys of a policy that has chosen for one of them.
pub(super) fn view(ids: &[ReplicaId]) -> Option<KeyView> {
    let settings = KeySettings {
        partitions: 8,
        ..KeySettings::default()
    };
    let config = settings.validate().expect("valid");
    let mut policy = keyed(slackwater_core::default_policy(), &config);
    let (now, mut draw) = (Instant::EPOCH, SplitMix64::new(1));
    for &id in ids {
        policy.handle(now, Event::Added(id), &mut NoDraw);
    }
    let query = Query::first().with_key(KeyHash::from_bits(7));
    let Decision::Pick(pick) = policy.choose(now, query, &mut draw, None) else {
        panic!("five replicas are available");
    };
    let keys = policy.snapshot(now).keys;
    policy.handle_query_done(now, pick.ticket, Outcome::Success);
    keys
}
