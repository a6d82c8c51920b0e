//! A TOML document, read key by key, with every mistake collected and every key accounted for.
//!
//! The document is walked by hand and not through serde's derive, which stops at the first mistake
//! and loses a value's place once it is converted. The keys that the program reads from a
//! [`Reader`] are the keys that exist: all other keys in the document are unknown. The
//! documentation is tested against this list of keys.

use super::disguise;
use super::foreign::{self, Format};
use super::mistake::{Mistake, Mistakes, Place};
use super::path::{find, find_key, join, parent, pattern, put};
use super::source::Source;
use super::suggest::ForeignName;
use super::values::{Unfit, found};
use core::ops::Range;
use std::collections::BTreeSet;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A key that a user set, and where.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The key with its section.
    pub field: String,
    /// Where it was set.
    pub place: Place,
}

impl Definition {
    /// A mistake at this place.
    pub fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake {
            place: self.place.clone(),
            field: self.field.clone(),
            message: message.into(),
        }
    }
}

/// A value that a user set.
#[derive(Clone, Debug)]
pub struct Item<'s> {
    /// Where it was set.
    pub definition: Definition,
    /// The value.
    pub value: DeValue<'s>,
}

impl<'s> Item<'s> {
    /// A mistake at this place.
    pub fn mistake(&self, message: impl Into<String>) -> Mistake {
        self.definition.mistake(message)
    }

    /// Reads the value. If it is out of range, the mistake names `range`.
    pub fn read<'i, T>(
        &'i self,
        parse: impl FnOnce(&'i DeValue<'s>) -> Result<T, Unfit>,
        range: &str,
    ) -> Result<T, Mistake> {
        parse(&self.value).map_err(|unfit| self.unfit(unfit, || range.to_owned()))
    }

    /// A mistake for a value that does not fit. If it is out of range, the mistake names `range`.
    pub(crate) fn unfit(&self, unfit: Unfit, range: impl FnOnce() -> String) -> Mistake {
        self.mistake(match unfit {
            Unfit::Range => format!("found {}, expected {}", found(&self.value), range()),
            Unfit::Other(message) => message,
        })
    }
}

/// A setting that always has a value, by default if the user set none.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Where it was set; `None` for a default.
    pub definition: Option<Definition>,
}

/// A flag's values. They take precedence over the file's.
#[derive(Clone, Debug)]
pub struct Flag<'s> {
    /// The key that the flag sets, with its section.
    pub field: &'static str,
    /// The flag, with its dashes.
    pub name: &'static str,
    /// The values; more than one only where the key takes a list.
    pub values: Vec<DeValue<'s>>,
}

/// A source of values that override the document at run time. Their spans are beyond the end of
/// any document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The control plane.
    ControlPlane,
    /// The operator, over the control plane.
    Operator,
}

impl Layer {
    const ALL: [Self; 2] = [Self::ControlPlane, Self::Operator];

    const fn span(self) -> Range<usize> {
        match self {
            Self::ControlPlane => usize::MAX - 1..usize::MAX - 1,
            Self::Operator => usize::MAX..usize::MAX,
        }
    }

    const fn place(self) -> Place {
        match self {
            Self::ControlPlane => Place::ControlPlane,
            Self::Operator => Place::Override,
        }
    }
}

/// An entry of a table whose keys the user chooses, with its value.
pub(super) type Entry<'s> = (String, Item<'s>);

/// A document, and what was found while reading it.
#[derive(Debug)]
pub struct Reader<'s> {
    source: Option<&'s Source>,
    pub(super) document: DeTable<'s>,
    pub(super) flags: Vec<Flag<'s>>,
    /// Values for keys that neither the file nor a flag sets.
    stand_ins: Vec<Item<'s>>,
    /// Every field that was looked up.
    pub(super) asked: BTreeSet<String>,
    pub(super) mistakes: Vec<Mistake>,
    /// Required fields that are absent.
    pub(super) missing: BTreeSet<String>,
    /// Names that other software has for our keys.
    pub(super) foreign_names: Vec<&'static ForeignName>,
}

