//! The list of mutants, as cargo-mutants makes it.

use core::ops::Range;
use serde_json::Value;

/// The folder of the core's sources.
pub(super) const PREFIX: &str = "crates/slackwater-core/src/";

/// A small change of the core's code: the text of a span is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mutant {
    /// As `file:line:column: what is changed`.
    pub(super) name: String,
    /// The path, from the root.
    pub(super) file: String,
    pub(super) span: Range<Place>,
    pub(super) replacement: String,
    /// The innermost function around it; none in a constant.
    pub(super) function: Option<Range<Place>>,
}

/// A place in a file: line and column from 1; columns count characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn parse(json: &Value) -> Option<Self> {
        let number = |key| usize::try_from(json[key].as_u64()?).ok();
        Some(Self {
            line: number("line")?,
            column: number("column")?,
        })
    }

    /// The offset in the text, in bytes.
    pub(super) fn offset(self, text: &str) -> usize {
        let lines = text.split_inclusive('\n');
        let before: usize = lines.take(self.line - 1).map(str::len).sum();
        let mut characters = text[before..].char_indices();
        let found = characters.nth(self.column - 1);
        found.map_or(text.len(), |(at, _)| before + at)
    }
}

fn span(json: &Value) -> Option<Range<Place>> {
    Some(Place::parse(&json["start"])?..Place::parse(&json["end"])?)
}

/// Reads the list.
pub(super) fn parse(json: &[u8]) -> Result<Vec<Mutant>, String> {
    let wrong = |error: &str| format!("cargo mutants --list: {error}");
    let list: Vec<Value> =
        serde_json::from_slice(json).map_err(|error| wrong(&error.to_string()))?;
    let mutant = |json: &Value| {
        Some(Mutant {
            name: json["name"].as_str()?.to_owned(),
            file: json["file"].as_str()?.to_owned(),
            span: span(&json["span"])?,
            replacement: json["replacement"].as_str()?.to_owned(),
            function: span(&json["function"]["span"]),
        })
    };
    let mutants: Option<Vec<Mutant>> = list.iter().map(mutant).collect();
    mutants.ok_or_else(|| wrong("a mutant without name, file, span or replacement"))
}
