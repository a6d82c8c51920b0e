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
    /// A field with a fault, by whose name later fields may be named nevertheless. RFC 7541 §6.2
    Bad(Name, Fault),
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
pub(crate) enum Name {
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
            Field::Bad(name, _) => name.clone(),
        }
    }

    /// Returns the field with this value. `is_secret` if its sender allows no table to store it,
    /// here or on further hops.
    pub(super) fn with_value(self, octets: &[u8], is_secret: bool) -> Field {
        let read = match self {
            Self::Header(name) => {
                return match header(&name, octets, is_secret) {
                    Ok(value) => Field::Header(name, value),
                    Err(fault) => Field::Bad(Self::Header(name), fault),
                };
            }
            Self::Bad(fault) => Err(fault),
            Self::Authority => Authority::from_maybe_shared(owned(octets))
                .map(Field::Authority)
                .map_err(|_| Fault::Malformed("the authority is not valid")),
            Self::Method => Method::from_bytes(octets)
                .map(Field::Method)
                .map_err(|_| Fault::Octets("the method is not a token")),
            Self::Path => path(octets).map(Field::Path),
            // The type accepts an empty scheme.
            Self::Scheme if octets.is_empty() => Err(Fault::Malformed("the scheme is empty")),
            Self::Scheme => Scheme::try_from(octets)
                .map(Field::Scheme)
                .map_err(|_| Fault::Malformed("the scheme is not valid")),
            Self::Status => status(octets).map(Field::Status),
        };
        read.unwrap_or_else(|fault| Field::Bad(self, fault))
    }
}

/// Copies octets, with spare capacity. Then `Bytes` counts references from the start; without spare
/// capacity it starts to when first cloned, and each clone checks whether it has.
fn owned(octets: &[u8]) -> Bytes {
    let mut copy = Vec::with_capacity(octets.len() + 1);
    copy.extend_from_slice(octets);
    Bytes::from(copy)
}

/// Parses a path, or `*`. It must have its slash.
fn path(octets: &[u8]) -> Result<PathAndQuery, Fault> {
    if octets.len() > PATH_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    if !octets.starts_with(b"/") && octets != b"*" {
        return Err(Fault::Malformed("the path does not begin with a slash"));
    }
    if let Some(reason) = target::fault(octets) {
        return Err(Fault::Malformed(reason));
    }
    PathAndQuery::from_maybe_shared(owned(octets))
        .map_err(|_| Fault::Malformed("the path is not valid"))
}

fn status(octets: &[u8]) -> Result<StatusCode, Fault> {
    match StatusCode::from_bytes(octets) {
        // HTTP/2 does not switch protocols in this way. RFC 9113 §8.6
        Ok(StatusCode::SWITCHING_PROTOCOLS) => Err(Fault::Malformed("101 has no place in HTTP/2")),
        Ok(status) => Ok(status),
        Err(_) => Err(Fault::Octets("the status is not a number of three digits")),
    }
}

fn header(name: &HeaderName, octets: &[u8], is_secret: bool) -> Result<HeaderValue, Fault> {
    let is_padded = |octet: Option<&u8>| matches!(octet, Some(b' ' | b'\t'));
    if is_padded(octets.first()) || is_padded(octets.last()) {
        return Err(Fault::Malformed(
            "a field's value begins or ends with white space",
        ));
    }
    if *name == header::TE && octets != b"trailers" {
        return Err(Fault::Malformed("te has values other than trailers"));
    }
    let mut value = HeaderValue::from_maybe_shared(owned(octets))
        .map_err(|_| Fault::Octets("a field's value has control characters"))?;
    if is_secret {
        value.set_sensitive(true);
    }
    Ok(value)
}
