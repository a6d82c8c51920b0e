//! Readers of a scenario's keys: keys with defaults, required keys, and keys that another one
//! requires.
//!
//! Only the kind of a value is checked here. Ranges belong to the scenario
//! ([`Scenario::mistakes`](slackwater_sim::Scenario::mistakes)), so that no range is written twice.

use core::time::Duration;
use slackwater_config::toml_reader::Reader;
use slackwater_config::toml_reader::values::{Unfit, duration, number, one_of, whole};
use toml::de::DeValue;

pub(super) const SPAN_EXPECTED: &str = "a duration from 0 up, such as \"50ms\"";
const COUNT_EXPECTED: &str = "a whole number from 0 up";

/// The name of a variant, and the keys that only some variants have.
pub(super) type Kind = (&'static str, &'static [&'static str]);

/// A time span, or its default.
pub(super) fn span(reader: &mut Reader<'_>, field: &str, default: Duration) -> Duration {
    reader
        .setting(field, default, SPAN_EXPECTED, duration)
        .value
}

/// A number, or its default.
pub(super) fn decimal(reader: &mut Reader<'_>, field: &str, default: f64) -> f64 {
    reader.setting(field, default, "", number).value
}

/// A whole number, or its default.
pub(super) fn count(reader: &mut Reader<'_>, field: &str, default: usize) -> usize {
    reader.setting(field, default, COUNT_EXPECTED, whole).value
}

/// A time span that is required if `is_needed`.
pub(super) fn needed_span(
    reader: &mut Reader<'_>,
    field: &str,
    is_needed: bool,
) -> Option<Duration> {
    needed(reader, field, is_needed, SPAN_EXPECTED, duration)
}

/// A number that is required if `is_needed`.
pub(super) fn needed_decimal(reader: &mut Reader<'_>, field: &str, is_needed: bool) -> Option<f64> {
    needed(reader, field, is_needed, "a number", number)
}

/// A whole number that is required if `is_needed`.
pub(super) fn needed_count(reader: &mut Reader<'_>, field: &str, is_needed: bool) -> Option<usize> {
    needed(reader, field, is_needed, COUNT_EXPECTED, whole)
}

fn needed<T>(
    reader: &mut Reader<'_>,
    field: &str,
    is_needed: bool,
    expected: &str,
    parse: impl FnOnce(&DeValue<'_>) -> Result<T, Unfit>,
) -> Option<T> {
    if let Some(item) = reader.take(field) {
        return reader.note(item.read(parse, expected));
    }
    if is_needed {
        reader.add_missing_key(field, expected);
    }
    None
}

/// Returns the section's variant out of `kinds`, by its key `selector`. Keys of other variants are
/// mistakes, because they would have no effect. `None` after a mistake in `selector` itself.
pub(super) fn kind(
    reader: &mut Reader<'_>,
    section: &str,
    selector: &str,
    default: Option<&'static str>,
    kinds: &[Kind],
) -> Option<&'static str> {
    let field = format!("{section}.{selector}");
    let names: Vec<_> = kinds.iter().map(|&(name, _)| (name, name)).collect();
    let chosen = match (reader.take(&field), default) {
        (Some(item), _) => reader.note(item.read(|value| one_of(value, &names), "")),
        (None, Some(default)) => Some(default),
        (None, None) => {
            let quoted: Vec<_> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
            reader.add_missing_key(&field, &format!("one of {}", quoted.join(", ")));
            None
        }
    };
    for key in kinds.iter().flat_map(|(_, keys)| *keys) {
        let Some(item) = reader.take(&format!("{section}.{key}")) else {
            continue;
        };
        let owners = kinds.iter().filter(|(_, keys)| keys.contains(key));
        let owners: Vec<_> = owners.map(|(name, _)| *name).collect();
        if let Some(chosen) = chosen
            && !owners.contains(&chosen)
        {
            let owners: Vec<_> = owners.iter().map(|name| format!("{name:?}")).collect();
            reader.add_mistake(item.mistake(format!(
                "does nothing with {selector} = {chosen:?}, only with {}",
                owners.join(", ")
            )));
        }
    }
    chosen
}
