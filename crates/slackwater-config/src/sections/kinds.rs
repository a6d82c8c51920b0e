//! Kinds of values that several sections use.

use crate::table::Written;
use crate::toml_reader::values::Unfit;
use http::HeaderName;
use http::uri::PathAndQuery;

/// The longest name of a service, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 64;

/// A path, optionally with a query.
pub(super) const PATH: Written<PathAndQuery> = Written {
    what: PATH_EXPECTED,
    expected: PATH_EXPECTED,
    parse: |written| {
        // `PathAndQuery` drops a fragment silently, and accepts octets beyond ASCII.
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        let path = Some(written).filter(|path| path.starts_with('/') && path.bytes().all(fits));
        path.and_then(|path| path.parse().ok()).ok_or(Unfit::Range)
    },
    text: PathAndQuery::to_string,
};

const PATH_EXPECTED: &str = "a path such as \"/prequal/probe\"";

/// The name of any field.
pub(super) const FIELD: Written<HeaderName> = Written {
    what: "the name of a field",
    expected: "the name of a field",
    parse: |name| HeaderName::try_from(name).map_err(|_| Unfit::Range),
    text: HeaderName::to_string,
};

/// Whether this is a valid name of a service, a listener or a cookie of ours.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// Whether this may be part of a token. RFC 9110 §5.6.2
pub(super) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}
