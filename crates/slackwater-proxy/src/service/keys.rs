//! Keys of requests: what belongs together, and what the probes for a request carry.
//!
//! A key is the first value that the configured sources find in a request. An empty value is none:
//! otherwise all requests without a user would share one replica. Values are taken as they were
//! sent, so percent encoding is part of them. Only their first 4 KiB count, so that a long header
//! costs no more than that. They are hashed, and nothing else is kept of them.

use crate::forward::{Origin, RequestBody, is_grpc_call};
use bytes::Bytes;
use core::net::IpAddr;
use http::HeaderName;
use http::header::{COOKIE, HOST};
use slackwater_config::{KeyRouting, KeySource, ProbeHint, ServiceConfig};
use slackwater_core::key::{KeyHash, KeyHasher};
use slackwater_http::{Fields, Request, Value};
use slackwater_tower::wire::HINT_BYTES_MAX;
use slackwater_tower::wire::headers::{HINT, write_hint};

/// The bytes of a value that count.
const KEY_BYTES_MAX: usize = 4096;

/// The rule by which requests to a service have keys and hints.
#[derive(Debug)]
pub(crate) struct KeyRule {
    by: Vec<KeySource>,
    hasher: KeyHasher,
    hint: ProbeHint,
}

/// The key and the hint of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestKey {
    /// `None` if the request has none of the sources.
    pub(crate) hash: Option<KeyHash>,
    /// What its probes carry; empty for nothing.
    pub(crate) hint: Bytes,
}

impl KeyRule {
    /// `None` if requests have neither keys nor hints.
    pub(crate) fn new(config: &ServiceConfig) -> Option<Self> {
        let KeyRouting { by, seed, .. } = &config.key;
        let hint = &config.probe.hint;
        if by.is_empty() && matches!(hint, ProbeHint::None | ProbeHint::Key) {
            return None;
        }
        let hasher = seed.as_ref().map_or_else(KeyHasher::default, |(seed, _)| {
            KeyHasher::with_secret(seed.as_bytes())
        });
        Some(Self {
            by: by.clone(),
            hasher,
            hint: hint.clone(),
        })
    }

    /// Returns the key and the hint of a request that comes from `origin`.
    pub(crate) fn of(&self, request: &Request<RequestBody>, origin: &Origin) -> RequestKey {
        let mut sources = self.by.iter();
        let hash = sources.find_map(|source| self.hash(source, request, origin));
        let hint = match &self.hint {
            ProbeHint::None => Bytes::new(),
            ProbeHint::Key => hash.map_or_else(Bytes::new, |hash| {
                Bytes::copy_from_slice(&hash.to_bits().to_be_bytes())
            }),
            ProbeHint::Header(name) => {
                let value = present(request, name);
                let value = value.filter(|value| value.len() <= HINT_BYTES_MAX);
                value.map_or_else(Bytes::new, Bytes::copy_from_slice)
            }
        };
        RequestKey { hash, hint }
    }

    fn hash(
        &self,
        source: &KeySource,
        request: &Request<RequestBody>,
        origin: &Origin,
    ) -> Option<KeyHash> {
        let hash = |bytes: &[u8]| self.hasher.hash(&bytes[..bytes.len().min(KEY_BYTES_MAX)]);
        if *source == KeySource::Address {
            return Some(match origin.client(request.headers()) {
                IpAddr::V4(address) => hash(&address.octets()),
                IpAddr::V6(address) => hash(&address.octets()),
            });
        }
        find(source, request).map(hash)
    }

    /// Puts the hint of a request's probes into its head, for a replica that notes what it has
    /// answered. A client's own hint is removed: it is not what the probes carried.
    pub(crate) fn pass_on(&self, key: Option<&RequestKey>, headers: &mut Fields) {
        if self.hint == ProbeHint::None {
            remove_forged(headers);
            return;
        }
        let hint = key.map_or(&[][..], |key| &key.hint);
        if write_hint(hint, headers).is_err() {
            headers.remove(HINT);
        }
    }
}

/// Removes a client's own hint, where requests have none: replicas would take it for that of their
/// probes.
pub(crate) fn remove_forged(headers: &mut Fields) {
    headers.remove(HINT);
}

/// Finds the value of a source, unless that is the client's address.
fn find<'r>(source: &KeySource, request: &'r Request<RequestBody>) -> Option<&'r [u8]> {
    let (headers, uri) = (request.headers(), request.uri());
    let value = match source {
        KeySource::Header(name) => present(request, name),
        KeySource::Grpc(name) => present(request, name).filter(|_| is_grpc_call(headers)),
        KeySource::Cookie(name) => cookie(headers, name),
        KeySource::Query(name) => parameter(uri.query()?, name),
        KeySource::Path => Some(uri.path().as_bytes()),
        KeySource::PathPrefix(segments) => Some(prefix(uri.path(), *segments)),
        KeySource::Address => None,
    };
    value.filter(|value| !value.is_empty())
}

/// Returns the first value of a field.
pub(crate) fn present<'r, B>(request: &'r Request<B>, name: &HeaderName) -> Option<&'r [u8]> {
    let field = request.headers().get(name).map(Value::as_bytes);
    // Clients of HTTP/2 name the host in `:authority` only. RFC 9113 §8.3.1
    let target = || request.uri().authority().filter(|_| *name == HOST);
    field.or_else(|| target().map(|host| host.as_str().as_bytes()))
}

/// Returns the value of the first cookie of that name.
pub(crate) fn cookie<'h>(headers: &'h Fields, name: &str) -> Option<&'h [u8]> {
    let fields = headers.get_all(COOKIE);
    let mut pairs = fields.flat_map(|field| field.as_bytes().split(|&byte| byte == b';'));
    pairs.find_map(|pair| value_of(pair.trim_ascii(), name))
}

/// Returns the value of the first parameter of that name, as it was sent.
fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q [u8]> {
    let mut pairs = query.as_bytes().split(|&byte| byte == b'&');
    pairs.find_map(|pair| value_of(pair, name))
}

/// Returns the value of a pair `name=value` of that name.
fn value_of<'p>(pair: &'p [u8], name: &str) -> Option<&'p [u8]> {
    pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Returns the first segments of a path: with 2, `/a/b` of `/a/b/c`.
fn prefix(path: &str, segments: u8) -> &[u8] {
    let slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
    let end = slashes.map(|(at, _)| at).nth(segments.into());
    &path.as_bytes()[..end.unwrap_or(path.len())]
}

#[cfg(test)]
mod tests;
