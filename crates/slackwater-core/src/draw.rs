//! Random draws, as arguments.
//!
//! The core has no randomness of its own: its driver passes a source of 64-bit draws. The mapping
//! from a draw to a choice is fixed here, so that another implementation with the same draws makes
//! the same choices.

/// A source of random 64-bit draws, uniform over all values.
///
/// Any closure `FnMut() -> u64` is one.
pub trait Draw {
    /// The next draw.
    fn draw(&mut self) -> u64;
}

impl<F: FnMut() -> u64> Draw for F {
    fn draw(&mut self) -> u64 {
        self()
    }
}

/// No draws, for [events](crate::policy::Event) for which no policy draws. A draw from it is a bug:
/// it returns 0, and panics in debug builds.
#[derive(Clone, Copy, Debug)]
pub struct NoDraw;

impl Draw for NoDraw {
    fn draw(&mut self) -> u64 {
        debug_assert!(false, "nothing is drawn here");
        0
    }
}

/// A whole number in `0..bound`, as ⌊draw · bound / 2^64⌋. It takes one draw, even if
/// `bound` is 1. A `bound` of 0 returns 0.
///
/// The bias is at most `bound` / 2^64, which is negligible for a load balancer.
pub fn below(draw: &mut (impl Draw + ?Sized), bound: u32) -> u32 {
    let product = u128::from(draw.draw()) * u128::from(bound);
    u32::try_from(product >> 64).unwrap_or(u32::MAX)
}

/// Sebastiano Vigna's `SplitMix64` (the generator of Java's `SplittableRandom`): one word of state,
/// passes `BigCrush`.
///
/// For drivers, tests and examples; not for secrets. The same seed always gives the same draws.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator that starts from `seed`; every seed is as good as any other.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }
}

impl Draw for SplitMix64 {
    fn draw(&mut self) -> u64 {
        let drawn = mix(self.state);
        self.state = self.state.wrapping_add(STEP);
        drawn
    }
}

/// By how much the state of `SplitMix64` grows with each draw.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number whose bits all depend on all bits of `bits`: the first draw of `SplitMix64` with that
/// seed.
pub(crate) const fn mix(bits: u64) -> u64 {
    let mut z = bits.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence() {
        // The first outputs for seed 1234567, as published with the reference implementation.
        let mut draw = SplitMix64::new(1_234_567);
        let first = [draw.draw(), draw.draw(), draw.draw()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn below_maps_the_ends_of_the_range() {
        assert_eq!(below(&mut || 0, 7), 0);
        assert_eq!(below(&mut || u64::MAX, 7), 6);
        assert_eq!(below(&mut || u64::MAX, 1), 0);
        assert_eq!(below(&mut || u64::MAX, 0), 0);
        assert_eq!(below(&mut || u64::MAX, u32::MAX), u32::MAX - 1);
    }

    #[test]
    fn below_is_uniform_within_chance() {
        let mut draw = SplitMix64::new(1);
        let mut counts = [0_i32; 5];
        for _ in 0..50_000 {
            counts[below(&mut draw, 5) as usize] += 1;
        }
        // Binomial: mean 10,000, standard deviation 89. Six of them is one in 500 million.
        assert!(
            counts.iter().all(|count| (count - 10_000).abs() < 540),
            "{counts:?}"
        );
    }
}
