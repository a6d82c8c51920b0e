//! Helpers for the arguments of subcommands.

use core::ops::RangeInclusive;

/// Parses the number after an option, and checks its range. A range up to `u64::MAX` is described
/// without an upper end.
pub(crate) fn number(
    option: &str,
    value: Option<&str>,
    range: RangeInclusive<u64>,
) -> Result<u64, String> {
    value
        .and_then(|value| value.parse().ok())
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let found = value.unwrap_or("nothing");
            let expected = match range.into_inner() {
                (least, u64::MAX) => format!("from {least} up"),
                (least, most) => format!("from {least} to {most}"),
            };
            format!("{option}: found {found}, expected a number {expected}")
        })
}
