//! `[hedge]`: whether and when a second copy of a late request is sent.

use super::idle::idle_without_switch;
use crate::table::{self, Any, Boolean, Number, Share, Span, Within, keys};
use crate::toml_reader::{Reader, Remark};
use slackwater_core::tail::HedgeConfig;

/// Whether and when a second copy of a late request is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HedgingSettings {
    /// Whether hedging is on; default no.
    pub enabled: bool,
    /// When a copy is sent, and the budget, for each worker.
    pub rules: HedgeConfig,
    /// Kinds of requests that each worker distinguishes.
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
    /// Sends a second copy of a late request to another replica while the first still works on it.
    enabled at enabled: Boolean;
    /// A request is late beyond this quantile of recent latencies of its kind, or beyond 1 −
    /// `hedge.budget` if that is larger.
    quantile of rules.quantile: Any(Share);
    /// Second copies, as a share of the requests that may have one. 0: none.
    budget of rules.budget: Any(Share);
    /// Unused budget accumulates to this many copies, for each worker.
    burst of rules.burst: Any(Number);
    /// Shortest delay of a second copy.
    delay_min of rules.delay_min: Any(Span);
    /// Latencies older than this are forgotten.
    window of rules.window: Any(Span);
    /// Requests of a kind that a worker must have seen within the window before it hedges them.
    samples_min of rules.samples_min: Any(Number);
    /// No hedging while more than this share of the last 64 requests of a kind was late. 1: no such
    /// limit.
    slow_share of rules.slow_share: Any(Share);
    /// Kinds of requests (routes, gRPC methods) that a worker distinguishes. Further ones share the
    /// last.
    classes_max at classes_max: Within(Number, 1..=1024);
} }

impl HedgingSettings {
    /// Reads the section. Without the key `enabled`, the other keys deserve remarks.
    pub(super) fn read(reader: &mut Reader<'_>, prefix: &str, remarks: &mut Vec<Remark>) -> Self {
        let settings = table::read(reader, prefix);
        remarks.extend(idle_without_switch::<Self>(reader, prefix));
        settings
    }
}
