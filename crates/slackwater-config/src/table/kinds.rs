//! The kinds of values that keys have: how each is read and shown, and how error messages, pages
//! and editors describe it.

use super::Place;
use super::foreign_names::choice;
use super::units::{Unit, in_prose};
use crate::toml_reader::values::{Unfit, boolean, mismatch, name_of, quote, whole, within};
use crate::toml_reader::{Item, Reader};
use core::ops::RangeInclusive;
use http::StatusCode;
use serde_json::{Value as Json, json};
use toml::de::DeValue;

/// The values that a key allows.
#[derive(Clone, Default)]
pub(crate) struct Meaning {
    /// Description for error messages.
    pub(crate) expected: String,
    /// Description for pages of documentation.
    pub(crate) words: String,
    /// JSON Schema for editors.
    pub(crate) schema: Json,
}

impl Meaning {
    /// The description for pages and editors.
    pub(crate) fn of(words: impl Into<String>, schema: Json) -> Self {
        Self {
            expected: String::new(),
            words: words.into(),
            schema,
        }
    }

    /// Sets the description for the error message of a value that does not fit.
    pub(crate) fn expected(self, expected: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            ..self
        }
    }
}

/// What else is known about a key's values: its default, and the result of the section's check.
pub(crate) struct Judge<'j, T> {
    pub(crate) default: Option<&'j dyn Fn() -> T>,
    /// Returns what is expected instead of a value that fails the check.
    pub(crate) refusal: &'j dyn Fn(&T) -> Option<&'static str>,
}

impl<T> Judge<'_, T> {
    /// A judge without a default and without a check.
    pub(crate) const fn none() -> Self {
        Self {
            default: None,
            refusal: &|_| None,
        }
    }
}

/// A kind of values.
pub(crate) trait Kind<T> {
    /// The value in TOML, unless the key is left out for it.
    fn show(&self, value: &T) -> Option<String>;

    /// Describes the allowed values.
    fn meaning(&self, judge: &Judge<'_, T>) -> Meaning;

    /// Reads one TOML value. Kinds that are not a single TOML value implement [`Kind::take`]
    /// instead.
    fn read(&self, _: &DeValue<'_>) -> Result<T, Unfit> {
        Err(Unfit::Range)
    }

    /// Returns the value if the key is set. A mistake is recorded, and counts as a key that is not
    /// set.
    fn take(&self, reader: &mut Reader<'_>, field: &str, judge: &Judge<'_, T>) -> Option<T> {
        let item = reader.take(field)?;
        let read = self.read(&item.value);
        let read = read.and_then(|value| match (judge.refusal)(&value) {
            None => Ok(value),
            Some(_) => Err(Unfit::Range),
        });
        let told = |unfit| item.unfit(unfit, || self.meaning(judge).expected);
        reader.note(read.map_err(told))
    }
}

/// A quantity in a range.
pub(crate) struct Within<U, T>(pub(crate) U, pub(crate) RangeInclusive<T>);

/// A quantity whose range is all that its type and the section's check allow.
pub(crate) struct Any<U>(pub(crate) U);

/// Like [`Any`], but error messages use the check's own words.
pub(crate) struct Core<U>(pub(crate) U);

/// The value as TOML.
fn shown<T, U: Unit<T>>(value: T) -> String {
    let written = U::written(value);
    if U::IS_TEXT { quote(written) } else { written }
}

/// Describes a range between two values.
fn range<T: Copy, U: Unit<T>>(low: T, high: T) -> Meaning {
    let [from, to] = [low, high].map(U::written);
    let is_open = U::count(low) == 1 && from != "1" && !from.ends_with('B');
    let (from, told) = if is_open {
        let told = format!("{}above 0 and at most {to}", U::NOUN);
        ("above 0".to_owned(), told)
    } else {
        let told = format!("{}from {from} to {to}", U::NOUN);
        (in_prose(&from), told)
    };
    Meaning::of(format!("{from} to {}", in_prose(&to)), U::schema(low, high)).expected(told)
}

/// Finds the smallest and the largest value that pass the section's check, by bisection: values
/// that pass are contiguous, around the default. Also returns the check's message for other values.
fn bounds<T: Copy, U: Unit<T>>(judge: &Judge<'_, T>) -> (Meaning, Option<&'static str>) {
    let refusal = |count| U::of(count).and_then(|value| (judge.refusal)(&value));
    let passes = |count| U::of(count).is_some() && refusal(count).is_none();
    let last = |mut passing: u64, mut beyond: u64| {
        while passing.abs_diff(beyond) > 1 {
            let middle = passing.midpoint(beyond);
            if passes(middle) {
                passing = middle;
            } else {
                beyond = middle;
            }
        }
        (passing, refusal(beyond))
    };
    let default = judge.default.map_or(1, |default| U::count(default()));
    let (low, below) = if passes(0) {
        (0, None)
    } else {
        last(default, 0)
    };
    let (high, above) = last(default, u64::MAX);
    let meaning = U::of(low)
        .zip(U::of(high))
        .map(|(low, high)| range::<T, U>(low, high));
    (meaning.unwrap_or_default(), above.or(below))
}

impl<T: Copy + PartialOrd, U: Unit<T>> Kind<T> for Within<U, T> {
    fn read(&self, value: &DeValue<'_>) -> Result<T, Unfit> {
        U::parse(value).and_then(|value| within(value, &self.1))
    }

