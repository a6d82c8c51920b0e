//! Values that are measured: whole numbers, spans of time, shares, sizes. Each is read, written and compared as a count of its
//! smallest part, so that bounds are found and told in one way for all of them.

use crate::toml_reader::values::{
    Unfit, bytes, duration, millionths, nonzero, quantile, rate, show_bytes, show_duration,
    show_millionths, whole,
};
use core::num::NonZeroU16;
use core::time::Duration;
use serde_json::{Value, json};
use slackwater_core::{Quantile, Rate};
use toml::de::DeValue;

/// How values of one type are counted and written.
pub(crate) trait Unit<T> {
    /// What a file says, whatever its size.
    fn parse(value: &DeValue<'_>) -> Result<T, Unfit>;
    /// How many of the smallest parts it has.
    fn count(value: T) -> u64;
    /// What has so many of them, if the type does.
    fn of(count: u64) -> Option<T>;
    /// As a file has it, without quotation marks.
    fn written(value: T) -> String;
    /// Whether it has quotation marks there.
    const IS_TEXT: bool = false;
    /// What ranges of it begin with.
    const NOUN: &str = "a number ";
    /// The words of a check that refuses it, for a range of `words`.
    fn told(refusal: &'static str, _words: &str) -> String {
        refusal.to_owned()
    }
    /// What a JSON Schema says of values between these.
    fn schema(low: T, high: T) -> Value;
}

/// A whole number.
pub(crate) struct Number;
/// A port.
pub(crate) struct Port;
/// A span of time.
pub(crate) struct Span;
/// A share from 0 to 1.
pub(crate) struct Share;
/// How often something happens for each query.
pub(crate) struct PerQuery;
/// A factor, which is kept in millionths.
pub(crate) struct Factor;
/// A size.
pub(crate) struct Bytes;

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl Unit<$type> for Number {
            fn parse(value: &DeValue<'_>) -> Result<$type, Unfit> {
                whole(value)
            }

            fn count(value: $type) -> u64 {
                value.into()
            }

            fn of(count: u64) -> Option<$type> {
                count.try_into().ok()
            }

            fn written(value: $type) -> String {
                value.to_string()
            }

            fn schema(low: $type, high: $type) -> Value {
                json!({"type": "integer", "minimum": low, "maximum": high})
            }
        }
    )*};
}

whole_numbers!(u8, u16, u32);

macro_rules! millionths {
    ($($unit:ident of $type:ty: $parse:expr, $count:expr, $of:expr $(, $told:item)?;)*) => {$(
        impl Unit<$type> for $unit {
            $($told)?

            fn parse(value: &DeValue<'_>) -> Result<$type, Unfit> {
                $parse(value)
            }

            fn count(value: $type) -> u64 {
                u64::from($count(value))
            }

            fn of(count: u64) -> Option<$type> {
                count.try_into().ok().and_then($of)
            }

            fn written(value: $type) -> String {
                show_millionths($count(value))
            }

            fn schema(low: $type, high: $type) -> Value {
                let number = |value| f64::from($count(value)) / 1e6;
                json!({"type": "number", "minimum": number(low), "maximum": number(high)})
            }
        }
    )*};
}

millionths! {
    Share of Quantile: quantile, Quantile::millionths, Quantile::from_millionths;
    PerQuery of Rate: rate, Rate::millionths, Rate::from_millionths;
    Factor of u32: |value| millionths(value, "a number such as 1.25"), |parts| parts, Some,
        // The check's words are about millionths.
        fn told(_: &'static str, words: &str) -> String {
            format!("from {words}")
        };
}

impl Unit<NonZeroU16> for Port {
    const NOUN: &str = "a port ";

    fn parse(value: &DeValue<'_>) -> Result<NonZeroU16, Unfit> {
        nonzero(value)
    }

    fn count(value: NonZeroU16) -> u64 {
        value.get().into()
    }

    fn of(count: u64) -> Option<NonZeroU16> {
        count.try_into().ok().and_then(NonZeroU16::new)
    }

    fn written(value: NonZeroU16) -> String {
        value.to_string()
    }

    fn schema(low: NonZeroU16, high: NonZeroU16) -> Value {
        json!({"type": "integer", "minimum": low, "maximum": high})
    }
}

impl Unit<Duration> for Span {
    const IS_TEXT: bool = true;
    const NOUN: &str = "";

    fn parse(value: &DeValue<'_>) -> Result<Duration, Unfit> {
        duration(value)
    }

    fn count(value: Duration) -> u64 {
        u64::try_from(value.as_nanos()).unwrap_or(u64::MAX)
    }

    fn of(count: u64) -> Option<Duration> {
        Some(Duration::from_nanos(count))
    }

    fn written(value: Duration) -> String {
        show_duration(value)
    }

    fn schema(_: Duration, _: Duration) -> Value {
        let pattern = r"^\s*(0|(\d+(\.\d+)?\s*(ns|us|µs|μs|ms|s|m|h)\s*)+)$";
        json!({"type": ["string", "integer"], "pattern": pattern, "maximum": 0})
    }
}

impl Unit<u32> for Bytes {
    const IS_TEXT: bool = true;
    const NOUN: &str = "";

    fn parse(value: &DeValue<'_>) -> Result<u32, Unfit> {
        bytes(value)
    }

    fn count(value: u32) -> u64 {
        value.into()
    }

    fn of(count: u64) -> Option<u32> {
        count.try_into().ok()
    }

    fn written(value: u32) -> String {
        show_bytes(value)
    }

    fn schema(low: u32, high: u32) -> Value {
        let pattern = r"^\s*\d+\s*(B|KiB|MiB)$";
        json!({"type": ["string", "integer"], "pattern": pattern, "minimum": low, "maximum": high})
    }
}

/// A quantity as prose has it: `10 ms`, `65,536`, `64 KiB`.
pub(super) fn in_prose(written: &str) -> String {
    let unit = written.find(|letter: char| letter.is_alphabetic());
    let (number, unit) = written.split_at(unit.unwrap_or(written.len()));
    match (number, unit) {
        ("0", _) => "0".to_owned(),
        (number, "") => grouped(number),
        (number, "m") => format!("{} min", grouped(number)),
        (number, unit) => format!("{} {unit}", grouped(number)),
    }
}

/// Digits with commas between thousands.
fn grouped(digits: &str) -> String {
    let whole = digits.find('.').unwrap_or(digits.len());
    let comma = |(index, digit): (usize, char)| {
        let is_due = index > 0 && index < whole && (whole - index).is_multiple_of(3);
        [is_due.then_some(','), Some(digit)]
    };
    digits.char_indices().flat_map(comma).flatten().collect()
}
