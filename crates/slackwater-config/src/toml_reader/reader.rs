//! A TOML document, read key by key, with every mistake collected and every key accounted for.
//!
//! The document is walked by hand and not through serde's derive, which stops at the first mistake
//! and loses a value's place once it is converted. What a [`Reader`] is asked for is what exists: a
//! key that nobody asks for is unknown, and the list of all keys, which the documentation is tested
//! against, is the list of questions.

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

/// That a user said something: of which key, and where.
#[derive(Clone, Debug)]
pub struct Said {
    /// The key with its section.
    pub field: String,
    /// Where it stands.
    pub place: Place,
}

impl Said {
    /// A mistake at this place.
    pub fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake {
            place: self.place.clone(),
            field: self.field.clone(),
            message: message.into(),
        }
    }
}

/// Something a user said.
#[derive(Clone, Debug)]
pub struct Item<'s> {
    /// Where it stands.
    pub said: Said,
    /// The value.
    pub value: DeValue<'s>,
}

impl<'s> Item<'s> {
    /// A mistake at this place.
    pub fn mistake(&self, message: impl Into<String>) -> Mistake {
        self.said.mistake(message)
    }

    /// Reads the value; `range` is told where it is outside.
    pub fn read<'i, T>(
        &'i self,
        parse: impl FnOnce(&'i DeValue<'s>) -> Result<T, Unfit>,
        range: &str,
    ) -> Result<T, Mistake> {
        parse(&self.value).map_err(|unfit| self.unfit(unfit, || range.to_owned()))
    }

    /// A value that does not fit; the range is told where it is outside.
    pub(crate) fn unfit(&self, unfit: Unfit, range: impl FnOnce() -> String) -> Mistake {
        self.mistake(match unfit {
            Unfit::Range => format!("found {}, expected {}", found(&self.value), range()),
            Unfit::Other(message) => message,
        })
    }
}

/// A value that is always there; a default was said nowhere.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Where it was set; `None` for a default.
    pub said: Option<Said>,
}

/// A flag's values, which win over the file's.
#[derive(Clone, Debug)]
pub struct Flag<'s> {
    /// The key that it stands for, with its section.
    pub field: &'static str,
    /// The flag, with its dashes.
    pub name: &'static str,
    /// More than one only where the key takes a list.
    pub values: Vec<DeValue<'s>>,
}

/// Where what was put over the document stands: beyond the end of any.
const OVER: Range<usize> = usize::MAX..usize::MAX;

/// A key of the user's own, and what was said of it.
pub(super) type Entry<'s> = (String, Item<'s>);

/// The document, and what has been found out about it.
#[derive(Debug)]
pub struct Reader<'s> {
    source: Option<&'s Source>,
    pub(super) document: DeTable<'s>,
    pub(super) flags: Vec<Flag<'s>>,
    /// What holds where neither the file nor a flag says anything.
    stand_ins: Vec<Item<'s>>,
    /// Every field that was read.
    pub(super) asked: BTreeSet<String>,
    pub(super) mistakes: Vec<Mistake>,
    /// Fields that are required and absent.
    pub(super) missing: BTreeSet<String>,
    /// What other software calls our keys.
    pub(super) foreign_names: Vec<&'static ForeignName>,
}

impl<'s> Reader<'s> {
    /// # Errors
    ///
    /// All mistakes in the syntax; with any of them, the rest cannot be trusted.
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

    /// A document in `format`; where it may be a mere list, that is the value of `list_key`.
    ///
    /// # Errors
    ///
    /// Mistakes in the syntax.
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

    /// Unknown keys are also looked up among names that other software has for ours.
    pub(crate) fn suggest(&mut self, names: &'static [ForeignName]) {
        self.foreign_names.extend(names);
    }