    fn show(&self, value: &T) -> Option<String> {
        Some(shown::<T, U>(*value))
    }

    fn meaning(&self, _: &Judge<'_, T>) -> Meaning {
        range::<T, U>(*self.1.start(), *self.1.end())
    }
}

impl<T: Copy, U: Unit<T>> Kind<T> for Any<U> {
    fn read(&self, value: &DeValue<'_>) -> Result<T, Unfit> {
        U::parse(value)
    }

    fn show(&self, value: &T) -> Option<String> {
        Some(shown::<T, U>(*value))
    }

    fn meaning(&self, judge: &Judge<'_, T>) -> Meaning {
        bounds::<T, U>(judge).0
    }
}

impl<T: Copy, U: Unit<T>> Kind<T> for Core<U> {
    fn read(&self, value: &DeValue<'_>) -> Result<T, Unfit> {
        U::parse(value)
    }

    fn show(&self, value: &T) -> Option<String> {
        Some(shown::<T, U>(*value))
    }

    fn meaning(&self, judge: &Judge<'_, T>) -> Meaning {
        let (mut meaning, refusal) = bounds::<T, U>(judge);
        if let Some(refusal) = refusal {
            meaning.expected = U::expected(refusal, &meaning.words);
        }
        meaning
    }
}

/// `true` or `false`.
pub(crate) struct Boolean;

impl Kind<bool> for Boolean {
    fn read(&self, value: &DeValue<'_>) -> Result<bool, Unfit> {
        boolean(value)
    }

    fn show(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }

    fn meaning(&self, _: &Judge<'_, bool>) -> Meaning {
        Meaning::of("`true`, `false`", json!({"type": "boolean"}))
    }
}

/// One of a few names.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Kind<T> for Choice<T> {
    fn read(&self, value: &DeValue<'_>) -> Result<T, Unfit> {
        choice(value, self.0)
    }

    fn show(&self, value: &T) -> Option<String> {
        Some(quote(name_of(self.0, value)))
    }

    fn meaning(&self, _: &Judge<'_, T>) -> Meaning {
        let names: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
        let words: Vec<_> = names.iter().map(|name| format!("`\"{name}\"`")).collect();
        Meaning::of(words.join(", "), json!({"enum": names}))
    }
}

