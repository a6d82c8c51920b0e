//! What is known of a policy without making one: for the list of policies, configuration, and
//! whoever shows people how it chooses.

use crate::named;
use crate::policy::comparison::{self, Comparison};
use crate::policy::{Policy, PolicySettings};
use alloc::boxed::Box;
use core::fmt;

/// A policy that users can select, and all that others need to know of it. Nothing outside the core
/// decides by a policy's name.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// The name to select it by.
    pub name: &'static str,
    /// What it does, in a line of a list.
    pub about: &'static str,
    /// What it does, in a sentence for people who watch it.
    pub sentence: &'static str,
    /// The sections of settings that it reads; see [`PolicyEntry::reads`].
    pub sections: &'static [&'static str],
    /// How it comes by reports of load.
    pub reports: Reports,
    /// `prequal.rif_limit_quantile` says which of its reports are hot.
    pub has_rif_quantile: bool,
    /// What it takes from responses.
    pub carried: Carried,
    /// What it compares: as a rule the first, and the others where that is not possible.
    pub comparisons: &'static [&'static Comparison],
    /// Why the hot-cold rule decided, for a policy that as a rule compares a score; empty for
    /// others.
    pub why_hot_cold: &'static str,
    /// The section and the key by which failures count. Error aversion takes its place.
    pub failure_penalty: Option<(&'static str, &'static str)>,
    /// Makes one with an empty fleet.
    pub build: fn(&PolicySettings) -> Box<dyn Policy>,
}

named! {
    /// How a policy comes by reports of load.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reports by as_str {
        /// It has none: it sends no probes and goes by what this client sees.
        None = "none",
        /// It probes a few replicas for each query and keeps some of the answers in a pool.
        Pool = "pool",
        /// It probes a few replicas for each query and keeps the latest report of each.
        Latest = "latest",
        /// It polls every replica at an interval of its own.
        Polled = "polled",
        /// It probes a few replicas for each query and waits for their answers.
        Round = "round",
    }
}

named! {
    /// What a policy takes from the load that replicas report with responses.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Carried by as_str {
        /// Nothing.
        Nothing = "nothing",
        /// CPU utilization and rates of queries and errors.
        Rates = "rates",
        /// Requests in flight, capacity and cost.
        Capacity = "capacity",
    }
}

impl PolicyEntry {
    /// A policy that has no settings and no reports, and chooses by chance.
    pub(in crate::policy) const fn new(
        name: &'static str,
        about: &'static str,
        sentence: &'static str,
        build: fn(&PolicySettings) -> Box<dyn Policy>,
    ) -> Self {
        Self {
            name,
            about,
            sentence,
            sections: &[],
            reports: Reports::None,
            has_rif_quantile: false,
            carried: Carried::Nothing,
            comparisons: &[&comparison::CHANCE],
            why_hot_cold: "",
            failure_penalty: None,
            build,
        }
    }

    /// Whether it sends probes.
    pub fn has_probes(&self) -> bool {
        self.reports != Reports::None
    }

    /// Whether it can do without probes, by what this client sees itself: `prequal.local_only`.
    pub fn may_be_local(&self) -> bool {
        matches!(self.reports, Reports::Pool | Reports::Latest)
    }

    /// Whether the oldest and the worst reports leave its pool at `prequal.remove_rate`, whatever
    /// replicas report. A policy that goes by capacity removes none while all of them report it.
    pub fn removes_by_rate(&self) -> bool {
        self.reports == Reports::Pool && self.carried != Carried::Capacity
    }

    /// Whether it reads the section.
    pub fn reads(&self, section: &str) -> bool {
        self.sections.contains(&section)
    }

    /// Whether it reads the key of the section. The section `prequal` is read by several policies,
    /// not by each of them all.
    pub fn reads_key(&self, section: &str, key: &str) -> bool {
        if section != "prequal" {
            return self.reads(section);
        }
        self.reads(section)
            && match key {
                "sync_probes" | "sync_deadline" => self.reports == Reports::Round,
                "rif_limit_quantile" => self.has_rif_quantile,
                "remove_rate" | "pool_capacity" | "pool_drift" | "reuse_max" => {
                    self.reports == Reports::Pool
                }
                _ => self.reports != Reports::Round,
            }
    }
}

impl fmt::Debug for PolicyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyEntry")
            .field("name", &self.name)
            .field("reports", &self.reports)
            .field("carried", &self.carried)
            .finish_non_exhaustive()
    }
}

/// By name, of which there is one each.
impl PartialEq for PolicyEntry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PolicyEntry {}
