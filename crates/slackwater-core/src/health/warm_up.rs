//! The share of a new replica: small at first, and larger with each good answer.

use super::WHOLE;
use crate::time::Instant;

/// Good answers that a share needs to double.
const ANSWERS: u32 = 8;

/// A share that starts small and doubles with answers that are as fast as the others'.
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

    /// Counts an answer. A bad one takes back two good ones.
    pub(super) const fn answered(&mut self, is_good: bool) {
        self.good = if is_good {
            self.good.saturating_add(1)
        } else {
            self.good.saturating_sub(2)
        };
    }

    /// Takes in the answers. Returns `true` if the warm-up is over.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        if self.good >= ANSWERS {
            self.good = 0;
            self.share = self.share.saturating_mul(2);
        }
        self.share >= WHOLE || now >= self.ends_at
    }
}
