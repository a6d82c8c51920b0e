//! Values of a cluster's policy: gRPC clients (`go/grpc/config_decode.go`) and this reader accept
//! the same ones. Ranges are those of the keys.

use super::ForeignKeys;
use crate::sections::json_value::to_toml;
use crate::sections::key::{FACTOR_MAX, show_factor};
use crate::sections::policies::duration_keys;
use crate::toml_reader::values::{quote, show_duration, show_millionths};
use core::time::Duration;
use serde_json::{Number, Value, json};
use slackwater_xds::brief;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The most picks that gRPC clients keep for display.
const EXPLAIN_MAX: u64 = 1024;

/// The longest time in nanoseconds, as a magnitude: 2^63.
const MAGNITUDE_MAX: u64 = 1 << 63;

/// Keys whose values are durations.
static DURATIONS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut keys: BTreeSet<_> = duration_keys().into_iter().collect();
    keys.insert("key.replicate_time".to_owned());
    keys
});

/// A key's value in TOML. The error says what was found and what was expected.
pub(super) fn value_of(key: &str, value: &Value) -> Result<String, String> {
    if DURATIONS.contains(key) {
        let span = value.as_str().and_then(parse_duration);
        let span = span.ok_or_else(|| unfit(value, "a duration such as \"0.050s\""))?;
        return Ok(quote(show_duration(span)));
    }
    if key == "key.balance_factor" {
        // A file may have a percentage instead, and has to for a large factor.
        let factor = value.as_f64().map(|factor| (factor * 1e6).round());
        let factor = factor.and_then(to_millionths);
        let factor = factor.filter(|it| *it == 0 || (1_000_000..=FACTOR_MAX).contains(it));
        let factor = factor.ok_or_else(|| unfit(value, "0 or a number from 1 to 1000"))?;
        return Ok(show_factor(factor));
    }
    match (key, value) {
        (_, Value::Number(value)) => Ok(number(value)),
        ("probe.path", Value::String(path)) if path.contains('#') => {
            Err(unfit(value, "a path without \"#\""))
        }
        _ => to_toml(value),
    }
}

/// A mistake's message.
pub(super) fn unfit(value: &Value, expected: &str) -> String {
    format!("found {}, expected {expected}", brief(&value.to_string()))
}

/// A number in TOML. A double, which is not whole, is rounded to millionths, and remains distinct
/// from a whole number, which other keys need.
fn number(value: &Number) -> String {
    let Some(double) = value.as_f64().filter(|_| value.is_f64()) else {
        return value.to_string();
    };
    let rounded = to_millionths((double * 1e6).round());
    let shown = rounded.map_or_else(|| double.to_string(), show_millionths);
    if shown.contains('.') {
        shown
    } else {
        shown + ".0"
    }
}

/// A whole double as a number of millionths; `None` if it is negative or too large.
fn to_millionths(whole: f64) -> Option<u32> {
    let fits = (0.0..=f64::from(u32::MAX)).contains(&whole);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and in the range"
    )]
    fits.then_some(whole as u32)
}

/// A duration as Go's `time.ParseDuration` reads it; `None` if it is none, or negative.
fn parse_duration(text: &str) -> Option<Duration> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut total_ns = 0_u64;
    let mut rest = unsigned;
    if unsigned == "0" {
        return Some(Duration::ZERO);
    }
    if unsigned.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (whole, tail) = split_digits(rest);
        let (fraction, tail) = tail.strip_prefix('.').map_or(("", tail), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = tail.find(|it: char| it == '.' || it.is_ascii_digit());
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let unit_ns = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole = if whole.is_empty() {
            0
        } else {
            whole.parse::<u64>().ok()?
        };
        let ns = whole.checked_mul(unit_ns)?;
        let ns = ns.checked_add(fraction_ns(fraction, unit_ns))?;
        total_ns = total_ns.checked_add(ns)?;
        if total_ns > MAGNITUDE_MAX {
            return None;
        }
        rest = tail;
    }
    let fits = total_ns == 0 || !text.starts_with('-') && total_ns < MAGNITUDE_MAX;
    fits.then(|| Duration::from_nanos(total_ns))
}

/// The digits at the beginning, and the rest.
fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|it: char| !it.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// The nanoseconds of the digits after a point. Go computes them as doubles, and leaves out digits
/// that a number of 63 bits cannot hold.
fn fraction_ns(digits: &str, unit_ns: u64) -> u64 {
    let mut fraction = 0_u64;
    let mut scale = 1.0;
    for digit in digits.bytes() {
        if fraction > (MAGNITUDE_MAX - 1) / 10 {
            break;
        }
        let longer = fraction * 10 + u64::from(digit - b'0');
        if longer > MAGNITUDE_MAX {
            break;
        }
        fraction = longer;
        scale *= 10.0;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is below the unit, and never negative"
    )]
    let ns = (fraction as f64 * (unit_ns as f64 / scale)) as u64;
    ns
}

pub(super) fn health(value: &Value) -> ForeignKeys {
    const ERRORS: &str = "error_aversion.enabled";
    match value.as_str() {
        Some("standard") => Ok(vec![(ERRORS, json!(true))]),
        Some("off") => Ok(vec![
            (ERRORS, json!(false)),
            ("latency_probation.enabled", json!(false)),
        ]),
        _ => Err("\"standard\" or \"off\""),
    }
}

/// The name of metadata with text values.
pub(super) fn metadata(value: &Value) -> ForeignKeys {
    let name = value.as_str().unwrap_or_default().to_lowercase();
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    let is_text = !name.ends_with("-bin") && !name.starts_with("grpc-");
    if name.is_empty() || !name.bytes().all(fits) || !is_text {
        return Err("the name of metadata with text values, such as \"x-user\"");
    }
    Ok(vec![("key.by", json!([format!("grpc:{name}")]))])
}

pub(super) fn transport(value: &Value) -> ForeignKeys {
    match value.as_str() {
        // Replicas that answer probes of gRPC may answer none of the proxy's: it keeps its own.
        Some("grpc") => Ok(Vec::new()),
        Some(_) => Ok(vec![("probe.transport", value.clone())]),
        None => Err("\"grpc\", \"udp\", \"http\" or \"none\""),
    }
}

/// The number of picks for display. Returns what was expected.
pub(super) fn check_explain(value: &Value) -> Option<&'static str> {
    let is_in_range = value.as_u64().is_some_and(|it| it <= EXPLAIN_MAX);
    (!is_in_range).then_some("a whole number from 0 to 1024")
}

/// The name of a secret that a gRPC client has registered. Returns what was expected.
pub(super) fn check_name(value: &Value) -> Option<&'static str> {
    let is_name = value.as_str().is_some_and(|name| !name.is_empty());
    (!is_name).then_some("the name of a registered secret")
}
