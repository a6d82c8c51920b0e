//! `Via`: forwarded requests say that they passed here, and one that comes back is in a loop. RFC 9110 §7.6.3
//!
//! The name is made up at random once for each process, so that proxies in a row know themselves from each other, and
//! nobody learns a host's name. Responses carry no `Via`: nothing acts on it there.

use core::hash::{BuildHasher, Hasher};
use http::header::{self, HeaderMap, HeaderValue};
use std::hash::RandomState;
use std::sync::LazyLock;

static OURS: LazyLock<HeaderValue> = LazyLock::new(|| {
    let seed = RandomState::new().build_hasher().finish();
    HeaderValue::try_from(format!("1.1 slackwater-{seed:016x}"))
        .unwrap_or(HeaderValue::from_static("1.1 slackwater"))
});

/// Whether a request with these fields has passed this process before.
pub(super) fn has_passed(headers: &HeaderMap) -> bool {
    let ours = OURS.as_bytes();
    let mut values = headers.get_all(header::VIA).iter();
    values.any(|value| {
        let mut entries = value.as_bytes().split(|byte| *byte == b',');
        entries.any(|entry| entry.trim_ascii() == ours)
    })
}

/// Says that a request has passed here.
pub(super) fn note(headers: &mut HeaderMap) {
    headers.append(header::VIA, OURS.clone());
}
