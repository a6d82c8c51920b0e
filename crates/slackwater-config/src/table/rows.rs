//! What people and editors are told of each key.

use super::{Key, Meaning, Section, field};
use serde_json::{Value, json};

/// What is told of one key.
#[derive(Clone)]
pub(crate) struct Row {
    /// The key with its section; `[]` behind a list's name.
    pub(crate) key: String,
    /// What holds without it, in Markdown.
    pub(crate) default: String,
    /// What it does, in Markdown.
    pub(crate) effect: String,
    /// Whether a change takes a restart.
    pub(crate) fixed: bool,
    /// What its value may be.
    pub(crate) meaning: Meaning,
}

/// The keys of a section that is within `prefix`.
pub(crate) fn rows<S: Section>(prefix: &str) -> Vec<Row> {
    let keys = S::KEYS.iter();
    keys.map(|key| row(field::<S>(prefix, key.name), key))
        .collect()
}

/// What is told of a key, which is called `name` with its section.
pub(crate) fn row<S: Default>(name: String, key: &Key<S>) -> Row {
    let default = key.place.show(&S::default());
    let mut effect: Vec<_> = key.doc.iter().map(|line| line.trim()).collect();
    effect.extend(key.fixed.then_some("A change takes a restart."));
    let mut meaning = key.place.meaning();
    if let (Some(toml), None, Value::Object(schema)) = (&default, key.unsaid, &mut meaning.schema) {
        schema.extend(json_of(toml).map(|value| ("default".to_owned(), value)));
    }
    Row {
        key: name,
        default: key
            .unsaid
            .map_or_else(|| in_markdown(default), str::to_owned),
        effect: effect.join(" "),
        fixed: key.fixed,
        meaning,
    }
}

/// A value in TOML as a page has it.
fn in_markdown(toml: Option<String>) -> String {
    match toml {
        None => "none".to_owned(),
        Some(number) if number.starts_with(|first: char| first.is_ascii_digit()) => {
            super::units::in_prose(&number)
        }
        Some(toml) => format!("`{toml}`"),
    }
}

/// A value in TOML as JSON.
fn json_of(toml: &str) -> Option<Value> {
    let table: toml::Table = format!("value = {toml}").parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

/// The schema of a table with these keys.
pub(crate) fn schema(rows: Vec<Row>) -> Value {
    let mut table = object();
    for row in rows {
        let mut schema = row.meaning.schema;
        if let Value::Object(schema) = &mut schema {
            let told = format!("{} Value: {}.", row.effect, row.meaning.words);
            let told = without_links(&told);
            schema.insert("description".to_owned(), told.into());
        }
        put(&mut table, &row.key, schema);
    }
    table
}

fn object() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {}})
}

/// Puts a key's schema where its path leads to, through sections and elements of lists.
fn put(table: &mut Value, path: &str, schema: Value) {
    let (step, rest) = path
        .split_once('.')
        .map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step
        .strip_suffix("[]")
        .map_or((step, false), |name| (name, true));
    let Some(rest) = rest else {
        table["properties"][name] = schema;
        return;
    };
    let place = &mut table["properties"][name];
    if !is_list {
        if place.is_null() {
            *place = object();
        }
        return put(place, rest, schema);
    }
    // A list may have plain values beside tables, and one of them alone may stand for a list of it.
    if place.pointer("/anyOf").is_none() {
        place["anyOf"] = json!([]);
    }
    let Some(forms) = place["anyOf"].as_array_mut() else {
        return;
    };
    if !forms.iter().any(|form| form["type"] == "array") {
        let mut elements = forms.clone();
        elements.push(object());
        forms.push(json!({"type": "array", "items": {"anyOf": elements}}));
    }
    let list = forms.iter_mut().find(|form| form["type"] == "array");
    let elements = list.and_then(|list| list.pointer_mut("/items/anyOf")?.as_array_mut());
    if let Some(table) = elements.and_then(|elements| elements.last_mut()) {
        put(table, rest, schema);
    }
}

/// Markdown without the targets of links, which are pages beside the one that it is for.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let (before, words) = before.rsplit_once('[').unwrap_or((before, ""));
        text.extend([before, words]);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text + rest
}
