//! A policy as those read it who show how it chooses, so that none of them has to know policies by
//! their names.

use serde::{Deserialize, Serialize};
use slackwater_core::policy::{Comparison, PolicyEntry};

/// What is told of a policy; `docs/reference/live.md` documents each field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PolicyFacts {
    /// The name to select it by.
    pub name: String,
    /// What it does, in a sentence.
    pub about: String,
    /// How it comes by reports: `none`, `pool`, `latest`, `polled` or `round`.
    pub reports: String,
    /// What it takes from responses: `nothing`, `rates` or `capacity`.
    pub carried: String,
    /// How it compares replicas as a rule: the name of a comparison.
    pub comparison: String,
    /// The name of what decides first in it; empty where chance or turns decide.
    pub score: String,
    /// Why the hot-cold rule decided, for a policy that as a rule compares a score; empty for
    /// others.
    pub why_hot_cold: String,
}

impl From<&PolicyEntry> for PolicyFacts {
    fn from(entry: &PolicyEntry) -> Self {
        let usual = entry.comparisons.first().copied();
        let decisive = usual.and_then(Comparison::decisive);
        Self {
            name: entry.name.to_owned(),
            about: entry.sentence.to_owned(),
            reports: entry.reports.as_str().to_owned(),
            carried: entry.carried.as_str().to_owned(),
            comparison: usual.map_or("", |it| it.name).to_owned(),
            score: decisive.map_or("", |factor| factor.name).to_owned(),
            why_hot_cold: entry.why_hot_cold.to_owned(),
        }
    }
}
