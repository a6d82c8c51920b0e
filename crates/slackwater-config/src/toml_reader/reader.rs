//! A TOML document, read key by key, with every mistake collected and every key accounted for.
//!
//! The document is walked by hand and not through serde's derive, which stops at the first mistake
//! and loses a value's place once it is converted. What a [`Reader`] is asked for is what exists: a
//! key that nobody asks for is unknown, and the list of all keys, which the documentation is tested
//! against, is the list of questions.

use super::foreign::{self, Format};
use super::mistake::{Mistake, Mistakes, Place};
use super::path::{find, find_key, join, parent, pattern, put};
use super::source::Source;
use super::suggest::nearest;
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
    document: DeTable<'s>,
    flags: Vec<Flag<'s>>,
    /// What holds where neither the file nor a flag says anything.
    stand_ins: Vec<Item<'s>>,
    /// Every field that somebody asked for.
    asked: BTreeSet<String>,
    mistakes: Vec<Mistake>,
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
        }
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
        self.mistakes.push(Mistake {
            place,
            field: field.to_owned(),
            message: format!("is missing, expected {expected}"),
        });
    }

    /// A key that has to be said in the file, and was not: told at the section where it belongs.
    pub fn add_missing_key(&mut self, field: &str, expected: &str) {
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

    fn place_of(&self, span: Range<usize>) -> Place {
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

    /// Ends the reading: keys and flags that nobody asked for are mistakes. Gives every field asked
    /// for, and all mistakes.
    pub fn finish(mut self) -> (Vec<String>, Vec<Mistake>) {
        let mut unknowns = Vec::new();
        self.note_unknowns("", &self.document, &mut unknowns);
        self.note_unread_flags(&mut unknowns);
        self.mistakes.append(&mut unknowns);
        (self.asked.into_iter().collect(), self.mistakes)
    }

    /// A flag stands for one key; where the file has other keys in its place, nobody knows for
    /// which.
    fn note_unread_flags(&self, unknowns: &mut Vec<Mistake>) {
        let given = self.flags.iter().filter(|flag| !flag.values.is_empty());
        for flag in given.filter(|flag| !self.asked.contains(flag.field)) {
            let home = self.home_of(flag.field);
            let home = home.map_or_else(String::new, |home| format!(": {home}"));
            unknowns.push(Mistake {
                place: Place::Flag(flag.name),
                field: flag.field.to_owned(),
                message: format!("cannot be said by a flag beside this file{home}"),
            });
        }
    }

    /// What is in `table`, which is at `path`, and nobody asked for.
    fn note_unknowns(&self, path: &str, table: &DeTable<'s>, unknowns: &mut Vec<Mistake>) {
        for (key, value) in table {
            let field = join(path, key.get_ref());
            let shape = pattern(&field);
            let asked_inside = |opening: &str| {
                let inside = format!("{shape}{opening}");
                let mut behind = self.asked.range(inside.clone()..);
                behind
                    .next()
                    .is_some_and(|asked| asked.starts_with(&inside))
            };
            let (has_keys, has_elements) = (asked_inside("."), asked_inside("[]"));
            match value.get_ref() {
                DeValue::Table(table) if has_keys => self.note_unknowns(&field, table, unknowns),
                DeValue::Array(elements) if has_elements => {
                    self.note_unknown_elements(&field, elements, unknowns);
                }
                _ if self.asked.contains(&shape) => {}
                other if has_keys || has_elements => {
                    unknowns.push(self.not_a_section(&field, value.span(), other, has_elements));
                }
                other => unknowns.push(Mistake {
                    place: self.place_of(key.span()),
                    message: self.unknown(path, key.get_ref(), other.is_table()),
                    field,
                }),
            }
        }
    }

    fn note_unknown_elements(
        &self,
        list: &str,
        elements: &[Spanned<DeValue<'s>>],
        unknowns: &mut Vec<Mistake>,
    ) {
        let may_be_values = self.asked.contains(&pattern(list));
        for (number, element) in elements.iter().enumerate() {
            let field = format!("{list}[{number}]");
            match element.get_ref() {
                DeValue::Table(table) => self.note_unknowns(&field, table, unknowns),
                _ if may_be_values => {}
                other => unknowns.push(self.not_a_section(list, element.span(), other, true)),
            }
        }
    }

    fn not_a_section(
        &self,
        field: &str,
        span: Range<usize>,
        value: &DeValue<'_>,
        is_list: bool,
    ) -> Mistake {
        let section = match is_list {
            true => format!("tables [[{}]]", pattern(field).replace("[]", "")),
            false if field.contains('[') => "a table".to_owned(),
            false => format!("a section [{field}]"),
        };
        Mistake {
            place: self.place_of(span),
            field: field.to_owned(),
            message: format!("found {}, expected {section}", found(value)),
        }
    }

    /// What to say of a key in the table at `path` that nobody asked for.
    fn unknown(&self, path: &str, key: &str, is_table: bool) -> String {
        let kind = if is_table && path.is_empty() {
            "section"
        } else {
            "key"
        };
        let prefix = join(&pattern(path), "");
        let known = (self.asked.iter()).filter_map(|field| field.strip_prefix(prefix.as_str()));
        let mut names: Vec<_> = known.map(top).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(home) = self.home_of(key) {
            return format!("unknown {kind} here, {home}");
        }
        match nearest(key, names.iter().copied()) {
            Some(near) => format!("unknown {kind}, did you mean {near:?}?"),
            None => format!("unknown {kind}, expected one of {}", names.join(", ")),
        }
    }

    /// Where a key or a section of that name belongs, if it exists somewhere.
    fn home_of(&self, name: &str) -> Option<String> {
        let plain = || self.asked.iter().filter(|field| !field.contains('['));
        let key = plain().find_map(|field| section_before(field, name));
        let inside = format!(".{name}.");
        let home = key.or_else(|| plain().find_map(|field| Some(field.split_once(&inside)?.0)))?;
        Some(match home {
            "" => format!("{name:?} belongs at the top, above all sections"),
            section => format!("{name:?} belongs in [{section}]"),
        })
    }
}

/// What stands before `key` in a field that ends with it.
fn section_before<'f>(field: &'f str, key: &str) -> Option<&'f str> {
    let before = field.strip_suffix(key)?;
    if before.is_empty() {
        return Some(before);
    }
    before.strip_suffix('.')
}

/// A field's section, or the field itself where it has none.
fn top(field: &str) -> &str {
    field.split(['.', '[']).next().unwrap_or(field)
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
