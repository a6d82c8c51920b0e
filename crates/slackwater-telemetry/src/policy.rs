//! A policy's description for displays of its choices, which therefore need no policy names.

use serde::{Deserialize, Serialize};
use slackwater_core::policy::{Comparison, PolicyEntry};

/// A policy's description; `docs/reference/live.md` documents each field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PolicyFacts {
    /// The policy's name in the configuration.
    pub name: String,
    /// The policy's effect, in a sentence.
    pub about: String,
    /// How it gets load reports: `none`, `pool`, `latest`, `polled` or `round`.
    pub reports: String,
    /// What it reads from responses: `nothing`, `rates` or `capacity`.
    pub carried: String,
    /// The comparison that it normally uses, by name.
    pub comparison: String,
    /// The name of the value that it compares first; empty if chance or a rotation decides.
    pub score: String,
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
        }
    }
}
