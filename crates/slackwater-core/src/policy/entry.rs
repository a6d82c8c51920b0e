//! Facts about a policy that are known without building one: for the list of policies,
//! configuration, and displays that show how it picks.

use crate::named;
use crate::policy::comparison::{self, Comparison};
use crate::policy::{Policy, PolicySettings};
use alloc::boxed::Box;
use core::fmt;

/// A policy that users can select, and everything that other code needs to know about it. No code
/// outside the core depends on a policy's name.
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// The name that selects it.
    pub name: &'static str,
    /// Description in one line of a list.
    pub about: &'static str,
    /// Description in one sentence for users who watch it.
    pub sentence: &'static str,
    /// The sections of settings that it reads; see [`PolicyEntry::reads`].
    pub sections: &'static [&'static str],
    /// How it gets reports of load.
    pub reports: Reports,
    /// Whether `prequal.rif_limit_quantile` decides which of its reports are hot.
    pub has_rif_quantile: bool,
    /// What it uses from responses.
    pub carried: Carried,
    /// Whether it prefers replicas in its own zone: [`Event::Far`](crate::policy::Event::Far).
    pub uses_zones: bool,
    /// Its comparisons: normally the first; the others if that is not possible.
    pub comparisons: &'static [&'static Comparison],
    /// Section and key of its failure penalty. Error aversion replaces it.
    pub failure_penalty: Option<(&'static str, &'static str)>,
    /// Builds one with an empty fleet.
    pub build: fn(&PolicySettings) -> Box<dyn Policy>,
}

named! {
    /// How a policy gets reports of load.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reports by as_str {
        /// No reports: it sends no probes and uses what this client measures.
        None = "none",
        /// It probes a few replicas for each query and keeps some of the answers in a pool.
        Pool = "pool",
        /// It probes a few replicas for each query and keeps the latest report of each.
        Latest = "latest",
        /// It polls every replica at its own interval.
        Polled = "polled",
        /// It probes a few replicas for each query and waits for their answers.
        Round = "round",
    }
}

named! {
    /// What a policy uses from the load that replicas report with responses.
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
    /// A policy without settings and reports, which picks at random.
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
            uses_zones: false,
            comparisons: &[&comparison::CHANCE],
            failure_penalty: None,
            build,
        }
    }

    /// Whether it sends probes.
    pub fn has_probes(&self) -> bool {
        self.reports != Reports::None
    }

    /// Whether it can work without probes, by what this client measures: `prequal.local_only`.
    pub fn may_be_local(&self) -> bool {
        matches!(self.reports, Reports::Pool | Reports::Latest)
    }

    /// Whether the oldest and the worst reports are removed from its pool at
    /// `prequal.remove_rate`.
    pub fn removes_by_rate(&self) -> bool {
        self.reports == Reports::Pool
    }

    /// Whether it reads the section.
    pub fn reads(&self, section: &str) -> bool {
        self.sections.contains(&section)
    }

    /// Whether it reads the key of the section. Several policies read the section `prequal`, but
    /// not each of them reads all of it.
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

/// Compares by name, since names are unique.
impl PartialEq for PolicyEntry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PolicyEntry {}
