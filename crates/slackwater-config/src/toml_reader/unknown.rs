//! Keys of a document that were not read. Each is a mistake, which names the key that was probably
//! meant, or the section where the key belongs.

use super::mistake::{Mistake, Place};
use super::path::{join, parent, pattern};
use super::reader::Reader;
use super::suggest::{ForeignName, has_same_words, nearest};
use super::values::found;
use core::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The message for an unknown key.
struct Answer {
    message: String,
    /// The field that was probably meant.
    meant: Option<String>,
}

/// The message for a key that would have to be quoted.
const QUOTED: &str =
    "unknown key, because names have no \".\", \"[\" or \"]\"; write it without quotation marks";

impl<'s> Reader<'s> {
    /// Ends the reading: keys and flags that were not read become mistakes. Returns every field
    /// that was read, and all mistakes.
    pub fn finish(mut self) -> (Vec<String>, Vec<Mistake>) {
        let mut unknowns = Vec::new();
        let mut meant = Vec::new();
        self.note_unknowns("", &self.document, &mut unknowns, &mut meant);
        self.note_unread_flags(&mut unknowns);
        // A key that is only misspelled or misplaced is not missing as well.
        let is_there = |field: &String| self.missing.contains(field) && meant.contains(field);
        let is_missing = |it: &Mistake| it.message.starts_with("is missing");
        self.mistakes
            .retain(|mistake| !(is_missing(mistake) && is_there(&mistake.field)));
        self.mistakes.append(&mut unknowns);
        (self.asked.into_iter().collect(), self.mistakes)
    }

    /// A flag stands for one key. If the file has several keys in its place, such as those of named
    /// services, the flag is ambiguous.
    fn note_unread_flags(&self, unknowns: &mut Vec<Mistake>) {
        let given = self.flags.iter().filter(|flag| !flag.values.is_empty());
        for flag in given.filter(|flag| !self.asked.contains(flag.field)) {
            let home = self.home_of(flag.field);
            let home = home.map_or_else(String::new, |home| {
                format!(": {:?} belongs {}", flag.field, place_in_words(&home))
            });
            unknowns.push(Mistake {
                place: Place::Flag(flag.name),
                field: flag.field.to_owned(),
                message: format!("cannot be set by a flag beside this file{home}"),
            });
        }
    }

    /// Records the unread entries of `table`, which is at `path`. Fields that were probably meant
    /// go to `meant`.
    fn note_unknowns(
        &self,
        path: &str,
        table: &DeTable<'s>,
        unknowns: &mut Vec<Mistake>,
        meant: &mut Vec<String>,
    ) {
        let are_keys_chosen = self.asked.contains(&join(&pattern(path), "*"));
        for (key, value) in table {
            let field = join(path, key.get_ref());
            let shape = pattern(&field);
            // A value may contain further keys or elements only if the program reads some below its
            // path.
            let asked_inside = |opening: &str| {
                let inside = format!("{shape}{opening}");
                let mut behind = self.asked.range(inside.clone()..);
                behind
                    .next()
                    .is_some_and(|asked| asked.starts_with(&inside))
            };
            // A quoted key may look like the path of another key, which was not read from here.
            if key.get_ref().contains(['.', '[', ']']) && !are_keys_chosen {
                let is_path =
                    self.asked.contains(&shape) || asked_inside(".") || asked_inside("[]");
                let answer = self.answer(path, key.get_ref(), value.get_ref().is_table());
                unknowns.push(Mistake {
                    place: self.place_of(key.span()),
                    message: if is_path {
                        QUOTED.to_owned()
                    } else {
                        answer.message
                    },
                    field: field.clone(),
                });
                meant.push(field);
                continue;
            }
            let (has_keys, has_elements) = (asked_inside("."), asked_inside("[]"));
            match value.get_ref() {
                DeValue::Table(table) if has_keys => {
                    self.note_unknowns(&field, table, unknowns, meant);
                }
                DeValue::Array(elements) if has_elements => {
                    self.note_unknown_elements(&field, elements, unknowns, meant);
                }
                _ if self.asked.contains(&shape) => {}
                other if has_keys || has_elements => {
                    unknowns.push(self.not_a_section(&field, value.span(), other, has_elements));
                }
                other => {
                    let answer = self.answer(path, key.get_ref(), other.is_table());
                    meant.extend(answer.meant);
                    unknowns.push(Mistake {
                        place: self.place_of(key.span()),
                        message: answer.message,
                        field,
                    });
                }
            }
        }
    }