impl<'s> Reader<'s> {
    /// # Errors
    ///
    /// Returns all syntax mistakes. If there is any, the rest of the document cannot be trusted.
    pub fn new(source: Option<&'s Source>, flags: Vec<Flag<'s>>) -> Result<Self, Mistakes> {
        let document = match source {
            None => DeTable::new(),
            Some(source) => {
                let (document, errors) = DeTable::parse_recoverable(source.text());
                if !errors.is_empty() {
                    if let Some(mistake) = disguise::not_toml(source) {
                        return Err(Mistakes::new(vec![mistake]));
                    }
                    let mistakes = errors.iter().map(|error| syntax(source, error));
                    return Err(Mistakes::new(mistakes.collect()));
                }
                document.into_inner()
            }
        };
        Ok(Self::of(source, document, flags))
    }

    /// Reads a document in `format`. If it is a bare list, the list becomes the value of
    /// `list_key`.
    ///
    /// # Errors
    ///
    /// Returns the syntax mistakes.
    pub fn in_format(
        source: &'s Source,
        format: Format,
        list_key: &'static str,
    ) -> Result<Self, Mistakes> {
        if format == Format::Toml {
            return Self::new(Some(source), Vec::new());
        }
        let document = foreign::document(source, format == Format::Json, list_key)?;
        Ok(Self::of(Some(source), document, Vec::new()))
    }

    fn of(source: Option<&'s Source>, document: DeTable<'s>, flags: Vec<Flag<'s>>) -> Self {
        Self {
            source,
            document,
            flags,
            stand_ins: Vec::new(),
            asked: BTreeSet::new(),
            mistakes: Vec::new(),
            missing: BTreeSet::new(),
            foreign_names: Vec::new(),
        }
    }

    /// Adds names that other software has for our keys, among which unknown keys are looked up,
    /// too.
    pub(crate) fn suggest(&mut self, names: &'static [ForeignName]) {
        self.foreign_names.extend(names);
    }

