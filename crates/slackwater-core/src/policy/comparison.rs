//! What a choice compares, described so that any reader can show it as columns and recompute it.
//!
//! A [`Comparison`] is a constant: the factors with their units, the formula, the order, and the
//! rule for ties. An [`Explanation`](crate::policy::Explanation) and a
//! [`Snapshot`](crate::policy::Snapshot) name the comparison that was made and carry the [`Values`]
//! of its factors. Code that shows a decision needs no policy names.

use crate::named;
use core::fmt;

/// Most factors of a comparison.
const VALUES_MAX: usize = 8;
/// Marks an unknown value.
const UNKNOWN: u64 = u64::MAX;

/// How candidates are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Its name, for programs.
    pub name: &'static str,
    /// The formula that combines the factors.
    pub formula: &'static str,
    /// Figures that are the same for all candidates.
    pub shared: &'static [Factor],
    /// Figures of each candidate.
    pub factors: &'static [Factor],
    /// The sort keys of candidates, the first step first. Candidates that the query avoids are not
    /// sorted.
    pub order: &'static [Step],
    /// What decides between candidates that are equal in all steps.
    pub equals: Equals,
}

/// A figure that a choice compares, or that is part of such a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Its name for programs, with the unit.
    pub key: &'static str,
    /// Its name, for people.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Number of parts of that unit that 1 in [`Values`] stands for.
    pub parts: u64,
    /// Whether the value is the bits of a double-precision number.
    pub is_float: bool,
}

named! {
    /// The unit of a factor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Unit by as_str {
        /// Requests in flight, or equivalents.
        Requests = "requests",
        /// A time, in microseconds.
        Microseconds = "microseconds",
        /// A part of a whole; 1 is all.
        Share = "share",
        /// A plain number.
        Count = "count",
        /// 1 for true, 0 for false.
        Flag = "flag",
    }
}

/// One step of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The key of the factor that is compared.
    pub by: &'static str,
    /// The value that wins.
    pub best: Best,
    /// The key of a flag: if it is 1, this step is skipped. Earlier steps make sure that it is the
    /// same for all candidates that are still equal.
    pub unless: Option<&'static str>,
}

named! {
    /// The value that wins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Best by as_str {
        /// The lower one.
        Lowest = "lowest",
        /// The higher one.
        Highest = "highest",
    }
}

/// What decides between equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equals {
    /// The one with the lowest [number](crate::policy::Candidate::number).
    First,
    /// A draw from 0 to 1: of `k` equals in the order of their numbers, the one at `⌊draw × k⌋`.
    Draw,
    /// A draw from 0 to 1. The chances, a factor with this key, are laid end to end in the order of
    /// the numbers, and the draw falls on one of them.
    Chances(&'static str),
}

impl Equals {
    /// Its name, for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Draw => "draw",
            Self::Chances(_) => "chances",
        }
    }
}

impl Comparison {
    /// The factor that decides first, if one does.
    pub fn decisive(&self) -> Option<&'static Factor> {
        let by = self.order.first()?.by;
        self.factors.iter().find(|factor| factor.key == by)
    }
}

impl Step {
    /// The candidate with the lowest value of this factor wins.
    pub const fn lowest(by: &'static str) -> Self {
        Self {
            by,
            best: Best::Lowest,
            unless: None,
        }
    }
}

impl Factor {
    pub(in crate::policy) const fn new(
        key: &'static str,
        name: &'static str,
        unit: Unit,
        parts: u64,
    ) -> Self {
        Self {
            key,
            name,
            unit,
            parts,
            is_float: false,
        }
    }

    /// Requests, in `parts` of one.
    pub const fn requests(key: &'static str, name: &'static str, parts: u64) -> Self {
        Self::new(key, name, Unit::Requests, parts)
    }

    /// A time, in `parts` of a microsecond.
    pub const fn time(key: &'static str, name: &'static str, parts: u64) -> Self {
        Self::new(key, name, Unit::Microseconds, parts)
    }

    /// A part of a whole, in millionths.
    pub const fn share(key: &'static str, name: &'static str) -> Self {
        Self::new(key, name, Unit::Share, 1_000_000)
    }

