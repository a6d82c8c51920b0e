//! Quantities: whole numbers, durations, shares, sizes. Each is read, written and compared as a
//! count of its smallest unit, so one implementation finds and describes the bounds of all of them.

use crate::toml_reader::values::{
    Unfit, bytes, duration, millionths, nonzero, quantile, rate, show_bytes, show_duration,
    show_millionths, whole,
};
use core::num::NonZeroU16;
use core::time::Duration;
use serde_json::{Value, json};
use slackwater_core::{Quantile, Rate};
use toml::de::DeValue;

/// How values of a type are counted and written.
pub(crate) trait Unit<T> {
    /// Parses a value, without checking its range.
    fn parse(value: &DeValue<'_>) -> Result<T, Unfit>;
    /// The value as a count of the smallest unit.
    fn count(value: T) -> u64;
    /// The value of `count` smallest units, if the type can hold it.
    fn of(count: u64) -> Option<T>;
    /// The value as it is written in a file, without quotation marks.
    fn written(value: T) -> String;
    /// Whether a file has it in quotation marks.
    const IS_TEXT: bool = false;
    /// How the description of a range begins.
    const NOUN: &str = "a number ";
    /// The error message for a value that the check refuses; `words` describes the range.
    fn expected(refusal: &'static str, _words: &str) -> String {
        refusal.to_owned()
    }
    /// JSON Schema of the values from `low` to `high`.
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
/// A rate per query.
pub(crate) struct PerQuery;
/// A factor, stored in millionths.
pub(crate) struct Factor;
/// A size.
pub(crate) struct Bytes;

/// Declares units. Each has its type, its parser, its conversions from and to a count, its text and
/// its schema of a range, followed by what else differs from the trait's defaults.
macro_rules! units {
    ($($unit:ident of $type:ty {
        $parse:expr, $count:expr, $of:expr, $written:expr, |$low:pat_param, $high:pat_param| $schema:tt
        $(; $($item:item)*)?
    })*) => {$(
        impl Unit<$type> for $unit {
            fn parse(value: &DeValue<'_>) -> Result<$type, Unfit> {
                $parse(value)
            }

            fn count(value: $type) -> u64 {
                $count(value)
            }

            fn of(count: u64) -> Option<$type> {
                $of(count)
            }

            fn written(value: $type) -> String {
                $written(value)
            }

            fn schema($low: $type, $high: $type) -> Value {
                json!($schema)
            }

            $($($item)*)?
        }
    )*};
}

units! {
    Number of u8 { whole, u64::from, fit, |it: u8| it.to_string(),
        |low, high| {"type": "integer", "minimum": low, "maximum": high} }
    Number of u16 { whole, u64::from, fit, |it: u16| it.to_string(),
        |low, high| {"type": "integer", "minimum": low, "maximum": high} }
    Number of u32 { whole, u64::from, fit, |it: u32| it.to_string(),
        |low, high| {"type": "integer", "minimum": low, "maximum": high} }
    Port of NonZeroU16 { nonzero, |it: NonZeroU16| it.get().into(),
        |count| NonZeroU16::new(fit(count)?),
        |it: NonZeroU16| it.to_string(),
        |low, high| {"type": "integer", "minimum": low, "maximum": high};
        const NOUN: &str = "a port ";
    }
    Share of Quantile { quantile, |it: Quantile| it.millionths().into(),
        |count| Quantile::from_millionths(fit(count)?), |it: Quantile| it.to_string(),
        |low, high| {
            "type": "number",
            "minimum": decimal(low.millionths()), "maximum": decimal(high.millionths())
        } }
    PerQuery of Rate { rate, |it: Rate| it.millionths().into(),
        |count| Rate::from_millionths(fit(count)?), |it: Rate| it.to_string(),
        |low, high| {
            "type": "number",
            "minimum": decimal(low.millionths()), "maximum": decimal(high.millionths())
        } }
    Factor of u32 { |value| millionths(value, "a number such as 1.25"), u64::from, fit, show_millionths,
        |low, high| {"type": "number", "minimum": decimal(low), "maximum": decimal(high)};
        // The check's message is in millionths.
        fn expected(_: &'static str, words: &str) -> String {
            format!("from {words}")
        }
    }
    Span of Duration { duration, |it: Duration| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX),
        |count| Some(Duration::from_nanos(count)), show_duration,
        |_, _| {"type": ["string", "integer"], "pattern": SPAN, "maximum": 0};
        const IS_TEXT: bool = true;
        const NOUN: &str = "";
    }
    Bytes of u32 { bytes, u64::from, fit, show_bytes,
        |low, high| {
            "type": ["string", "integer"], "pattern": SIZE, "minimum": low, "maximum": high
        };
        const IS_TEXT: bool = true;
        const NOUN: &str = "";
    }
}

const SPAN: &str = r"^\s*(0|(\d+(\.\d+)?\s*(ns|us|µs|μs|ms|s|m|h)\s*)+)$";
const SIZE: &str = r"^\s*\d+\s*(B|KiB|MiB)$";

fn fit<T: TryFrom<u64>>(count: u64) -> Option<T> {
    count.try_into().ok()
}

fn decimal(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

/// A quantity as it is written in prose: `10 ms`, `65,536`, `64 KiB`.
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
