//! Seeds for random draws.

/// Returns a different seed with each call. Without system randomness it is a constant, which is
/// enough because draws are not secret.
pub(crate) fn draw_seed() -> u64 {
    getrandom::u64().unwrap_or(1)
}
