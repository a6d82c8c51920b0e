//! A TOML document, read key by key, with every mistake collected and every key accounted for.
//!
//! The document is walked by hand and not through serde's derive, which stops at the first mistake and loses a value's
//! place once it is converted. What a [`Reader`] is asked for is what exists: a key that nobody asks for is unknown, and
//! the list of all keys, which the documentation is tested against, is the list of questions.

use super::mistake::{Mistake, Mistakes, Place};
use super::source::Source;
use super::suggest::nearest;
use super::values::{Unfit, found};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// That a user said something: of which key, and where.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// The key with its section.
    pub(super) field: String,
    pub(super) place: Place,
}

impl Said {
    pub(super) fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake {
            place: self.place.clone(),
            field: self.field.clone(),
            message: message.into(),
        }
    }
}

/// Something a user said.
#[derive(Clone, Debug)]
pub(super) struct Item<'s> {
    pub(super) said: Said,
    pub(super) value: DeValue<'s>,
}

impl<'s> Item<'s> {
    pub(super) fn mistake(&self, message: impl Into<String>) -> Mistake {
        self.said.mistake(message)
    }

    /// Reads the value; `range` is told where it is outside.
    pub(super) fn read<'i, T>(
        &'i self,
        parse: impl FnOnce(&'i DeValue<'s>) -> Result<T, Unfit>,
        range: &str,
    ) -> Result<T, Mistake> {
        parse(&self.value).map_err(|unfit| {
            self.mistake(match unfit {
                Unfit::Range => format!("found {}, expected {range}", found(&self.value)),
                Unfit::Other(message) => message,
            })
        })
    }
}

/// A value that is always there; a default was said nowhere.
#[derive(Clone, Debug)]
pub(super) struct Setting<T> {
    pub(super) value: T,
    pub(super) said: Option<Said>,
}

/// A flag's values, which win over the file's.
#[derive(Clone, Debug)]
pub(super) struct Flag<'s> {
    /// The key that it stands for, with its section.
    pub(super) field: &'static str,
    /// The flag, with its dashes.
    pub(super) name: &'static str,
    /// More than one only where the key takes a list.
    pub(super) values: Vec<DeValue<'s>>,
}

/// The document, and what has been found out about it.
#[derive(Debug)]
pub(super) struct Reader<'s> {
    source: Option<&'s Source>,
    document: DeTable<'s>,
    flags: Vec<Flag<'s>>,
    /// Every field that somebody asked for.
    asked: Vec<String>,
    mistakes: Vec<Mistake>,
}

impl<'s> Reader<'s> {
    /// # Errors
    ///
    /// All mistakes in the syntax; with any of them, the rest cannot be trusted.
    pub(super) fn new(source: Option<&'s Source>, flags: Vec<Flag<'s>>) -> Result<Self, Mistakes> {
        let document = match source {
            None => DeTable::new(),
            Some(source) => {
                let (document, errors) = DeTable::parse_recoverable(source.text());
                if !errors.is_empty() {
                    let mistakes = errors.iter().map(|error| syntax(source, error));
                    return Err(Mistakes::new(mistakes.collect()));
                }
                document.into_inner()
            }
        };
        Ok(Self {
            source,
            document,
            flags,
            asked: Vec::new(),
            mistakes: Vec::new(),
        })
    }

