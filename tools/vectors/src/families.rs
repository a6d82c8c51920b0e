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

const LOADS: [(Subject, u64, &[u64]); 3] = [
    (Subject::Tracker, 200, &numbers::TRACKER),
    (Subject::Capacity, 800, &numbers::CAPACITY),
    (Subject::Rates, 60, &numbers::RATES),
];

/// All families, in the order of their files.
pub(crate) fn all() -> impl Iterator<Item = Committed> {
    let policies = POLICIES
        .into_iter()
        .filter_map(|(name, guarded, events, numbers)| {
            let entry = policy_named(name)?;
            Some(Committed {
                content: Content::Policy(Family { entry, guarded }),
                events,
                numbers,
            })
        });
    let loads = LOADS
        .into_iter()
        .map(|(subject, events, numbers)| Committed {
            content: Content::Load(subject),
            events,
            numbers,
        });
    policies.chain(loads)
}
