//! Who a request comes from: `Forwarded` (RFC 7239) and `X-Forwarded-*`, read, taken out, and
//! written.
//!
//! Anybody can write these fields, so they count only from proxies that the operator trusts, and
//! from those only the ones that they are known to write. Of the addresses that such a proxy hands
//! on, the client is the last one that is not itself a trusted proxy: what stands before it is that
//! client's own word.

use super::fields::{reads_as, remove};
use super::origin::{Origin, Rules};
use core::net::{IpAddr, SocketAddr};
use http::header::{self, Entry, HeaderName, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Request};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_REAL_IP: &str = "x-real-ip";
const X_FORWARDED_PREFIX: &str = "x-forwarded-";

const HTTP: HeaderValue = HeaderValue::from_static("http");
const HTTPS: HeaderValue = HeaderValue::from_static("https");

/// Whether a field tells where a request comes from, whoever wrote it, or a replica may read it so.
pub(super) fn is_origin_field(name: &HeaderName) -> bool {
    let text = name.as_str();
    let start = text.get(..X_FORWARDED_PREFIX.len());
    *name == header::FORWARDED
        || start.is_some_and(|start| reads_as(start, X_FORWARDED_PREFIX))
        || reads_as(text, X_REAL_IP)
}

/// The client behind a request, as far as trusted proxies vouch for it; to be asked before
/// [`rewrite`].
pub(crate) fn client(headers: &HeaderMap, origin: &Origin) -> IpAddr {
    if !origin.is_trusted {
        return origin.peer;
    }
    let rules = &origin.rules;
    if rules.forwarded.read.x_forwarded && headers.contains_key(&X_FORWARDED_FOR) {
        return last_untrusted(x_forwarded_for(headers), origin.peer, rules);
    }
    if rules.forwarded.read.forwarded {
        return last_untrusted(forwarded_for(headers), origin.peer, rules);
    }
    origin.peer
}

/// The scheme that a request came by where it met the first of the trusted proxies that tells; to
/// be asked before [`rewrite`]. The nearest one's word counts.
pub(crate) fn scheme(headers: &HeaderMap, origin: &Origin) -> &'static str {
    let read = origin.rules.forwarded.read;
    let stated = || {
        let value = headers.get_all(&X_FORWARDED_PROTO).iter().next_back();
        if let Some(value) = value.filter(|_| read.x_forwarded) {
            return known_scheme(value.as_bytes().rsplit(|byte| *byte == b',').next()?);
        }
        let value = headers.get_all(header::FORWARDED).iter().next_back();
        let value = value.filter(|_| read.forwarded)?;
        let nearest = split_unquoted(value.as_bytes(), b',').pop()?;
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

/// The pairs of an element of `Forwarded`, without quotes.
fn pairs(element: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let pairs = split_unquoted(element, b';').into_iter();
    pairs.filter_map(|pair| {
        let (name, value) = core::str::from_utf8(pair).ok()?.trim().split_once('=')?;
        let quoted = (value.strip_prefix('"')).and_then(|rest| rest.strip_suffix('"'));
        Some((name, quoted.unwrap_or(value)))
    })
}

/// Walks from the nearest hop outwards. A hop that gives no address ends it: nobody vouches for
/// what is behind.
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

/// The hops in `X-Forwarded-For`, the client's first; `None` for one that is no address.
fn x_forwarded_for(headers: &HeaderMap) -> impl DoubleEndedIterator<Item = Option<IpAddr>> {
    let values = headers.get_all(&X_FORWARDED_FOR).iter();
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(|hop| address(core::str::from_utf8(hop).ok()?.trim()))
}

/// The hops in `Forwarded`. RFC 7239 §4
fn forwarded_for(headers: &HeaderMap) -> impl DoubleEndedIterator<Item = Option<IpAddr>> {
    let values = headers.get_all(header::FORWARDED).iter();
    let elements: Vec<_> = values
        .flat_map(|value| split_unquoted(value.as_bytes(), b','))
        .collect();
    elements.into_iter().map(|element| {
        let value = pairs(element)
            .find_map(|(name, value)| name.eq_ignore_ascii_case("for").then_some(value));
        address(value?)
    })
}

/// Splits at a separator that does not stand in quotes. What is quoted may have an escaped quote in
/// it.
fn split_unquoted(text: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(|byte| {
        let was_escaped = core::mem::replace(&mut is_escaped, false);
        match byte {
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            _ => (),
        }
        *byte == separator && !is_quoted
    })
    .collect()
}

/// An address, perhaps with a port, as either field may have it.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = (bare.unwrap_or(text).parse().ok())
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))?;
    Some(address.to_canonical())
}

