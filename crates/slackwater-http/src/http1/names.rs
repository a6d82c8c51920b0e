//! Names of fields that a thread has met lately.
//!
//! Heads repeat the same few names. To find a name here takes a third of what parsing it takes, and
//! no allocation. A table has a fixed size, and a new name replaces another.

use core::cell::RefCell;
use http::header::{HeaderName, InvalidHeaderName};

const SLOTS: usize = 256;

/// Longer names are parsed each time.
const BYTES_MAX: usize = 31;

thread_local! {
    static KNOWN: RefCell<Names> = RefCell::default();
}

/// A table of names.
#[derive(Debug)]
pub(super) struct Names(Box<[Option<Known>]>);

#[derive(Clone, Debug)]
struct Known {
    /// The name as it was sent, whose letters may be of either case.
    sent: [u8; BYTES_MAX],
    length: u8,
    name: HeaderName,
}

/// Lends the thread's table.
pub(super) fn with<T>(read: impl FnOnce(&mut Names) -> T) -> T {
    KNOWN.with_borrow_mut(read)
}

impl Default for Names {
    fn default() -> Self {
        Self(vec![None; SLOTS].into_boxed_slice())
    }
}

impl Names {
    /// Returns the name in lower case; fails if it is not a token.
    pub(super) fn read(&mut self, sent: &[u8]) -> Result<HeaderName, InvalidHeaderName> {
        let slot = slot(sent);
        if let Some(Some(known)) = self.0.get(slot)
            && known.sent.get(..known.length.into()) == Some(sent)
        {
            return Ok(known.name.clone());
        }
        self.learn(slot, sent)
    }

    /// Rare, and therefore kept out of the code that every field runs.
    #[cold]
    #[inline(never)]
    fn learn(&mut self, slot: usize, sent: &[u8]) -> Result<HeaderName, InvalidHeaderName> {
        let name = HeaderName::from_bytes(sent)?;
        let mut known = Known {
            sent: [0; BYTES_MAX],
            length: 0,
            name: name.clone(),
        };
        if let (Some(place), Ok(length), Some(kept)) = (
            known.sent.get_mut(..sent.len()),
            u8::try_from(sent.len()),
            self.0.get_mut(slot),
        ) {
            place.copy_from_slice(sent);
            known.length = length;
            *kept = Some(known);
        }
        Ok(name)
    }
}

/// Spreads names by their first and their last octets.
fn slot(sent: &[u8]) -> usize {
    let ends = match (sent.first_chunk(), sent.last_chunk()) {
        (Some(first), Some(last)) => {
            u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(21)
        }
        _ => sent
            .iter()
            .fold(0, |all, octet| all << 8 | u64::from(*octet)),
    };
    // The golden ratio, as in Fibonacci hashing; the eight highest bits depend on all others.
    (ends.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_however_often_they_are_read() {
        let mut names = Names::default();
        let long = "x".repeat(BYTES_MAX + 1);
        let longest = "y".repeat(BYTES_MAX);
        for _ in 0..3 {
            for sent in ["Host", "host", "HOST", "X-A", "x-b", "a", &long, &longest] {
                let name = names.read(sent.as_bytes()).expect("a token");
                assert_eq!(name.as_str(), sent.to_ascii_lowercase());
            }
            for bad in ["", "a b", "a:", "\u{e9}", "a\0"] {
                assert!(names.read(bad.as_bytes()).is_err(), "{bad:?}");
            }
        }
    }

    #[test]
    fn names_of_one_slot_replace_each_other() {
        let mut names = Names::default();
        // Octets in the middle do not count.
        let (one, other) = (b"12345678-a-12345678", b"12345678-b-12345678");
        assert_eq!(slot(one), slot(other));
        for sent in [one, one, other, other, one] {
            assert_eq!(names.read(sent).expect("a token").as_str().as_bytes(), sent);
        }
    }

    #[test]
    fn usual_names_have_slots_of_their_own() {
        let usual = [
            "Host",
            "User-Agent",
            "Accept",
            "Accept-Language",
            "Accept-Encoding",
            "Connection",
            "Cookie",
            "Cache-Control",
            "Referer",
            "Origin",
            "Sec-Fetch-Dest",
            "Sec-Fetch-Mode",
            "Sec-Fetch-Site",
            "Content-Type",
            "Content-Length",
            "Date",
            "Server",
            "ETag",
            "Vary",
            "Last-Modified",
            "Set-Cookie",
            "Transfer-Encoding",
        ];
        let slots: std::collections::HashSet<_> =
            usual.iter().map(|name| slot(name.as_bytes())).collect();
        assert!(
            slots.len() + 2 >= usual.len(),
            "{} of {}",
            slots.len(),
            usual.len()
        );
    }
}
