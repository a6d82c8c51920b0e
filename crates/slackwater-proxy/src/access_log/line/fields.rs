//! How each format names a field, and shows a value of each kind.

use crate::access_log::buffer::Line;

/// A format that names its fields. `None` is an unknown value.
pub(super) trait Fields {
    fn number<const N: usize>(self, key: &[u8; N], value: Option<u64>) -> Self;

    /// Adds a value that needs no escapes and has no spaces.
    fn word<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self;

    /// Adds any bytes, escaped.
    fn text<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self;
}

/// `key=value`, with a dash for unknown values.
pub(super) struct Text<'a>(pub(super) Line<'a>);

impl Fields for Text<'_> {
    #[inline]
    fn number<const N: usize>(self, key: &[u8; N], value: Option<u64>) -> Self {
        let line = self.0.put_arrays((b" ", key, b"="));
        Self(match value {
            Some(value) => line.number(value),
            None => line.put_array(b"-"),
        })
    }

    #[inline]
    fn word<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self {
        let line = self.0.put_arrays((b" ", key, b"="));
        Self(match value {
            Some(value) => line.put(value),
            None => line.put_array(b"-"),
        })
    }

    #[inline]
    fn text<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self {
        let line = self.0.put_arrays((b" ", key, b"=\""));
        Self(line.quoted_or_dash(value).put_array(b"\""))
    }
}

/// `"key":value`, without unknown values.
pub(super) struct Json<'a>(pub(super) Line<'a>);

impl Fields for Json<'_> {
    #[inline]
    fn number<const N: usize>(self, key: &[u8; N], value: Option<u64>) -> Self {
        let Some(value) = value else {
            return self;
        };
        let line = self.0.put_arrays((b",\"", key, b"\":"));
        Self(line.number(value))
    }

    #[inline]
    fn word<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self {
        let Some(value) = value else {
            return self;
        };
        let line = self.0.put_arrays((b",\"", key, b"\":\""));
        Self(line.put(value).put_array(b"\""))
    }

    #[inline]
    fn text<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self {
        let Some(value) = value else {
            return self;
        };
        let line = self.0.put_arrays((b",\"", key, b"\":\""));
        Self(line.json(value).put_array(b"\""))
    }
}
