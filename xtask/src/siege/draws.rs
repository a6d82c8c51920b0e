//! Seeded random draws, so that an attack can be repeated.

use slackwater_core::{Draw, SplitMix64};

/// A stream of draws.
#[derive(Debug)]
pub(super) struct Draws(SplitMix64);

impl Draws {
    /// The stream `index` of a run with this seed.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        // Drawn, because streams of neighbouring start values would be the same stream, shifted.
        let apart = SplitMix64::new(!index).draw();
        Self(SplitMix64::new(seed ^ apart))
    }

    /// A number below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.0.draw() % bound).unwrap_or_default()
    }

    /// True with probability 1 / `count`.
    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of the choices, with equal probability.
    pub(super) fn pick<'c, T: ?Sized>(&mut self, choices: &[&'c T]) -> &'c T {
        choices[self.below(choices.len())]
    }

    /// The first choice, or with probability 1 / `count` any of them.
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
