//! Tables of settings: each key is declared once, with its place, its kind of value and its
//! sentence.
//!
//! [`settings!`] declares a section's struct, its defaults and its table in one; [`keys!`] declares
//! only the table, for structs that are declared elsewhere. The tables drive the reader of files,
//! the display of a configuration, the rows of `docs/reference/configuration.md` and a JSON Schema
//! ([`rows`]). A key's [kind](kinds::Kind) defines its allowed values. The names that other
//! software has for our keys and values are in [`mod@foreign_names`].

mod foreign_names;
mod kinds;
mod macros;
pub(crate) mod rows;
mod units;

pub(crate) use foreign_names::{
    ForeignValue, KEYS as FOREIGN_NAMES, choice, choice_with, foreign_names,
};
pub(crate) use kinds::{
    Any, BOOLEAN, Boolean, Choice, Core, Described, FILE, Judge, Kind, LIST, Many, Maybe, Meaning,
    Or, STRING, SetOf, Status, Within, Written,
};
pub(crate) use macros::{keys, named, settings};
pub(crate) use units::{Bytes, Factor, Number, PerQuery, Port, Share, Span};

use crate::toml_reader::Reader;
use crate::toml_reader::values::found;
use core::time::Duration;
use slackwater_core::Quantile;
use slackwater_core::policy::{ConfigError, Settings, Valid};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
pub(crate) const HOUR: Duration = Duration::from_hours(1);
pub(crate) const DAY: Duration = Duration::from_hours(24);

/// Settings that are keys of one section.
pub(crate) trait Section: Default + Clone + 'static {
    /// The section's name.
    const NAME: &'static str;
    /// Its keys, in the order in which they are shown.
    const KEYS: &'static [Key<Self>];

    /// Checks the settings beyond what the kinds of their values check.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// A key.
pub(crate) struct Key<S: 'static> {
    /// The key's name within the section.
    pub(crate) name: &'static str,
    /// What the key does, in lines of Markdown.
    pub(crate) doc: &'static [&'static str],
    /// What applies without the key, where its default does not explain that.
    pub(crate) unsaid: Option<&'static str>,
    /// Whether the value stays until a restart, even if a reloaded file changes it.
    pub(crate) fixed: bool,
    /// Where the key's value is stored.
    pub(crate) place: &'static dyn Place<S>,
}

/// Where a value is stored in the settings, and its kind.
pub(crate) trait Place<S> {
    /// Stores the value if the key is set. A mistake is recorded, and the default stays.
    fn read(&self, reader: &mut Reader<'_>, field: &str, settings: &mut S);
    /// The value in TOML, unless the key is left out for it.
    fn show(&self, settings: &S) -> Option<String>;
    /// Describes the allowed values.
    fn meaning(&self) -> Meaning;
}

/// A place that the table reads and shows without code by hand.
pub(crate) struct At<S, T, K> {
    pub(crate) get: fn(&S) -> &T,
    pub(crate) set: fn(&mut S, T) -> Result<(), ConfigError>,
    pub(crate) kind: K,
}

impl<S: Section, T: Clone, K: Kind<T>> At<S, T, K> {
    /// Calls `ask` with what is known about the key's values.
    fn judged<R>(&self, ask: impl FnOnce(&Judge<'_, T>) -> R) -> R {
        let default = || (self.get)(&S::default()).clone();
        let refusal = |value: &T| {
            let mut alone = S::default();
            let set = (self.set)(&mut alone, value.clone());
            set.and_then(|()| alone.check())
                .err()
                .map(|error| error.expected)
        };
        ask(&Judge {
            default: Some(&default),
            refusal: &refusal,
        })
    }
}

impl<S: Section, T: Clone, K: Kind<T>> Place<S> for At<S, T, K> {
    fn read(&self, reader: &mut Reader<'_>, field: &str, settings: &mut S) {
        let value = self.judged(|judge| self.kind.take(reader, field, judge));
        let set = value.map(|value| (self.set)(settings, value));
        // The judge checks a value beside defaults. Other keys' values may still forbid it.
        if let (Some(Err(error)), Some(item)) = (set, reader.take(field)) {
            let found = found(&item.value);
            let message = format!("found {found}, which other keys do not allow: {error}");
            reader.add_mistake(item.mistake(message));
        }
    }

    fn show(&self, settings: &S) -> Option<String> {
        self.kind.show((self.get)(settings))
    }

