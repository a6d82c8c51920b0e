//! Seeds for random draws.

use std::sync::OnceLock;

/// Returns the seed of this process, which stays the same until its end: a reload changes no draw
/// that follows from it.
pub(crate) fn process_seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(draw_seed)
}

/// Returns a different seed with each call. Without system randomness it is a constant, which is
/// enough because draws are not secret.
pub(crate) fn draw_seed() -> u64 {
    getrandom::u64().unwrap_or(1)
}
