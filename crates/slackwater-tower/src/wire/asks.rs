//! What a request asks for besides its answer: its priority and its remaining time.
//!
//! Time is sent as a span that starts when the request is read, so no two clocks are compared. The
//! header is `grpc-timeout` for gRPC calls ("gRPC over HTTP2", `Timeout`), and
//! `x-slackwater-timeout-ms` for any request. A proxy that passes a request on sends what is left,
//! and never more. Invalid values are ignored.

use crate::response::is_grpc;
use core::time::Duration;
use http::{HeaderName, HeaderValue};
use slackwater_core::overload::Priority;
use slackwater_http::{FieldMap, Value};

/// The milliseconds that a request has left: a whole number of up to 12 digits. 0 means none.
pub const TIMEOUT_MS: HeaderName = HeaderName::from_static("x-slackwater-timeout-ms");
/// The priority of a request: `interactive` (the default), `batch` or `shadow`.
pub const PRIORITY: HeaderName = HeaderName::from_static("x-slackwater-priority");
/// As [`TIMEOUT_MS`], for gRPC calls: up to 8 digits and a unit.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

const DIGITS_MAX: usize = 12;
const GRPC_DIGITS_MAX: usize = 8;
/// gRPC's units, the finest first, in nanoseconds.
const GRPC_UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// Returns the priority in these headers; [`Priority::Interactive`] if there is none.
pub fn priority(headers: &impl FieldMap) -> Priority {
    let said = headers
        .first(&PRIORITY)
        .and_then(|value| value.to_str().ok());
    said.and_then(Priority::named).unwrap_or_default()
}

/// Sets the priority of a request, replacing the one in its headers.
pub fn set_priority(headers: &mut impl FieldMap, priority: Priority) {
    let name = HeaderValue::from_static(priority.name());
    headers.set(&PRIORITY, name);
}

/// Returns the time that a request with these headers has left: the smaller value, if there are
/// two.
pub fn time_left(headers: &impl FieldMap) -> Option<Duration> {
    let own = headers.first(&TIMEOUT_MS).and_then(parse_ms);
    let grpc = headers.first(&GRPC_TIMEOUT).and_then(parse_grpc);
    match (own, grpc) {
        (Some(own), Some(grpc)) => Some(own.min(grpc)),
        (own, grpc) => own.or(grpc),
    }
}

/// Sets the time that a request has left, replacing the one in its headers: in `grpc-timeout` if it
/// has that or is a gRPC call, otherwise in [`TIMEOUT_MS`].
pub fn set_time_left(headers: &mut impl FieldMap, left: Duration) {
    if is_grpc(headers) || headers.first(&GRPC_TIMEOUT).is_some() {
        headers.unset(&TIMEOUT_MS);
        if let Some(value) = write_grpc(left) {
            headers.set(&GRPC_TIMEOUT, value);
        }
    } else {
        let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let most = 10_u64.pow(u32::try_from(DIGITS_MAX).unwrap_or(0)) - 1;
        headers.set(&TIMEOUT_MS, HeaderValue::from(ms.min(most)));
    }
}

/// Subtracts the time that a request has waited from the time that its headers say is left. Does
/// nothing if they have none.
pub fn take_time(headers: &mut impl FieldMap, waited: Duration) {
    if let Some(left) = time_left(headers) {
        set_time_left(headers, left.saturating_sub(waited));
    }
}

fn parse_ms(value: Value<'_>) -> Option<Duration> {
    digits(value.as_bytes(), DIGITS_MAX).map(Duration::from_millis)
}

fn parse_grpc(value: Value<'_>) -> Option<Duration> {
    let (unit, number) = value.as_bytes().split_last()?;
    let (_, unit_ns) = GRPC_UNITS.iter().find(|(name, _)| name == unit)?;
    let number = digits(number, GRPC_DIGITS_MAX)?;
    Some(Duration::from_nanos(number.saturating_mul(*unit_ns)))
}

/// Encodes a span in the finest unit that it fits into, rounded down, but at least 1: gRPC allows
/// no zero.
fn write_grpc(left: Duration) -> Option<HeaderValue> {
    let ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX).max(1);
    let most = 10_u64.pow(u32::try_from(GRPC_DIGITS_MAX).unwrap_or(0)) - 1;
    let (unit, unit_ns) = GRPC_UNITS
        .into_iter()
        .find(|(_, unit_ns)| ns / unit_ns <= most)?;
    HeaderValue::try_from(format!("{}{}", ns / unit_ns, char::from(unit))).ok()
}