    fn meaning(&self) -> Meaning {
        self.judged(|judge| self.kind.meaning(judge))
    }
}

/// Changes one field of valid settings, if the result is valid.
pub(crate) fn amend<R: Settings + Clone>(
    valid: &mut Valid<R>,
    change: impl FnOnce(&mut R),
) -> Result<(), ConfigError> {
    let mut settings = R::clone(valid);
    change(&mut settings);
    *valid = settings.validate()?;
    Ok(())
}

/// A share as millionths.
pub(crate) const fn millionths(share: u32) -> Quantile {
    match Quantile::from_millionths(share) {
        Some(share) => share,
        None => Quantile::ONE,
    }
}

/// Reads a section. `prefix` is empty or `services.NAME.`.
pub(crate) fn read<S: Section>(reader: &mut Reader<'_>, prefix: &str) -> S {
    let mut settings = S::default();
    read_keys(reader, prefix, &mut settings, |_| true);
    settings
}

/// Reads some keys of a section over `settings`, which supplies the values of keys that are not
/// set.
pub(crate) fn read_keys<S: Section>(
    reader: &mut Reader<'_>,
    prefix: &str,
    settings: &mut S,
    is_meant: impl Fn(&str) -> bool,
) {
    for key in S::KEYS.iter().filter(|key| is_meant(key.name)) {
        key.place
            .read(reader, &field::<S>(prefix, key.name), settings);
    }
}

/// The full name of the key `name`: prefix, section, key.
pub(crate) fn field<S: Section>(prefix: &str, name: &str) -> String {
    match S::NAME {
        "" => format!("{prefix}{name}"),
        section => format!("{prefix}{section}.{name}"),
    }
}

/// Writes a section with the values in force.
pub(crate) fn write<S: Section>(to: &mut String, prefix: &str, settings: &S) {
    write_keys(to, &format!("{prefix}{}", S::NAME), shown(settings));
}

/// Writes keys of a section with their values. Top-level keys have no header.
pub(crate) fn write_keys(
    to: &mut String,
    section: &str,
    keys: impl IntoIterator<Item = (&'static str, String)>,
) {
    if !section.is_empty() {
        to.extend(["[", section, "]\n"]);
    }
    for (name, value) in keys {
        to.extend([name, " = ", &value, "\n"]);
    }
    to.push('\n');
}

/// Returns the keys of a section with their TOML values, except keys that are shown by hand.
pub(crate) fn shown<S: Section>(settings: &S) -> impl Iterator<Item = (&'static str, String)> {
    let keys = S::KEYS.iter();
    keys.filter_map(|key| Some((key.name, key.place.show(settings)?)))
}

/// Like [`shown`], but with the values of keys that are shown by hand, where `by_hand` has one.
pub(crate) fn shown_with<S: Section>(
    settings: &S,
    by_hand: &[(&str, Option<String>)],
) -> Vec<(&'static str, String)> {
    let value = |key: &Key<S>| {
        let by_hand = by_hand.iter().find(|(name, _)| *name == key.name);
        by_hand.map_or_else(|| key.place.show(settings), |(_, value)| value.clone())
    };
    let keys = S::KEYS.iter();
    keys.filter_map(|key| Some((key.name, value(key)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_reader::Source;
    use slackwater_core::policy::Settings;

    /// Two bounds; the upper must not be below the lower.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Bounds {
        low: u32,
        high: u32,
    }

    impl Default for Bounds {
        fn default() -> Self {
            Self { low: 10, high: 20 }
        }
    }

    impl Settings for Bounds {
        fn check(&self) -> Result<(), ConfigError> {
            let error = ConfigError {
                field: "high",
                expected: "at least low",
            };
            (self.low <= self.high).then_some(()).ok_or(error)
        }
    }

    #[derive(Clone, Default)]
    struct Table {
        bounds: Valid<Bounds>,
    }

    keys! { Table in "table" {
        /// The lower bound.
        low of bounds.low: Within(Number, 0..=100);
        /// The upper bound.
        high of bounds.high: Within(Number, 0..=100);
    } }

    fn bounds_of(text: &str) -> (Bounds, Vec<String>) {
        let source = Source::new("t.toml".into(), text.to_owned());
        let mut reader = Reader::new(Some(&source), Vec::new()).expect("syntax");
        let table: Table = read(&mut reader, "");
        let (_, mistakes) = reader.finish();
        let mistakes = mistakes.iter().map(ToString::to_string);
        (table.bounds.into_inner(), mistakes.collect())
    }

    #[test]
    fn conflicting_keys_are_a_mistake() {
        let (both, mistakes) = bounds_of("[table]\nlow = 15\nhigh = 30\n");
        assert_eq!((both, mistakes), (Bounds { low: 15, high: 30 }, vec![]));

        // Each is valid beside the other's default.
        let (kept, mistakes) = bounds_of("[table]\nlow = 15\nhigh = 12\n");
        assert_eq!(kept, Bounds { low: 15, high: 20 });
        let told = "t.toml:3:8: table.high: found 12, which other keys do not allow: high must be \
                    at least low";
        assert_eq!(mistakes, [told]);
    }
}
