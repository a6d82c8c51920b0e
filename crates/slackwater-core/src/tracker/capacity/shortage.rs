//! How long ago a replica was short of something.

/// How long a shortage vouches for the capacity: longer than neighbours stay away, and short enough
/// to forget a value due to chance.
const RECENT_NS: u64 = 30_000_000_000;

/// The last time that a replica was short of something. By default there was none.
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

    /// Notes a span without a shortage in which one would have shown.
    pub(super) fn was_not_for(&mut self, span_ns: u64) {
        self.ample_ns = self.ample_ns.saturating_add(span_ns);
    }

    /// Whether a shortage was recent. Without one, a capacity is only a guess from below.
    pub(super) fn is_recent(&self) -> bool {
        self.was && self.ample_ns < RECENT_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn shortage_is_recent_for_thirty_seconds() {
        let mut shortage = Shortage::default();
        assert!(!shortage.is_recent(), "there was none");
        shortage.is_now();
        shortage.was_not_for(20 * SECOND_NS);
        shortage.was_not_for(10 * SECOND_NS - 1);
        assert!(shortage.is_recent());
        shortage.was_not_for(1);
        assert!(!shortage.is_recent());
        shortage.is_now();
        shortage.was_not_for(30 * SECOND_NS - 1);
        assert!(shortage.is_recent(), "since the last one");
    }
}
