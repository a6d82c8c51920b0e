//! The static table. RFC 7541 appendix A

use super::field::{Fault, Field, Name};
use super::field_size;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, StatusCode};

/// The number of entries; indices begin with 1.
pub(super) const LENGTH: usize = 61;

/// An entry.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) field: Field,
    pub(super) name_length: usize,
    /// Its size in tables.
    pub(super) size: usize,
}

const fn known(name_length: usize, value_length: usize, field: Field) -> Known {
    Known {
        field,
        name_length,
        size: field_size(name_length, value_length),
    }
}

/// Makes an entry that has only a name.
const fn named(name_length: usize, name: HeaderName) -> Known {
    let field = Field::Header(name, HeaderValue::from_static(""));
    known(name_length, 0, field)
}

const fn bad(reason: &'static str) -> Field {
    let fault = Fault::Malformed(reason);
    Field::Bad(Name::Bad(fault), fault)
}

/// Entries in the order of their indices. The numbers are the length of the name and, if there is
/// one, of the value.
static ENTRIES: [Known; LENGTH] = [
    // A host is never empty.
    known(
        10,
        0,
        Field::Bad(Name::Authority, Fault::Malformed("the authority is empty")),
    ),
    known(7, 3, Field::Method(Method::GET)),
    known(7, 4, Field::Method(Method::POST)),
    known(5, 1, Field::Path(PathAndQuery::from_static("/"))),
    known(5, 11, Field::Path(PathAndQuery::from_static("/index.html"))),
    known(7, 4, Field::Scheme(Scheme::HTTP)),
    known(7, 5, Field::Scheme(Scheme::HTTPS)),
    known(7, 3, Field::Status(StatusCode::OK)),
    known(7, 3, Field::Status(StatusCode::NO_CONTENT)),
    known(7, 3, Field::Status(StatusCode::PARTIAL_CONTENT)),
    known(7, 3, Field::Status(StatusCode::NOT_MODIFIED)),
    known(7, 3, Field::Status(StatusCode::BAD_REQUEST)),
    known(7, 3, Field::Status(StatusCode::NOT_FOUND)),
    known(7, 3, Field::Status(StatusCode::INTERNAL_SERVER_ERROR)),
    named(14, header::ACCEPT_CHARSET),
    known(
        15,
        13,
        Field::Header(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("gzip, deflate"),
        ),
    ),
    named(15, header::ACCEPT_LANGUAGE),
    named(13, header::ACCEPT_RANGES),
    named(6, header::ACCEPT),
    named(27, header::ACCESS_CONTROL_ALLOW_ORIGIN),
    named(3, header::AGE),
    named(5, header::ALLOW),
    named(13, header::AUTHORIZATION),
    named(13, header::CACHE_CONTROL),
    named(19, header::CONTENT_DISPOSITION),
    named(16, header::CONTENT_ENCODING),
    named(16, header::CONTENT_LANGUAGE),
    named(14, header::CONTENT_LENGTH),
    named(16, header::CONTENT_LOCATION),
    named(13, header::CONTENT_RANGE),
    named(12, header::CONTENT_TYPE),
    named(6, header::COOKIE),
    named(4, header::DATE),
    named(4, header::ETAG),
    named(6, header::EXPECT),
    named(7, header::EXPIRES),
    named(4, HeaderName::from_static("from")),
    named(4, header::HOST),
    named(8, header::IF_MATCH),
    named(17, header::IF_MODIFIED_SINCE),
    named(13, header::IF_NONE_MATCH),
    named(8, header::IF_RANGE),
    named(19, header::IF_UNMODIFIED_SINCE),
    named(13, header::LAST_MODIFIED),
    named(4, header::LINK),
    named(8, header::LOCATION),
    named(12, header::MAX_FORWARDS),
    named(18, header::PROXY_AUTHENTICATE),
    named(19, header::PROXY_AUTHORIZATION),
    named(5, header::RANGE),
    named(7, header::REFERER),
    named(7, header::REFRESH),
    named(11, header::RETRY_AFTER),
    named(6, header::SERVER),
    named(10, header::SET_COOKIE),
    named(25, header::STRICT_TRANSPORT_SECURITY),
    // It concerns one connection, so it is not allowed in HTTP/2.
    known(17, 0, bad("a field of HTTP/1.1's connections")),
    named(10, header::USER_AGENT),
    named(4, header::VARY),
    named(3, header::VIA),
    named(16, header::WWW_AUTHENTICATE),
];

/// Returns the entry at an index.
pub(super) fn known_at(index: usize) -> Option<&'static Known> {
    ENTRIES.get(index.wrapping_sub(1))
}

/// Returns the index of a field's name. It is 0 if the name is not in the table, and for `from`,
/// which is there but hardly ever sent.
pub(super) fn index_of(name: &[u8]) -> usize {
    match name {
        b"accept-charset" => 15,
        b"accept-encoding" => 16,
        b"accept-language" => 17,
        b"accept-ranges" => 18,
        b"accept" => 19,
        b"access-control-allow-origin" => 20,
        b"age" => 21,
        b"allow" => 22,
        b"authorization" => 23,
        b"cache-control" => 24,
        b"content-disposition" => 25,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-length" => 28,
        b"content-location" => 29,
        b"content-range" => 30,
        b"content-type" => 31,
        b"cookie" => 32,
        b"date" => 33,
        b"etag" => 34,
        b"expect" => 35,
        b"expires" => 36,
        b"host" => 38,
        b"if-match" => 39,
        b"if-modified-since" => 40,
        b"if-none-match" => 41,
        b"if-range" => 42,
        b"if-unmodified-since" => 43,
        b"last-modified" => 44,
        b"link" => 45,
        b"location" => 46,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        b"proxy-authorization" => 49,
        b"range" => 50,
        b"referer" => 51,
        b"refresh" => 52,
        b"retry-after" => 53,
        b"server" => 54,
        b"set-cookie" => 55,
        b"strict-transport-security" => 56,
        b"user-agent" => 58,
        b"vary" => 59,
        b"via" => 60,
        b"www-authenticate" => 61,
        _ => 0,
    }
}
