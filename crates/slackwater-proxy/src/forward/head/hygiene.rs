//! What a proxy must do to the heads that pass through it.
//!
//! Towards the replica: fields that concern one connection only are taken out (`Connection` and all
//! that it names, `Keep-Alive`, `Transfer-Encoding`, `Upgrade`…, RFC 9110 §7.6.1), where the
//! request comes from is told anew (`forwarded`), and the target is put where the replica's
//! protocol wants it (`target`). Requests that two parsers could read in two ways are refused.
//! Towards the client: the same fields are taken out. Both messages are framed anew, so no body
//! length is passed on unchecked. Requests gain a `Via`. Nothing else is touched: no `Server`, no
//! change of `Host`.

use super::error_field::X_SLACKWATER_ERROR;
use super::fields::remove;
use super::origin::Origin;
use super::refusal::{Refusal, bad_request, not_implemented};
use super::{client_cert, forwarded, max_forwards, target, via};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use slackwater_config::{Connect, ReplicaProtocol};
use slackwater_http::http1::is_of_the_head;
use slackwater_tower::wire::tie::TIE;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Makes the head of a client's request fit for a replica. Whether the client's connection is to
/// change its protocol is not to be seen in the head; `request` sees to that.
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
            reason: "this request has passed here before",
        });
    }
    if seen.expect && !is_only_continue(request.headers()) {
        return Err(Refusal {
            status: StatusCode::EXPECTATION_FAILED,
            reason: "no expectation but 100-continue is met here",
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
        // Over HTTP/1.1 the parser counts.
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
    // Without them a replica that opens tunnels for some alone could not know whose this one is.
    // RFC 9110 §11.7.2
    let credentials = is_connect
        .then(|| request.headers_mut().remove(header::PROXY_AUTHORIZATION))
        .flatten();
    let trailers = seen.te && wants_trailers(request.headers());
    strip(request.headers_mut(), seen);
    if let Some(credentials) = credentials {
        let headers = request.headers_mut();
        headers.insert(header::PROXY_AUTHORIZATION, credentials);
    }
    if seen.expect {
        // It is met here: a client over HTTP/1.1 is told to go on when its body is first wanted.
        request.headers_mut().remove(header::EXPECT);
    }
    if trailers {
        keep_trailers(request.headers_mut(), protocol);
    }
    // It asks about the server as a whole. That a target left its path out, which says the same
    // (RFC 9112 §3.2.4), is not to be seen here: such a path reads as `/`.
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

/// Whether a tunnel may be asked of a replica: it takes the connections of both sides for itself.
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

/// Makes a replica's response fit for a client; `false` if it uses a transfer coding that cannot be
/// passed on.
pub(crate) fn prepare_response<B>(response: &mut Response<B>) -> bool {
    let seen = Seen::in_head(response.headers());
    if seen.transfer_encoding && !is_only_chunked(response.headers()) {
        return false;
    }
    strip(response.headers_mut(), seen);
    *response.version_mut() = Version::HTTP_11;
    true
}

/// Makes the head of a replica's response that is not final fit for a client.
pub(crate) fn prepare_interim(headers: &mut HeaderMap) {
    let seen = Seen::in_head(headers);
    strip(headers, seen);
    headers.remove(X_SLACKWATER_ERROR);
}

/// Takes out of trailers what only a head may say, whichever way they go and whatever protocol they
/// came by.
pub(crate) fn prepare_trailers(trailers: &mut HeaderMap) {
    remove(trailers, |name| {
        is_of_the_head(name.as_str())
            || forwarded::is_origin_field(name)
            || client_cert::is_one(name)
    });
}

/// Which fields a head has that need work: found in one pass, because most heads have hardly any.
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
    /// Any field that tells where the request comes from.
    origin: bool,
    te: bool,
    transfer_encoding: bool,
    via: bool,
    /// Any other field that concerns one connection only.
    others: bool,
}

impl Seen {
    fn in_head(headers: &HeaderMap) -> Self {
        let mut seen = Self::default();
        for (name, _) in headers {
            match *name {
                header::HOST => seen.hosts = seen.hosts.saturating_add(1),
                header::COOKIE => seen.cookies = seen.cookies.saturating_add(1),
                header::CONNECTION => seen.connection = true,
                header::TRANSFER_ENCODING => seen.transfer_encoding = true,
                header::EXPECT => seen.expect = true,
                header::TE => seen.te = true,
                header::VIA => seen.via = true,
                header::MAX_FORWARDS => seen.max_forwards = true,
                header::UPGRADE | header::PROXY_AUTHORIZATION => seen.others = true,
                _ => match name.as_str() {
                    "keep-alive" | "proxy-connection" => seen.others = true,
                    // Between a balancer and an agent, and nobody else's to say or to read.
                    _ if *name == TIE => seen.others = true,
                    _ => seen.origin |= forwarded::is_origin_field(name),
                },
            }
        }
        seen
    }
}

fn strip(headers: &mut HeaderMap, seen: Seen) {
    if seen.connection {
        for name in named_by_connection(headers) {
            headers.remove(name);
        }
        headers.remove(header::CONNECTION);
    }
    if seen.transfer_encoding {
        headers.remove(header::TRANSFER_ENCODING);
        // Overridden by the transfer coding, so it must not reach anyone who would believe it. RFC
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

/// The fields that `Connection` declares as its own. What frames or addresses a message cannot be
/// declared away, and neither can what was told of the client's certificate before this.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    tokens(headers, &header::CONNECTION)
        .filter(|token| {
            !token.eq_ignore_ascii_case("close") && !token.eq_ignore_ascii_case("keep-alive")
        })
        .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .filter(|name| !client_cert::is_one(name))
        .collect()
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

fn is_only_chunked(headers: &HeaderMap) -> bool {
    tokens(headers, &header::TRANSFER_ENCODING).all(|coding| coding.eq_ignore_ascii_case("chunked"))
}

fn is_only_continue(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::EXPECT).iter();
    values.all(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

fn wants_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &header::TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

fn keep_trailers(headers: &mut HeaderMap, protocol: ReplicaProtocol) {
    headers.insert(header::TE, TRAILERS);
    if protocol == ReplicaProtocol::Http1 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
}

/// HTTP/2 may split cookies over several fields; HTTP/1.1 may not. RFC 9113 §8.2.3.
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests;
