//! The target of a request: every recipient reads the same host and target, placed as the replica's
//! protocol requires.

use super::origin::Origin;
use super::refusal::{Refusal, bad_request};
use core::net::Ipv6Addr;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri, header};
use slackwater_http::{Fields, Request, Value};

/// Checks that HTTP/2 names the host in `:authority`, in `Host`, or identically in both, and never
/// a user. RFC 9113 §8.3.1
pub(super) fn check_http2(uri: &Uri, headers: &Fields) -> Result<(), Refusal> {
    match (uri.authority(), headers.get(header::HOST)) {
        (None, None) => Err(bad_request("neither :authority nor host names a host")),
        (Some(authority), _) if authority.as_str().contains('@') => {
            Err(bad_request(":authority contains a user"))
        }
        (Some(authority), Some(host))
            if !host
                .as_bytes()
                .eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Err(bad_request(":authority and host name different hosts"))
        }
        _ => Ok(()),
    }
}

/// Prepares the target for HTTP/1.1: the host in its field, the path in the request line. A target
/// that names its host overrides the field.
pub(super) fn target_http1<B>(request: &mut Request<B>, origin: &Origin) -> Result<(), Refusal> {
    if let Some(authority) = request.uri().authority() {
        check_overridden(request.headers().get(header::HOST).map(Value::as_bytes))?;
        let host = without_user_info(authority);
        if !is_host(host.as_bytes()) {
            return Err(bad_request("the target's host is not valid"));
        }
        let host = HeaderValue::from_str(host)
            .map_err(|_| bad_request("the target's host is not valid"))?;
        let path = with_path(request.uri().path_and_query().cloned())?;
        request.headers_mut().insert(header::HOST, host);
        *request.uri_mut() = Uri::from(path);
    } else if let Some(host) = request.headers().get(header::HOST) {
        if !is_host(host.as_bytes()) {
            return Err(bad_request("the host field is not valid"));
        }
    } else {
        let host = HeaderValue::from_str(origin.local.as_str())
            .map_err(|_| bad_request("the host field is missing"))?;
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(())
}

/// Prepares the target for CONNECT: a host and a port in the request line, and the same in the
/// field. RFC 9112 §3.2.3
pub(super) fn target_connect<B>(request: &mut Request<B>) -> Result<(), Refusal> {
    let authority = request.uri().authority().map(Authority::as_str);
    let host = authority.filter(|host| is_host(host.as_bytes()));
    let host = host.and_then(|host| HeaderValue::from_str(host).ok());
    let host = host.ok_or_else(|| bad_request("the target's host is not valid"))?;
    request.headers_mut().insert(header::HOST, host);
    Ok(())
}

/// Prepares the target for HTTP/2: host and path in the target.
pub(super) fn target_http2<B>(request: &mut Request<B>, origin: &Origin) -> Result<(), Refusal> {
    let field = request.headers().get(header::HOST);
    let authority = match (request.uri().authority(), field) {
        (Some(authority), field) => {
            check_overridden(field.map(Value::as_bytes))?;
            let host = without_user_info(authority);
            if !is_host(host.as_bytes()) {
                return Err(bad_request("the target's host is not valid"));
            }
            if host.len() == authority.as_str().len()
                && request.uri().scheme() == Some(&Scheme::HTTP)
                && !lacks_path(request.uri().path_and_query())
            {
                request.headers_mut().remove(header::HOST);
                return Ok(());
            }
            Authority::try_from(host).map_err(|_| bad_request("the target's host is not valid"))?
        }
        (None, Some(host)) if !host.is_empty() => {
            if !is_host(host.as_bytes()) {
                return Err(bad_request("the host field is not valid"));
            }
            Authority::try_from(host.as_bytes())
                .map_err(|_| bad_request("the host field is not valid"))?
        }
        (None, _) => origin.local.clone(),
    };
    request.headers_mut().remove(header::HOST);
    let mut parts = core::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(authority);
    parts.path_and_query = Some(with_path(parts.path_and_query)?);
    *request.uri_mut() =
        Uri::from_parts(parts).map_err(|_| bad_request("the target is not valid"))?;
    Ok(())
}

/// Whether a target has a query but no path.
fn lacks_path(target: Option<&PathAndQuery>) -> bool {
    target.is_some_and(|target| target.as_str().starts_with('?'))
}

/// Adds the path if it is missing. It may be empty only in a target that names its host. RFC 9112
/// §3.2.1
fn with_path(target: Option<PathAndQuery>) -> Result<PathAndQuery, Refusal> {
    match target {
        None => Ok(PathAndQuery::from_static("/")),
        Some(target) if lacks_path(Some(&target)) => {
            PathAndQuery::try_from(format!("/{}", target.as_str()))
                .map_err(|_| bad_request("the target is not valid"))
        }
        Some(target) => Ok(target),
    }
}

fn without_user_info(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

/// Checks a host field that the target's host overrides, because a recipient may read it anyway.
/// RFC 9112 §3.2.2
fn check_overridden(host: Option<&[u8]>) -> Result<(), Refusal> {
    if host.is_none_or(is_host) {
        return Ok(());
    }
    Err(bad_request("the host field is not valid"))
}

/// Whether every recipient reads a host field as a host and a port. It may be empty. RFC 9110 §7.2,
/// RFC 3986 §3.2.2
fn is_host(host: &[u8]) -> bool {
    let plain = host.iter().position(|byte| !is_in_name(*byte));
    let Some(plain) = plain else {
        return true;
    };
    let (name, rest) = host.split_at(plain);
    match rest {
        [b':', port @ ..] if !name.is_empty() => is_port(port),
        [b'[', inner @ ..] if name.is_empty() => {
            let end = memchr::memchr(b']', inner);
            let split = end.and_then(|end| inner.split_at_checked(end));
            split.is_some_and(|(literal, rest)| {
                let is_rest = match &rest[1..] {
                    [] => true,
                    [b':', port @ ..] => is_port(port),
                    _ => false,
                };
                is_ip_literal(literal) && is_rest
            })
        }
        [b'%', ..] => {
            let (name, rest) = host.split_at(memchr::memchr(b':', host).unwrap_or(host.len()));
            is_name(name) && rest.get(1..).is_none_or(is_port)
        }
        _ => false,
    }
}

/// A number below 65,536, or nothing.
fn is_port(port: &[u8]) -> bool {
    let number = port.iter().try_fold(0_u32, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        Some((number * 10 + digit).min(1 << 16))
    });
    number.is_some_and(|number| number < 1 << 16)
}

/// Whether this is an IPv6 address, or one of a future version. Zones are rejected: they are
/// meaningful only on the sender's machine.
fn is_ip_literal(literal: &[u8]) -> bool {
    if let [b'v' | b'V', future @ ..] = literal {
        let dot = memchr::memchr(b'.', future);
        return dot.is_some_and(|dot| {
            let (version, address) = (&future[..dot], &future[dot + 1..]);
            let is_right = |byte: &u8| is_in_name(*byte) || *byte == b':';
            let is_version = !version.is_empty() && version.iter().all(u8::is_ascii_hexdigit);
            is_version && !address.is_empty() && address.iter().all(is_right)
        });
    }
    let text = core::str::from_utf8(literal).ok();
    text.is_some_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// Whether this is a name or an IPv4 address. An encoded octet must be allowed in a name or be
/// outside ASCII: a recipient that decodes any other would find a name that ends elsewhere.
fn is_name(name: &[u8]) -> bool {
    let mut rest = name;
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            if !is_in_name(*first) {
                return false;
            }
            continue;
        }
        let [high, low, behind @ ..] = behind else {
            return false;
        };
        rest = behind;
        let half = |digit: u8| char::from(digit).to_digit(16);
        let (Some(high), Some(low)) = (half(*high), half(*low)) else {
            return false;
        };
        let encoded = u8::try_from(high * 16 + low).unwrap_or_default();
        if encoded.is_ascii() && !is_in_name(encoded) {
            return false;
        }
    }
    true
}

