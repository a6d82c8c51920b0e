//! Prequal: probes replicas for requests in flight and latency, keeps a small pool of answers, and
//! picks by the hot–cold rule.
//!
//! Wydrowski, Kleinberg, Rumble, Archer: "Load is not what you should balance: Introducing
//! Prequal", NSDI 2024, section 4. Points that the paper leaves open are decided in
//! `docs/decisions/`. Each step has its own file:
//!
//! | step | file |
//! |---|---|
//! | separate hot from cold, and pick | `hot_cold` |
//! | keep reports, reuse them, remove some after each query | `policy/pooled/` |
//! | probe replicas off the query's path, or work without probes | `policy/probed/` |
//! | probe at each query instead | `sync` |
//!
//! The pool, the probes and their settings, [`PrequalConfig`], are shared with the other policies
//! that use them.

mod config;
pub(in crate::policy) mod hot_cold;
mod sync;

pub use config::{PrequalConfig, PrequalSettings};
pub use hot_cold::HotCold;
pub use sync::PrequalSync;

use crate::policy::comparison::CHANCE;
use crate::policy::entry::{PolicyEntry, Reports};
use crate::policy::pooled::Pooled;
use crate::policy::probed::Probed;
use alloc::boxed::Box;

/// Facts about Prequal.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal"],
    reports: Reports::Pool,
    comparisons: &[&hot_cold::COMPARISON, &CHANCE],
    has_rif_quantile: true,
    ..PolicyEntry::new(
        "prequal",
        "probes for load, hot-cold rule",
        "Probes a few replicas for their load, keeps the answers in a pool, and picks by the hot-cold rule.",
        |s| Box::new(Prequal::new(s.prequal.clone())),
    )
};

/// Facts about Prequal with synchronous probes.
pub(super) const SYNC_ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal"],
    reports: Reports::Round,
    comparisons: &[&hot_cold::SCALED, &CHANCE],
    has_rif_quantile: true,
    ..PolicyEntry::new(
        "prequal_sync",
        "probes a few replicas for each query",
        "Probes a few replicas for each request and picks among the answers by the hot-cold rule.",
        |s| Box::new(PrequalSync::new(s.prequal.clone())),
    )
};

/// Prequal with asynchronous probes.
pub type Prequal = Probed<Pooled<HotCold>>;

impl Prequal {
    /// Prequal with an empty fleet.
    pub fn new(config: PrequalConfig) -> Self {
        Self::with(Pooled::new(HotCold, &config), config)
    }
}
