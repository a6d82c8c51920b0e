//! Converts a TOML value to a value in its range: durations, sizes, rates, whole numbers, names.
//!
//! Rates and quantiles are parsed from their decimal digits, never through a float, so `0.1` is
//! exactly 100,000 millionths. A value of the right kind that is negative or too large for its type
//! returns [`Unfit::Range`]; the caller, which has the range, adds it to the message.

use super::suggest::{is_same, nearest};
use core::num::NonZeroU16;
use core::ops::RangeInclusive;
use core::time::Duration;
use slackwater_core::{Quantile, Rate};
use toml::de::DeValue;

/// Why a value does not fit its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A value of the right kind, but out of range.
    Range,
    /// Any other mistake; the message says what was found and what was expected.
    Other(String),
}

/// The value as the user would recognise it, for messages.
pub fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

pub(crate) fn mismatch(value: &DeValue<'_>, expected: &str) -> Unfit {
    Unfit::Other(format!("found {}, expected {expected}", found(value)))
}

/// `true` or `false`.
pub fn boolean(value: &DeValue<'_>) -> Result<bool, Unfit> {
    value
        .as_bool()
        .ok_or_else(|| mismatch(value, "true or false"))
}

/// A text.
pub fn text<'v>(value: &'v DeValue<'_>, expected: &str) -> Result<&'v str, Unfit> {
    value.as_str().ok_or_else(|| mismatch(value, expected))
}

/// A whole number that fits `T`.
pub fn whole<T: TryFrom<i128>>(value: &DeValue<'_>) -> Result<T, Unfit> {
    let DeValue::Integer(number) = value else {
        return Err(mismatch(value, "a whole number"));
    };
    i128::from_str_radix(number.as_str(), number.radix())
        .ok()
        .and_then(|number| T::try_from(number).ok())
        .ok_or(Unfit::Range)
}

/// A whole number from 1 to 65,535.
pub fn nonzero(value: &DeValue<'_>) -> Result<NonZeroU16, Unfit> {
    whole(value).and_then(|number| NonZeroU16::new(number).ok_or(Unfit::Range))
}

/// A rate per query.
pub fn rate(value: &DeValue<'_>) -> Result<Rate, Unfit> {
    millionths(value, "a number such as 0.5")
        .and_then(|parts| Rate::from_millionths(parts).ok_or(Unfit::Range))
}

/// A share from 0 to 1.
pub fn quantile(value: &DeValue<'_>) -> Result<Quantile, Unfit> {
    millionths(value, "a number from 0 to 1")
        .and_then(|parts| Quantile::from_millionths(parts).ok_or(Unfit::Range))
}

/// A finite number, not nan or inf.
pub fn number(value: &DeValue<'_>) -> Result<f64, Unfit> {
    let read: f64 = match value {
        DeValue::Integer(_) => whole::<i64>(value)?.to_string().parse(),
        DeValue::Float(digits) => digits.as_str().parse(),
        _ => return Err(mismatch(value, "a number")),
    }
    .map_err(|_| mismatch(value, "a number"))?;
    if read.is_finite() {
        Ok(read)
    } else {
        Err(mismatch(value, "a finite number"))
    }
}

/// Converts a decimal number to millionths, exactly.
pub fn millionths(value: &DeValue<'_>, expected: &str) -> Result<u32, Unfit> {
    let parts = match value {
        DeValue::Integer(_) => whole::<i64>(value)?.checked_mul(1_000_000),
        DeValue::Float(number) => scaled_decimal(number.as_str(), 6)?,
        _ => return Err(mismatch(value, expected)),
    };
    parts
        .and_then(|parts| u32::try_from(parts).ok())
        .ok_or(Unfit::Range)
}

/// Converts a percentage such as `"125%"` to millionths, exactly; `None` if it is none.
pub fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let parts = scaled_decimal(digits, 4).ok()??;
    let is_plain = digits.starts_with(|digit: char| digit.is_ascii_digit());
    u32::try_from(parts).ok().filter(|_| is_plain)
}

/// The number of millionths as a user would write it.
pub fn show_millionths(millionths: u32) -> String {
    let (whole, rest) = (millionths / 1_000_000, millionths % 1_000_000);
    let decimals = format!("{rest:06}");
    match decimals.trim_end_matches('0') {
        "" => whole.to_string(),
        decimals => format!("{whole}.{decimals}"),
    }
}

