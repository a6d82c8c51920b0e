//! The share of one that is new: small at first, and more with what it has shown.

use super::WHOLE;
use crate::time::Instant;

/// A share needs so many answers to double.
const ANSWERS: u32 = 8;

/// A share that begins small, and doubles with answers that come in the time of the others'.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarmUp {
    share: u32,
    good: u32,
    ends_at: Instant,
}

impl WarmUp {
    pub(super) const fn new(share: u32, ends_at: Instant) -> Self {
        Self {
            share,
            good: 0,
            ends_at,
        }
    }

    pub(super) const fn share(&self) -> u32 {
        self.share
    }

    /// An answer came. One that is not good takes back two.
    pub(super) const fn answered(&mut self, is_good: bool) {
        self.good = if is_good {
            self.good.saturating_add(1)
        } else {
            self.good.saturating_sub(2)
        };
    }

    /// Takes up what was answered; `true` if it is over.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        if self.good >= ANSWERS {
            self.good = 0;
            self.share = self.share.saturating_mul(2);
        }
        self.share >= WHOLE || now >= self.ends_at
    }
}