    /// The file, if there is one.
    pub fn source(&self) -> Option<&'s Source> {
        self.source
    }

    /// Nothing at all is said: a file of comments, or no file and no flags.
    pub fn is_empty(&self) -> bool {
        self.document.is_empty()
    }

    /// Says `value` of `field`, in place of what the file and the flags say of it.
    pub fn put_over(&mut self, field: &str, value: DeValue<'s>) {
        self.flags.retain(|flag| flag.field != field);
        if let Err(around) = put(&mut self.document, field, Spanned::new(OVER, value)) {
            self.mistakes.push(Mistake {
                place: Place::Override,
                field: field.to_owned(),
                message: format!("{around} is no section, expected a key"),
            });
        }
    }

    /// Notes a mistake.
    pub fn add_mistake(&mut self, mistake: Mistake) {
        self.mistakes.push(mistake);
    }

    /// How many mistakes there are so far.
    pub const fn mistakes(&self) -> usize {
        self.mistakes.len()
    }

    /// `Ok`'s value; a mistake is noted and gives `None`.
    pub fn note<T>(&mut self, result: Result<T, Mistake>) -> Option<T> {
        result.map_err(|mistake| self.mistakes.push(mistake)).ok()
    }

    /// A key that has to be said, by the file or by a flag, and was not.
    pub fn add_missing(&mut self, field: &str, flag: &'static str, expected: &str) {
        let place = self.source.map_or(Place::Flag(flag), Self::whole);
        self.missing.insert(field.to_owned());
        self.mistakes.push(Mistake {
            place,
            field: field.to_owned(),
            message: format!("is missing, expected {expected}"),
        });
    }

    /// A key that has to be said in the file, and was not: told at the section where it belongs.
    pub fn add_missing_key(&mut self, field: &str, expected: &str) {
        self.missing.insert(field.to_owned());
        self.add_mistake_near(field, format!("is missing, expected {expected}"));
    }

    /// A mistake of `field`, wherever it was said, or would have been.
    pub fn add_mistake_near(&mut self, field: &str, message: String) {
        let place = self.place_near(field);
        self.mistakes.push(Mistake {
            place,
            field: field.to_owned(),
            message,
        });
    }

    /// The file as a whole.
    pub fn whole_place(&self) -> Place {
        self.source.map_or(Place::CommandLine, Self::whole)
    }

    fn whole(source: &Source) -> Place {
        Place::File(source.file().to_owned())
    }

    pub(super) fn place_of(&self, span: Range<usize>) -> Place {
        if span == OVER {
            return Place::Override;
        }
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

    /// The file that `item` names as `written`: a relative name in a configuration file starts from
    /// that file's own directory.
    pub(crate) fn path_of(&self, item: &Item<'_>, written: &str) -> PathBuf {
        let source = self
            .source
            .filter(|_| matches!(item.said.place, Place::Line { .. }));
        let base = source.and_then(|source| source.file().parent());
        base.map_or_else(|| PathBuf::from(written), |base| base.join(written))
    }

    /// Where the file has a section or a key of that name, if it does.
    pub fn said_section(&self, section: &str) -> Option<Said> {
        let key = find_key(&self.document, section)?;
        Some(Said {
            field: section.to_owned(),
            place: self.place_of(key.span()),
        })
    }

    /// What was said of `field` (`listen`, `probe.port`, `fleet[0].cores`), by a flag or else in
    /// the file.
    pub fn take(&mut self, field: &str) -> Option<Item<'s>> {
        self.asked.insert(pattern(field));
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
        match find(&self.document, field) {
            Some(value) => Some(self.item(field.to_owned(), value)),
            None => self.stand_in_for(field).cloned(),
        }
    }

    /// Says what `item` says of its field, if neither the file nor a flag says anything of it.
    pub fn stand_in(&mut self, item: Item<'s>) {
        self.stand_ins.push(item);
    }

    fn stand_in_for(&self, field: &str) -> Option<&Item<'s>> {
        self.stand_ins.iter().find(|item| item.said.field == field)
    }

    /// Takes back the mistakes that are the environment's.
    pub fn set_aside(&mut self) -> impl Iterator<Item = Mistake> {
        let is_variable = |mistake: &mut Mistake| matches!(mistake.place, Place::Variable(_));
        self.mistakes.extract_if(.., is_variable)
    }

    /// How many tables the list of tables `[[field]]` has; their keys are then `field[0].key` and
    /// so on. What is no such list is told at the end.
    pub fn count_tables(&mut self, field: &str) -> usize {
        self.asked.insert(format!("{}[]", pattern(field)));
        find(&self.document, field)
            .and_then(|value| value.get_ref().as_array())
            .map_or(0, |tables| tables.len())
    }

    /// Where something was said of `field`, by a flag or else in the file, if it was.
    pub fn said(&self, field: &str) -> Option<Said> {
        let flag = self.flags.iter().find(|flag| flag.field == field);
        let place = match flag.filter(|flag| !flag.values.is_empty()) {
            Some(flag) => Place::Flag(flag.name),
            None => self.place_of(find(&self.document, field)?.span()),
        };
        Some(Said {
            field: field.to_owned(),
            place,
        })
    }

    /// The names of the tables that the section `field` has, in the order of the file:
    /// `[services.web]` is `web` of `services`. What is no table is told at the end.
    pub fn take_tables(&mut self, field: &str) -> Vec<(String, Said)> {
        self.asked.insert(format!("{}.*", pattern(field)));
        let Some(tables) = find(&self.document, field).and_then(|value| value.get_ref().as_table())
        else {
            return Vec::new();
        };
        let mut named: Vec<_> = tables.iter().map(|(key, _)| key).collect();
        named.sort_by_key(|key| key.span().start);
        let said = |key: &Spanned<DeString<'_>>| Said {
            field: join(field, key.get_ref()),
            place: self.place_of(key.span()),
        };
        let tables = named
            .iter()
            .map(|key| (key.get_ref().to_string(), said(key)));
        tables.collect()
    }

    /// What was said within the table `field`, whose keys are the user's own, in the order of the
    /// file; `None` if nothing was. What is no table is noted.
    pub fn take_map(&mut self, field: &str, expected: &str) -> Option<Vec<Entry<'s>>> {
        let item = self.take(field)?;
        let DeValue::Table(table) = &item.value else {
            let told = format!("found {}, expected {expected}", found(&item.value));
            self.add_mistake(item.mistake(told));
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

    /// Leaves `field` and all that is in it unread, where a mistake of it has been told.
    pub fn give_up(&mut self, field: &str) {
        self.asked.insert(pattern(field));
    }

    /// Whether the file has a key `field`, or a section.
    pub fn has(&self, field: &str) -> bool {
        find(&self.document, field).is_some()
    }

    /// Whether the file has a section `field`, or a table there.
    pub fn has_section(&self, field: &str) -> bool {
        find(&self.document, field).is_some_and(|value| value.get_ref().is_table())
    }

    /// The place of `field`, or of the nearest thing around it that the file has.
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

    /// What was said of a field that takes one value or a list of them; `None` if nothing was.
    pub fn take_list(&mut self, field: &str) -> Option<Vec<Item<'s>>> {
        let flag = self.flags.iter().find(|flag| flag.field == field);
        if let Some(flag) = flag.filter(|flag| !flag.values.is_empty()).cloned() {
            self.asked.insert(field.to_owned());
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

    /// What was said of `field`, or its default. A mistake is noted and leaves the default, so that
    /// reading goes on.
    pub fn setting<T>(
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
