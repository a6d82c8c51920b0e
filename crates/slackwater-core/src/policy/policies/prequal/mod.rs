//! Prequal: probe replicas for requests in flight and latency, keep a small pool of answers, choose
//! by the hot-cold rule.
//!
//! Wydrowski, Kleinberg, Rumble, Archer: "Load is not what you should balance: Introducing
//! Prequal", NSDI 2024, section 4. What the paper leaves open is decided in `docs/decisions/`. Each
//! step has a file of its own:
//!
//! | step | file |
//! |---|---|
//! | tell hot from cold, and choose | `hot_cold` |
//! | keep reports, reuse them, remove some after each query | `policy/pooled/` |
//! | ask replicas, off the query's path, or do without | `policy/probed/` |
//! | asking at each query instead | `sync` |
//!
//! The pool and the probes are shared with the other policies that have them, and so are their
//! settings, [`PrequalConfig`].

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

/// What is known of Prequal.
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

/// What is known of Prequal with synchronous probes.
pub(super) const SYNC_ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal"],
    reports: Reports::Round,
    comparisons: &[&hot_cold::SCALED, &CHANCE],
    has_rif_quantile: true,
    ..PolicyEntry::new(
        "prequal_sync",
        "asks a few replicas for each query",
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
