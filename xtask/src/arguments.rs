//! Helpers for the arguments of subcommands.

use core::ops::RangeInclusive;
use std::path::PathBuf;

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

/// Reads the path after an option, of a file or of a folder.
pub(crate) fn path(option: &str, value: Option<&str>) -> Result<PathBuf, String> {
    let path = value.map(PathBuf::from);
    path.ok_or_else(|| format!("{option}: expected a path"))
}