    pub(super) fn source(&self) -> Option<&'s Source> {
        self.source
    }

    /// Nothing at all is said: a file of comments, or no file and no flags.
    pub(super) fn is_empty(&self) -> bool {
        self.document.is_empty()
    }

    pub(super) fn add_mistake(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
    }

    /// `Ok`'s value; a mistake is noted and gives `None`.
    pub(super) fn note<T>(&mut self, result: Result<T, Mistake>) -> Option<T> {
        result.map_err(|mistake| self.mistakes.push(mistake)).ok()
    }

    /// A key that has to be said, by the file or by a flag, and was not.
    pub(super) fn add_missing(&mut self, field: &str, flag: &'static str, expected: &str) {
        let place = self.source.map_or(Place::Flag(flag), Self::whole);
        self.mistakes.push(Mistake {
            place,
            field: field.to_owned(),
            message: format!("is missing, expected {expected}"),
        });
    }

    /// The file as a whole.
    pub(super) fn whole_place(&self) -> Place {
        self.source.map_or(Place::CommandLine, Self::whole)
    }

    fn whole(source: &Source) -> Place {
        Place::File(source.file().to_owned())
    }

    fn place_of(&self, span: core::ops::Range<usize>) -> Place {
        self.source
            .map_or(Place::CommandLine, |source| source.place(span))
    }

    fn item(&self, field: String, value: &Spanned<DeValue<'s>>) -> Item<'s> {
        Item {
            said: Said {
                field,
                place: self.place_of(value.span()),
            },
            value: value.get_ref().clone(),
        }
    }

    /// Where the file has a section or a key of that name, if it does.
    pub(super) fn said_section(&self, section: &str) -> Option<Said> {
        let (key, _) = self.document.get_key_value(section)?;
        Some(Said {
            field: section.to_owned(),
            place: self.place_of(key.span()),
        })
    }

    /// What was said of `field` ("listen", "probe.port"), by a flag or else in the file.
    pub(super) fn take(&mut self, field: &str) -> Option<Item<'s>> {
        self.asked.push(field.to_owned());
        if let Some(flag) = self.flags.iter().find(|flag| flag.field == field)
            && let Some(value) = flag.values.first()
        {
            return Some(Item {
                said: Said {
                    field: field.to_owned(),
                    place: Place::Flag(flag.name),
                },
                value: value.clone(),
            });
        }
        let value = match field.split_once('.') {
            None => self.document.get(field)?,
            Some((section, key)) => self.document.get(section)?.get_ref().as_table()?.get(key)?,
        };
        Some(self.item(field.to_owned(), value))
    }

    /// What was said of a field that takes one value or a list of them; `None` if nothing was.
    pub(super) fn take_list(&mut self, field: &str) -> Option<Vec<Item<'s>>> {
        let flag = self.flags.iter().find(|flag| flag.field == field);
        if let Some(flag) = flag.filter(|flag| !flag.values.is_empty()).cloned() {
            self.asked.push(field.to_owned());
            let items = flag.values.into_iter().map(|value| Item {
                said: Said {
                    field: field.to_owned(),
                    place: Place::Flag(flag.name),
                },
                value,
            });
            return Some(items.collect());
        }
        let item = self.take(field)?;
        let DeValue::Array(values) = item.value else {
            return Some(vec![item]);
        };
        let items = values
            .iter()
            .enumerate()
            .map(|(index, value)| self.item(format!("{field}[{index}]"), value));
        Some(items.collect())
    }

    /// The keys of a table in a list, as items; those that are not in `known` are mistakes.
    pub(super) fn take_entries(
        &mut self,
        field: &str,
        table: &DeTable<'s>,
        known: &[&'static str],
    ) -> Vec<(&'static str, Item<'s>)> {
        let list = field.split('[').next().unwrap_or(field);
        self.asked
            .extend(known.iter().map(|key| format!("{list}[].{key}")));
        let mut entries = Vec::new();
        for (key, value) in table {
            let field = format!("{field}.{}", key.get_ref());
            match known.iter().find(|known| *known == key.get_ref()) {
                Some(&known) => entries.push((known, self.item(field, value))),
                None => self.mistakes.push(Mistake {
                    place: self.place_of(key.span()),
                    field,
                    message: unknown("key", key.get_ref(), known.iter().copied(), None),
                }),
            }
        }
        entries
    }

    /// What was said of `field`, or its default. A mistake is noted and leaves the default, so that reading goes on.
    pub(super) fn setting<T>(
        &mut self,
        field: &str,
        default: T,
        range: &str,
        parse: impl FnOnce(&DeValue<'s>) -> Result<T, Unfit>,
    ) -> Setting<T> {
        let item = self.take(field);
        let said = item.as_ref().map(|item| item.said.clone());
        let value = item.and_then(|item| self.note(item.read(parse, range)));
        Setting {
            value: value.unwrap_or(default),
            said,
        }
    }

    /// Ends the reading: keys that nobody asked for are mistakes. Gives every field asked for, and all mistakes.
    pub(super) fn finish(mut self) -> (Vec<String>, Vec<Mistake>) {
        self.asked.sort();
        self.asked.dedup();
        let mut unknowns = Vec::new();
        for (key, value) in &self.document {
            let name: &str = key.get_ref();
            let inside = format!("{name}.");
            if self.asked.iter().any(|field| field == name) {
                continue;
            }
            let is_section = self.asked.iter().any(|field| field.starts_with(&inside));
            match value.get_ref().as_table() {
                Some(table) if is_section => unknowns.extend(self.unknown_in(name, table)),
                _ if is_section => unknowns.push(Mistake {
                    place: self.place_of(value.span()),
                    field: name.to_owned(),
                    message: format!(
                        "found {}, expected a section [{name}]",
                        found(value.get_ref())
                    ),
                }),
                as_table => {
                    let kind = as_table.map_or("key", |_| "section");
                    let tops = self.asked.iter().map(|field| top(field));
                    unknowns.push(Mistake {
                        place: self.place_of(key.span()),
                        field: name.to_owned(),
                        message: unknown(kind, name, tops, self.home_of(name)),
                    });
                }
            }
        }
        self.mistakes.append(&mut unknowns);
        (self.asked, self.mistakes)
    }

    fn unknown_in(&self, section: &str, table: &DeTable<'s>) -> Vec<Mistake> {
        let prefix = format!("{section}.");
        let known = || (self.asked.iter()).filter_map(|field| field.strip_prefix(prefix.as_str()));
        table
            .iter()
            .filter(|(key, _)| !known().any(|known| known == key.get_ref()))
            .map(|(key, _)| Mistake {
                place: self.place_of(key.span()),
                field: format!("{section}.{}", key.get_ref()),
                message: unknown("key", key.get_ref(), known(), self.home_of(key.get_ref())),
            })
            .collect()
    }

    /// Where a key of that name belongs, if it exists somewhere.
    fn home_of(&self, key: &str) -> Option<String> {
        let field = self
            .asked
            .iter()
            .find(|field| !field.contains('[') && field.rsplit('.').next() == Some(key))?;
        Some(match field.split_once('.') {
            Some((section, _)) => format!("{key:?} belongs in [{section}]"),
            None => format!("{key:?} belongs at the top, above all sections"),
        })
    }
}

/// A field's section, or the field itself where it has none.
fn top(field: &str) -> &str {
    field.split(['.', '[']).next().unwrap_or(field)
}

fn unknown<'n>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
    home: Option<String>,
) -> String {
    let mut names: Vec<_> = known.collect();
    names.sort_unstable();
    names.dedup();
    if let Some(home) = home {
        return format!("unknown {kind} here, {home}");
    }
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("unknown {kind}, did you mean {near:?}?"),
        None => format!("unknown {kind}, expected one of {}", names.join(", ")),
    }
}

fn syntax(source: &Source, error: &toml::de::Error) -> Mistake {
    let end = source.text().len();
    // toml's own messages may have several lines; ours have one.
    let lines: Vec<_> = error.message().lines().map(str::trim).collect();
    Mistake {
        place: source.place(error.span().unwrap_or(end..end)),
        field: "syntax".to_owned(),
        message: lines.join(", "),
    }
}
