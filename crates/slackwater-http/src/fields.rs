//! The fields of a head, in their order, in one piece of text.
//!
//! Each field is kept as the line that HTTP/1.1 sends: name in lower case, colon, space, value,
//! CR LF. So a head is read with one copy, and lines that are still together are written with one.
//! Nothing is allocated where a cleared value is used again.
//!
//! To find a name, each is compared with it: heads have few fields, and those who read a head limit
//! their number. `http::HeaderMap` computes a hash for each name and keeps each name and value by
//! itself. `[Decision 0027]`

mod map;
mod scan;
#[cfg(test)]
mod tests;
mod value;

pub use map::FieldMap;
pub use value::{FieldName, FieldValue, NotText, Value};

use core::fmt;
use core::ops::Range;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// What is between a name and its value.
const COLON: &[u8; 2] = b": ";
const LINE_END: &[u8; 2] = b"\r\n";

/// Texts up to this length may hold twice as much memory.
const LONG_BYTES: usize = 4 << 10;

/// Fields in their order. A name may occur more than once. Names are in lower case, and those that
/// are looked for must be, too.
#[derive(Default)]
pub struct Fields {
    /// The lines of all fields, and of those that were removed.
    text: Vec<u8>,
    lines: Vec<Line>,
    /// The bits of all names that were added. Most names that are looked for are not there, and
    /// most of those have a bit that is not set.
    names: u64,
    /// Whether the text may have more than the lines, or has them in another order.
    has_gaps: bool,
}

fn is_lower(name: &str) -> bool {
    !name.bytes().any(|octet| octet.is_ascii_uppercase())
}

/// The bit of a name: one of 64, by its length and its ends.
#[inline]
fn bit_of(name: &[u8]) -> u64 {
    let ends = match name {
        [first, .., last] => 3 * usize::from(*first) + usize::from(*last),
        _ => 0,
    };
    1 << ((ends + 5 * name.len()) % 64)
}

/// Where the line of a field is in the text.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: usize,
    name_bytes: usize,
    /// After the line end.
    end: usize,
    /// Whether HPACK must not keep the value. RFC 7541 §7.1.3
    is_sensitive: bool,
}

/// Why lines are not fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    Name,
    Value,
    End,
    TooMany,
}

impl Line {
    fn name(self, text: &[u8]) -> &[u8] {
        let end = self.start + self.name_bytes;
        text.get(self.start..end).unwrap_or_default()
    }

    fn is_named(self, name: &str, text: &[u8]) -> bool {
        debug_assert!(is_lower(name), "{name}");
        self.name_bytes == name.len() && self.name(text) == name.as_bytes()
    }

    fn value(self, text: &[u8]) -> &[u8] {
        let start = self.start + self.name_bytes + COLON.len();
        let end = self.end - LINE_END.len();
        text.get(start..end).unwrap_or_default()
    }
}

impl Fields {
    /// No fields, and no space for any.
    pub const fn new() -> Self {
        Self {
            text: Vec::new(),
            lines: Vec::new(),
            names: 0,
            has_gaps: false,
        }
    }

    /// The number of fields; each occurrence of a name counts.
    pub const fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The octets of memory that it holds, whether or not there are fields.
    pub const fn capacity(&self) -> usize {
        self.text.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// Removes all fields, and keeps the space.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.names = 0;
        self.has_gaps = false;
    }

    /// The lines among which are all with this name: all lines, or none.
    #[inline]
    fn candidates(&self, name: &str) -> &[Line] {
        debug_assert!(is_lower(name), "{name}");
        if self.names & bit_of(name.as_bytes()) == 0 {
            return &[];
        }
        &self.lines
    }

    /// The first line with this name. Most of what is not there needs no call.
    #[inline]
    fn find(&self, name: &str) -> Option<&Line> {
        match self.candidates(name) {
            [] => None,
            lines => self.find_among(lines, name),
        }
    }

