//! Detects documents in another format than TOML by their first line, so that a single sentence
//! replaces a page of syntax errors.

use super::mistake::Mistake;
use super::source::Source;
use super::values::quote;

/// Returns a mistake if a document is YAML or JSON instead of TOML.
pub(super) fn not_toml(source: &Source) -> Option<Mistake> {
    let text = source.text();
    let is_content = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    };
    let line = text.lines().find(is_content)?;
    let message = if line.trim_start().starts_with('{') {
        "this is JSON, expected TOML: listen = \"0.0.0.0:8080\" in place of \"listen\": \
         \"0.0.0.0:8080\", without braces and commas between keys"
            .to_owned()
    } else {
        let (key, value) = yaml_pair(line)?;
        format!(
            "this is YAML, expected TOML: {}",
            in_toml(key, value.trim())
        )
    };
    let start = line.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(Mistake {
        place: source.place(start..start.saturating_add(line.trim_end().len())),
        field: "syntax".to_owned(),
        message,
    })
}

/// The key and the value of a line of YAML; the value may be empty.
fn yaml_pair(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let is_key = !key.is_empty() && key.chars().all(letter);
    let is_pair = value.is_empty() || value.starts_with([' ', '\t']);
    (is_key && is_pair).then_some((key, value))
}

/// The TOML form of a line of YAML.
fn in_toml(key: &str, value: &str) -> String {
    let value = value.split(" #").next().unwrap_or_default().trim();
    match value {
        "" if key == "replicas" => {
            "replicas = [\"10.0.0.1:8080\", \"10.0.0.2:8080\"] in place of a list of lines".into()
        }
        "" => {
            format!("[{key}] in place of \"{key}:\", and a line such as key = \"value\" below it")
        }
        "true" | "false" => format!("{key} = {value} in place of \"{key}: {value}\""),
        _ if value.parse::<f64>().is_ok() => {
            format!("{key} = {value} in place of \"{key}: {value}\"")
        }
        _ if value.starts_with('[') => {
            format!("{key} = [\"…\", \"…\"] in place of \"{key}: […]\"")
        }
        _ => {
            let text = quote(value.trim_matches(['"', '\'']));
            format!("{key} = {text} in place of {key}: {value}")
        }
    }
}
