//! The families of scenarios, each a policy, and how much of each is committed.

use crate::Family;
use slackwater_core::policy::policy_named;

/// Name of the policy, whether health is around it, scenarios, and events of each.
const FAMILIES: [(&str, bool, u64, u64); 10] = [
    ("prequal", false, 40, 150),
    ("prequal", true, 15, 200),
    ("prequal_sync", false, 20, 120),
    ("prequal_sync", true, 10, 160),
    ("shortest_expected_delay", false, 40, 200),
    ("shortest_expected_delay", true, 25, 240),
    ("least_loaded", false, 10, 100),
    ("least_loaded", true, 15, 250),
    ("random", false, 5, 80),
    ("random", true, 20, 300),
];

/// All families, in the order of their files.
pub fn families() -> impl Iterator<Item = Family> {
    FAMILIES
        .into_iter()
        .filter_map(|(name, guarded, scenarios, events)| {
            Some(Family {
                entry: policy_named(name)?,
                guarded,
                scenarios,
                events,
            })
        })
}
