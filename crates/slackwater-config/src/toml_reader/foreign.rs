//! Converts JSON and YAML documents to the same tree as TOML documents, including places.
//!
//! The JSON parser checks JSON first; then the YAML parser reads it, because it records where each
//! value is. A list at the top becomes a document with the single key that the caller names. The
//! YAML parser's own limits bound a document's depth and size.

use super::mistake::{Mistake, Mistakes};
use super::source::Source;
use core::fmt;
use core::ops::Range;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned as Marked;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Format {
    /// Detects the format by the file's suffix: `.toml`, `.json`, `.yaml` or `.yml`.
    pub fn of(file: &std::path::Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// A value of any kind. Numbers stay text until a key reads them, so that no digit is lost.
#[derive(Debug)]
enum Node {
    Null,
    Boolean(bool),
    Number,
    Text(String),
    List(Vec<Marked<Self>>),
    Table(Vec<(Marked<String>, Marked<Self>)>),
}

/// The most keys, values, lists and tables in a document: more than 65,536 replicas need that set
/// each of their 6 keys.
const NODES_MAX: usize = 1 << 20;

/// Parses the document in `source`; a list at the top becomes the value of `list_key`.
pub(super) fn document<'s>(
    source: &'s Source,
    is_json: bool,
    list_key: &'static str,
) -> Result<DeTable<'s>, Mistakes> {
    if is_json {
        check_json(source)?;
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_events: 2 * NODES_MAX },
    };
    let top = serde_saphyr::from_str_with_options(source.text(), options);
    let top: Marked<Node> = top.map_err(|error| {
        let end = source.text().len();
        let span = error.location().map(|location| span(&location));
        let message = error.without_snippet().to_string();
        syntax(source, span.unwrap_or(end..end), &message)
    })?;
    let whole = range(&top);
    match top.value {
        Node::Null => Ok(DeTable::new()),
        Node::Table(fields) => table(source, fields),
        Node::List(_) => {
            let mut document = DeTable::new();
            let list = value(source, top)?;
            document.insert(Spanned::new(whole, list_key.into()), list);
            Ok(document)
        }
        _ => Err(mistake(source, whole, "expected a table or a list")),
    }
}

fn check_json(source: &Source) -> Result<(), Mistakes> {
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(source.text());
    parsed.map(drop).map_err(|error| {
        let lines = source.text().split_inclusive('\n');
        let before: usize = lines.take(error.line().max(1) - 1).map(str::len).sum();
        let at = before + error.column().saturating_sub(1);
        syntax(source, at..at, &error.to_string())
    })
}

/// Converts a parser's message: it ends with a place, which is removed and shown in our own form.
fn syntax(source: &Source, span: Range<usize>, message: &str) -> Mistakes {
    let message = message.split(" at line ").next().unwrap_or(message);
    mistake(source, span, message)
}

fn mistake(source: &Source, span: Range<usize>, message: &str) -> Mistakes {
    Mistakes::new(vec![Mistake {
        place: source.place(span),
        field: "syntax".to_owned(),
        message: message.to_owned(),
    }])
}

fn value(source: &Source, node: Marked<Node>) -> Result<Spanned<DeValue<'_>>, Mistakes> {
    let span = range(&node);
    let value = match node.value {
        Node::Boolean(truth) => DeValue::Boolean(truth),
        Node::Text(text) => DeValue::String(text.into()),
        Node::Number => {
            let digits = source.text().get(self::span(&node.defined));
            let number = digits.and_then(|digits| DeValue::parse(digits).ok());
            let number = number.map(Spanned::into_inner);
            let number = number.filter(|value| value.is_integer() || value.is_float());
            number.ok_or_else(|| {
                mistake(source, span.clone(), "expected a number such as 10 or 0.5")
            })?
        }
        Node::List(nodes) => {
            let values = nodes.into_iter().map(|node| value(source, node));
            DeValue::Array(values.collect::<Result<DeArray<'_>, _>>()?)
        }
        Node::Table(fields) => DeValue::Table(table(source, fields)?),
        Node::Null => return Err(mistake(source, span, "found nothing, expected a value")),
    };
    Ok(Spanned::new(span, value))
}

fn table(
    source: &Source,
    fields: Vec<(Marked<String>, Marked<Node>)>,
) -> Result<DeTable<'_>, Mistakes> {
    let mut table = DeTable::new();
    for (key, node) in fields {
        let span = range(&key);
        table.insert(Spanned::new(span, key.value.into()), value(source, node)?);
    }
    Ok(table)
}

fn range<T>(marked: &Marked<T>) -> Range<usize> {
    span(&marked.referenced)
}

