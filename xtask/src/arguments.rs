//! What arguments of sub-commands have in common.

use core::ops::RangeInclusive;

/// The number that follows an option, if it is in range; a range up to `u64::MAX` has no upper end
/// to speak of.
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
