//! Lines of JSON, written by hand so that the bytes depend on nothing but this file.

use core::fmt::Write;
use core::time::Duration;

/// A JSON object that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self(String::from("{"))
    }

    /// Adds a key with a value that is JSON already.
    pub(crate) fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        // Writing to a string does not fail.
        let _ = write!(self.0, "\"{key}\":{json}");
        self
    }

    pub(crate) fn number(&mut self, key: &str, value: impl Into<u64>) -> &mut Self {
        self.raw(key, &value.into().to_string())
    }

    /// Adds a number, or nothing if there is none.
    pub(crate) fn maybe(&mut self, key: &str, value: Option<impl Into<u64>>) -> &mut Self {
        match value {
            Some(value) => self.number(key, value),
            None => self,
        }
    }

    pub(crate) fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        self.raw(key, if value { "true" } else { "false" })
    }

    /// Adds `true`, or nothing.
    pub(crate) fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        if value { self.raw(key, "true") } else { self }
    }

    /// Adds a text without quotes, backslashes and control characters, except for line ends.
    pub(crate) fn text(&mut self, key: &str, value: &str) -> &mut Self {
        self.raw(key, &format!("\"{}\"", value.replace('\n', "\\n")))
    }

    pub(crate) fn object(&mut self, key: &str, value: Self) -> &mut Self {
        self.raw(key, &value.finish())
    }

    pub(crate) fn numbers(&mut self, key: &str, values: impl Iterator<Item = u64>) -> &mut Self {
        let values: Vec<String> = values.map(|value| value.to_string()).collect();
        self.raw(key, &format!("[{}]", values.join(",")))
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A span in nanoseconds.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
