//! Figures as text: terminal, summary and verdict all format milliseconds, counts and times in this
//! way.

use core::time::Duration;

/// Milliseconds, with one decimal below ten: `9.4 ms`, `142 ms`, `1,310 ms`.
#[cfg(any(feature = "demo", feature = "top"))]
pub(crate) fn ms(ms: f64) -> String {
    if ms < 9.95 {
        return format!("{ms:.1} ms");
    }
    let rounded = format!("{ms:.0}");
    format!("{} ms", grouped(&rounded))
}

/// Milliseconds, or a dash if nothing was measured.
#[cfg(any(feature = "demo", feature = "top"))]
pub(crate) fn ms_if_any(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), ms)
}

/// A count with thousands separators: `12,034`.
pub(crate) fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// A number of requests per second, without decimals if it is whole.
#[cfg(any(feature = "demo", feature = "top"))]
pub(crate) fn rate(per_second: f64) -> String {
    let text = format!("{per_second:.1}");
    let (whole, tenths) = text.split_once('.').unwrap_or((&text, "0"));
    if tenths == "0" {
        grouped(whole)
    } else {
        format!("{}.{tenths}", grouped(whole))
    }
}

/// Minutes and seconds, with hours if there are any: `0:23`, `1:02:03`.
pub(crate) fn clock(span: Duration) -> String {
    let seconds = span.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_people() {
        let texts = [0.04, 9.94, 9.96, 142.4, 999.6, 1_310.2, 1_234_567.0].map(ms);
        assert_eq!(
            texts,
            [
                "0.0 ms",
                "9.9 ms",
                "10 ms",
                "142 ms",
                "1,000 ms",
                "1,310 ms",
                "1,234,567 ms"
            ]
        );
        assert_eq!(ms_if_any(None), "–");
        assert_eq!(
            [0, 999, 1_000, 12_034].map(count),
            ["0", "999", "1,000", "12,034"]
        );
        assert_eq!([400.0, 12.5, 2_000.0].map(rate), ["400", "12.5", "2,000"]);
        let clocks = [0, 83, 3_723].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(clocks, ["0:00", "1:23", "1:02:03"]);
    }
}
