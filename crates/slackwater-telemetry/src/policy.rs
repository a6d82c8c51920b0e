//! A policy as those read it who show how it chooses, so that none of them has to know policies by
//! their names.

use serde::{Deserialize, Serialize};
use slackwater_core::policy::PolicyEntry;

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
    /// The name of what it compares.
    pub score: String,
    /// How that comes about, as a sentence; empty for policies that compare nothing of their own.
    pub formula: String,
    /// What decides between equals, as a clause; empty where chance does.
    pub tie: String,
    /// Why the hot-cold rule decided, for a policy that as a rule compares a score; empty for
    /// others.
    pub why_hot_cold: String,
}

impl From<&PolicyEntry> for PolicyFacts {
    fn from(entry: &PolicyEntry) -> Self {
        Self {
            name: entry.name.to_owned(),
            about: entry.sentence.to_owned(),
            reports: entry.reports.as_str().to_owned(),
            carried: entry.carried.as_str().to_owned(),
            score: entry.score.name.to_owned(),
            formula: entry.score.formula.to_owned(),
            tie: entry.score.tie.to_owned(),
            why_hot_cold: entry.why_hot_cold.to_owned(),
        }
    }
}
