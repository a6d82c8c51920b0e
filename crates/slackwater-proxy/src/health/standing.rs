//! Turns the check results of one replica into a verdict.
//!
//! A single check may fail or pass by chance, so a verdict changes only after several consecutive
//! checks. The very first check decides alone, because there is no verdict that it could
//! contradict.

use slackwater_config::Thresholds;

/// Verdict on a replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not checked yet; treated as up.
    #[default]
    Unknown,
    /// The replica gets requests.
    Up,
    /// The replica gets no requests.
    Down,
}

impl Verdict {
    /// Returns the verdict in one word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A replica's verdict, and the checks against it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    verdict: Verdict,
    /// Consecutive checks that contradict the verdict.
    against: u32,
}

impl Standing {
    pub(super) const fn verdict(self) -> Verdict {
        self.verdict
    }

    /// Records a check. Returns whether the verdict has changed.
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

    /// Returns the verdict after each of these checks: `+` passed, `-` failed; `u` and `d` for up
    /// and down.
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
    fn verdicts_change_after_consecutive_checks() {
        assert_eq!(verdicts("+--"), "uuu");
        assert_eq!(verdicts("+---"), "uuud");
        assert_eq!(verdicts("+--+--"), "uuuuuu", "not in a row");
        assert_eq!(verdicts("-+"), "dd");
        assert_eq!(verdicts("-++"), "ddu");
        assert_eq!(verdicts("-+-+"), "dddd", "not in a row");
        assert_eq!(verdicts("-++---"), "dduuud", "and again after each change");
    }
}