/// Reads a whole number of 1 to `most` digits.
fn digits(text: &[u8], most: usize) -> Option<u64> {
    let is_number = (1..=most).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let text = is_number.then(|| core::str::from_utf8(text).ok())?;
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(HeaderName, &'static str)| {
            (name.clone(), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn times_are_read_and_invalid_ones_ignored() {
        let ns = Duration::from_nanos;
        for (text, left) in [
            ("1n", Some(ns(1))),
            ("250u", Some(ns(250_000))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("0S", Some(Duration::ZERO)),
            ("2S", Some(Duration::from_secs(2))),
            ("3M", Some(Duration::from_mins(3))),
            ("99999999H", Some(ns(u64::MAX))),
            ("100000000m", None),
            ("1s", None),
            ("m", None),
            ("", None),
            ("-1m", None),
            ("+1m", None),
            (" 1m", None),
            ("1.5S", None),
        ] {
            assert_eq!(time_left(&headers(&[(GRPC_TIMEOUT, text)])), left, "{text}");
        }
        for (text, left) in [
            ("0", Some(Duration::ZERO)),
            ("1500", Some(Duration::from_millis(1500))),
            ("999999999999", Some(Duration::from_millis(999_999_999_999))),
            ("1000000000000", None),
            ("", None),
            ("1ms", None),
            ("-1", None),
        ] {
            assert_eq!(time_left(&headers(&[(TIMEOUT_MS, text)])), left, "{text}");
        }
        let both = headers(&[(TIMEOUT_MS, "20"), (GRPC_TIMEOUT, "30m")]);
        assert_eq!(time_left(&both), Some(Duration::from_millis(20)));
        let both = headers(&[(TIMEOUT_MS, "soon"), (GRPC_TIMEOUT, "30m")]);
        assert_eq!(time_left(&both), Some(Duration::from_millis(30)));
        assert_eq!(time_left(&HeaderMap::new()), None);
    }

    #[test]
    fn remaining_time_is_rounded_down_in_the_header_of_the_protocol() {
        let call = [(http::header::CONTENT_TYPE, "application/grpc+proto")];
        for (left, text) in [
            (Duration::ZERO, "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_999), "100000u"),
            (Duration::from_millis(2_500), "2500000u"),
            (Duration::from_secs(200), "200000m"),
            (Duration::MAX, "5124095H"),
        ] {
            let mut fields = headers(&call);
            set_time_left(&mut fields, left);
            assert_eq!(fields[GRPC_TIMEOUT], text);
            assert!(!fields.contains_key(TIMEOUT_MS));
        }
        let mut fields = headers(&[(GRPC_TIMEOUT, "9S"), (TIMEOUT_MS, "8")]);
        set_time_left(&mut fields, Duration::from_micros(7));
        let all: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        let seven = HeaderValue::from_static("7000n");
        assert_eq!(all, [("grpc-timeout", &seven)], "in place of both");
        for (left, text) in [
            (Duration::from_micros(1_999), "1"),
            (Duration::from_micros(999), "0"),
            (Duration::MAX, "999999999999"),
        ] {
            let mut fields = headers(&[(TIMEOUT_MS, "77")]);
            set_time_left(&mut fields, left);
            assert_eq!(fields[TIMEOUT_MS], text);
            assert!(!fields.contains_key(GRPC_TIMEOUT));
        }
    }

    #[test]
    fn a_priority_is_sent_by_its_name() {
        for (text, priority_of_it) in [
            ("interactive", Priority::Interactive),
            ("batch", Priority::Batch),
            ("shadow", Priority::Shadow),
            ("urgent", Priority::Interactive),
            ("", Priority::Interactive),
        ] {
            assert_eq!(priority(&headers(&[(PRIORITY, text)])), priority_of_it);
        }
        assert_eq!(priority(&HeaderMap::new()), Priority::Interactive);
        let mut fields = headers(&[(PRIORITY, "batch")]);
        set_priority(&mut fields, Priority::Shadow);
        assert_eq!(fields[PRIORITY], "shadow");
        assert_eq!(fields.len(), 1, "it replaces the earlier value");
    }
}
