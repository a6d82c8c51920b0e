//! One field of a head, parsed, with what is wrong with it by itself. RFC 9113 §8.2, §8.3

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode};

/// The longest path that there are types for.
const PATH_BYTES_MAX: usize = (u16::MAX - 1) as usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Authority(Authority),
    Method(Method),
    Path(PathAndQuery),
    Scheme(Scheme),
    Status(StatusCode),
    /// Any but the pseudo-header fields.
    Header(HeaderName, HeaderValue),
    Bad(Fault),
}

/// What is wrong with a field. The text is for people: lower-case, no trailing stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has octets that no such field has.
    Octets(&'static str),
    /// It has no place in such a message.
    Malformed(&'static str),
    /// It is longer than anything that is forwarded.
    TooLong,
}

/// The name of a field, whatever its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Authority,
    Method,
    Path,
    Scheme,
    Status,
    Header(HeaderName),
    Bad(Fault),
}

impl Name {
    pub(super) fn parse(octets: &[u8]) -> Self {
        match octets {
            [b':', pseudo @ ..] => match pseudo {
                b"authority" => Self::Authority,
                b"method" => Self::Method,
                b"path" => Self::Path,
                b"scheme" => Self::Scheme,
                b"status" => Self::Status,
                // RFC 8441; nobody is told here that it is known.
                b"protocol" => Self::Bad(Fault::Malformed("extended CONNECT is not offered here")),
                _ => Self::Bad(Fault::Octets("a pseudo-header field that is not known")),
            },
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => Self::Bad(Fault::Malformed("a field of HTTP/1.1's connections")),
            octets => HeaderName::from_lowercase(octets).map_or(
                Self::Bad(Fault::Octets("a field's name is not a token in lower case")),
                Self::Header,
            ),
        }
    }

    /// The name of a field that has one already.
    pub(super) fn of(field: &Field) -> Self {
        match field {
            Field::Authority(_) => Self::Authority,
            Field::Method(_) => Self::Method,
            Field::Path(_) => Self::Path,
            Field::Scheme(_) => Self::Scheme,
            Field::Status(_) => Self::Status,
            Field::Header(name, _) => Self::Header(name.clone()),
            Field::Bad(fault) => Self::Bad(*fault),
        }
    }

    /// The field with this value. `is_secret` if its sender wants no table to keep it, here or
    /// further on.
    pub(super) fn with_value(self, octets: &[u8], is_secret: bool) -> Field {
        match self {
            Self::Authority => {
                let text = owned(octets);
                Authority::from_maybe_shared(text)
                    .map_or(malformed("the authority is not valid"), Field::Authority)
            }
            Self::Method => Method::from_bytes(octets).map_or(
                Field::Bad(Fault::Octets("the method is not a token")),
                Field::Method,
            ),
            Self::Path => path(octets),
            // The type takes it, for what is not there.
            Self::Scheme if octets.is_empty() => malformed("the scheme is empty"),
            Self::Scheme => {
                Scheme::try_from(octets).map_or(malformed("the scheme is not valid"), Field::Scheme)
            }
            Self::Status => status(octets),
            Self::Header(name) => header(name, octets, is_secret),
            Self::Bad(fault) => Field::Bad(fault),
        }
    }
}

/// A copy. With room to spare, because then it counts its holders from the start: one that is exact
/// begins to when it is first cloned, and asks each time whether it did.
fn owned(octets: &[u8]) -> Bytes {
    let mut copy = Vec::with_capacity(octets.len() + 1);
    copy.extend_from_slice(octets);
    Bytes::from(copy)
}

const fn malformed(reason: &'static str) -> Field {
    Field::Bad(Fault::Malformed(reason))
}

/// A path, or `*`. Never without its slash, and never with a fragment, which the type would drop
/// without a word.
fn path(octets: &[u8]) -> Field {
    if octets.len() > PATH_BYTES_MAX {
        return Field::Bad(Fault::TooLong);
    }
    if !octets.starts_with(b"/") && octets != b"*" {
        return malformed("the path does not begin with a slash");
    }
    if memchr::memchr(b'#', octets).is_some() {
        return malformed("a path has no fragment");
    }
    // The type takes octets beyond ASCII, which no URI has; readers differ in what they make of
    // them. RFC 3986 §2
    if !octets.iter().all(u8::is_ascii_graphic) {
        return malformed("the path has octets that no URI has");
    }
    PathAndQuery::from_maybe_shared(owned(octets))
        .map_or(malformed("the path is not valid"), Field::Path)
}

fn status(octets: &[u8]) -> Field {
    match StatusCode::from_bytes(octets) {
        // HTTP/2 has no such change of protocol. RFC 9113 §8.6
        Ok(StatusCode::SWITCHING_PROTOCOLS) => malformed("101 has no place in HTTP/2"),
        Ok(status) => Field::Status(status),
        Err(_) => Field::Bad(Fault::Octets("the status is not a number of three digits")),
    }
}

fn header(name: HeaderName, octets: &[u8], is_secret: bool) -> Field {
    let is_padded = |octet: Option<&u8>| matches!(octet, Some(b' ' | b'\t'));
    if is_padded(octets.first()) || is_padded(octets.last()) {
        return malformed("a field's value begins or ends with white space");
    }
    if name == header::TE && octets != b"trailers" {
        return malformed("te says more than trailers");
    }
    match HeaderValue::from_maybe_shared(owned(octets)) {
        Ok(mut value) => {
            if is_secret {
                value.set_sensitive(true);
            }
            Field::Header(name, value)
        }
        Err(_) => Field::Bad(Fault::Octets("a field's value has control characters")),
    }
}
