//! Values of keys in JSON, as the admin API and control planes send them.

use serde_json::Value;

/// Converts a JSON value to TOML.
pub(super) fn to_toml(value: &Value) -> Result<String, String> {
    let fits = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    let all_fit = match value {
        Value::Array(values) => values.iter().all(fits),
        value => fits(value),
    };
    if !all_fit {
        return Err(format!(
            "found {}, expected a text, a number, true, false or a list of these; a section's keys are set one by one, such \
             as \"hedge.enabled\"",
            kind(value)
        ));
    }
    let value = toml::Value::try_from(value);
    let value = value.map_err(|_| "found a number that is too large".to_owned())?;
    Ok(value.to_string())
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "an object",
        Value::Array(_) => "a list with other things in it",
        _ => "nothing",
    }
}
