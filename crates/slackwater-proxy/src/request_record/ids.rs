//! What a request is called, in whatever is told of it.
//!
//! A request may bring its id, in a header that the configuration names; who has none is given one:
//! 128 random bits, written as 32 hexadecimal digits. With a header named, replicas get the id in
//! it, and so does the client if it is to. An id that a client sends is taken as it is, if it is
//! short and printable: anybody may send one, so it proves nothing.

use crate::seed::draw_seed;
use core::cell::RefCell;
use http::{HeaderMap, HeaderValue};
use slackwater_config::RequestIdSettings;
use slackwater_core::{Draw, SplitMix64};

/// The longest id of a client's that is taken, in bytes.
const BYTES_MAX: usize = 128;

/// One worker's names for requests.
#[derive(Debug)]
pub(crate) struct Ids {
    settings: RequestIdSettings,
    /// Two, so that the sequences of many workers do not run into each other.
    draws: RefCell<[SplitMix64; 2]>,
}

impl Ids {
    pub(crate) fn new(settings: &RequestIdSettings) -> Self {
        Self {
            settings: settings.clone(),
            draws: RefCell::new([draw_seed(), draw_seed()].map(SplitMix64::new)),
        }
    }

    /// The id of a request whose header is `headers`, where requests carry theirs: its own or a new
    /// one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let name = self.settings.header.as_ref()?;
        let own = headers.get(name).filter(|own| {
            let is_fit = (1..=BYTES_MAX).contains(&own.len());
            self.settings.accept && is_fit && own.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        Some(own.cloned().unwrap_or_else(|| self.draw()))
    }

    /// Puts the id where the replica finds it.
    pub(crate) fn pass_on(&self, id: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if let (Some(name), Some(id)) = (&self.settings.header, id) {
            headers.insert(name.clone(), id.clone());
        }
    }

    /// Tells the client, if it is to know.
    pub(crate) fn answer(&self, id: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if self.settings.to_client {
            self.pass_on(id, headers);
        }
    }

    /// A new one.
    pub(crate) fn draw(&self) -> HeaderValue {
        let [high, low] = &mut *self.draws.borrow_mut();
        let drawn = (u128::from(high.draw()) << 64) | u128::from(low.draw());
        let digit = |place: usize| b"0123456789abcdef"[(drawn >> (124 - 4 * place)) as usize & 0xf];
        let id: [u8; 32] = core::array::from_fn(digit);
        // Hexadecimal digits may stand in a header.
        HeaderValue::from_bytes(&id).unwrap_or_else(|_| HeaderValue::from_static("-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    const NAME: HeaderName = HeaderName::from_static("x-request-id");

    fn ids(change: impl FnOnce(&mut RequestIdSettings)) -> Ids {
        let mut settings = RequestIdSettings {
            header: Some(NAME),
            ..RequestIdSettings::default()
        };
        change(&mut settings);
        Ids::new(&settings)
    }

    fn headers(id: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            NAME,
            HeaderValue::from_bytes(id.as_bytes()).expect("a value"),
        )])
    }

    fn is_drawn(id: &HeaderValue) -> bool {
        id.len() == 32 && id.as_bytes().iter().all(u8::is_ascii_hexdigit)
    }

    #[test]
    fn a_request_s_own_id_is_taken_where_it_is_fit_and_else_one_is_drawn() {
        let taken = ids(|_| {});
        assert_eq!(taken.of(&headers("a-1")).expect("an id"), "a-1");
        let longest = "x".repeat(BYTES_MAX);
        assert_eq!(taken.of(&headers(&longest)).expect("an id"), *longest);
        for unfit in ["", "two words", "caf\u{e9}", &format!("{longest}x")] {
            let id = taken.of(&headers(unfit)).expect("an id");
            assert!(is_drawn(&id), "{unfit}: {id:?}");
        }
        assert!(is_drawn(&taken.of(&HeaderMap::new()).expect("an id")));
        let stern = ids(|settings| settings.accept = false);
        assert!(is_drawn(&stern.of(&headers("a-1")).expect("an id")));
        let nameless = ids(|settings| settings.header = None);
        assert_eq!(nameless.of(&headers("a-1")), None);
    }

    #[test]
    fn replicas_are_told_and_clients_only_if_they_are_to_be() {
        let id = HeaderValue::from_static("a-1");
        let (quiet, open) = (ids(|_| {}), ids(|settings| settings.to_client = true));
        for (ids, is_told) in [(&quiet, false), (&open, true)] {
            let mut headers = HeaderMap::new();
            ids.answer(Some(&id), &mut headers);
            assert_eq!(headers.contains_key(NAME), is_told);
            ids.pass_on(Some(&id), &mut headers);
            assert_eq!(headers[NAME], id);
        }
    }

    #[test]
    fn no_id_is_drawn_twice() {
        let ids = ids(|_| {});
        let drawn: std::collections::HashSet<_> = (0..1_000).map(|_| ids.draw()).collect();
        assert_eq!(drawn.len(), 1_000);
    }
}
