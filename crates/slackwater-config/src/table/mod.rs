//! Tables of settings: each key stands once, with its place, its kind of value and its sentence.
//!
//! [`settings!`] declares a section's struct, its defaults and its table in one; [`keys!`] is the
//! table alone, for structs that stand elsewhere. From the tables are made what is read from a
//! file, what is shown, the rows of `docs/reference/configuration.md` and a JSON Schema ([`rows`]).
//! What a value may be is its [kind](kinds::Kind)'s.
//! Names that other software has for our keys and values are in [`mod@foreign_names`].

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

    /// What is wrong with the settings beyond what the kinds of their values say.
    fn check(&self) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// One key.
pub(crate) struct Key<S: 'static> {
    /// Its name within the section.
    pub(crate) name: &'static str,
    /// What it does, in lines of Markdown.
    pub(crate) doc: &'static [&'static str],
    /// What holds without it, where its default does not say that.
    pub(crate) unsaid: Option<&'static str>,
    /// Whether it stays as it is until a restart, whatever a file says that is read again.
    pub(crate) fixed: bool,
    /// Where its value is.
    pub(crate) place: &'static dyn Place<S>,
}

/// Where a value is among the settings, and of which kind it is.
pub(crate) trait Place<S> {
    /// Takes the value over, if there is one. A mistake is noted and leaves the default.
    fn read(&self, reader: &mut Reader<'_>, field: &str, settings: &mut S);
    /// The value in TOML, unless the key is left out for it.
    fn show(&self, settings: &S) -> Option<String>;
    /// What the value may be.
    fn meaning(&self) -> Meaning;
}

/// A place that the table reads and shows by itself.
pub(crate) struct At<S, T, K> {
    pub(crate) get: fn(&S) -> &T,
    pub(crate) set: fn(&mut S, T) -> Result<(), ConfigError>,
    pub(crate) kind: K,
}

impl<S: Section, T: Clone, K: Kind<T>> At<S, T, K> {
    /// Asks something that takes what is known of the key's values.
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
        // The judge looks at a value beside defaults. Beside what other keys say it may not do.
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

/// Changes one of settings that are valid, if they are so afterwards.
pub(crate) fn amend<R: Settings + Clone>(
    valid: &mut Valid<R>,
    change: impl FnOnce(&mut R),
) -> Result<(), ConfigError> {
    let mut settings = R::clone(valid);
    change(&mut settings);
    *valid = settings.validate()?;
    Ok(())
}

/// A share, in millionths.
pub(crate) fn millionths(share: u32) -> Quantile {
    Quantile::from_millionths(share).unwrap_or(Quantile::ONE)
}

/// Reads a section, which `prefix` stands before: nothing, or `services.NAME.`.
pub(crate) fn read<S: Section>(reader: &mut Reader<'_>, prefix: &str) -> S {
    let mut settings = S::default();
    read_keys(reader, prefix, &mut settings, |_| true);
    settings
}

/// Reads some keys of a section over settings that hold where nothing is said.
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

/// The key `name` of a section with what stands before it.
pub(crate) fn field<S: Section>(prefix: &str, name: &str) -> String {
    match S::NAME {
        "" => format!("{prefix}{name}"),
        section => format!("{prefix}{section}.{name}"),
    }
}

/// Writes a section as it is in force.
pub(crate) fn write<S: Section>(to: &mut String, prefix: &str, settings: &S) {
    write_keys(to, &format!("{prefix}{}", S::NAME), shown(settings));
}

/// Writes these keys of a section with their values; those of no section have no head.
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

/// The keys of a section and their values in TOML, but for those that are shown by hand.
pub(crate) fn shown<S: Section>(settings: &S) -> impl Iterator<Item = (&'static str, String)> {
    let keys = S::KEYS.iter();
    keys.filter_map(|key| Some((key.name, key.place.show(settings)?)))
}

/// The same with the values of those that are shown by hand, if they have any.
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

    /// Two bounds, of which the upper one is no less than the lower one.
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
    fn keys_that_do_not_go_together_are_a_mistake() {
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
