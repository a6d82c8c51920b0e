//! How each format names a field, and shows a value of each kind.

use super::escape::{add_json, add_quoted_or_dash};
use super::values::add_number;
use crate::access_log::buffer::Line;

/// A key with everything before its value, in each format.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) text: &'static str,
    pub(super) text_quoted: &'static str,
    pub(super) json: &'static str,
    pub(super) json_quoted: &'static str,
}

macro_rules! key {
    ($name:literal) => {
        $crate::access_log::line::fields::Key {
            text: concat!(" ", $name, "="),
            text_quoted: concat!(" ", $name, "=\""),
            json: concat!(",\"", $name, "\":"),
            json_quoted: concat!(",\"", $name, "\":\""),
        }
    };
}
pub(super) use key;

/// A format that names its fields. `None` is an unknown value.
pub(super) trait Fields {
    fn number(&mut self, key: Key, value: Option<u64>);

    /// Adds a value that needs no escapes and has no spaces.
    fn word(&mut self, key: Key, value: Option<&[u8]>);

    /// Adds any bytes, escaped.
    fn text(&mut self, key: Key, value: Option<&[u8]>);
}

/// `key=value`, with a dash for unknown values.
pub(super) struct Text<'l, 'b>(pub(super) &'l mut Line<'b>);

impl Fields for Text<'_, '_> {
    fn number(&mut self, key: Key, value: Option<u64>) {
        self.0.put(key.text.as_bytes());
        match value {
            Some(value) => add_number(self.0, value),
            None => self.0.put(b"-"),
        }
    }

    fn word(&mut self, key: Key, value: Option<&[u8]>) {
        self.0.put(key.text.as_bytes());
        self.0.put(value.unwrap_or(b"-"));
    }

    fn text(&mut self, key: Key, value: Option<&[u8]>) {
        self.0.put(key.text_quoted.as_bytes());
        add_quoted_or_dash(self.0, value);
        self.0.put(b"\"");
    }
}

/// `"key":value`, without unknown values.
pub(super) struct Json<'l, 'b>(pub(super) &'l mut Line<'b>);

impl Fields for Json<'_, '_> {
    fn number(&mut self, key: Key, value: Option<u64>) {
        if let Some(value) = value {
            self.0.put(key.json.as_bytes());
            add_number(self.0, value);
        }
    }

    fn word(&mut self, key: Key, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.0.put(key.json_quoted.as_bytes());
            self.0.put(value);
            self.0.put(b"\"");
        }
    }

    fn text(&mut self, key: Key, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.0.put(key.json_quoted.as_bytes());
            add_json(self.0, value);
            self.0.put(b"\"");
        }
    }
}
