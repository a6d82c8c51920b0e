//! One field of a head, parsed, with its own fault if it has one. RFC 9113 §8.2, §8.3

use crate::target;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode};

/// The longest path that the types can hold.
const PATH_BYTES_MAX: usize = (u16::MAX - 1) as usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Authority(Authority),
    Method(Method),
    Path(PathAndQuery),
    Scheme(Scheme),
    Status(StatusCode),
    /// Any field except pseudo-header fields.
    Header(HeaderName, HeaderValue),
    Bad(Fault),
}

/// The fault of a field. The text is for people: lower-case, no trailing stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has octets that no such field may contain.
    Octets(&'static str),
    /// It is not allowed in such a message.
    Malformed(&'static str),
    /// It is longer than anything that is forwarded.
    TooLong,
}

/// The name of a field, independent of its value.
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
                // RFC 8441; this side does not announce that it supports it.
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

    /// Returns the name of a parsed field.
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

    /// Returns the field with this value. `is_secret` if its sender allows no table to store it,
    /// here or on further hops.
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
            // The type accepts an empty scheme.
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

/// Copies octets, with spare capacity. Then `Bytes` counts references from the start; without spare
/// capacity it starts to when first cloned, and each clone checks whether it has.
fn owned(octets: &[u8]) -> Bytes {
    let mut copy = Vec::with_capacity(octets.len() + 1);
    copy.extend_from_slice(octets);
    Bytes::from(copy)
}

const fn malformed(reason: &'static str) -> Field {
    Field::Bad(Fault::Malformed(reason))
}

/// Parses a path, or `*`. It must have its slash.
fn path(octets: &[u8]) -> Field {
    if octets.len() > PATH_BYTES_MAX {
        return Field::Bad(Fault::TooLong);
    }
    if !octets.starts_with(b"/") && octets != b"*" {
        return malformed("the path does not begin with a slash");
    }
    if let Some(reason) = target::fault(octets) {
        return malformed(reason);
    }
    PathAndQuery::from_maybe_shared(owned(octets))
        .map_or(malformed("the path is not valid"), Field::Path)
}

fn status(octets: &[u8]) -> Field {
    match StatusCode::from_bytes(octets) {
        // HTTP/2 does not switch protocols in this way. RFC 9113 §8.6
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
        return malformed("te has values other than trailers");
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
