//! The origin of a request: `Forwarded` (RFC 7239) and `X-Forwarded-*` are read, removed, and
//! written.
//!
//! Any client can write these fields, so they count only from proxies that the operator trusts, and
//! only the fields that these proxies are known to write. Among the addresses that such a proxy
//! forwards, the client is the last one that is not itself a trusted proxy: the addresses before it
//! are the client's own claim.

use super::fields::reads_as;
use super::origin::{Origin, Rules};
use core::net::{IpAddr, SocketAddr};
use http::header::{self, HeaderName, HeaderValue};
use http::uri::Authority;
use slackwater_http::{Fields, Request, Value};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_REAL_IP: &str = "x-real-ip";
const X_FORWARDED_PREFIX: &str = "x-forwarded-";

/// Whether a field describes where a request comes from, or a replica may read it as such a field,
/// no matter which hop wrote it.
pub(super) fn is_origin_field(name: &[u8]) -> bool {
    let start = name.get(..X_FORWARDED_PREFIX.len());
    let is_one_of_x = || {
        start.is_some_and(|start| reads_as(start, X_FORWARDED_PREFIX)) || reads_as(name, X_REAL_IP)
    };
    name == b"forwarded" || name.starts_with(b"x") && is_one_of_x()
}

/// Returns the client of a request from a trusted peer, as far as trusted proxies vouch for it.
/// Call it before [`rewrite`].
pub(super) fn client(headers: &Fields, origin: &Origin) -> IpAddr {
    let rules = &origin.rules;
    if rules.forwarded.read.x_forwarded && headers.contains_key(&X_FORWARDED_FOR) {
        return last_untrusted(x_forwarded_for(headers), origin.peer, rules);
    }
    if rules.forwarded.read.forwarded {
        return last_untrusted(forwarded_for(headers), origin.peer, rules);
    }
    origin.peer
}

/// Returns the scheme with which the request reached the trusted proxies. The field of the nearest
/// proxy counts. Call it before [`rewrite`].
pub(crate) fn scheme(headers: &Fields, origin: &Origin) -> &'static str {
    let read = origin.rules.forwarded.read;
    let stated = || {
        let value = headers.get_all(X_FORWARDED_PROTO).next_back();
        if let Some(value) = value.filter(|_| read.x_forwarded) {
            return known_scheme(value.as_bytes().rsplit(|byte| *byte == b',').next()?);
        }
        let value = headers.get_all(header::FORWARDED).next_back();
        let value = value.filter(|_| read.forwarded)?;
        let nearest = split_unquoted(value.as_bytes(), b',')?.pop()?;
        let proto = pairs(nearest)
            .find_map(|(name, value)| name.eq_ignore_ascii_case("proto").then_some(value));
        known_scheme(proto?.as_bytes())
    };
    let scheme = origin.is_trusted.then(stated).flatten();
    scheme.unwrap_or(origin.scheme())
}

fn known_scheme(text: &[u8]) -> Option<&'static str> {
    let text = text.trim_ascii();
    ["http", "https"]
        .into_iter()
        .find(|known| known.as_bytes().eq_ignore_ascii_case(text))
}

/// Returns the pairs of a `Forwarded` element, without quotes.
fn pairs(element: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let pairs = split_unquoted(element, b';').unwrap_or_default();
    pairs.into_iter().filter_map(|pair| {
        let (name, value) = core::str::from_utf8(pair).ok()?.trim().split_once('=')?;
        let quoted = (value.strip_prefix('"')).and_then(|rest| rest.strip_suffix('"'));
        Some((name, quoted.unwrap_or(value)))
    })
}

/// Walks from the nearest hop outwards. A hop without an address ends the walk: no proxy vouches
/// for the hops behind it.
fn last_untrusted(
    hops: impl DoubleEndedIterator<Item = Option<IpAddr>>,
    peer: IpAddr,
    rules: &Rules,
) -> IpAddr {
    let mut client = peer;
    for hop in hops.rev() {
        let Some(address) = hop else {
            return client;
        };
        client = address;
        if !rules.trusts(address) {
            return client;
        }
    }
    client
}

/// Returns the hops in `X-Forwarded-For`, the client first; `None` for a hop that is not an
/// address.
fn x_forwarded_for(headers: &Fields) -> impl DoubleEndedIterator<Item = Option<IpAddr>> {
    let values = headers.get_all(X_FORWARDED_FOR);
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(|hop| address(core::str::from_utf8(hop).ok()?.trim()))
}

/// Returns the hops in `Forwarded`. RFC 7239 §4. A value with an open quote is one hop without an
/// address: a client that opens the quote would hide what proxies append.
fn forwarded_for(headers: &Fields) -> impl DoubleEndedIterator<Item = Option<IpAddr>> {
    let values = headers.get_all(header::FORWARDED);
    let elements: Vec<_> = values
        .flat_map(|value| split_unquoted(value.as_bytes(), b',').unwrap_or_else(|| vec![b""]))
        .collect();
    elements.into_iter().map(|element| {
        let value = pairs(element)
            .find_map(|(name, value)| name.eq_ignore_ascii_case("for").then_some(value));
        address(value?)
    })
}

