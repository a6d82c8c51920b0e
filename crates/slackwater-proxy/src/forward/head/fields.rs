//! Names that replicas may take for those of protected fields.

/// Whether a replica may read a field as `protected`, which is in lower case: CGI and many of its
/// successors treat `_` as `-`.
pub(super) fn reads_as(name: &[u8], protected: &str) -> bool {
    let mut pairs = name.iter().zip(protected.as_bytes());
    name.len() == protected.len() && pairs.all(|(a, b)| a == b || (*a == b'_' && *b == b'-'))
}