/// Takes out what nobody vouches for, and adds what is to be told. `has_any` says whether any such
/// field is there at all.
pub(crate) fn rewrite<B>(request: &mut Request<B>, origin: &Origin, has_any: bool) {
    let settings = &origin.rules.forwarded;
    let element = (settings.send.forwarded).then(|| element(origin, host(request)));
    let headers = request.headers_mut();
    if has_any {
        let keeps = |name: &HeaderName| {
            // No proxy writes them with `_`: such a field is a client's, handed on.
            origin.is_trusted
                && !name.as_str().contains('_')
                && if *name == header::FORWARDED {
                    settings.read.forwarded
                } else {
                    settings.read.x_forwarded
                }
        };
        remove(headers, |name| is_origin_field(name) && !keeps(name));
    }
    if settings.send.x_forwarded {
        append(headers, X_FORWARDED_FOR, &origin.peer_field);
        if let Entry::Vacant(entry) = headers.entry(X_FORWARDED_PROTO) {
            entry.insert(if origin.is_tls { HTTPS } else { HTTP });
        }
    }
    if let Some(Some(element)) = element {
        append(headers, header::FORWARDED, &element);
    }
}

/// Puts the host that was asked for into `X-Forwarded-Host`, unless a trusted proxy has told one.
/// `Forwarded` has it already.
pub(crate) fn keep_host<B>(request: &mut Request<B>, origin: &Origin) {
    if !origin.rules.forwarded.send.x_forwarded || request.headers().contains_key(&X_FORWARDED_HOST)
    {
        return;
    }
    if let Ok(host) = HeaderValue::from_str(host(request)) {
        request.headers_mut().insert(X_FORWARDED_HOST, host);
    }
}

/// Adds to the end of a list, as one field.
fn append(headers: &mut HeaderMap, name: HeaderName, ours: &HeaderValue) {
    match headers.entry(name) {
        Entry::Vacant(entry) => {
            entry.insert(ours.clone());
        }
        Entry::Occupied(mut entry) => {
            let mut list: Vec<&[u8]> = entry.iter().map(HeaderValue::as_bytes).collect();
            list.push(ours.as_bytes());
            // Joined from valid values by valid bytes, so it is one.
            if let Ok(list) = HeaderValue::from_bytes(&list.join(&b", "[..])) {
                entry.insert(list);
            }
        }
    }
}

/// The host that a request is for, once its target is in its place.
fn host<B>(request: &Request<B>) -> &str {
    let field = || request.headers().get(header::HOST)?.to_str().ok();
    let authority = request.uri().authority().map(Authority::as_str);
    authority.or_else(field).unwrap_or_default()
}

/// An address as `X-Forwarded-For` has it.
pub(super) fn address_field(address: IpAddr) -> HeaderValue {
    // Digits, dots and colons are always a value.
    HeaderValue::try_from(address.to_string()).unwrap_or(HeaderValue::from_static("unknown"))
}

/// What this proxy has to say in `Forwarded`.
fn element(origin: &Origin, host: &str) -> Option<HeaderValue> {
    let client = match origin.peer {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'*+%".contains(&byte);
    let host = if !host.is_empty() && host.bytes().all(is_token) {
        host.to_owned()
    } else {
        // A host has neither quotes nor backslashes.
        format!("\"{host}\"")
    };
    let scheme = origin.scheme();
    HeaderValue::try_from(format!("for={client};host={host};proto={scheme}")).ok()
}

#[cfg(test)]
mod tests;