/// A text with its own syntax.
pub(crate) struct Written<T> {
    /// What the text is, for pages and for the error message of a value that is no text.
    pub(crate) what: &'static str,
    /// What is expected instead of a text that does not parse.
    pub(crate) expected: &'static str,
    pub(crate) parse: fn(&str) -> Result<T, Unfit>,
    pub(crate) text: fn(&T) -> String,
}

impl<T> Kind<T> for Written<T> {
    fn read(&self, value: &DeValue<'_>) -> Result<T, Unfit> {
        match value.as_str() {
            Some(text) => (self.parse)(text),
            None if self.what == self.expected => Err(Unfit::Range),
            None => Err(mismatch(value, self.what)),
        }
    }

    fn show(&self, value: &T) -> Option<String> {
        Some(quote((self.text)(value)))
    }

    fn meaning(&self, _: &Judge<'_, T>) -> Meaning {
        Meaning::of(self.expected.to_owned(), json!({"type": "string"}))
            .expected(self.expected.to_owned())
    }
}

/// An optional value; without the key it is `None`.
pub(crate) struct Maybe<K>(pub(crate) K);

/// A value, or a word for none.
pub(crate) struct Or<K>(pub(crate) &'static str, pub(crate) K);

impl<T, K: Kind<T>> Kind<Option<T>> for Maybe<K> {
    fn read(&self, value: &DeValue<'_>) -> Result<Option<T>, Unfit> {
        self.0.read(value).map(Some)
    }

    fn show(&self, value: &Option<T>) -> Option<String> {
        value.as_ref().and_then(|value| self.0.show(value))
    }

    fn meaning(&self, _: &Judge<'_, Option<T>>) -> Meaning {
        self.0.meaning(&Judge::none())
    }
}

impl<T, K: Kind<T>> Kind<Option<T>> for Or<K> {
    fn read(&self, value: &DeValue<'_>) -> Result<Option<T>, Unfit> {
        if value.as_str() == Some(self.0) {
            return Ok(None);
        }
        self.1.read(value).map(Some)
    }

    fn show(&self, value: &Option<T>) -> Option<String> {
        match value {
            None => Some(quote(self.0)),
            Some(value) => self.1.show(value),
        }
    }

    fn meaning(&self, _: &Judge<'_, Option<T>>) -> Meaning {
        let meaning = self.1.meaning(&Judge::none());
        let word = self.0;
        Meaning::of(
            format!("{}, or `\"{word}\"`", meaning.words),
            json!({"anyOf": [meaning.schema, {"const": word}]}),
        )
        .expected(format!("{}, or {word:?}", meaning.expected))
    }
}

/// A list; a single value is a list of one.
pub(crate) struct Many<K> {
    /// The kind of each element.
    pub(crate) of: K,
    /// The most elements.
    pub(crate) max: usize,
    /// What the elements are, for the error message of a list that is too long.
    pub(crate) what: &'static str,
}

impl<K> Many<K> {
    /// Reads the list of a key that is in no table.
    pub(crate) fn list<T>(&self, reader: &mut Reader<'_>, field: &str) -> Vec<T>
    where
        K: Kind<T>,
    {
        self.take(reader, field, &Judge::none()).unwrap_or_default()
    }
}

impl<T, K: Kind<T>> Kind<Vec<T>> for Many<K> {
    fn take(&self, reader: &mut Reader<'_>, field: &str, _: &Judge<'_, Vec<T>>) -> Option<Vec<T>> {
        let items = reader.take_list(field)?;
        if let Some(item) = items.get(self.max) {
            let told = format!(
                "is one too many, expected at most {} {}",
                self.max, self.what
            );
            reader.add_mistake(item.mistake(told));
        }
        let items = items.get(..self.max).unwrap_or(&items);
        Some(read_each(reader, items, &self.of))
    }

    fn show(&self, values: &Vec<T>) -> Option<String> {
        Some(show_each(values, &self.of))
    }

    fn meaning(&self, _: &Judge<'_, Vec<T>>) -> Meaning {
        let words = format!("a list of up to {} {}", self.max, self.what);
        Meaning {
            words,
            ..meaning_of_each(&self.of)
        }
    }
}

fn read_each<T>(reader: &mut Reader<'_>, items: &[Item<'_>], kind: &impl Kind<T>) -> Vec<T> {
    let expected = || kind.meaning(&Judge::none()).expected;
    let read = |item: &Item<'_>| {
        let read = kind.read(&item.value);
        read.map_err(|unfit| item.unfit(unfit, expected))
    };
    items
        .iter()
        .filter_map(|item| reader.note(read(item)))
        .collect()
}

