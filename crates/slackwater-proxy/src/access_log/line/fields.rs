//! How each format names a field, and shows a value of each kind.

use crate::access_log::buffer::Line;

/// A format that names its fields. `None` is an unknown value.
pub(super) trait Fields {
    fn number<const N: usize>(self, key: &[u8; N], value: Option<u64>) -> Self;

    /// Adds a value that needs no escapes and has no spaces.
    fn word<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self;

    /// Adds the hexadecimal digits of an id.
    fn digits<const N: usize>(self, key: &[u8; N], digits: &[u8; 32]) -> Self;

    /// Adds four numbers or words that are unknown.
    fn unknown<const A: usize, const B: usize, const C: usize, const D: usize>(
        self,
        keys: (&[u8; A], &[u8; B], &[u8; C], &[u8; D]),
    ) -> Self;

    /// Adds any bytes, escaped.
    fn text<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self;
}

/// `key=value`, with a dash for unknown values.
pub(super) struct Text<'a>(pub(super) Line<'a>);

impl Fields for Text<'_> {
    #[inline]
    fn number<const N: usize>(self, key: &[u8; N], value: Option<u64>) -> Self {
        Self(match value {
            Some(value) => self.0.put_arrays((b" ", key, b"=")).number(value),
            None => self.0.put_arrays((b" ", key, b"=-")),
        })
    }

    #[inline]
    fn word<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self {
        Self(match value {
            Some(value) => self.0.put_arrays((b" ", key, b"=")).put(value),
            None => self.0.put_arrays((b" ", key, b"=-")),
        })
    }

    #[inline]
    fn digits<const N: usize>(self, key: &[u8; N], digits: &[u8; 32]) -> Self {
        Self(self.0.with_room(N + 36, |line| {
            let line = line.put_arrays((b" ", key, b"=\""));
            line.put_array(digits).put_array(b"\"")
        }))
    }

    #[inline]
    fn unknown<const A: usize, const B: usize, const C: usize, const D: usize>(
        self,
        (first, second, third, fourth): (&[u8; A], &[u8; B], &[u8; C], &[u8; D]),
    ) -> Self {
        Self(self.0.with_room(A + B + C + D + 12, |line| {
            line.put_arrays((b" ", first, b"=-"))
                .put_arrays((b" ", second, b"=-"))
                .put_arrays((b" ", third, b"=-"))
                .put_arrays((b" ", fourth, b"=-"))
        }))
    }

    #[inline]
    fn text<const N: usize>(self, key: &[u8; N], value: Option<&[u8]>) -> Self {
        Self(match value {
            Some(value) => {
                let line = self.0.put_arrays((b" ", key, b"=\""));
                line.quoted(value).put_array(b"\"")
            }
            None => self.0.put_arrays((b" ", key, b"=\"-\"")),
        })
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
    fn digits<const N: usize>(self, key: &[u8; N], digits: &[u8; 32]) -> Self {
        Self(self.0.with_room(N + 38, |line| {
            let line = line.put_arrays((b",\"", key, b"\":\""));
            line.put_array(digits).put_array(b"\"")
        }))
    }

    #[inline]
    fn unknown<const A: usize, const B: usize, const C: usize, const D: usize>(
        self,
        _keys: (&[u8; A], &[u8; B], &[u8; C], &[u8; D]),
    ) -> Self {
        self
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
