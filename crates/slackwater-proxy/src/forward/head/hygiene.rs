//! Changes that a proxy must make to the heads that it forwards.
//!
//! Towards the replica, fields of one connection are removed (`Connection` and all fields that it
//! names, `Keep-Alive`, `Transfer-Encoding`, `Upgrade`…, RFC 9110 §7.6.1). The origin fields are
//! rewritten (`forwarded`), and the target is moved to where the replica's protocol expects it
//! (`target`). Requests that two parsers could read differently are rejected. Towards the client,
//! the same fields are removed. Both messages get new framing, so no body length is forwarded
//! unchecked. Requests get a `Via`. Nothing else is changed: no `Server` is added, and `Host` stays
//! as it is.

use super::error_field::X_SLACKWATER_ERROR;
use super::origin::Origin;
use super::refusal::{Refusal, bad_request, not_implemented};
use super::{client_cert, forwarded, max_forwards, target, via};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Version};
use slackwater_config::{Connect, ReplicaProtocol};
use slackwater_http::http1::is_of_the_head;
use slackwater_http::{Fields, Request, Response, Value};
use slackwater_tower::wire::tie::TIE;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Prepares the head of a client's request for a replica. An upgrade of the client's connection is
/// not part of the head; `request` handles it.
pub(crate) fn prepare_request<B>(
    request: &mut Request<B>,
    protocol: ReplicaProtocol,
    connect: Connect,
    origin: &Origin,
) -> Result<(), Refusal> {
    let is_connect = *request.method() == Method::CONNECT;
    if is_connect {
        check_connect(request, protocol, connect)?;
    }
    let seen = Seen::in_head(request.headers());
    if seen.transfer_encoding && !is_only_chunked(request.headers()) {
        return Err(not_implemented(
            "no transfer coding but chunked is known here",
        ));
    }
    if seen.via && via::has_passed(request.headers()) {
        return Err(Refusal {
            status: StatusCode::LOOP_DETECTED,
            reason: "the request is in a loop: it has passed this proxy before",
        });
    }
    if seen.expect && !is_only_continue(request.headers()) {
        return Err(Refusal {
            status: StatusCode::EXPECTATION_FAILED,
            reason: "only the expectation 100-continue is supported",
        });
    }
    let version = request.version();
    if seen.hosts > 1 {
        return Err(bad_request("more than one host field"));
    }
    if version == Version::HTTP_11 && seen.hosts == 0 {
        return Err(bad_request("the host field is missing"));
    }
    if version == Version::HTTP_2 {
        // The HTTP/1.1 parser has its own limit.
        if request.headers().len() > origin.rules.head_fields_max {
            return Err(Refusal {
                status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                reason: "the request has too many fields",
            });
        }
        target::check_http2(request.uri(), request.headers())?;
    }
    if seen.max_forwards {
        max_forwards::count_down(request)?;
    }
    // A replica that opens tunnels only for some clients needs the credentials to identify them.
    // RFC 9110 §11.7.2
    let credentials = is_connect
        .then(|| request.headers_mut().take(header::PROXY_AUTHORIZATION))
        .flatten();
    let trailers = seen.te && wants_trailers(request.headers());
    strip(request.headers_mut(), seen);
    if let Some(credentials) = credentials {
        let headers = request.headers_mut();
        headers.insert(header::PROXY_AUTHORIZATION, credentials);
    }
    if seen.expect {
        // The proxy meets the expectation: an HTTP/1.1 client receives 100 when its body is first
        // read.
        request.headers_mut().remove(header::EXPECT);
    }
    if trailers {
        keep_trailers(request.headers_mut(), protocol);
    }
    // The request concerns the server as a whole. A missing path has the same meaning (RFC 9112
    // §3.2.4), but such a path reads as `/` and cannot be distinguished here.
    if request.uri().path() == "*" && *request.method() != Method::OPTIONS {
        return Err(bad_request("only OPTIONS can have * as its target"));
    }
    via::note(request.headers_mut(), version);
    match protocol {
        ReplicaProtocol::Http1 => {
            if seen.cookies > 1 {
                join_cookies(request.headers_mut());
            }
            if is_connect {
                target::target_connect(request)?;
            } else {
                target::target_http1(request, origin)?;
            }
            *request.version_mut() = Version::HTTP_11;
        }
        ReplicaProtocol::H2c => {
            target::target_http2(request, origin)?;
            *request.version_mut() = Version::HTTP_2;
        }
    }
    forwarded::rewrite(request, origin, seen.origin);
    Ok(())
}

/// Checks whether a tunnel to a replica is possible: it needs whole connections on both sides.
fn check_connect<B>(
    request: &Request<B>,
    protocol: ReplicaProtocol,
    connect: Connect,
) -> Result<(), Refusal> {
    if connect == Connect::Refuse {
        return Err(not_implemented("tunnels (CONNECT) are not offered here"));
    }
    if request.version() == Version::HTTP_2 || protocol != ReplicaProtocol::Http1 {
        return Err(not_implemented(
            "tunnels (CONNECT) are offered over HTTP/1.1 only",
        ));
    }
    Ok(())
}

