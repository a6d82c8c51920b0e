//! `Via`: forwarded requests say that they passed here, and one that comes back is in a loop. RFC
//! 9110 §7.6.3
//!
//! The name is made up at random once for each process, so that proxies in a row know themselves
//! from each other, and nobody learns a host's name. Responses carry no `Via`, which a gateway may
//! leave out there: nothing acts on it.

use core::hash::{BuildHasher, Hasher};
use http::Version;
use http::header::{self, HeaderMap, HeaderValue};
use std::hash::RandomState;
use std::sync::LazyLock;

/// This process, behind each protocol that a request can have come by.
static OURS: LazyLock<[HeaderValue; 3]> = LazyLock::new(|| {
    let seed = RandomState::new().build_hasher().finish();
    ["1.0", "1.1", "2.0"].map(|protocol| {
        // Digits, letters, a dot and a space are always a value.
        HeaderValue::try_from(format!("{protocol} slackwater-{seed:016x}"))
            .unwrap_or(HeaderValue::from_static("1.1 slackwater"))
    })
});

/// Whether a request with these fields has passed this process before.
pub(crate) fn has_passed(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::VIA).iter();
    values.any(|value| {
        let mut entries = value.as_bytes().split(|byte| *byte == b',');
        entries.any(|entry| {
            OURS.iter()
                .any(|ours| entry.trim_ascii() == ours.as_bytes())
        })
    })
}

/// Says that a request has passed here, and by which protocol it came.
pub(crate) fn note(headers: &mut HeaderMap, came_by: Version) {
    let [old, usual, newer] = &*OURS;
    let ours = match came_by {
        Version::HTTP_10 => old,
        Version::HTTP_2 => newer,
        _ => usual,
    };
    headers.append(header::VIA, ours.clone());
}
