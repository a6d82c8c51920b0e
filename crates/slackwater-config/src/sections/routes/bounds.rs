//! How long and how much a route's requests may be: the sections `timeouts` and `limits` of a
//! route.

use crate::routes::Bounds;
use crate::table::{Bytes, DAY, Judge, Kind, MS, Maybe, Meaning, Span, Within, keys};
use crate::toml_reader::values::Unfit;
use core::time::Duration;
use toml::de::DeValue;

keys! { Bounds in "" {
    /// As that: from a request's dispatch to the head of the response, all tries together.
    first_byte as "timeouts.first_byte" at first_byte: Maybe(SPAN), "the service's `timeouts.first_byte`";
    /// Between two pieces of the response's body. For how long its client may take nothing is
    /// `timeouts.stall` for all.
    stall as "timeouts.stall" at stall: Maybe(SPAN), "`timeouts.stall`";
    /// For which neither side of a tunnel may say anything.
    tunnel as "timeouts.tunnel" at tunnel: Maybe(SPAN), "`timeouts.tunnel`";
    /// From a request's arrival to the end of the response. A wait in the queue is part of it. 504
    /// if there is no head by then; a response that has begun is cut off. A tunnel that is open is
    /// not bounded by it.
    total as "timeouts.total" at total: Maybe(SPAN), "none";
    /// Of the request's body. More is answered 413: before anything is sent where the length is
    /// known, else when so much has come.
    body_bytes_max as "limits.body_bytes_max" at body_bytes_max: Maybe(BODY), "none";
} }

/// A quantity of the route's own, and what holds without it.
struct Own<K>(K, &'static str);

impl<T, K: Kind<T>> Kind<T> for Own<K> {
    fn read(&self, value: &DeValue<'_>) -> Result<T, Unfit> {
        self.0.read(value)
    }

    fn show(&self, value: &T) -> Option<String> {
        Kind::show(&self.0, value)
    }

    fn meaning(&self, judge: &Judge<'_, T>) -> Meaning {
        let meaning = Kind::meaning(&self.0, judge);
        Meaning {
            expected: format!("{}; without the key {}", meaning.expected, self.1),
            ..meaning
        }
    }
}

const SPAN: Own<Within<Span, Duration>> = Own(Within(Span, MS..=DAY), "as for all");
const BODY: Own<Within<Bytes, u32>> =
    Own(Within(Bytes, 0..=4095 << 20), "as much as the client sends");