/// The decimal number `digits`, times 10^`places`, exactly; `None` if it is huge.
fn scaled_decimal(digits: &str, places: usize) -> Result<Option<i64>, Unfit> {
    let (sign, unsigned) = match digits.as_bytes().first() {
        Some(b'-') => (-1, &digits[1..]),
        Some(b'+') => (1, &digits[1..]),
        _ => (1, digits),
    };
    if unsigned.contains(['e', 'E']) {
        return Err(Unfit::Other(format!(
            "found {digits}, expected a plain decimal without an exponent"
        )));
    }
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if !(whole.bytes().chain(fraction.bytes())).all(|byte| byte.is_ascii_digit()) {
        // TOML also has nan and inf.
        return Err(Unfit::Range);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > places {
        return Err(Unfit::Other(format!(
            "found {digits}, expected at most {places} decimals"
        )));
    }
    let padded = format!("{whole}{fraction:0<places$}");
    Ok(padded.parse::<i64>().ok().map(|parts| sign * parts))
}

const DURATION_EXPECTED: &str = "a duration such as \"50ms\", \"1.5s\" or \"2m\"";

/// A duration with its unit (ns, us, ms, s, m, h), or several in a row ("1m30s"). 0 needs no unit.
pub fn duration(value: &DeValue<'_>) -> Result<Duration, Unfit> {
    match value {
        DeValue::Integer(_) if whole(value) == Ok(0_u8) => Ok(Duration::ZERO),
        DeValue::String(text) => {
            parse_duration(text).unwrap_or_else(|| Err(mismatch(value, DURATION_EXPECTED)))
        }
        _ => Err(mismatch(value, DURATION_EXPECTED)),
    }
}

/// Returns `None` if the text is no duration. The inner error is for a duration that is negative or
/// too long.
pub fn parse_duration(text: &str) -> Option<Result<Duration, Unfit>> {
    let text = text.trim();
    if text == "0" {
        return Some(Ok(Duration::ZERO));
    }
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest.is_empty() {
        return None;
    }
    let mut total_ns = Some(0_u64);
    while !rest.is_empty() {
        let (number, tail) = split_where(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, tail) = split_where(tail.trim_start(), |c| !c.is_alphabetic());
        // Number of decimals down to whole nanoseconds, and the factor that remains.
        let (decimals, times) = match unit {
            "ns" => (0, 1),
            "us" | "µs" | "μs" => (3, 1),
            "ms" => (6, 1),
            "s" => (9, 1),
            "m" => (9, 60),
            "h" => (9, 3600),
            _ => return None,
        };
        if !number.starts_with(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return None;
        }
        let ns = scaled_decimal(number, decimals).ok()?;
        let ns = ns.and_then(|ns| u64::try_from(ns).ok()?.checked_mul(times));
        total_ns = total_ns.zip(ns).and_then(|(sum, ns)| sum.checked_add(ns));
        rest = tail.trim_start();
    }
    let total_ns = total_ns.filter(|_| !negative).ok_or(Unfit::Range);
    Some(total_ns.map(Duration::from_nanos))
}

fn split_where(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// The duration as a user would write it: exact, in the largest unit that takes a whole number.
pub fn show_duration(span: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let ns = span.as_nanos();
    UNITS
        .into_iter()
        .find(|(unit_ns, _)| ns > 0 && ns.is_multiple_of(*unit_ns))
        .map_or_else(
            || "0s".to_owned(),
            |(unit_ns, unit)| format!("{}{unit}", ns / unit_ns),
        )
}

const BYTES_EXPECTED: &str = "a number of bytes such as 65536 or \"64KiB\"";

/// A size: a number of bytes, or a text with KiB or MiB.
pub fn bytes(value: &DeValue<'_>) -> Result<u32, Unfit> {
    let DeValue::String(text) = value else {
        return whole(value).map_err(|unfit| match unfit {
            Unfit::Range => Unfit::Range,
            Unfit::Other(_) => mismatch(value, BYTES_EXPECTED),
        });
    };
    let (number, unit) = split_where(text.trim(), |c| !c.is_ascii_digit());
    let unit_bytes: u32 = match unit.trim_start() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(mismatch(value, BYTES_EXPECTED)),
    };
    if number.is_empty() {
        return Err(mismatch(value, BYTES_EXPECTED));
    }
    (number.parse().ok())
        .and_then(|number: u32| number.checked_mul(unit_bytes))
        .ok_or(Unfit::Range)
}

/// The size as a user would write it: exact, in the largest unit that takes a whole number.
pub fn show_bytes(bytes: u32) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}

/// One of a few names.
pub fn one_of<T: Copy>(value: &DeValue<'_>, names: &[(&str, T)]) -> Result<T, Unfit> {
    let list = expected_one_of(names);
    let text = value.as_str().ok_or_else(|| mismatch(value, &list))?;
    if let Some(&(_, value)) = names.iter().find(|(name, _)| *name == text) {
        return Ok(value);
    }
    let near = nearest(text, names.iter().map(|(name, _)| *name));
    // Names such as h2 and h3, or 1.1 and 1.2, differ in one letter and mean different things.
    let near = near.filter(|near| near.len() > 3 || is_same(near, text));
    Err(match near {
        Some(near) => meant(text, near, names),
        None => mismatch(value, &list),
    })
}

/// A mistake for a text that is none of the names and probably means `near`.
pub(crate) fn meant<T>(text: &str, near: &str, names: &[(&str, T)]) -> Unfit {
    let list = expected_one_of(names);
    Unfit::Other(format!(
        "found {text:?}, did you mean {near:?}? expected {list}"
    ))
}

