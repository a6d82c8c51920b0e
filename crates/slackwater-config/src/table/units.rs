//! Values that are measured: whole numbers, spans of time, shares, sizes. Each is read, written and
//! compared as a count of its smallest part, so that bounds are found and told in one way for all
//! of them.

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
    fn expected(refusal: &'static str, _words: &str) -> String {
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

/// Declares units: for each and its type how it is parsed, counted, made of a count and written,
/// and its schema between two values; then what else differs from the trait.
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
        // The check's words are about millionths.
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
