//! The seed of draws: the value of a flag `--seed`.

/// The value of a flag `--seed`.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}
