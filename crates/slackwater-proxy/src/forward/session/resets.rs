//! Clients that take back what they ask for: HTTP/2 lets one open a stream and reset it in the same
//! breath, as often as it likes, and each time a replica may have begun to work (CVE-2023-44487).
//!
//! A request that is taken back before it was answered counts against the ones that were waited
//! for. So a client that hedges, or leaves pages early, may do so for as long as it also takes
//! answers; one that does nothing else is cut off after [`TAKEN_BACK_MAX`].
//!
//! Only a replica's response counts as such an answer. Our own cost next to nothing, here and for
//! the client: with them it could pay for as many cancelled requests as it likes.

use core::cell::Cell;
use std::rc::Rc;

/// More requests taken back than replicas answered, on one connection, at most.
const TAKEN_BACK_MAX: u32 = 500;

/// The requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    excess: Cell<u32>,
}

impl Resets {
    /// A request has begun.
    pub(crate) fn begin(self: &Rc<Self>) -> Unanswered {
        Unanswered(Some(Rc::clone(self)))
    }

    /// Whether there is nothing more to be expected from this client.
    pub(super) fn is_flood(&self) -> bool {
        self.excess.get() > TAKEN_BACK_MAX
    }
}

/// A request without an answer yet. Dropping it is taking it back.
#[derive(Debug)]
pub(crate) struct Unanswered(Option<Rc<Resets>>);

impl Unanswered {
    /// The answer is there, and a replica has given it.
    pub(crate) fn answered(mut self) {
        if let Some(resets) = self.0.take() {
            resets.excess.set(resets.excess.get().saturating_sub(1));
        }
    }

    /// The answer is there, and it is our own: it counts neither way.
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
    fn only_what_is_taken_back_adds_up() {
        let resets = Rc::new(Resets::default());
        for _ in 0..TAKEN_BACK_MAX {
            drop(resets.begin());
        }
        assert!(!resets.is_flood());
        drop(resets.begin());
        assert!(resets.is_flood());
    }

    #[test]
    fn a_client_that_waits_for_as_many_may_go_on() {
        let resets = Rc::new(Resets::default());
        for _ in 0..10 * TAKEN_BACK_MAX {
            drop(resets.begin());
            resets.begin().answered();
        }
        assert!(!resets.is_flood());
        // What was answered long ago is no licence for a flood.
        for _ in 0..=TAKEN_BACK_MAX {
            drop(resets.begin());
        }
        assert!(resets.is_flood());
    }

    #[test]
    fn our_own_answers_pay_for_nothing() {
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
