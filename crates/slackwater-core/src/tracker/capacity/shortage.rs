//! How long ago a replica had too little.

/// For so long after it what it said of the capacity is believed. Longer than neighbours stay away,
/// and short enough that what was said by chance is forgotten.
const RECENT_NS: u64 = 30_000_000_000;

/// The last time at which a replica was short of something; none yet, by default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shortage {
    was: bool,
    ample_ns: u64,
}

impl Shortage {
    pub(super) fn is_now(&mut self) {
        self.was = true;
        self.ample_ns = 0;
    }

    /// For so long, and something was seen that would have told.
    pub(super) fn was_not_for(&mut self, span_ns: u64) {
        self.ample_ns = self.ample_ns.saturating_add(span_ns);
    }

    /// Whether it was not long ago; without any, a capacity is but a guess from below.
    pub(super) fn is_recent(&self) -> bool {
        self.was && self.ample_ns < RECENT_NS
    }
}
