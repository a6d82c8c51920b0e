//! Each key's description for documentation and editors.

use super::{Key, Meaning, Section, field};
use serde_json::{Value, json};

/// A key's description.
#[derive(Clone)]
pub(crate) struct Row {
    /// The key with its section; `[]` follows a list's name.
    pub(crate) key: String,
    /// What applies without the key, in Markdown.
    pub(crate) default: String,
    /// What the key does, in Markdown.
    pub(crate) effect: String,
    /// Whether a change needs a restart.
    pub(crate) fixed: bool,
    /// The allowed values.
    pub(crate) meaning: Meaning,
}

/// Returns the keys of a section that is below `prefix`.
pub(crate) fn rows<S: Section>(prefix: &str) -> Vec<Row> {
    let keys = S::KEYS.iter();
    keys.map(|key| row(field::<S>(prefix, key.name), key))
        .collect()
}

/// Describes a key; `name` is its full name.
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

/// A TOML value as a page shows it.
fn in_markdown(toml: Option<String>) -> String {
    match toml {
        None => "none".to_owned(),
        Some(number) if number.starts_with(|first: char| first.is_ascii_digit()) => {
            super::units::in_prose(&number)
        }
        Some(toml) => format!("`{toml}`"),
    }
}

/// A TOML value as JSON.
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

/// Inserts a key's schema where its path leads, through sections and elements of lists.
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
    // A list may have plain values beside tables, and one of them alone may stand for a list of
    // one.
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

/// Removes the targets of Markdown links: they are relative to the documentation page.
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