    #[inline(never)]
    fn find_among<'l>(&self, lines: &'l [Line], name: &str) -> Option<&'l Line> {
        lines.iter().find(|line| line.is_named(name, &self.text))
    }

    /// Gives back what a long text has reserved beyond its end.
    pub(crate) fn shrink_long(&mut self) {
        if self.text.len() > LONG_BYTES {
            self.text.shrink_to_fit();
        }
    }

    fn value_of(&self, line: Line) -> Value<'_> {
        Value::of(line.value(&self.text), line.is_sensitive)
    }

    /// The value of the first field with this name.
    #[inline]
    pub fn get(&self, name: impl AsRef<str>) -> Option<Value<'_>> {
        self.find(name.as_ref()).map(|line| self.value_of(*line))
    }

    /// The values of the first fields with these names, which one pass finds.
    #[inline]
    pub fn get_each<const NAMES: usize>(&self, names: [&str; NAMES]) -> [Option<Value<'_>>; NAMES] {
        let mut values = [None; NAMES];
        for line in &self.lines {
            for (name, value) in names.iter().zip(&mut values) {
                if value.is_none() && line.is_named(name, &self.text) {
                    *value = Some(self.value_of(*line));
                }
            }
        }
        values
    }

    /// The values of all fields with this name.
    #[inline]
    pub fn get_all<'f>(
        &'f self,
        name: impl AsRef<str> + 'f,
    ) -> impl DoubleEndedIterator<Item = Value<'f>> {
        let lines = self.candidates(name.as_ref());
        let named = move |line: &&Line| line.is_named(name.as_ref(), &self.text);
        let lines = lines.iter().filter(named);
        lines.map(|line| self.value_of(*line))
    }

    /// Whether there is a field with this name.
    #[inline]
    pub fn contains_key(&self, name: impl AsRef<str>) -> bool {
        self.find(name.as_ref()).is_some()
    }

    /// All fields, with their names.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], Value<'_>)> {
        let field = |line: &Line| (line.name(&self.text), self.value_of(*line));
        self.lines.iter().map(field)
    }

    /// All names, as often as they occur.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|line| line.name(&self.text))
    }

    /// Appends a field.
    pub fn append(&mut self, name: impl FieldName, value: impl FieldValue) {
        let line = self.write(name.name(), value.value());
        self.add(line);
    }

    fn add(&mut self, line: Line) {
        self.names |= bit_of(line.name(&self.text));
        self.lines.push(line);
    }

    fn write(&mut self, name: &str, value: Value<'_>) -> Line {
        let start = self.text.len();
        for part in [name.as_bytes(), COLON, value.as_bytes(), LINE_END] {
            self.text.extend_from_slice(part);
        }
        Line {
            start,
            name_bytes: name.len(),
            end: self.text.len(),
            is_sensitive: value.is_sensitive(),
        }
    }

    /// Sets a field, in place of all others with the name.
    pub fn insert(&mut self, name: impl FieldName, value: impl FieldValue) {
        let name = name.name();
        let mut line = Some(self.write(name, value.value()));
        let text = &self.text;
        self.lines.retain_mut(|other| {
            if !other.is_named(name, text) {
                return true;
            }
            // The first one is replaced, and the others are removed.
            let first = line.take();
            first.inspect(|line| *other = *line).is_some()
        });
        match line {
            Some(line) => self.add(line),
            None => self.has_gaps = true,
        }
    }

    /// Removes all fields with this name. Returns whether there was one.
    pub fn remove(&mut self, name: impl AsRef<str>) -> bool {
        let (name, before) = (name.as_ref(), self.len());
        if self.candidates(name).is_empty() {
            return false;
        }
        self.has_gaps = true;
        let text = &self.text;
        self.lines.retain(|line| !line.is_named(name, text));
        self.len() < before
    }

    /// Removes all fields with this name. Returns the value of the first.
    pub fn take(&mut self, name: impl AsRef<str>) -> Option<HeaderValue> {
        let name = name.as_ref();
        let value = self.get(name).map(HeaderValue::from);
        self.remove(name);
        value
    }

    /// Removes the fields for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], Value<'_>) -> bool) {
        self.has_gaps = true;
        let mut lines = core::mem::take(&mut self.lines);
        lines.retain(|line| keep(line.name(&self.text), self.value_of(*line)));
        self.lines = lines;
    }

    /// These fields as a map of `http`; `None` if they are too many for it.
    pub fn to_map(&self) -> Option<HeaderMap> {
        let mut map = HeaderMap::new();
        for (name, value) in self.iter() {
            let name = HeaderName::from_bytes(name).ok()?;
            map.try_append(name, value.into()).ok()?;
        }
        Some(map)
    }

    /// Reads the lines of `block` up to the empty one, and appends them. `note` is called with the
    /// name and the value of each.
    #[inline]
    pub(crate) fn read<E: From<BadLine>>(
        &mut self,
        block: &[u8],
        fields_max: usize,
        mut note: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start = self.text.len();
        self.text.extend_from_slice(block);
        let block_end = self.text.len();
        let had_gaps = core::mem::replace(&mut self.has_gaps, true);
        loop {
            let rest = self.text.get_mut(start..block_end).unwrap_or_default();
            if rest.starts_with(LINE_END) {
                if self.text.len() == block_end {
                    self.text.truncate(start);
                    self.has_gaps = had_gaps;
                }
                return Ok(());
            }
            if self.lines.len() >= fields_max {
                return Err(BadLine::TooMany.into());
            }
            let found = scan::line(rest)?;
            note(found.name, found.value)?;
            self.names |= bit_of(found.name);
            let mut line = Line {
                start,
                name_bytes: found.name.len(),
                end: start + found.line_bytes,
                is_sensitive: false,
            };
            start = line.end;
            if !found.is_as_written {
                let value_start = line.start + found.value_at;
                let value = value_start..value_start + found.value.len();
                let name = line.start..line.start + line.name_bytes;
                line.start = self.text.len();
                self.text.extend_from_within(name);
                self.text.extend_from_slice(COLON);
                self.text.extend_from_within(value);
                self.text.extend_from_slice(LINE_END);
                line.end = self.text.len();
            }
            self.lines.push(line);
        }
    }

    /// Writes the lines of all fields but those with these names, with as few calls as possible.
    #[inline]
    pub(crate) fn write_without(&self, left_out: &[&str], mut write: impl FnMut(&[u8])) {
        let may_be_there = |name: &&str| !self.candidates(name).is_empty();
        if !self.has_gaps && !left_out.iter().any(may_be_there) {
            return write(&self.text);
        }
        let is_left_out =
            |line: &&Line| left_out.iter().any(|name| line.is_named(name, &self.text));
        // Lines that follow each other in the text.
        let mut run = 0..0;
        for line in self.lines.iter().filter(|line| !is_left_out(line)) {
            if run.end != line.start {
                self.write_run(&run, &mut write);
                run.start = line.start;
            }
            run.end = line.end;
        }
        self.write_run(&run, &mut write);
    }

    fn write_run(&self, run: &Range<usize>, write: &mut impl FnMut(&[u8])) {
        if let Some(lines @ [_, ..]) = self.text.get(run.clone()) {
            write(lines);
        }
    }
}

impl Clone for Fields {
    fn clone(&self) -> Self {
        let mut copy = Self::new();
        copy.clone_from(self);
        copy
    }

    /// Copies the fields into space that is there already.
    fn clone_from(&mut self, other: &Self) {
        self.text.clone_from(&other.text);
        self.lines.clone_from(&other.lines);
        self.names = other.names;
        self.has_gaps = other.has_gaps;
    }
}

impl PartialEq for Fields {
    /// Whether both have the same fields in the same order.
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.iter();
        let shown = fields.map(|(name, value)| (name.escape_ascii().to_string(), value));
        f.debug_map().entries(shown).finish()
    }
}

impl<N: FieldName, V: FieldValue> FromIterator<(N, V)> for Fields {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(fields: T) -> Self {
        let mut all = Self::new();
        all.extend(fields);
        all
    }
}

impl<N: FieldName, V: FieldValue> Extend<(N, V)> for Fields {
    fn extend<T: IntoIterator<Item = (N, V)>>(&mut self, fields: T) {
        for (name, value) in fields {
            self.append(name, value);
        }
    }
}

impl From<&HeaderMap> for Fields {
    fn from(map: &HeaderMap) -> Self {
        map.iter().collect()
    }
}
