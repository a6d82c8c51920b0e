//! Removal of fields that must not be forwarded.

use http::{HeaderMap, HeaderName};

/// Whether a replica may read a field as `protected`, which is in lower case: CGI and many of its
/// successors treat `_` as `-`.
pub(super) fn reads_as(name: &str, protected: &str) -> bool {
    let mut pairs = name.bytes().zip(protected.bytes());
    name.len() == protected.len() && pairs.all(|(a, b)| a == b || (a == b'_' && b == b'-'))
}

/// Removes every field whose name matches.
pub(crate) fn remove(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted: Vec<HeaderName> = (headers.keys().filter(|name| is_unwanted(name)))
        .cloned()
        .collect();
    for name in unwanted {
        headers.remove(name);
    }
}
