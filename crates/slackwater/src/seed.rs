//! Starts for draws.

/// A start that differs from one to the next. Where the system has no randomness, a fixed one does: nothing that is drawn
/// from it is a secret.
pub(crate) fn draw_seed() -> u64 {
    getrandom::u64().unwrap_or(1)
}

/// The value of a flag `--seed`.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}
