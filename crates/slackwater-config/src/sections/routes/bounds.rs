//! The sections `timeouts` and `limits` of a route.

use crate::routes::Bounds;
use crate::table::{Bytes, DAY, Judge, Kind, MS, Maybe, Meaning, Span, Within, keys};
use crate::toml_reader::values::Unfit;
use core::time::Duration;
use toml::de::DeValue;

keys! { Bounds in "" {
    /// Time from dispatch to the head of the response, over all attempts.
    first_byte as "timeouts.first_byte" at first_byte: Maybe(SPAN), "the service's `timeouts.first_byte`";
    /// Longest pause in the body of a response. How long a client may read nothing stays
    /// `timeouts.stall`.
    stall as "timeouts.stall" at stall: Maybe(SPAN), "`timeouts.stall`";
    /// Longest silence of a tunnel.
    tunnel as "timeouts.tunnel" at tunnel: Maybe(SPAN), "`timeouts.tunnel`";
    /// Time from a request's arrival to the end of its response, queueing included. Then 504, or
    /// the response is cut off. Open tunnels are not bound by it.
    total as "timeouts.total" at total: Maybe(SPAN), "none";
    /// Size of a request's body. Larger ones get 413, at once if the length is announced.
    body_bytes_max as "limits.body_bytes_max" at body_bytes_max: Maybe(BODY), "none";
} }

/// A quantity that a route may set, and what applies otherwise.
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
