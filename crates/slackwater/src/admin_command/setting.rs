//! Settings on a command line: `prequal.probe_rate=2`, `policy=least_loaded`, `hedge.enabled=true`.
//!
//! A value is parsed as TOML, so it looks as it does in the file. What is not TOML is taken as a
//! string, so `probe.deadline=50ms` needs no quotes.

use serde_json::{Map, Value};

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    key: String,
    value: Value,
}

impl Setting {
    /// Reads `KEY=VALUE`.
    ///
    /// # Errors
    ///
    /// There is no `=`, or nothing before or after it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or(
            "expected KEY=VALUE, such as prequal.probe_rate=2; to take a key back: slackwater admin unset KEY",
        )?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || value.is_empty() {
            return Err(
                "expected something on both sides of the =, such as policy=random".to_owned(),
            );
        }
        Ok(Self {
            key: key.to_owned(),
            value: value_of(value),
        })
    }

    /// Merges settings into the object that the admin server expects. If a key repeats, its last
    /// value counts.
    pub(super) fn all(settings: impl IntoIterator<Item = Self>) -> Map<String, Value> {
        let pairs = settings.into_iter().map(|it| (it.key, it.value));
        pairs.collect()
    }
}

fn value_of(text: &str) -> Value {
    let value = text.parse::<toml::Value>().ok().and_then(to_json);
    value.unwrap_or_else(|| Value::from(text))
}

/// Converts a value; `None` for what no key has: dates, sections, and numbers that are not finite.
fn to_json(value: toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)?.into(),
        toml::Value::Boolean(is_so) => is_so.into(),
        toml::Value::Array(values) => values.into_iter().map(to_json).collect::<Option<_>>()?,
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_parsed_as_toml_or_else_as_text() {
        for (text, value) in [
            ("a.b=32", json!(32)),
            ("a.b = 0.5", json!(0.5)),
            ("a.b=true", json!(true)),
            ("a.b=\"32\"", json!("32")),
            ("a.b=[502, 503]", json!([502, 503])),
            ("a.b=50ms", json!("50ms")),
            ("a.b=least_loaded", json!("least_loaded")),
            ("a.b=x=y", json!("x=y")),
            ("a.b=2026-11-22", json!("2026-11-22")),
            ("a.b={c = 1}", json!("{c = 1}")),
            // Numbers that JSON does not have must not become null, which would remove the key.
            ("a.b=nan", json!("nan")),
            ("a.b=[inf]", json!("[inf]")),
        ] {
            let setting = Setting::parse(text).expect(text);
            assert_eq!(
                (setting.key.as_str(), &setting.value),
                ("a.b", &value),
                "{text}"
            );
        }
    }

    #[test]
    fn incomplete_settings_are_rejected_and_the_last_value_wins() {
        for odd in ["policy", "=random", "policy=", " = "] {
            let why = Setting::parse(odd).expect_err(odd);
            assert!(why.starts_with("expected "), "{why}");
        }
        let settings = ["a=1", "b=2", "a=3"].map(|text| Setting::parse(text).expect(text));
        assert_eq!(Value::from(Setting::all(settings)), json!({"a": 3, "b": 2}));
    }
}
