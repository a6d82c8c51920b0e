//! Compares a number with its bounds: whether a claim is reproduced, and how close it is.

use super::{Claim, Verdict};
pub(super) use crate::number::significant as number;

/// The range in which a number must lie, both ends included, and its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    low: f64,
    high: f64,
    unit: &'static str,
}

impl Bounds {
    /// Allows values between two ends.
    pub(super) const fn between(low: f64, high: f64, unit: &'static str) -> Self {
        Self { low, high, unit }
    }

    /// Allows values at most `tolerance` away from `value`.
    pub(super) const fn about(value: f64, tolerance: f64, unit: &'static str) -> Self {
        Self::between(value - tolerance, value + tolerance, unit)
    }

    /// Allows `low` and more.
    pub(super) const fn at_least(low: f64, unit: &'static str) -> Self {
        Self::between(low, f64::INFINITY, unit)
    }

    /// Allows `high` and less.
    pub(super) const fn at_most(high: f64, unit: &'static str) -> Self {
        Self::between(f64::NEG_INFINITY, high, unit)
    }

    /// Compares what was `found` with what a paper `says`.
    pub(super) fn judge(self, says: impl Into<String>, found: f64) -> Claim {
        let unit = self.unit;
        let asked = match (self.low.is_finite(), self.high.is_finite()) {
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

/// Makes a claim that holds or does not, where no single number decides.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(bounds: Bounds, found: f64) -> Verdict {
        bounds.judge("it is so", found).verdict
    }

    #[test]
    fn bounds_are_inclusive() {
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
    fn text_states_the_distance_from_the_bound() {
        let bounds = Bounds::between(330.0, 345.0, " ms");
        let found = |value| bounds.judge("it is so", value).found;
        assert_eq!(
            found(279.0),
            "279 ms (asked: 330 to 345 ms); too low by 51 ms"
        );
        assert_eq!(
            found(345.5),
            "345.5 ms (asked: 330 to 345 ms); too high by 0.5 ms"
        );
        assert_eq!(found(340.0), "340 ms (asked: 330 to 345 ms)");
        let open = Bounds::at_least(3_000.0, " ms").judge("it is so", 4_560.0);
        assert_eq!(open.found, "4,560 ms (asked: at least 3,000 ms)");
        let none = Bounds::at_most(0.0, "").judge("there are none", 1.0);
        assert_eq!(none.found, "1 (asked: at most 0); too high by 1");
    }
}
