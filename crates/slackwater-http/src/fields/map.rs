//! What code needs of a head's fields, however they are kept.

use super::{FieldValue, Fields, Value};
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a head: [`Fields`], or `http`'s map.
pub trait FieldMap {
    /// The value of the first field with this name.
    fn first(&self, name: &HeaderName) -> Option<Value<'_>>;

    /// The values of all fields with this name.
    fn all<'f>(&'f self, name: &'f HeaderName) -> impl Iterator<Item = Value<'f>>;

    /// All fields, with their names in lower case.
    fn each(&self) -> impl Iterator<Item = (&[u8], Value<'_>)>;

    /// Sets a field, in place of all others with the name.
    fn set(&mut self, name: &HeaderName, value: HeaderValue);

    /// Appends a field. Returns whether there was room: `http`'s map has a limit of its own.
    fn add(&mut self, name: &HeaderName, value: &HeaderValue) -> bool;

    /// Removes all fields with this name. Returns whether there was one.
    fn unset(&mut self, name: &HeaderName) -> bool;
}

impl FieldMap for Fields {
    #[inline]
    fn first(&self, name: &HeaderName) -> Option<Value<'_>> {
        self.get(name)
    }

    fn all<'f>(&'f self, name: &'f HeaderName) -> impl Iterator<Item = Value<'f>> {
        self.get_all(name)
    }

    fn each(&self) -> impl Iterator<Item = (&[u8], Value<'_>)> {
        self.iter()
    }

    fn set(&mut self, name: &HeaderName, value: HeaderValue) {
        self.insert(name, value);
    }

    fn add(&mut self, name: &HeaderName, value: &HeaderValue) -> bool {
        self.append(name, value);
        true
    }

    fn unset(&mut self, name: &HeaderName) -> bool {
        self.remove(name)
    }
}

impl FieldMap for HeaderMap {
    fn first(&self, name: &HeaderName) -> Option<Value<'_>> {
        self.get(name).map(FieldValue::value)
    }

    fn all<'f>(&'f self, name: &'f HeaderName) -> impl Iterator<Item = Value<'f>> {
        self.get_all(name).iter().map(FieldValue::value)
    }

    fn each(&self) -> impl Iterator<Item = (&[u8], Value<'_>)> {
        (self.iter()).map(|(name, value)| (name.as_ref(), value.value()))
    }

    fn set(&mut self, name: &HeaderName, value: HeaderValue) {
        self.insert(name, value);
    }

    fn add(&mut self, name: &HeaderName, value: &HeaderValue) -> bool {
        self.try_append(name, value.clone()).is_ok()
    }

    fn unset(&mut self, name: &HeaderName) -> bool {
        self.remove(name).is_some()
    }
}