fn expected_one_of<T>(names: &[(&str, T)]) -> String {
    let quoted: Vec<_> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
    format!("one of {}", quoted.join(", "))
}

/// The name that [`one_of`] reads as this value.
pub(crate) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    let found = names.iter().find(|(_, it)| it == value);
    found.map_or("", |(name, _)| name)
}

/// Quotes a text as TOML.
pub(crate) fn quote(text: impl core::fmt::Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// Returns `value` if it is in `range`.
pub fn within<T: PartialOrd>(value: T, range: &RangeInclusive<T>) -> Result<T, Unfit> {
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(Unfit::Range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(toml: &str) -> DeValue<'_> {
        DeValue::parse(toml).expect("TOML").into_inner()
    }

    #[test]
    fn rates_are_exact_to_the_last_millionth() {
        for (text, parts) in [
            ("0", 0),
            ("3", 3_000_000),
            ("0.1", 100_000),
            ("0.000001", 1),
            ("2.50", 2_500_000),
            ("1_0.5", 10_500_000),
            ("+0.25", 250_000),
            ("-0.0", 0),
            ("64.0", 64_000_000),
            ("0.84089600000", 840_896),
        ] {
            assert_eq!(
                rate(&value(text)).map(Rate::millionths),
                Ok(parts),
                "{text}"
            );
        }
        for text in [
            "-1",
            "-0.5",
            "nan",
            "inf",
            "-inf",
            "+nan",
            "64.000001",
            "1000000000000000000",
            "99999999999999999999.5",
        ] {
            assert_eq!(rate(&value(text)), Err(Unfit::Range), "{text}");
        }
        for text in ["0.0000001", "1e-3", "\"3\"", "true", "[1]"] {
            assert!(matches!(rate(&value(text)), Err(Unfit::Other(_))), "{text}");
        }
        assert_eq!(quantile(&value("1.000001")), Err(Unfit::Range));
        assert_eq!(quantile(&value("1")), Ok(Quantile::ONE));
    }

    #[test]
    fn millionths_are_shown_as_they_were_written() {
        for (text, parts) in [
            ("1.25", 1_250_000),
            ("1000", 1_000_000_000),
            ("0.000001", 1),
            ("20.01", 20_010_000),
        ] {
            assert_eq!(millionths(&value(text), ""), Ok(parts), "{text}");
            assert_eq!(show_millionths(parts), text);
        }
    }

    #[test]
    fn numbers_are_finite() {
        for (text, expected) in [
            ("3", 3.0),
            ("-0.5", -0.5),
            ("1e3", 1000.0),
            ("1_000.25", 1000.25),
        ] {
            assert_eq!(number(&value(text)), Ok(expected), "{text}");
        }
        for text in ["nan", "-inf", "1e999", "\"3\"", "true"] {
            assert!(
                matches!(number(&value(text)), Err(Unfit::Other(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_carry_their_unit() {
        for (text, ns) in [
            ("\"50ms\"", 50_000_000),
            ("\"1.5s\"", 1_500_000_000),
            ("\"2m\"", 120_000_000_000),
            ("\"1h\"", 3_600_000_000_000),
            ("\"250us\"", 250_000),
            ("\"0.25 µs\"", 250),
            ("\"7ns\"", 7),
            ("\"1m30s\"", 90_000_000_000),
            ("\"0\"", 0),
            ("0", 0),
            ("\"0s\"", 0),
        ] {
            let read = duration(&value(text));
            assert_eq!(read, Ok(Duration::from_nanos(ns)), "{text}");
            let shown = show_duration(Duration::from_nanos(ns));
            assert_eq!(duration(&DeValue::String(shown.into())), read, "{text}");
        }
        for text in [
            "50",
            "1.5",
            "\"50\"",
            "\"ms\"",
            "\"\"",
            "\"1 day\"",
            "\"1.2.3s\"",
            "\".5s\"",
            "\"0.5ns\"",
            "\"1s,\"",
            "\"s1\"",
            "true",
        ] {
            assert!(
                matches!(duration(&value(text)), Err(Unfit::Other(_))),
                "{text}"
            );
        }
        for text in ["\"-1s\"", "\"99999999999999999999s\"", "\"600000000h\""] {
            assert_eq!(duration(&value(text)), Err(Unfit::Range), "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        for (text, size) in [
            ("0", 0),
            ("65536", 65_536),
            ("\"64KiB\"", 65_536),
            ("\"1 MiB\"", 1 << 20),
            ("\"3B\"", 3),
        ] {
            assert_eq!(bytes(&value(text)), Ok(size), "{text}");
            assert_eq!(bytes(&DeValue::String(show_bytes(size).into())), Ok(size));
        }
        for text in ["\"64KB\"", "\"KiB\"", "\"64\"", "1.5", "\"-1KiB\""] {
            assert!(
                matches!(bytes(&value(text)), Err(Unfit::Other(_))),
                "{text}"
            );
        }
        for text in ["-1", "4294967296", "\"4096MiB\""] {
            assert_eq!(bytes(&value(text)), Err(Unfit::Range), "{text}");
        }
    }
}