    fn note_unknown_elements(
        &self,
        list: &str,
        elements: &[Spanned<DeValue<'s>>],
        unknowns: &mut Vec<Mistake>,
        meant: &mut Vec<String>,
    ) {
        let may_be_values = self.asked.contains(&pattern(list));
        for (number, element) in elements.iter().enumerate() {
            let field = format!("{list}[{number}]");
            match element.get_ref() {
                DeValue::Table(table) => self.note_unknowns(&field, table, unknowns, meant),
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
            // A text may be a secret that belongs into the section.
            message: match value {
                DeValue::String(_) => format!("found a text, expected {section}"),
                other => format!("found {}, expected {section}", found(other)),
            },
        }
    }

    /// The message for an unknown key in the table at `path`. The surest guess comes first: another
    /// software's name, a key of the same name elsewhere, a similar name here, a name with the same
    /// words elsewhere.
    fn answer(&self, path: &str, key: &str, is_table: bool) -> Answer {
        let kind = if is_table && path.is_empty() {
            "section"
        } else {
            "key"
        };
        let shape = pattern(path);
        if let Some(answer) = self.foreign(kind, path, key) {
            return answer;
        }
        if let Some(home) = self.home_of(key) {
            return Answer {
                message: misplaced(kind, path, key, &home),
                meant: Some(join(&home, key)),
            };
        }
        // A misspelled name: compare with the names that are known at this place.
        let prefix = join(&shape, "");
        let known = (self.asked.iter()).filter_map(|field| field.strip_prefix(prefix.as_str()));
        let mut names: Vec<_> = known.map(top).collect();
        names.sort_unstable();
        names.dedup();
        if let Some(near) = nearest(key, names.iter().copied()) {
            return Answer {
                message: format!("unknown {kind}, did you mean {near:?}?"),
                meant: Some(join(path, near)),
            };
        }
        // A name with these words in another order, in any section.
        let mut fields = self.plain_fields();
        if let Some(field) = fields.find(|field| has_same_words(last(field), key)) {
            let (home, name) = (parent(field).unwrap_or_default(), last(field));
            return Answer {
                message: format!(
                    "unknown {kind} here, did you mean {name:?} {}?",
                    place_in_words(home)
                ),
                meant: Some(field.clone()),
            };
        }
        Answer {
            message: format!("unknown {kind}, expected one of {}", names.join(", ")),
            meant: None,
        }
    }

    /// Translates a name of other software.
    fn foreign(&self, kind: &str, path: &str, key: &str) -> Option<Answer> {
        let shape = pattern(path);
        let (service, section) = split_service(&shape);
        let is_meant = |name: &&&ForeignName| name.is_meant(section, key);
        let mut names = self.foreign_names.iter().filter(is_meant);
        let (field, name) = names.find_map(|name| Some((self.full(service, name.key)?, name)))?;
        let (home, written) = home_and_key(&field);
        let is_here = home == shape.strip_suffix("[]").unwrap_or(&shape);
        let (place, meant) = if is_here {
            (String::new(), join(path, written))
        } else {
            (format!(" {}", place_in_words(home)), field.clone())
        };
        Some(Answer {
            message: format!("unknown {kind}, write {written} = {}{place}", name.example),
            meant: Some(meant),
        })
    }

    /// The full name of a pattern's key in this document, which may be below a named service.
    /// Prefers the service that `service` begins with. `None` if the document has no such key.
    fn full(&self, service: &str, key: &str) -> Option<String> {
        let own = format!("{service}{key}");
        if self.asked.contains(&own) {
            return Some(own);
        }
        if self.asked.contains(key) {
            return Some(key.to_owned());
        }
        // The keys of a list are read only where the document has such a list.
        if let Some((list, _)) = key.split_once("[].") {
            let is_known = self.asked.contains(&format!("{list}[]"));
            return is_known.then(|| key.to_owned());
        }
        let of_service = |field: &&String| split_service(field).1 == key;
        self.plain_fields().find(of_service).cloned()
    }

    /// The section that has a key or a section of that name.
    fn home_of(&self, name: &str) -> Option<String> {
        if self.asked.contains(name) {
            return Some(String::new());
        }
        let key = (self.plain_fields()).find_map(|field| section_before(field, name));
        let inside = format!(".{name}.");
        let section = || {
            let mut fields = self.plain_fields();
            fields.find_map(|field| Some(field.split_once(&inside)?.0))
        };
        key.or_else(section).map(str::to_owned)
    }

    /// The fields that were read and are not in a list.
    fn plain_fields(&self) -> impl Iterator<Item = &String> {
        self.asked.iter().filter(|field| !field.contains('['))
    }
}

/// The message for a key that belongs in the section `home` instead.
fn misplaced(kind: &str, path: &str, key: &str, home: &str) -> String {
    let belongs = format!(
        "unknown {kind} here, {key:?} belongs {}",
        place_in_words(home)
    );
    // A header applies to all lines below it, which surprises people who know other formats.
    if home.is_empty() && !path.is_empty() && !path.contains('[') {
        return format!("{belongs}; below the line [{path}] it is a key of that section");
    }
    belongs
}

/// Splits a path into its service, with the dot, and the rest: `services.web.` and `retries`.
fn split_service(path: &str) -> (&str, &str) {
    let Some(rest) = path.strip_prefix("services.") else {
        return ("", path);
    };
    let end = rest.find('.').map_or(path.len(), |dot| {
        dot.saturating_add("services.".len()).saturating_add(1)
    });
    path.split_at_checked(end).unwrap_or((path, ""))
}

/// The section and the name under which a key is written: a key of a table in a list includes the
/// sections below that list.
fn home_and_key(field: &str) -> (&str, &str) {
    match field.split_once("[].") {
        Some((list, key)) => (list, key),
        None => (parent(field).unwrap_or_default(), last(field)),
    }
}

/// Describes where a key of the section `home` is written.
fn place_in_words(home: &str) -> String {
    match home {
        "" => "at the top, above all sections".to_owned(),
        "routes" | "listeners" => format!("in a table [[{home}]]"),
        section => format!("in [{section}]"),
    }
}

/// The part of a field before `key`, if the field ends with it.
fn section_before<'f>(field: &'f str, key: &str) -> Option<&'f str> {
    let before = field.strip_suffix(key)?;
    if before.is_empty() {
        return Some(before);
    }
    before.strip_suffix('.')
}

/// A field's section, or the field itself if it has none.
fn top(field: &str) -> &str {
    field.split(['.', '[']).next().unwrap_or(field)
}

/// A field's own name.
fn last(field: &str) -> &str {
    field.rsplit('.').next().unwrap_or(field)
}
