//! The draws of a scenario's world. They are independent of those of the policy.

use slackwater_core::draw::below;
use slackwater_core::{Draw, SplitMix64};

/// What happens in a scenario, by chance.
#[derive(Clone, Debug)]
pub(crate) struct Chance(SplitMix64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number in `from..=to`.
    pub(crate) fn within(&mut self, from: u32, to: u32) -> u32 {
        let span = (to - from).saturating_add(1);
        from + below(&mut self.0, span)
    }

    /// A number below `bound`, which may be large.
    pub(crate) fn wide(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.0.draw()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(u64::MAX)
    }

    /// Whether something happens that does so `times` in a thousand.
    pub(crate) fn in_1000(&mut self, times: u32) -> bool {
        below(&mut self.0, 1_000) < times
    }

    /// One of several values.
    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        values[below(&mut self.0, count) as usize]
    }
}

/// Draws of a policy, counted.
#[derive(Clone, Debug)]
pub(crate) struct CountedDraws {
    draws: SplitMix64,
    pub(crate) count: u64,
}

impl CountedDraws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            draws: SplitMix64::new(seed),
            count: 0,
        }
    }
}

impl Draw for CountedDraws {
    fn draw(&mut self) -> u64 {
        self.count += 1;
        self.draws.draw()
    }
}