    /// A plain number.
    pub const fn count(key: &'static str, name: &'static str) -> Self {
        Self::new(key, name, Unit::Count, 1)
    }

    /// Whether a condition holds.
    pub const fn flag(key: &'static str, name: &'static str) -> Self {
        Self::new(key, name, Unit::Flag, 1)
    }

    /// This factor, with values that are the bits of a floating-point number.
    #[must_use]
    pub const fn float(self) -> Self {
        Self {
            is_float: true,
            ..self
        }
    }
}

/// The values of a comparison's factors, in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values([u64; VALUES_MAX]);

impl Values {
    /// All values unknown.
    pub const NONE: Self = Self([UNKNOWN; VALUES_MAX]);

    /// The first values, in the order of the factors. The rest are unknown.
    pub fn of<const N: usize>(values: [u64; N]) -> Self {
        const { assert!(N <= VALUES_MAX, "a comparison has at most eight factors") };
        let mut all = Self::NONE;
        all.0[..N].copy_from_slice(&values);
        all
    }

    /// Like [`Self::of`], with values that may be unknown.
    pub fn of_known<const N: usize>(values: [Option<u64>; N]) -> Self {
        Self::of(values.map(|value| value.unwrap_or(UNKNOWN)))
    }

    /// The value of the factor at this place; `None` if unknown.
    pub fn at(&self, place: usize) -> Option<u64> {
        self.0.get(place).copied().filter(|&value| value != UNKNOWN)
    }
}

impl Default for Values {
    fn default() -> Self {
        Self::NONE
    }
}

/// Shows only the known values.
impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = (0..VALUES_MAX).filter_map(|place| Some((place, self.at(place)?)));
        f.debug_map().entries(known).finish()
    }
}

/// A random replica, at any load.
pub(in crate::policy) const CHANCE: Comparison = Comparison {
    name: "chance",
    formula: "each is as likely as any other",
    shared: &[],
    factors: &[],
    order: &[],
    equals: Equals::Draw,
};

/// The next replica in turn.
pub(in crate::policy) const NEXT_IN_TURN: Comparison = Comparison {
    name: "next_in_turn",
    formula: "the next in turn",
    shared: &[],
    factors: &[],
    order: &[],
    equals: Equals::First,
};

/// A client's own requests in flight.
pub(in crate::policy) const OWN_IN_FLIGHT: Factor =
    Factor::requests("in_flight", "requests in flight", 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::POLICIES;
    use alloc::vec::Vec;

    #[test]
    fn steps_name_factors_of_their_comparison_and_keys_are_unique() {
        for comparison in POLICIES.iter().flat_map(|entry| entry.comparisons) {
            let all = comparison.shared.iter().chain(comparison.factors);
            let mut keys: Vec<_> = all.map(|factor| factor.key).collect();
            let of_candidates = |key: &str| comparison.factors.iter().any(|it| it.key == key);
            for step in comparison.order {
                assert!(of_candidates(step.by), "{}: {}", comparison.name, step.by);
                assert!(step.unless.is_none_or(of_candidates), "{}", comparison.name);
            }
            if let Equals::Chances(by) = comparison.equals {
                assert!(of_candidates(by), "{}", comparison.name);
            }
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count, "{}", comparison.name);
            assert!(comparison.factors.len() <= VALUES_MAX);
        }
    }

    #[test]
    fn comparison_names_are_unique() {
        let mut all: Vec<_> = (POLICIES.iter().flat_map(|it| it.comparisons).copied()).collect();
        all.sort_unstable_by_key(|comparison| comparison.name);
        let same =
            |pair: &[&'static Comparison]| pair[0].name != pair[1].name || pair[0] == pair[1];
        assert!(all.windows(2).all(same));
    }

    #[test]
    fn missing_value_is_unknown() {
        let values = Values::of([7, UNKNOWN]);
        assert_eq!(
            [0, 1, 2, 99].map(|place| values.at(place)),
            [Some(7), None, None, None]
        );
    }
}
