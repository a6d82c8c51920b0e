//! Numbers as text, the same on every machine. A value that is not finite is never printed as a
//! number.
//!
//! Files use [`fixed`] and [`at_most`]. Texts for readers use [`shown`], [`significant`] and
//! [`count`], with separated thousands.

use core::fmt;

/// Text for a missing value.
pub(crate) const NONE: &str = "–";

/// Formats with exactly this many decimals; `None` if not finite.
pub(crate) fn fixed(value: f64, decimals: usize) -> Option<String> {
    if !value.is_finite() {
        return None;
    }
    let text = format!("{value:.decimals$}");
    // Rounding may leave a minus before nothing but zeros.
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| matches!(c, '0' | '.')) => Some(zero.to_owned()),
        _ => Some(text),
    }
}

/// Formats with at most this many decimals: zeros at the end are dropped. `None` if not finite.
pub(crate) fn at_most(value: f64, decimals: usize) -> Option<String> {
    let text = fixed(value, decimals)?;
    Some(if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    })
}

/// Formats for readers with this many decimals and separated thousands; [`NONE`] if not finite.
pub(crate) fn shown(value: f64, decimals: usize) -> String {
    fixed(value, decimals).map_or_else(|| NONE.to_owned(), |text| with_thousands(&text))
}

/// Formats a number of any size for readers, with at least four significant digits. All digits of a
/// whole number are kept; [`NONE`] if not finite.
pub(crate) fn significant(value: f64) -> String {
    if value != 0.0 && value.is_finite() && !(1e-6..1e15).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    let mut decimals = 3;
    let mut magnitude = value.abs();
    while magnitude >= 10.0 && decimals > 0 {
        magnitude /= 10.0;
        decimals -= 1;
    }
    while magnitude < 1.0 && decimals < 9 && value != 0.0 {
        magnitude *= 10.0;
        decimals += 1;
    }
    at_most(value, decimals).map_or_else(|| NONE.to_owned(), |text| with_thousands(&text))
}

/// Formats a count with separated thousands.
pub(crate) fn count(value: u64) -> String {
    with_thousands(&value.to_string())
}

/// Formats a span of time in seconds, or in minutes from two of them up.
pub(crate) fn span(span: core::time::Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds >= 120.0 {
        let minutes = span.as_secs() / 60;
        let rest = span.as_secs() % 60;
        return if rest == 0 {
            format!("{minutes} min")
        } else {
            format!("{minutes} min {rest} s")
        };
    }
    at_most(seconds, 3).map_or_else(|| NONE.to_owned(), |text| format!("{text} s"))
}

/// Puts commas between the thousands of decimal digits, for readers.
pub fn with_thousands(text: &str) -> String {
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("−", rest));
    let (whole, fraction) = digits
        .find('.')
        .map_or((digits, ""), |point| digits.split_at(point));
    let mut grouped = String::with_capacity(text.len() + 4);
    grouped.push_str(sign);
    for (index, digit) in whole.char_indices() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped.push_str(fraction);
    grouped
}

/// A coordinate of a picture, to a tenth of a pixel. Machines may differ in the last bits, which
/// this hides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Px(pub f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(at_most(self.0, 1).as_deref().unwrap_or("0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn decimals_are_fixed_or_trimmed_and_non_finite_rejected() {
        assert_eq!(fixed(1.25, 3).as_deref(), Some("1.250"));
        assert_eq!(fixed(-0.000_4, 3).as_deref(), Some("0.000"));
        assert_eq!(fixed(-1.5, 0).as_deref(), Some("-2"));
        assert_eq!(at_most(0.833_333, 4).as_deref(), Some("0.8333"));
        assert_eq!(at_most(0.75, 4).as_deref(), Some("0.75"));
        assert_eq!(at_most(100.0, 0).as_deref(), Some("100"));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!((fixed(bad, 1), at_most(bad, 1)), (None, None));
            assert_eq!(
                (shown(bad, 1), significant(bad)),
                (NONE.into(), NONE.into())
            );
            assert_eq!(Px(bad).to_string(), "0");
        }
    }

    #[test]
    fn numbers_are_rounded_to_significant_digits() {
        let cases = [
            (0.0, "0"),
            (12_345.678, "12,346"),
            (-1_234_567.0, "−1,234,567"),
            (266.25, "266.2"),
            (1.0, "1"),
            (0.031_27, "0.03127"),
            (999.96, "1,000"),
            (3.2e-9, "3.200e-9"),
            (1e300, "1.000e300"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
        assert_eq!(shown(-1234.5, 2), "−1,234.50");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(999), "999");
    }

    #[test]
    fn durations_are_shown_in_seconds_then_minutes() {
        assert_eq!(span(Duration::from_millis(1_500)), "1.5 s");
        assert_eq!(span(Duration::from_secs(61)), "61 s");
        assert_eq!(span(Duration::from_mins(2)), "2 min");
        assert_eq!(span(Duration::from_secs(3_661)), "61 min 1 s");
    }
}
