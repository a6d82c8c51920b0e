//! Holding a number against its bounds: reproduced or not, and by how much.

use super::{Claim, Verdict};

/// Where a number must lie, both ends included, and what it is a number of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    low: f64,
    high: f64,
    unit: &'static str,
}

impl Bounds {
    /// Between two values.
    pub(super) const fn between(low: f64, high: f64, unit: &'static str) -> Self {
        Self { low, high, unit }
    }

    /// At most so far from a value.
    pub(super) const fn about(value: f64, tolerance: f64, unit: &'static str) -> Self {
        Self::between(value - tolerance, value + tolerance, unit)
    }

    /// No less than a value.
    pub(super) const fn at_least(low: f64, unit: &'static str) -> Self {
        Self::between(low, f64::INFINITY, unit)
    }

    /// No more than a value.
    pub(super) const fn at_most(high: f64, unit: &'static str) -> Self {
        Self::between(f64::NEG_INFINITY, high, unit)
    }

    /// Holds what a paper `says` against what was `found`.
    pub(super) fn judge(self, says: impl Into<String>, found: f64) -> Claim {
        let unit = self.unit;
        let asked = match (self.low.is_finite(), self.high.is_finite()) {
            (true, true) if self.low == self.high => number(self.low),
            (true, true) => format!("{} to {}", number(self.low), number(self.high)),
            (true, false) => format!("at least {}", number(self.low)),
            _ => format!("at most {}", number(self.high)),
        };
        let miss = if found < self.low {
            format!("; too low by {}{unit}", number(self.low - found))
        } else if found > self.high {
            format!("; too high by {}{unit}", number(found - self.high))
        } else {
            String::new()
        };
        let holds = (self.low..=self.high).contains(&found);
        Claim {
            says: says.into(),
            found: format!("{}{unit} (asked: {asked}{unit}){miss}", number(found)),
            verdict: verdict(holds),
        }
    }
}

/// A claim that holds or does not, where no single number decides.
pub(super) fn claim(says: impl Into<String>, found: impl Into<String>, holds: bool) -> Claim {
    Claim {
        says: says.into(),
        found: found.into(),
        verdict: verdict(holds),
    }
}

fn verdict(holds: bool) -> Verdict {
    if holds {
        Verdict::Reproduced
    } else {
        Verdict::NotReproduced
    }
}

/// A number for people: three digits that mean something, thousands apart.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1_000.0 {
        thousands_apart(&format!("{value:.0}"))
    } else if size >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.1e}")
    }
}

fn thousands_apart(digits: &str) -> String {
    match digits.split_at_checked(digits.len().saturating_sub(3)) {
        Some((head, tail)) if head.ends_with(|last: char| last.is_ascii_digit()) => {
            format!("{},{tail}", thousands_apart(head))
        }
        _ => digits.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(bounds: Bounds, found: f64) -> Verdict {
        bounds.judge("it is so", found).verdict
    }

    #[test]
    fn both_ends_belong_to_the_bounds_and_nothing_beyond() {
        let bounds = Bounds::about(80.0, 2.0, " ms");
        for (found, verdict) in [
            (77.9, Verdict::NotReproduced),
            (78.0, Verdict::Reproduced),
            (82.0, Verdict::Reproduced),
            (82.1, Verdict::NotReproduced),
            (f64::NAN, Verdict::NotReproduced),
        ] {
            assert_eq!(verdict_of(bounds, found), verdict, "{found}");
        }
        let at_least = Bounds::at_least(3_000.0, " ms");
        assert_eq!(verdict_of(at_least, 2_999.0), Verdict::NotReproduced);
        assert_eq!(verdict_of(at_least, 1e9), Verdict::Reproduced);
        let at_most = Bounds::at_most(345.0, " ms");
        assert_eq!(verdict_of(at_most, 346.0), Verdict::NotReproduced);
        assert_eq!(verdict_of(at_most, 0.0), Verdict::Reproduced);
    }

    #[test]
    fn the_text_says_by_how_much() {
        let bounds = Bounds::between(330.0, 345.0, " ms");
        let found = |value| bounds.judge("it is so", value).found;
        assert_eq!(
            found(279.0),
            "279 ms (asked: 330 to 345 ms); too low by 51.0 ms"
        );
        assert_eq!(
            found(345.5),
            "346 ms (asked: 330 to 345 ms); too high by 0.50 ms"
        );
        assert_eq!(found(340.0), "340 ms (asked: 330 to 345 ms)");
        let open = Bounds::at_least(3_000.0, " ms").judge("it is so", 4_560.0);
        assert_eq!(open.found, "4,560 ms (asked: at least 3,000 ms)");
        let none = Bounds::between(0.0, 0.0, "").judge("there are none", 0.0);
        assert_eq!(none.found, "0 (asked: 0)");
    }

    #[test]
    fn numbers_are_as_long_as_they_mean_something() {
        let shown = [0.0, 0.0123, 0.5, 12.34, 279.4, -4_563.2, 1_234_567.0].map(number);
        assert_eq!(
            shown,
            ["0", "1.2e-2", "0.50", "12.3", "279", "-4,563", "1,234,567"]
        );
    }
}
