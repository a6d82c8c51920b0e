//! `Via`: marks forwarded requests; a request that arrives with this proxy's own mark is in a loop.
//! RFC 9110 §7.6.3
//!
//! The name is random for each process, so that chained proxies can be distinguished and no host
//! name is disclosed. Responses get no `Via`, which a gateway may omit there: nothing acts on it.

use core::hash::{BuildHasher, Hasher};
use http::Version;
use http::header::{self, HeaderValue};
use slackwater_http::Fields;
use std::hash::RandomState;
use std::sync::LazyLock;

/// The name of this process after each protocol of a received request.
static OURS: LazyLock<[HeaderValue; 3]> = LazyLock::new(|| {
    let seed = RandomState::new().build_hasher().finish();
    ["1.0", "1.1", "2.0"].map(|protocol| {
        // Digits, letters, a dot and a space are always a valid value.
        HeaderValue::try_from(format!("{protocol} slackwater-{seed:016x}"))
            .unwrap_or(HeaderValue::from_static("1.1 slackwater"))
    })
});

/// Whether a request with these fields has passed this process before.
pub(crate) fn has_passed(headers: &Fields) -> bool {
    let mut values = headers.get_all(header::VIA);
    values.any(|value| {
        let mut entries = value.as_bytes().split(|byte| *byte == b',');
        entries.any(|entry| {
            OURS.iter()
                .any(|ours| entry.trim_ascii() == ours.as_bytes())
        })
    })
}

/// Adds this process to `Via`, with the protocol of the request.
pub(crate) fn note(headers: &mut Fields, came_by: Version) {
    let [old, usual, newer] = &*OURS;
    let ours = match came_by {
        Version::HTTP_10 => old,
        Version::HTTP_2 => newer,
        _ => usual,
    };
    headers.append(header::VIA, ours.clone());
}