/// Splits at separators outside quotes. Quoted text may contain escaped quotes. `None` if a quote
/// stays open, or opens elsewhere than after `=`.
fn split_unquoted(text: &[u8], separator: u8) -> Option<Vec<&[u8]>> {
    let (mut is_quoted, mut is_escaped, mut is_misplaced) = (false, false, false);
    let mut before = 0;
    let parts = text.split(|byte| {
        let was_escaped = core::mem::replace(&mut is_escaped, false);
        match byte {
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            b'"' if !was_escaped => {
                is_misplaced |= !is_quoted && before != b'=';
                is_quoted = !is_quoted;
            }
            _ => (),
        }
        before = *byte;
        *byte == separator && !is_quoted
    });
    let parts = parts.collect();
    (!is_quoted && !is_misplaced).then_some(parts)
}

/// Parses an address with an optional port, as either field may contain it.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = (bare.unwrap_or(text).parse().ok())
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))?;
    Some(address.to_canonical())
}

/// Removes the fields that no trusted proxy vouches for, and adds the proxy's own. `has_any` is
/// whether the request has any such field.
pub(crate) fn rewrite<B>(request: &mut Request<B>, origin: &Origin, has_any: bool) {
    let settings = &origin.rules.forwarded;
    let (read, send) = (settings.read, settings.send);
    let element = (send.forwarded).then(|| element(origin, host(request)));
    let headers = request.headers_mut();
    let converts = send.x_forwarded && read.forwarded || send.forwarded && read.x_forwarded;
    let stated = (has_any && origin.is_trusted && converts)
        .then(|| (client(headers, origin), scheme(headers, origin)));
    if has_any {
        let keeps = |name: &[u8], value: Value<'_>| {
            // No proxy writes them with `_`, so such a field comes from a client.
            origin.is_trusted
                && !name.contains(&b'_')
                && if name == b"forwarded" {
                    // An open quote would hide this proxy's element.
                    read.forwarded && split_unquoted(value.as_bytes(), b',').is_some()
                } else {
                    read.x_forwarded
                }
        };
        headers.retain(|name, value| !is_origin_field(name) || keeps(name, value));
    }
    // What trusted proxies stated in the other fields is passed on in these.
    let behind = stated.filter(|(client, _)| *client != origin.peer);
    if send.x_forwarded {
        if let Some((client, _)) = behind
            && !headers.contains_key(X_FORWARDED_FOR)
        {
            headers.append(X_FORWARDED_FOR, address_field(client));
        }
        append(headers, X_FORWARDED_FOR, &origin.peer_field);
        if !headers.contains_key(X_FORWARDED_PROTO) {
            let scheme = stated.map_or(origin.scheme(), |(_, scheme)| scheme);
            headers.append(X_FORWARDED_PROTO, scheme);
        }
    }
    if let Some(Some(element)) = element {
        if let Some((client, scheme)) = behind
            && !headers.contains_key(header::FORWARDED)
            && let Ok(first) = HeaderValue::try_from(format!("for={};proto={scheme}", node(client)))
        {
            headers.append(header::FORWARDED, first);
        }
        append(headers, header::FORWARDED, &element);
    }
}

/// Sets `X-Forwarded-Host` to the requested host, unless a trusted proxy has set it. `Forwarded`
/// contains it already.
pub(crate) fn keep_host<B>(request: &mut Request<B>, origin: &Origin) {
    if !origin.rules.forwarded.send.x_forwarded || request.headers().contains_key(&X_FORWARDED_HOST)
    {
        return;
    }
    if let Ok(host) = HeaderValue::from_str(host(request)) {
        request.headers_mut().insert(X_FORWARDED_HOST, host);
    }
}

/// Appends to a list, and keeps it in one field.
fn append(headers: &mut Fields, name: HeaderName, ours: &HeaderValue) {
    if !headers.contains_key(&name) {
        return headers.append(name, ours);
    }
    let mut list: Vec<&[u8]> = headers.get_all(&name).map(Value::as_bytes).collect();
    list.push(ours.as_bytes());
    // Valid values joined by valid bytes are a valid value.
    if let Ok(list) = HeaderValue::from_bytes(&list.join(&b", "[..])) {
        headers.insert(name, list);
    }
}

/// Returns the host of a request after its target was rewritten.
fn host<B>(request: &Request<B>) -> &str {
    let field = || request.headers().get(header::HOST)?.to_str().ok();
    let authority = request.uri().authority().map(Authority::as_str);
    authority.or_else(field).unwrap_or_default()
}

/// Formats an address for `X-Forwarded-For`.
pub(super) fn address_field(address: IpAddr) -> HeaderValue {
    // Digits, dots and colons are always a valid value.
    HeaderValue::try_from(address.to_string()).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Formats an address for `Forwarded`.
fn node(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    }
}

/// Makes this proxy's element for `Forwarded`.
fn element(origin: &Origin, host: &str) -> Option<HeaderValue> {
    let client = node(origin.peer);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'*+%".contains(&byte);
    let host = if !host.is_empty() && host.bytes().all(is_token) {
        host.to_owned()
    } else {
        // A host contains neither quotes nor backslashes.
        format!("\"{host}\"")
    };
    let scheme = origin.scheme();
    HeaderValue::try_from(format!("for={client};host={host};proto={scheme}")).ok()
}

#[cfg(test)]
mod tests;
