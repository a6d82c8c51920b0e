//! Traces and spans by their ids, and how many spans were exported. W3C Trace Context

use core::fmt;
use core::num::{NonZeroU64, NonZeroU128};
use serde::{Deserialize, Serialize};

/// The id of a trace; shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub NonZeroU128);

/// The id of a span; shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub NonZeroU64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
/// What became of spans since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpanCounts {
    /// Taken by the collector.
    pub exported: u64,
    /// Lost: there was no room for them, or the collector did not take them.
    pub dropped: u64,
    /// Tries to send some that failed.
    pub exports_failed: u64,
}
