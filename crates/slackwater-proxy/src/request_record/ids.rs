//! Request ids, the same in all logs and traces.
//!
//! A request may carry its id in a header that is configured. A request without one gets 128 random
//! bits, written as 32 hexadecimal digits. If a header is configured, replicas receive the id in
//! it, and so does the client if configured. A client's id is accepted as it is if it is short and
//! printable. Any client may send any id, so it proves nothing.

use crate::hex;
use crate::seed::draw_seed;
use core::cell::RefCell;
use http::HeaderValue;
use slackwater_config::RequestIdSettings;
use slackwater_core::{Draw, SplitMix64};
use slackwater_http::Fields;

/// Maximum length of an id from a client, in bytes.
const BYTES_MAX: usize = 128;

/// The id of a request.
#[derive(Clone, Debug)]
pub(crate) enum RequestId {
    /// The value of the header that is configured.
    InHeader(HeaderValue),
    Drawn([u8; 32]),
}

impl RequestId {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::InHeader(value) => value.as_bytes(),
            Self::Drawn(digits) => digits,
        }
    }
}

/// One worker's source of request ids.
#[derive(Debug)]
pub(crate) struct Ids {
    settings: RequestIdSettings,
    /// Two generators, so that the sequences of many workers do not overlap.
    draws: RefCell<[SplitMix64; 2]>,
}

impl Ids {
    pub(crate) fn new(settings: &RequestIdSettings) -> Self {
        Self {
            settings: settings.clone(),
            draws: RefCell::new([draw_seed(), draw_seed()].map(SplitMix64::new)),
        }
    }

    /// Returns the id of a request with these headers, if ids are configured: its own or a new one.
    pub(crate) fn of(&self, headers: &Fields) -> Option<HeaderValue> {
        let name = self.settings.header.as_ref()?;
        let own = headers.get(name).filter(|own| {
            let is_fit = (1..=BYTES_MAX).contains(&own.as_bytes().len());
            self.settings.accept && is_fit && own.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        match own {
            Some(own) => Some(own.into()),
            // Hexadecimal digits are always a valid value.
            None => HeaderValue::from_bytes(&self.draw()).ok(),
        }
    }

    /// Sets the id in the headers to the replica.
    pub(crate) fn pass_on(&self, id: Option<&HeaderValue>, headers: &mut Fields) {
        if let (Some(name), Some(id)) = (&self.settings.header, id) {
            headers.insert(name, id);
        }
    }

    /// Sets the id in the headers to the client, if configured.
    pub(crate) fn answer(&self, id: Option<&HeaderValue>, headers: &mut Fields) {
        if self.settings.to_client {
            self.pass_on(id, headers);
        }
    }

    /// Draws a new id.
    pub(crate) fn draw(&self) -> [u8; 32] {
        let [high, low] = &mut *self.draws.borrow_mut();
        hex::digits((u128::from(high.draw()) << 64) | u128::from(low.draw()))
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

    fn headers(id: &str) -> Fields {
        Fields::from_iter([(
            NAME,
            HeaderValue::from_bytes(id.as_bytes()).expect("a value"),
        )])
    }

    fn is_drawn(id: &HeaderValue) -> bool {
        id.len() == 32 && id.as_bytes().iter().all(u8::is_ascii_hexdigit)
    }

    #[test]
    fn a_valid_request_id_is_kept_and_otherwise_one_is_drawn() {
        let taken = ids(|_| {});
        assert_eq!(taken.of(&headers("a-1")).expect("an id"), "a-1");
        let longest = "x".repeat(BYTES_MAX);
        assert_eq!(taken.of(&headers(&longest)).expect("an id"), *longest);
        for unfit in ["", "two words", "caf\u{e9}", &format!("{longest}x")] {
            let id = taken.of(&headers(unfit)).expect("an id");
            assert!(is_drawn(&id), "{unfit}: {id:?}");
        }
        assert!(is_drawn(&taken.of(&Fields::new()).expect("an id")));
        let stern = ids(|settings| settings.accept = false);
        assert!(is_drawn(&stern.of(&headers("a-1")).expect("an id")));
        let nameless = ids(|settings| settings.header = None);
        assert_eq!(nameless.of(&headers("a-1")), None);
    }

    #[test]
    fn ids_are_sent_to_replicas_and_only_if_configured_to_clients() {
        let id = HeaderValue::from_static("a-1");
        let (quiet, open) = (ids(|_| {}), ids(|settings| settings.to_client = true));
        for (ids, is_told) in [(&quiet, false), (&open, true)] {
            let mut headers = Fields::new();
            ids.answer(Some(&id), &mut headers);
            assert_eq!(headers.contains_key(NAME), is_told);
            ids.pass_on(Some(&id), &mut headers);
            assert_eq!(headers.get(NAME).expect("an id"), id);
        }
    }

    #[test]
    fn drawn_request_ids_are_unique() {
        let ids = ids(|_| {});
        let drawn: std::collections::HashSet<_> = (0..1_000).map(|_| ids.draw()).collect();
        assert_eq!(drawn.len(), 1_000);
    }
}