fn show_each<T>(values: &[T], kind: &impl Kind<T>) -> String {
    let shown: Vec<_> = values.iter().filter_map(|value| kind.show(value)).collect();
    format!("[{}]", shown.join(", "))
}

fn meaning_of_each<T>(kind: &impl Kind<T>) -> Meaning {
    let of = kind.meaning(&Judge::none());
    Meaning::of(
        format!("a list of {}", of.words),
        json!({"anyOf": [{"type": "array", "items": of.schema}, of.schema]}),
    )
}

/// The name of a file that is read by hand.
pub(crate) const FILE: Described = Described("the name of a file", STRING);

/// The JSON Schema of `true` and `false`.
pub(crate) const BOOLEAN: &str = r#"{"type": "boolean"}"#;

/// The JSON Schema of a text or a list of texts.
pub(crate) const LIST: &str =
    r#"{"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}"#;

/// The JSON Schema of any text.
pub(crate) const STRING: &str = r#"{"type": "string"}"#;

/// A status of a response.
pub(crate) struct Status {
    pub(crate) from: u16,
    pub(crate) to: u16,
}

impl Kind<StatusCode> for Status {
    fn read(&self, value: &DeValue<'_>) -> Result<StatusCode, Unfit> {
        let status = within(whole(value)?, &(self.from..=self.to))?;
        StatusCode::from_u16(status).map_err(|_| Unfit::Range)
    }

    fn show(&self, value: &StatusCode) -> Option<String> {
        Some(value.as_str().to_owned())
    }

    fn meaning(&self, _: &Judge<'_, StatusCode>) -> Meaning {
        let (from, to) = (self.from, self.to);
        Meaning::of(
            format!("statuses from {from} to {to}"),
            json!({"type": "integer", "minimum": from, "maximum": to}),
        )
        .expected(format!("a status from {from} to {to}"))
    }
}

/// A set. Its elements may be repeated.
pub(crate) struct SetOf<K>(pub(crate) K);

impl<T: Ord, K: Kind<T>> Kind<Vec<T>> for SetOf<K> {
    fn take(&self, reader: &mut Reader<'_>, field: &str, _: &Judge<'_, Vec<T>>) -> Option<Vec<T>> {
        let items = reader.take_list(field)?;
        let mut values = read_each(reader, &items, &self.0);
        values.sort_unstable();
        values.dedup();
        Some(values)
    }

    fn show(&self, values: &Vec<T>) -> Option<String> {
        Some(show_each(values, &self.0))
    }

    fn meaning(&self, _: &Judge<'_, Vec<T>>) -> Meaning {
        meaning_of_each(&self.0)
    }
}

/// A key that is read and shown by hand: a description of its values, and its type in JSON Schema.
pub(crate) struct Described(pub(crate) &'static str, pub(crate) &'static str);

impl<S> Place<S> for Described {
    fn read(&self, _: &mut Reader<'_>, _: &str, _: &mut S) {}

    fn show(&self, _: &S) -> Option<String> {
        None
    }

    fn meaning(&self) -> Meaning {
        Meaning::of(
            self.0.to_owned(),
            serde_json::from_str(self.1).unwrap_or_default(),
        )
    }
}
