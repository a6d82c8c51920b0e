//! The families of scenarios: policies and parts of the tracker, and what is committed of each.

use crate::Family;
use crate::load::Subject;
use crate::numbers;
use slackwater_core::policy::policy_named;

/// What the scenarios of a file are about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Policy(Family),
    Load(Subject),
    /// Hashes, and orders of servers.
    KeyTable,
}

/// A file's content, and what is committed of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed {
    pub(crate) content: Content,
    /// Events of a scenario, in the mean.
    pub(crate) events: u64,
    /// The numbers of the scenarios.
    pub(crate) numbers: &'static [u64],
}

/// Name of the policy, whether health is around it, events of a scenario, and the scenarios.
const POLICIES: [(&str, bool, u64, &[u64]); 10] = [
    ("prequal", false, 150, &numbers::PREQUAL),
    ("prequal", true, 200, &numbers::PREQUAL_GUARDED),
    ("prequal_sync", false, 120, &numbers::PREQUAL_SYNC),
    ("prequal_sync", true, 160, &numbers::PREQUAL_SYNC_GUARDED),
    ("shortest_expected_delay", false, 200, &numbers::DELAY),
    (
        "shortest_expected_delay",
        true,
        240,
        &numbers::DELAY_GUARDED,
    ),
    ("least_loaded", false, 100, &numbers::LEAST_LOADED),
    ("least_loaded", true, 350, &numbers::LEAST_LOADED_GUARDED),
    ("random", false, 80, &numbers::RANDOM),
    ("random", true, 400, &numbers::RANDOM_GUARDED),
];

/// Likewise, with keys around all of that.
const KEYS: [(&str, bool, u64, &[u64]); 8] = [
    ("prequal", false, 200, &numbers::KEYS_PREQUAL),
    ("prequal_sync", false, 200, &numbers::KEYS_PREQUAL_SYNC),
    (
        "prequal_sync",
        true,
        200,
        &numbers::KEYS_PREQUAL_SYNC_GUARDED,
    ),
    ("shortest_expected_delay", false, 200, &numbers::KEYS_DELAY),
    (
        "shortest_expected_delay",
        true,
        240,
        &numbers::KEYS_DELAY_GUARDED,
    ),
    ("least_loaded", false, 200, &numbers::KEYS_LEAST_LOADED),
    ("random", false, 200, &numbers::KEYS_RANDOM),
    ("random", true, 240, &numbers::KEYS_RANDOM_GUARDED),
];

const LOADS: [(Subject, u64, &[u64]); 3] = [
    (Subject::Tracker, 200, &numbers::TRACKER),
    (Subject::Capacity, 800, &numbers::CAPACITY),
    (Subject::Rates, 60, &numbers::RATES),
];

/// All families, in the order of their files.
pub(crate) fn all() -> impl Iterator<Item = Committed> {
    let policies = POLICIES.map(|policy| (policy, false)).into_iter();
    let policies = policies.chain(KEYS.map(|policy| (policy, true)));
    let policies = policies.filter_map(|((name, guarded, events, numbers), keyed)| {
        let entry = policy_named(name)?;
        let family = Family {
            entry,
            guarded,
            keyed,
        };
        Some(Committed {
            content: Content::Policy(family),
            events,
            numbers,
        })
    });
    let table = Committed {
        content: Content::KeyTable,
        events: 1,
        numbers: &[1],
    };
    let loads = LOADS
        .into_iter()
        .map(|(subject, events, numbers)| Committed {
            content: Content::Load(subject),
            events,
            numbers,
        });
    policies.chain([table]).chain(loads)
}