    /// The file, if there is one.
    pub fn source(&self) -> Option<&'s Source> {
        self.source
    }

    /// Sets `field` to `value`, overriding the file and the flags.
    pub(crate) fn put_over(&mut self, field: &str, value: DeValue<'s>, layer: Layer) {
        self.flags.retain(|flag| flag.field != field);
        // The elements of a list have the spans of the text that the value was parsed from.
        let value = match value {
            DeValue::Array(list) => {
                let elements = list.into_iter().map(Spanned::into_inner);
                let elements = elements.map(|element| Spanned::new(layer.span(), element));
                DeValue::Array(elements.collect())
            }
            other => other,
        };
        if let Err(around) = put(&mut self.document, field, Spanned::new(layer.span(), value)) {
            self.mistakes.push(Mistake {
                place: layer.place(),
                field: field.to_owned(),
                message: format!("{around} is no section, expected a key"),
            });
        }
    }

    /// Records a mistake.
    pub fn add_mistake(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
    }

    /// Number of mistakes so far.
    pub const fn mistakes(&self) -> usize {
        self.mistakes.len()
    }

    /// Returns the value of `Ok`. Records a mistake and returns `None`.
    pub fn note<T>(&mut self, result: Result<T, Mistake>) -> Option<T> {
        result.map_err(|mistake| self.mistakes.push(mistake)).ok()
    }

    /// Records that a required key is set neither by the file nor by a flag.
    pub fn add_missing(&mut self, field: &str, flag: &'static str, expected: &str) {
        let place = self.source.map_or(Place::Flag(flag), Self::whole);
        self.missing.insert(field.to_owned());
        self.mistakes.push(Mistake {
            place,
            field: field.to_owned(),
            message: format!("is missing, expected {expected}"),
        });
    }

    /// Records that a required key is missing in the file. The mistake points at the section where
    /// it belongs.
    pub fn add_missing_key(&mut self, field: &str, expected: &str) {
        self.missing.insert(field.to_owned());
        self.add_mistake_near(field, format!("is missing, expected {expected}"));
    }

    /// Records a mistake of `field`, at the place where it is set or would be set.
    pub fn add_mistake_near(&mut self, field: &str, message: String) {
        let place = self.place_near(field);
        self.mistakes.push(Mistake {
            place,
            field: field.to_owned(),
            message,
        });
    }

    /// The place of the file as a whole.
    fn whole_place(&self) -> Place {
        self.source.map_or(Place::CommandLine, Self::whole)
    }

    fn whole(source: &Source) -> Place {
        Place::File(source.file().to_owned())
    }

    pub(super) fn place_of(&self, span: Range<usize>) -> Place {
        if let Some(layer) = Layer::ALL.into_iter().find(|layer| layer.span() == span) {
            return layer.place();
        }
        self.source
            .map_or(Place::CommandLine, |source| source.place(span))
    }

    fn item(&self, field: String, value: &Spanned<DeValue<'s>>) -> Item<'s> {
        Item {
            definition: Definition {
                field,
                place: self.place_of(value.span()),
            },
            value: value.get_ref().clone(),
        }
    }

    /// Resolves a file name of a configuration file: relative names start from the directory of
    /// that file.
    pub(crate) fn path_of(&self, item: &Item<'_>, written: &str) -> PathBuf {
        let source = self
            .source
            .filter(|_| matches!(item.definition.place, Place::Line { .. }));
        let base = source.and_then(|source| source.file().parent());
        base.map_or_else(|| PathBuf::from(written), |base| base.join(written))
    }

    /// Returns where the file has a section or a key of that name.
    pub fn section_definition(&self, section: &str) -> Option<Definition> {
        let key = find_key(&self.document, section)?;
        Some(Definition {
            field: section.to_owned(),
            place: self.place_of(key.span()),
        })
    }

    /// Takes the value of `field` (`listen`, `probe.port`, `fleet[0].cores`), from a flag or else
    /// from the file.
    pub fn take(&mut self, field: &str) -> Option<Item<'s>> {
        self.asked.insert(pattern(field));
        if let Some(flag) = self.flags.iter().find(|flag| flag.field == field)
            && let Some(value) = flag.values.first()
        {
            return Some(Item {
                definition: Definition {
                    field: field.to_owned(),
                    place: Place::Flag(flag.name),
                },
                value: value.clone(),
            });
        }
        match find(&self.document, field) {
            Some(value) => Some(self.item(field.to_owned(), value)),
            None => self.stand_in_for(field).cloned(),
        }
    }

    /// Sets a field to `item` if neither the file nor a flag sets it.
    pub fn stand_in(&mut self, item: Item<'s>) {
        self.stand_ins.push(item);
    }

    fn stand_in_for(&self, field: &str) -> Option<&Item<'s>> {
        self.stand_ins
            .iter()
            .find(|item| item.definition.field == field)
    }

    /// Removes and returns the mistakes in environment variables.
    pub fn set_aside(&mut self) -> impl Iterator<Item = Mistake> {
        let is_variable = |mistake: &mut Mistake| matches!(mistake.place, Place::Variable(_));
        self.mistakes.extract_if(.., is_variable)
    }

    /// The number of tables in the list of tables `[[field]]`. Their keys are then `field[0].key`
    /// and so on. If `field` is no such list, [`finish`](Self::finish) reports it.
    pub fn count_tables(&mut self, field: &str) -> usize {
        self.asked.insert(format!("{}[]", pattern(field)));
        find(&self.document, field)
            .and_then(|value| value.get_ref().as_array())
            .map_or(0, |tables| tables.len())
    }

    /// Returns where `field` is set, by a flag or else in the file.
    pub fn definition(&self, field: &str) -> Option<Definition> {
        let flag = self.flags.iter().find(|flag| flag.field == field);
        let place = match flag.filter(|flag| !flag.values.is_empty()) {
            Some(flag) => Place::Flag(flag.name),
            None => self.place_of(find(&self.document, field)?.span()),
        };
        Some(Definition {
            field: field.to_owned(),
            place,
        })
    }

    /// The names of the tables in the section `field`, in the order of the file: `[services.web]`
    /// is `web` of `services`. [`finish`](Self::finish) reports entries that are no tables.
    pub fn take_tables(&mut self, field: &str) -> Vec<(String, Definition)> {
        self.asked.insert(format!("{}.*", pattern(field)));
        let Some(tables) = find(&self.document, field).and_then(|value| value.get_ref().as_table())
        else {
            return Vec::new();
        };
        let mut named: Vec<_> = tables.iter().map(|(key, _)| key).collect();
        named.sort_by_key(|key| key.span().start);
        let definition = |key: &Spanned<DeString<'_>>| Definition {
            field: join(field, key.get_ref()),
            place: self.place_of(key.span()),
        };
        let tables = named
            .iter()
            .map(|key| (key.get_ref().to_string(), definition(key)));
        tables.collect()
    }

    /// Takes the entries of the table `field`, whose keys the user chooses, in the order of the
    /// file; `None` if it is not set. Records a mistake if `field` is no table.
    pub fn take_map(&mut self, field: &str, expected: &str) -> Option<Vec<Entry<'s>>> {
        let item = self.take(field)?;
        let DeValue::Table(table) = &item.value else {
            // Not repeated, because the values of headers may be secrets.
            self.add_mistake(item.mistake(format!("is no table, expected {expected}")));
            return None;
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&Spanned<DeString<'s>>, &Spanned<DeValue<'s>>)| {
            let key = key.get_ref().to_string();
            let item = self.item(join(field, &key), value);
            (key, item)
        };
        Some(entries.into_iter().map(entry).collect())
    }

    /// Leaves `field` and everything in it unread, after a mistake of it was recorded.
    pub fn give_up(&mut self, field: &str) {
        self.asked.insert(pattern(field));
    }

    /// Returns whether the file has a key or a section `field`.
    pub fn has(&self, field: &str) -> bool {
        find(&self.document, field).is_some()
    }

    /// Returns whether the file has a section `field`, or a table there.
    pub fn has_section(&self, field: &str) -> bool {
        find(&self.document, field).is_some_and(|value| value.get_ref().is_table())
    }

    /// The place of `field`, or of its nearest ancestor that the file has.
    pub fn place_near(&self, field: &str) -> Place {
        let mut path = Some(field);
        while let Some(around) = path {
            if let Some(value) = find(&self.document, around) {
                return self.place_of(value.span());
            }
            path = parent(around);
        }
        self.whole_place()
    }

    /// Takes a field that is one value or a list of values; `None` if it is not set.
    pub fn take_list(&mut self, field: &str) -> Option<Vec<Item<'s>>> {
        let flag = self.flags.iter().find(|flag| flag.field == field);
        if let Some(flag) = flag.filter(|flag| !flag.values.is_empty()).cloned() {
            self.asked.insert(field.to_owned());
            let items = flag.values.into_iter().map(|value| Item {
                definition: Definition {
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

    /// The value of `field`, or its default. A mistake is recorded and leaves the default, so that
    /// reading goes on.
    pub fn setting<T>(
        &mut self,
        field: &str,
        default: T,
        range: &str,
        parse: impl FnOnce(&DeValue<'s>) -> Result<T, Unfit>,
    ) -> Setting<T> {
        let item = self.take(field);
        let definition = item.as_ref().map(|item| item.definition.clone());
        let value = item.and_then(|item| self.note(item.read(parse, range)));
        Setting {
            value: value.unwrap_or(default),
            definition,
        }
    }
}

fn syntax(source: &Source, error: &toml::de::Error) -> Mistake {
    let end = source.text().len();
    // The toml crate's messages may have several lines; ours have one.
    let lines: Vec<_> = error.message().lines().map(str::trim).collect();
    Mistake {
        place: source.place(error.span().unwrap_or(end..end)),
        field: "syntax".to_owned(),
        message: lines.join(", "),
    }
}
