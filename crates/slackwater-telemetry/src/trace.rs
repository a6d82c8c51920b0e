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
/// Counts of spans since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpanCounts {
    /// Accepted by the collector.
    pub exported: u64,
    /// Lost: the buffer was full, or the collector did not accept them.
    pub dropped: u64,
    /// Failed attempts to export.
    pub exports_failed: u64,
}