/// Lookup table by octet, because every octet of every request's host is checked.
static IN_NAME: [bool; 256] = {
    let mut all = [false; 256];
    let mut byte = 0;
    while byte < all.len() {
        #[expect(clippy::cast_possible_truncation, reason = "there are 256")]
        let octet = byte as u8;
        all[byte] = may_be_in_name(octet);
        byte += 1;
    }
    all
};

fn is_in_name(byte: u8) -> bool {
    IN_NAME[usize::from(byte)]
}

/// Whether RFC 3986 allows the octet in a name. The comma is excluded, because it separates list
/// members in fields.
const fn may_be_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b';'
                | b'='
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_is_a_name_or_an_address_with_an_optional_port() {
        for good in [
            "",
            "x",
            "x.example",
            "x.example.",
            "x:80",
            "x:",
            "x:0",
            "x:65535",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:80",
            "[::ffff:1.2.3.4]",
            "[v1.a:b]:8",
            "a_b",
            "a~b",
            "a!$&'()*+;=b",
            "a%C3%A9",
            "a%61",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "a:8o",
            "a:+8",
            "a:65536",
            "a:80:80",
            ":80",
            ":",
            "[::1",
            "::1",
            "[::1]x",
            "[::1]:x",
            "[x]",
            "[]",
            "[127.0.0.1]",
            "[fe80::1%25eth0]",
            "[v1.]",
            "[v.a]",
            "[v1]",
            "a]",
            "a[b",
            "a%00b",
            "a%2fb",
            "a%40b",
            "a%3a80",
            "a%20b",
            "a%7f",
            "a%25",
            "a%",
            "a%4",
            "a%zz",
            "a,b",
            "a/b",
            "u@a",
            "a b",
            "a\\b",
            "a?b",
            "a#b",
            "\u{e9}",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }
}
