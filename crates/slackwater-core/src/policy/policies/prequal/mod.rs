//! Prequal: probe replicas for requests in flight and latency, keep a small pool of answers, choose by the hot-cold rule.
//!
//! Wydrowski, Kleinberg, Rumble, Archer: "Load is not what you should balance: Introducing Prequal", NSDI 2024,
//! section 4. What the paper leaves open is decided in `docs/decisions/`. Each step has a file of its own:
//!
//! | step | file |
//! |---|---|
//! | tell hot from cold, and choose | `hot_cold` |
//! | keep reports, reuse them, remove some after each query | `policy/pooled/` |
//! | ask replicas, off the query's path, or do without | `policy/probed/` |
//! | asking at each query instead | `sync` |
//!
//! The pool and the probes are shared with the other policies that have them, and so are their settings, [`PrequalConfig`].

mod config;
pub(in crate::policy) mod hot_cold;
mod sync;

pub use config::{PrequalConfig, PrequalSettings};
pub use hot_cold::HotCold;
pub use sync::PrequalSync;

use crate::policy::pooled::Pooled;
use crate::policy::probed::Probed;

/// Prequal with asynchronous probes.
pub type Prequal = Probed<Pooled<HotCold>>;

impl Prequal {
    /// Prequal with an empty fleet.
    pub fn new(config: PrequalConfig) -> Self {
        Self::with(Pooled::new(HotCold, &config), config)
    }
}