/// Prepares a replica's response for a client. Returns `false` if it has a transfer coding that
/// cannot be forwarded.
pub(crate) fn prepare_response<B>(response: &mut Response<B>) -> bool {
    let seen = Seen::in_head(response.headers());
    if seen.transfer_encoding && !is_only_chunked(response.headers()) {
        return false;
    }
    strip(response.headers_mut(), seen);
    true
}

/// Prepares the head of a replica's interim response for a client.
pub(crate) fn prepare_interim(headers: &mut Fields) {
    let seen = Seen::in_head(headers);
    strip(headers, seen);
    headers.remove(X_SLACKWATER_ERROR);
}

/// Removes from trailers all fields that only a head may contain, in either direction and for any
/// protocol.
pub(crate) fn prepare_trailers(trailers: &mut HeaderMap) {
    let is_unwanted = |name: &&HeaderName| {
        let name = name.as_ref();
        is_of_the_head(name) || forwarded::is_origin_field(name) || client_cert::is_one(name)
    };
    let unwanted: Vec<HeaderName> = trailers.keys().filter(is_unwanted).cloned().collect();
    for name in unwanted {
        trailers.remove(name);
    }
}

/// The fields of a head that need work. They are found in one pass, because most heads have very
/// few.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each kind of field; they are not states"
)]
struct Seen {
    hosts: u32,
    cookies: u32,
    connection: bool,
    expect: bool,
    max_forwards: bool,
    /// Any field that describes the origin of the request.
    origin: bool,
    te: bool,
    transfer_encoding: bool,
    via: bool,
    /// Any other field of one connection only.
    others: bool,
}

impl Seen {
    fn in_head(headers: &Fields) -> Self {
        let mut seen = Self::default();
        for name in headers.keys() {
            match name {
                b"host" => seen.hosts = seen.hosts.saturating_add(1),
                b"cookie" => seen.cookies = seen.cookies.saturating_add(1),
                b"connection" => seen.connection = true,
                b"transfer-encoding" => seen.transfer_encoding = true,
                b"expect" => seen.expect = true,
                b"te" => seen.te = true,
                b"via" => seen.via = true,
                b"max-forwards" => seen.max_forwards = true,
                b"upgrade" | b"proxy-authorization" | b"keep-alive" | b"proxy-connection" => {
                    seen.others = true;
                }
                // This field is between a balancer and an agent: no client or replica may send or
                // read it.
                _ if name == TIE.as_str().as_bytes() => seen.others = true,
                _ => seen.origin |= forwarded::is_origin_field(name),
            }
        }
        seen
    }
}

fn strip(headers: &mut Fields, seen: Seen) {
    if seen.connection {
        // A list of many names costs one search for each field, not one pass for each name.
        let mut named = named_by_connection(headers);
        named.push(header::CONNECTION);
        named.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let is_named = |name: &[u8]| {
            let compared = |it: &HeaderName| it.as_str().as_bytes().cmp(name);
            named.binary_search_by(compared).is_ok()
        };
        headers.retain(|name, _| !is_named(name));
    }
    if seen.transfer_encoding {
        headers.remove(header::TRANSFER_ENCODING);
        // The transfer coding overrides it, so it must not reach a recipient that would use it. RFC
        // 9112 §6.3
        headers.remove(header::CONTENT_LENGTH);
    }
    if seen.te {
        headers.remove(header::TE);
    }
    if seen.others {
        for name in [
            header::UPGRADE,
            header::PROXY_AUTHORIZATION,
            KEEP_ALIVE,
            PROXY_CONNECTION,
            TIE,
        ] {
            headers.remove(name);
        }
    }
}

/// Returns the fields that `Connection` declares as hop-by-hop. Fields that frame or address a
/// message cannot be declared so, and neither can the verified client certificate.
fn named_by_connection(headers: &Fields) -> Vec<HeaderName> {
    tokens(headers, &header::CONNECTION)
        .filter(|token| {
            !token.eq_ignore_ascii_case("close") && !token.eq_ignore_ascii_case("keep-alive")
        })
        .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .filter(|name| !client_cert::is_one(name.as_ref()))
        .collect()
}

fn tokens<'a>(headers: &'a Fields, name: &'a HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

fn is_only_chunked(headers: &Fields) -> bool {
    tokens(headers, &header::TRANSFER_ENCODING).all(|coding| coding.eq_ignore_ascii_case("chunked"))
}

fn is_only_continue(headers: &Fields) -> bool {
    let mut values = headers.get_all(header::EXPECT);
    values.all(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn wants_trailers(headers: &Fields) -> bool {
    tokens(headers, &header::TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

fn keep_trailers(headers: &mut Fields, protocol: ReplicaProtocol) {
    headers.insert(header::TE, TRAILERS);
    if protocol == ReplicaProtocol::Http1 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Joins cookies: HTTP/2 may split them over several fields, HTTP/1.1 may not. RFC 9113 §8.2.3
fn join_cookies(headers: &mut Fields) {
    let crumbs: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .map(Value::as_bytes)
        .collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests;
