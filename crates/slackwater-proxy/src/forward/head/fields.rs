//! Fields that may not pass: which, and taking them out.

use http::{HeaderMap, HeaderName};

/// Whether a replica may take a field for `protected`, which is in lower case: what speaks CGI, and
/// much that came after it, reads `_` as `-`.
pub(super) fn reads_as(name: &str, protected: &str) -> bool {
    let mut pairs = name.bytes().zip(protected.bytes());
    name.len() == protected.len() && pairs.all(|(a, b)| a == b || (a == b'_' && b == b'-'))
}

/// Takes out every field with such a name.
pub(crate) fn remove(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted: Vec<HeaderName> = (headers.keys().filter(|name| is_unwanted(name)))
        .cloned()
        .collect();
    for name in unwanted {
        headers.remove(name);
    }
}
