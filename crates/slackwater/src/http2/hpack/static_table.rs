//! The table that everybody has. RFC 7541 appendix A

use super::field::{Fault, Field};
use http::header::{self, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, StatusCode};

/// Entries; indices begin with 1.
pub(super) const LENGTH: usize = 61;

/// A field that is in the table for its name.
const fn named(name: HeaderName) -> Field {
    Field::Header(name, HeaderValue::from_static(""))
}

static FIELDS: [Field; LENGTH] = [
    // A host is never empty.
    Field::Bad(Fault::Malformed("the authority is empty")),
    Field::Method(Method::GET),
    Field::Method(Method::POST),
    Field::Path(PathAndQuery::from_static("/")),
    Field::Path(PathAndQuery::from_static("/index.html")),
    Field::Scheme(Scheme::HTTP),
    Field::Scheme(Scheme::HTTPS),
    Field::Status(StatusCode::OK),
    Field::Status(StatusCode::NO_CONTENT),
    Field::Status(StatusCode::PARTIAL_CONTENT),
    Field::Status(StatusCode::NOT_MODIFIED),
    Field::Status(StatusCode::BAD_REQUEST),
    Field::Status(StatusCode::NOT_FOUND),
    Field::Status(StatusCode::INTERNAL_SERVER_ERROR),
    named(header::ACCEPT_CHARSET),
    Field::Header(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("gzip, deflate"),
    ),
    named(header::ACCEPT_LANGUAGE),
    named(header::ACCEPT_RANGES),
    named(header::ACCEPT),
    named(header::ACCESS_CONTROL_ALLOW_ORIGIN),
    named(header::AGE),
    named(header::ALLOW),
    named(header::AUTHORIZATION),
    named(header::CACHE_CONTROL),
    named(header::CONTENT_DISPOSITION),
    named(header::CONTENT_ENCODING),
    named(header::CONTENT_LANGUAGE),
    named(header::CONTENT_LENGTH),
    named(header::CONTENT_LOCATION),
    named(header::CONTENT_RANGE),
    named(header::CONTENT_TYPE),
    named(header::COOKIE),
    named(header::DATE),
    named(header::ETAG),
    named(header::EXPECT),
    named(header::EXPIRES),
    named(HeaderName::from_static("from")),
    named(header::HOST),
    named(header::IF_MATCH),
    named(header::IF_MODIFIED_SINCE),
    named(header::IF_NONE_MATCH),
    named(header::IF_RANGE),
    named(header::IF_UNMODIFIED_SINCE),
    named(header::LAST_MODIFIED),
    named(header::LINK),
    named(header::LOCATION),
    named(header::MAX_FORWARDS),
    named(header::PROXY_AUTHENTICATE),
    named(header::PROXY_AUTHORIZATION),
    named(header::RANGE),
    named(header::REFERER),
    named(header::REFRESH),
    named(header::RETRY_AFTER),
    named(header::SERVER),
    named(header::SET_COOKIE),
    named(header::STRICT_TRANSPORT_SECURITY),
    // Concerns one connection, so it has no place in HTTP/2.
    Field::Bad(Fault::Malformed("a field of HTTP/1.1's connections")),
    named(header::USER_AGENT),
    named(header::VARY),
    named(header::VIA),
    named(header::WWW_AUTHENTICATE),
];

/// The field at an index.
pub(super) fn field(index: usize) -> Option<&'static Field> {
    FIELDS.get(index.wrapping_sub(1))
}

/// The index of `:authority`, whose value there is none that a message could have.
pub(super) const AUTHORITY: usize = 1;

/// Octets of the name and of the value at an index, which has a field.
pub(super) fn lengths(index: usize) -> (usize, usize) {
    LENGTHS
        .get(index.wrapping_sub(1))
        .map_or((0, 0), |(name, value)| {
            (usize::from(*name), usize::from(*value))
        })
}

#[rustfmt::skip]
static LENGTHS: [(u8, u8); LENGTH] = [
    (10, 0), (7, 3), (7, 4), (5, 1), (5, 11), (7, 4), (7, 5),
    (7, 3), (7, 3), (7, 3), (7, 3), (7, 3), (7, 3), (7, 3),
    (14, 0), (15, 13), (15, 0), (13, 0), (6, 0), (27, 0), (3, 0), (5, 0), (13, 0), (13, 0), (19, 0),
    (16, 0), (16, 0), (14, 0), (16, 0), (13, 0), (12, 0), (6, 0), (4, 0), (4, 0), (6, 0), (7, 0),
    (4, 0), (4, 0), (8, 0), (17, 0), (13, 0), (8, 0), (19, 0), (13, 0), (4, 0), (8, 0), (12, 0),
    (18, 0), (19, 0), (5, 0), (7, 0), (7, 0), (11, 0), (6, 0), (10, 0), (25, 0), (17, 0), (10, 0),
    (4, 0), (3, 0), (16, 0),
];

/// The index of a field's name; 0 if it is not in the table, and for `from`, which is there but hardly ever sent.
pub(super) fn index_of(name: &HeaderName) -> usize {
    match *name {
        header::ACCEPT_CHARSET => 15,
        header::ACCEPT_ENCODING => 16,
        header::ACCEPT_LANGUAGE => 17,
        header::ACCEPT_RANGES => 18,
        header::ACCEPT => 19,
        header::ACCESS_CONTROL_ALLOW_ORIGIN => 20,
        header::AGE => 21,
        header::ALLOW => 22,
        header::AUTHORIZATION => 23,
        header::CACHE_CONTROL => 24,
        header::CONTENT_DISPOSITION => 25,
        header::CONTENT_ENCODING => 26,
        header::CONTENT_LANGUAGE => 27,
        header::CONTENT_LENGTH => 28,
        header::CONTENT_LOCATION => 29,
        header::CONTENT_RANGE => 30,
        header::CONTENT_TYPE => 31,
        header::COOKIE => 32,
        header::DATE => 33,
        header::ETAG => 34,
        header::EXPECT => 35,
        header::EXPIRES => 36,
        header::HOST => 38,
        header::IF_MATCH => 39,
        header::IF_MODIFIED_SINCE => 40,
        header::IF_NONE_MATCH => 41,
        header::IF_RANGE => 42,
        header::IF_UNMODIFIED_SINCE => 43,
        header::LAST_MODIFIED => 44,
        header::LINK => 45,
        header::LOCATION => 46,
        header::MAX_FORWARDS => 47,
        header::PROXY_AUTHENTICATE => 48,
        header::PROXY_AUTHORIZATION => 49,
        header::RANGE => 50,
        header::REFERER => 51,
        header::REFRESH => 52,
        header::RETRY_AFTER => 53,
        header::SERVER => 54,
        header::SET_COOKIE => 55,
        header::STRICT_TRANSPORT_SECURITY => 56,
        header::USER_AGENT => 58,
        header::VARY => 59,
        header::VIA => 60,
        header::WWW_AUTHENTICATE => 61,
        _ => 0,
    }
}
