//! The value of a field, borrowed.

use core::fmt;
use http::{HeaderName, HeaderValue};

/// The value of a field: octets without control characters other than tabs. RFC 9110 §5.5
///
/// Values with the same octets are equal, sensitive or not.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    octets: &'a [u8],
    is_sensitive: bool,
}

/// A value that has octets other than those of printed ASCII, spaces and tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value is not ASCII")]
pub struct NotText;

/// The name that a field can have. Texts are those of the code itself: a token in lower case.
pub trait FieldName {
    /// The name.
    fn name(&self) -> &str;
}

/// What a field can be set to. Texts are those of the code itself: ASCII without control
/// characters.
pub trait FieldValue {
    /// The value.
    fn value(&self) -> Value<'_>;
}

impl<'a> Value<'a> {
    pub(super) const fn of(octets: &'a [u8], is_sensitive: bool) -> Self {
        Self {
            octets,
            is_sensitive,
        }
    }

    /// These octets as a value; `None` if there are control characters other than tabs.
    pub fn from_bytes(octets: &'a [u8]) -> Option<Self> {
        let is_one = |octet: &u8| !octet.is_ascii_control() || *octet == b'\t';
        octets.iter().all(is_one).then(|| Self::of(octets, false))
    }

    /// The octets, which need not be UTF-8.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.octets
    }

    /// The value as text, if it is ASCII.
    pub fn to_str(self) -> Result<&'a str, NotText> {
        match core::str::from_utf8(self.octets) {
            Ok(text) if text.is_ascii() => Ok(text),
            _ => Err(NotText),
        }
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.octets.is_empty()
    }

    /// Whether HPACK must not keep it. RFC 7541 §7.1.3
    pub const fn is_sensitive(self) -> bool {
        self.is_sensitive
    }
}

impl FieldName for HeaderName {
    fn name(&self) -> &str {
        self.as_str()
    }
}

impl FieldName for &'static str {
    fn name(&self) -> &str {
        debug_assert!(
            HeaderName::from_lowercase(self.as_bytes()).is_ok(),
            "{self:?}"
        );
        self
    }
}

impl<N: FieldName> FieldName for &N {
    fn name(&self) -> &str {
        (**self).name()
    }
}

impl FieldValue for &'static str {
    fn value(&self) -> Value<'_> {
        debug_assert!(HeaderValue::from_str(self).is_ok(), "{self:?}");
        Value::of(self.as_bytes(), false)
    }
}

impl FieldValue for Value<'_> {
    fn value(&self) -> Value<'_> {
        *self
    }
}

impl FieldValue for HeaderValue {
    fn value(&self) -> Value<'_> {
        Value::of(self.as_bytes(), self.is_sensitive())
    }
}

impl<V: FieldValue> FieldValue for &V {
    fn value(&self) -> Value<'_> {
        (**self).value()
    }
}

impl From<Value<'_>> for HeaderValue {
    fn from(value: Value<'_>) -> Self {
        // What a `Value` can be, a `HeaderValue` can be, too.
        let mut owned = Self::from_bytes(value.octets).unwrap_or(Self::from_static(""));
        owned.set_sensitive(value.is_sensitive);
        owned
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value<'_> {
    fn eq(&self, other: &T) -> bool {
        self.octets == other.as_ref()
    }
}

impl Eq for Value<'_> {}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self.octets
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_sensitive {
            return f.write_str("Sensitive");
        }
        fmt::Debug::fmt(&self.octets.escape_ascii().to_string(), f)
    }
}
