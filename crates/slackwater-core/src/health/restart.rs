//! Detects restarts: which process of a replica a report comes from.

use crate::time::{Instant, MaybeInstant};

/// Time after a restart in which further restarts do not count.
const APART_NS: u64 = 5_000_000_000;

/// The incarnations that a replica's reports have named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incarnations {
    /// The last two, the newer first. Two processes that take turns at one address are not a
    /// restart.
    known: [Option<u64>; 2],
    restarted_at: MaybeInstant,
}

impl Incarnations {
    pub(super) const NONE: Self = Self {
        known: [None; 2],
        restarted_at: MaybeInstant::NONE,
    };

    /// Takes in the incarnation of a report. Returns `true` if the replica has restarted.
    pub(super) fn named(&mut self, now: Instant, incarnation: u64) -> bool {
        if self.known.contains(&Some(incarnation)) {
            return false;
        }
        let is_first = self.known[0].is_none();
        self.known = [Some(incarnation), self.known[0]];
        let is_recent = |at| now.ns_since(at) < APART_NS;
        if is_first || self.restarted_at.get().is_some_and(is_recent) {
            return false;
        }
        self.restarted_at = now.into();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn restart_needs_unknown_incarnation_and_minimum_interval() {
        let mut incarnations = Incarnations::NONE;
        let mut named = |ms, incarnation| {
            let now = Instant::EPOCH + Duration::from_millis(ms);
            incarnations.named(now, incarnation)
        };
        assert!(!named(0, 7), "the first");
        assert!(!named(1, 7));
        assert!(named(2, 8));
        for _ in 0..3 {
            assert!(!named(10_000, 7), "by turns");
            assert!(!named(10_000, 8), "by turns");
        }
        assert!(named(20_000, 9));
        assert!(!named(24_999, 10), "too soon");
        assert!(!named(25_000, 10), "known by now");
        assert!(named(25_000, 11));
    }
}
