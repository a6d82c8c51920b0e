//! `[hedge]`: whether and when a late request is sent a second time.

use crate::table::{Any, Boolean, Number, Share, Span, Within, keys};
use slackwater_core::tail::HedgeConfig;

/// Whether and when a late request is sent a second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HedgingSettings {
    /// Whether any is; default none.
    pub enabled: bool,
    /// When, and how many, for each worker.
    pub rules: HedgeConfig,
    /// Kinds of requests that are told apart, for each worker.
    pub classes_max: u32,
}

impl Default for HedgingSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            rules: HedgeConfig::default(),
            classes_max: 64,
        }
    }
}

keys! { HedgingSettings in "hedge" {
    /// Whether late requests are sent to a second replica while the first still works on them.
    enabled at enabled: Boolean;
    /// A request is late when it has been out for longer than this quantile of what requests of its
    /// kind took lately; if `hedge.budget` pays for fewer, for longer than the slowest of them that
    /// it pays for: with 0.02, the quantile is 0.98.
    quantile of rules.quantile: Any(Share);
    /// Second copies, as a share of the requests that may have one. 0: none.
    budget of rules.budget: Any(Share);
    /// A budget that is not used piles up to so many copies, for each worker.
    burst of rules.burst: Any(Number);
    /// No request is late sooner than this.
    delay_min of rules.delay_min: Any(Span);
    /// What is older than this does not count any more.
    window of rules.window: Any(Span);
    /// A kind of which a worker has seen fewer requests within the window has no copies.
    samples_min of rules.samples_min: Any(Number);
    /// There are no copies while more than this share of the last 64 requests of a kind was late.
    /// 1: it is never so.
    slow_share of rules.slow_share: Any(Share);
    /// Kinds of requests that a worker tells apart: routes, and gRPC methods. Those beyond share
    /// the last one.
    classes_max at classes_max: Within(Number, 1..=1024);
} }
