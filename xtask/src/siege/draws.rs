//! Seeded draws, so that an attack can be repeated.

use slackwater_core::{Draw, SplitMix64};

/// A stream of draws.
#[derive(Debug)]
pub(super) struct Draws(SplitMix64);

impl Draws {
    /// The stream of `index` in the run of `seed`.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        // Drawn, as streams of neighbouring starts would be the same stream, shifted.
        let apart = SplitMix64::new(!index).draw();
        Self(SplitMix64::new(seed ^ apart))
    }

    /// Below `bound`, which is 1 at least.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.0.draw() % bound).unwrap_or_default()
    }

    /// Whether one of `count` equal chances came up.
    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of them, each as likely.
    pub(super) fn pick<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices[self.below(choices.len())]
    }

    /// The first one, or in one case of `count` any one.
    pub(super) fn mostly<'c, T: ?Sized>(&mut self, count: usize, choices: &[&'c T]) -> &'c T {
        if self.one_in(count) {
            self.pick(choices)
        } else {
            choices[0]
        }
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.0.draw().to_le_bytes()[0]
    }
}
