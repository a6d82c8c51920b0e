//! Limits clients that reset their requests. HTTP/2 lets a client open a stream and reset it
//! immediately, any number of times, and each time a replica may have started to work
//! (CVE-2023-44487).
//!
//! A request that is reset before it was answered is balanced against one that was answered. A
//! client that hedges, or leaves pages early, may therefore continue as long as it also reads
//! answers. A client that only resets is cut off after [`TAKEN_BACK_MAX`].
//!
//! Only responses of replicas count as answers. The proxy's own answers cost almost nothing, so a
//! client could otherwise use them to pay for any number of cancelled requests.

use core::cell::Cell;
use std::rc::Rc;

/// Maximum excess of reset requests over requests that replicas answered, on one connection.
const TAKEN_BACK_MAX: u32 = 500;

/// Reset and answered requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    excess: Cell<u32>,
}

impl Resets {
    /// Starts a request.
    pub(crate) fn begin(self: &Rc<Self>) -> Unanswered {
        Unanswered(Some(Rc::clone(self)))
    }

    /// Whether the client exceeds the limit.
    pub(super) fn is_flood(&self) -> bool {
        self.excess.get() > TAKEN_BACK_MAX
    }
}

/// A request without an answer yet. Dropping it counts as a reset.
#[derive(Debug)]
pub(crate) struct Unanswered(Option<Rc<Resets>>);

impl Unanswered {
    /// Records that a replica answered.
    pub(crate) fn answered(mut self) {
        if let Some(resets) = self.0.take() {
            resets.excess.set(resets.excess.get().saturating_sub(1));
        }
    }

    /// Records an answer of the proxy itself, which does not count either way.
    pub(crate) fn answered_here(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(resets) = &self.0 {
            resets.excess.set(resets.excess.get().saturating_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unanswered_resets_count_as_a_flood() {
        let resets = Rc::new(Resets::default());
        for _ in 0..TAKEN_BACK_MAX {
            drop(resets.begin());
        }
        assert!(!resets.is_flood());
        drop(resets.begin());
        assert!(resets.is_flood());
    }

    #[test]
    fn answered_requests_balance_reset_ones() {
        let resets = Rc::new(Resets::default());
        for _ in 0..10 * TAKEN_BACK_MAX {
            drop(resets.begin());
            resets.begin().answered();
        }
        assert!(!resets.is_flood());
        // Earlier answers do not allow a flood.
        for _ in 0..=TAKEN_BACK_MAX {
            drop(resets.begin());
        }
        assert!(resets.is_flood());
    }

    #[test]
    fn answers_of_the_proxy_do_not_balance_resets() {
        let resets = Rc::new(Resets::default());
        for _ in 0..TAKEN_BACK_MAX {
            drop(resets.begin());
            resets.begin().answered_here();
        }
        assert!(!resets.is_flood(), "nor do they cost anything");
        drop(resets.begin());
        assert!(resets.is_flood());
    }
}
