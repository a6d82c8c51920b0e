//! From checks to a verdict: one replica's standing.
//!
//! One check that fails may be chance, and one that passes may be too; so it takes several in a row
//! to change a verdict. The first check of all decides alone: before it nothing is known that it
//! could contradict.

use slackwater_config::Thresholds;

/// What is thought of a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has not been checked yet, and is taken to be up.
    #[default]
    Unknown,
    /// It gets requests.
    Up,
    /// It gets none.
    Down,
}

impl Verdict {
    /// It in one word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A replica's verdict, and what speaks against it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    verdict: Verdict,
    /// Checks in a row that contradict the verdict.
    against: u32,
}

impl Standing {
    pub(super) const fn verdict(self) -> Verdict {
        self.verdict
    }

    /// Notes a check; whether the verdict has changed.
    pub(super) fn note(&mut self, has_passed: bool, thresholds: Thresholds) -> bool {
        let (said, needed) = if has_passed {
            (Verdict::Up, thresholds.rise)
        } else {
            (Verdict::Down, thresholds.fall)
        };
        if said == self.verdict {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let is_enough = self.verdict == Verdict::Unknown || self.against >= needed;
        if is_enough {
            *self = Self {
                verdict: said,
                against: 0,
            };
        }
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds { rise: 2, fall: 3 };

    /// The verdict after each of these checks: `+` passed, `-` failed; `u` and `d` for up and down.
    fn verdicts(checks: &str) -> String {
        let mut standing = Standing::default();
        let verdict = |check| {
            let before = standing.verdict();
            let has_changed = standing.note(check == '+', THRESHOLDS);
            assert_eq!(has_changed, standing.verdict() != before, "{checks}");
            match standing.verdict() {
                Verdict::Unknown => '?',
                Verdict::Up => 'u',
                Verdict::Down => 'd',
            }
        };
        checks.chars().map(verdict).collect()
    }

    #[test]
    fn the_first_check_decides_alone() {
        assert_eq!(verdicts("+"), "u");
        assert_eq!(verdicts("-"), "d");
        assert_eq!(Standing::default().verdict(), Verdict::Unknown);
    }

    #[test]
    fn it_takes_so_many_in_a_row_to_fall_and_to_rise() {
        assert_eq!(verdicts("+--"), "uuu");
        assert_eq!(verdicts("+---"), "uuud");
        assert_eq!(verdicts("+--+--"), "uuuuuu", "not in a row");
        assert_eq!(verdicts("-+"), "dd");
        assert_eq!(verdicts("-++"), "ddu");
        assert_eq!(verdicts("-+-+"), "dddd", "not in a row");
        assert_eq!(verdicts("-++---"), "dduuud", "and anew after each change");
    }
}
