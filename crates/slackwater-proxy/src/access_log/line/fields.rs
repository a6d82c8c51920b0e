//! How each format names a field, and shows a value of each kind.

use super::escape::{add_json, add_quoted_or_dash};
use super::values::add_number;
use crate::access_log::buffer::Line;

/// A format that names its fields. `None` is an unknown value.
pub(super) trait Fields {
    fn number<const N: usize>(&mut self, key: &[u8; N], value: Option<u64>);

    /// Adds a value that needs no escapes and has no spaces.
    fn word<const N: usize>(&mut self, key: &[u8; N], value: Option<&[u8]>);

    /// Adds any bytes, escaped.
    fn text<const N: usize>(&mut self, key: &[u8; N], value: Option<&[u8]>);
}

/// `key=value`, with a dash for unknown values.
pub(super) struct Text<'l, 'b>(pub(super) &'l mut Line<'b>);

impl Fields for Text<'_, '_> {
    #[inline]
    fn number<const N: usize>(&mut self, key: &[u8; N], value: Option<u64>) {
        self.0.put_arrays((b" ", key, b"="));
        match value {
            Some(value) => add_number(self.0, value),
            None => self.0.put_array(b"-"),
        }
    }

    #[inline]
    fn word<const N: usize>(&mut self, key: &[u8; N], value: Option<&[u8]>) {
        self.0.put_arrays((b" ", key, b"="));
        match value {
            Some(value) => self.0.put(value),
            None => self.0.put_array(b"-"),
        }
    }

    #[inline]
    fn text<const N: usize>(&mut self, key: &[u8; N], value: Option<&[u8]>) {
        self.0.put_arrays((b" ", key, b"=\""));
        add_quoted_or_dash(self.0, value);
        self.0.put_array(b"\"");
    }
}

/// `"key":value`, without unknown values.
pub(super) struct Json<'l, 'b>(pub(super) &'l mut Line<'b>);

impl Fields for Json<'_, '_> {
    #[inline]
    fn number<const N: usize>(&mut self, key: &[u8; N], value: Option<u64>) {
        if let Some(value) = value {
            self.0.put_arrays((b",\"", key, b"\":"));
            add_number(self.0, value);
        }
    }

    #[inline]
    fn word<const N: usize>(&mut self, key: &[u8; N], value: Option<&[u8]>) {
        if let Some(value) = value {
            self.0.put_arrays((b",\"", key, b"\":\""));
            self.0.put(value);
            self.0.put_array(b"\"");
        }
    }

    #[inline]
    fn text<const N: usize>(&mut self, key: &[u8; N], value: Option<&[u8]>) {
        if let Some(value) = value {
            self.0.put_arrays((b",\"", key, b"\":\""));
            add_json(self.0, value);
            self.0.put_array(b"\"");
        }
    }
}
