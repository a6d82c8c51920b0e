//! Figures in the form of the table: short, so that no column is wider than necessary. They build
//! on the demo's words.

pub(super) use crate::output::clean;

use crate::terminal::words;

/// What is shown for an unknown value.
pub(super) const UNKNOWN: &str = "–";

/// A latency: `9.4 ms`, `2,552 ms`, `12.6 s`. At most 8 columns, below 28 hours.
pub(super) fn latency(us: u64) -> String {
    let ms = us as f64 / 1_000.0;
    if ms < 9_999.5 {
        words::ms(ms)
    } else {
        format!("{:.1} s", ms / 1_000.0)
    }
}

/// A latency, or a dash if it is unknown.
pub(super) fn latency_if_any(us: Option<u64>) -> String {
    us.map_or_else(|| UNKNOWN.to_owned(), latency)
}

/// A percentile with an error of up to a quarter, or a dash if it is unknown.
pub(super) fn about_if_any(us: Option<u64>) -> String {
    us.map_or_else(|| UNKNOWN.to_owned(), |us| format!("≈{}", latency(us)))
}

/// An age: `390 ms`, `12 s`, `5 min`.
pub(super) fn age(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..100_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", words::count(ms / 60_000)),
    }
}

/// Requests/s in a column: one decimal below ten, whole above.
pub(super) fn rate(per_second: f64) -> String {
    if per_second == 0.0 {
        "0".to_owned()
    } else if per_second < 9.95 {
        format!("{per_second:.1}")
    } else {
        words::rate(per_second.round())
    }
}

/// A share, from 0 to 1, as a percentage with one decimal.
pub(super) fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// Utilization, which may be more than all: `38 %`, `1,250 %`, in at most 7 columns.
pub(super) fn full(share: f64) -> String {
    if share < 99.995 {
        format!("{} %", words::rate((share * 100.0).round()))
    } else {
        ">9999 %".to_owned()
    }
}

/// A capacity, from thousandths of a request in flight.
pub(super) fn carries(millirif: u64) -> String {
    format!("{:.1}", millirif as f64 / 1e3)
}

/// The cost of a request, which may be very small.
pub(super) fn cost(us: u64) -> String {
    if us < 1_000 {
        format!("{us} µs")
    } else {
        latency(us)
    }
}

/// A count as a percentage of another.
pub(super) fn percent_of(part: u64, of: u64) -> String {
    percent(part as f64 / of.max(1) as f64)
}

/// The noun in singular or plural.
pub(super) fn plural(noun: &str, count: usize) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{noun}{ending}")
}

/// The text in at most this many columns; a longer one is cut with an ellipsis.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept = text.chars().take(columns.saturating_sub(1));
    kept.chain((columns > 0).then_some('…')).collect()
}

/// The text in lines of this many columns, broken at blanks. A longer word is on a line of its own.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + length <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_abbreviated() {
        let latencies = [0, 9_400, 2_552_000, 9_999_400, 9_999_600, 75_000_000].map(latency);
        assert_eq!(
            latencies,
            [
                "0.0 ms", "9.4 ms", "2,552 ms", "9,999 ms", "10.0 s", "75.0 s"
            ]
        );
        assert_eq!(latency_if_any(None), "–");
        let ages = [0, 999, 1_000, 99_999, 100_000, 3_600_000].map(age);
        assert_eq!(ages, ["0 ms", "999 ms", "1 s", "99 s", "1 min", "60 min"]);
        let rates = [0.0, 0.2, 9.94, 9.96, 1_234.5].map(rate);
        assert_eq!(rates, ["0", "0.2", "9.9", "10", "1,235"]);
        assert_eq!(percent_of(3, 692), "0.4 %");
        assert_eq!(percent_of(0, 0), "0.0 %");
        assert_eq!(
            [0, 1, 2].map(|count| plural("worker", count)),
            ["workers", "worker", "workers"]
        );
    }

    #[test]
    fn text_is_cut_and_wrapped() {
        assert_eq!(cut("replica 10", 10), "replica 10");
        assert_eq!(cut("replica 10", 9), "replica …");
        assert_eq!(cut("ab", 1), "…");
        assert_eq!(cut("ab", 0), "");
        assert_eq!(
            wrapped("a bc  def longer g", 4),
            ["a bc", "def", "longer", "g"]
        );
        assert!(wrapped(" ", 4).is_empty());
    }
}
