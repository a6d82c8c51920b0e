//! Durations in log lines: three digits and a unit.

use core::fmt::{self, Display};
use core::time::Duration;

/// A duration that is written with three digits at most, such as `2.61s` or `722ms`. Whole seconds
/// from 1,000 on keep all digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded(pub(crate) Duration);

/// Units by their length in seconds.
const UNITS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];

/// From this part of a unit on, a duration rounds to a whole one.
const ALMOST_ONE: f64 = 0.9995;

impl Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let unit = UNITS.iter().find(|(unit, _)| seconds >= unit * ALMOST_ONE);
        let Some((unit, name)) = unit else {
            return f.write_str("0s");
        };
        let value = seconds / unit;
        let decimals = match value {
            value if value < 9.995 => 2,
            value if value < 99.95 => 1,
            _ => 0,
        };
        let text = format!("{value:.decimals$}");
        let text = match decimals {
            0 => &text,
            _ => text.trim_end_matches('0').trim_end_matches('.'),
        };
        write!(f, "{text}{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_remain() {
        for (ns, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (999_600, "1ms"),
            (721_715_215, "722ms"),
            (999_600_000, "1s"),
            (2_612_345_678, "2.61s"),
            (9_996_000_000, "10s"),
            (12_340_000_000, "12.3s"),
            (100_000_000_000, "100s"),
            (3_600_000_000_000, "3600s"),
        ] {
            let rounded = Rounded(Duration::from_nanos(ns)).to_string();
            assert_eq!(rounded, expected, "{ns} ns");
        }
    }
}
