//! Starts for draws.

/// A start that differs from one to the next. Where the system has no randomness, a fixed one does:
/// nothing that is drawn from it is a secret.
pub(crate) fn draw_seed() -> u64 {
    getrandom::u64().unwrap_or(1)
}