fn span(location: &serde_saphyr::Location) -> Range<usize> {
    let whole = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let span = location.span();
    let start = whole(span.byte_offset()).or(whole(Some(span.offset())));
    let start = start.unwrap_or(0);
    start..start.saturating_add(whole(span.byte_len()).unwrap_or(0))
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::Boolean(truth))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = table.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Table(fields))
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;
    use std::path::{Path, PathBuf};

    fn read(file: &str, text: &str) -> Result<String, String> {
        let source = Source::new(PathBuf::from(file), text.to_owned());
        let is_json = Format::of(Path::new(file)) == Some(Format::Json);
        let document = document(&source, is_json, "top").map_err(|mistakes| {
            let all = mistakes.to_string();
            all.lines().next().unwrap_or_default().to_owned()
        })?;
        let fields = document
            .iter()
            .map(|(key, value)| show(&source, key.get_ref(), value));
        Ok(fields.collect::<Vec<_>>().join(" "))
    }

    /// Shows each value with the text at its place.
    fn show(source: &Source, key: &str, value: &Spanned<DeValue<'_>>) -> String {
        match value.get_ref() {
            DeValue::Array(values) => {
                let values = values.iter().map(|value| show(source, "", value));
                format!("{key}=[{}]", values.collect::<Vec<_>>().join(" "))
            }
            DeValue::Table(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(key, value)| show(source, key.get_ref(), value));
                format!("{key}={{{}}}", fields.collect::<Vec<_>>().join(" "))
            }
            DeValue::String(text) => format!("{key}={text}@{}", &source.text()[value.span()]),
            DeValue::Integer(number) => format!("{key}={number}"),
            other => format!("{key}={other:?}"),
        }
    }

    #[test]
    fn json_and_yaml_yield_the_same_values_with_positions() {
        let expected = Ok(r#"list=[=a:1@"a:1" ={at=é:2@"é:2" weight=3}]"#.to_owned());
        let json = "{\n\t\"list\": [\"a:1\", {\"at\": \"é:2\", \"weight\": 3}]\n}\n";
        assert_eq!(read("f.json", json), expected);
        let yaml = "list:\n  - \"a:1\"\n  - at: \"é:2\"\n    weight: 3\n";
        assert_eq!(read("f.yaml", yaml), expected);
    }

    #[test]
    fn top_level_list_gets_the_given_key() {
        assert_eq!(read("f.json", "[1, -2]"), Ok("top=[=1 =-2]".to_owned()));
        assert_eq!(read("f.yml", "- 1\n- -2\n"), Ok("top=[=1 =-2]".to_owned()));
        assert_eq!(read("f.yaml", "# nothing\n"), Ok(String::new()));
    }

    #[test]
    fn numbers_keep_every_digit_also_through_an_alias() {
        let yaml = "a: &n 18446744073709551616\nb: *n\nc: 0x10\n";
        let expected = "a=18446744073709551616 b=18446744073709551616 c=0x10";
        assert_eq!(read("f.yaml", yaml), Ok(expected.to_owned()));
    }

    #[test]
    fn syntax_errors_have_a_position() {
        for (file, text, expected) in [
            (
                "f.json",
                "{\n  \"a\": 1,\n}",
                "f.json:3:1: syntax: key must be a string",
            ),
            ("f.json", "a: 1", "f.json:1:1: syntax: expected value"),
            (
                "f.json",
                "{\"a\": [1, 2",
                "f.json:1:11: syntax: EOF while parsing a list",
            ),
            (
                "f.yaml",
                "a: 1\na: 2\n",
                "f.yaml:2:1: syntax: duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable",
            ),
            (
                "f.yaml",
                "a: [1,\n",
                "f.yaml:1:4: syntax: unclosed bracket '['",
            ),
            (
                "f.yaml",
                "a: 1\n---\nb: 2\n",
                "f.yaml:3:1: syntax: multiple YAML documents detected; use from_str_multiple or from_str_multiple_with_options",
            ),
            (
                "f.yaml",
                "- a: ~\n",
                "f.yaml:1:6: syntax: found nothing, expected a value",
            ),
            (
                "f.yaml",
                "a: .5\n",
                "f.yaml:1:4: syntax: expected a number such as 10 or 0.5",
            ),
            (
                "f.yaml",
                "text\n",
                "f.yaml:1:1: syntax: expected a table or a list",
            ),
        ] {
            assert_eq!(read(file, text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_deeply_nested_document_is_rejected_early() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read("f.json", &deep).is_err());
        assert!(read("f.yaml", &deep).is_err());
        let mut bomb = "a: &a [x, x]\n".to_owned();
        for (one, next) in ('a'..='y').zip('b'..='z') {
            writeln!(bomb, "{next}: &{next} [*{one}, *{one}]").expect("a string");
        }
        assert!(read("f.yaml", &bomb).is_err());
    }
}
