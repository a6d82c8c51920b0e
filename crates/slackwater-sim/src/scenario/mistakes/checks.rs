//! Checks of values against ranges, and the mistakes that they find.

use super::Mistake;
use core::ops::{Bound, RangeBounds};
use core::time::Duration;

/// The mistakes found so far, and the current path.
#[derive(Debug, Default)]
pub(super) struct Checks {
    path: String,
    mistakes: Vec<Mistake>,
}

/// Returns the range above `least`, and at most `most`.
pub(super) fn above<T>(least: T, most: T) -> (Bound<T>, Bound<T>) {
    (Bound::Excluded(least), Bound::Included(most))
}

/// Returns the range from 0 to below `bound`.
pub(super) fn below(bound: usize) -> (Bound<usize>, Bound<usize>) {
    (Bound::Included(0), Bound::Excluded(bound))
}

impl Checks {
    pub(super) fn found_nothing(&self) -> bool {
        self.mistakes.is_empty()
    }

    pub(super) fn into_mistakes(self) -> Vec<Mistake> {
        self.mistakes
    }

    /// Checks fields of the table `name`.
    pub(super) fn within(&mut self, name: &str, checks: impl FnOnce(&mut Self)) {
        let outside = self.path.len();
        self.path.push_str(name);
        self.path.push('.');
        checks(self);
        self.path.truncate(outside);
    }

    /// Checks a condition. If it is false, `message` says what is wrong and what would be right.
    pub(super) fn that(&mut self, field: &str, right: bool, message: impl FnOnce() -> String) {
        if !right {
            self.mistakes.push(Mistake {
                field: format!("{}{field}", self.path),
                message: message(),
            });
        }
    }

    pub(super) fn number(&mut self, field: &str, value: f64, range: impl RangeBounds<f64>) {
        self.value(field, &value, &range, |&number| shown(number));
    }

    pub(super) fn count(&mut self, field: &str, value: usize, range: impl RangeBounds<usize>) {
        self.value(field, &value, &range, usize::to_string);
    }

    pub(super) fn time(&mut self, field: &str, value: Duration, range: impl RangeBounds<Duration>) {
        self.value(field, &value, &range, |time| format!("{time:?}"));
    }

    fn value<T: PartialOrd>(
        &mut self,
        field: &str,
        value: &T,
        range: &impl RangeBounds<T>,
        show: impl Fn(&T) -> String,
    ) {
        // NaN is in no range.
        self.that(field, range.contains(value), || {
            let lower = match range.start_bound() {
                Bound::Included(least) => Some(format!("at least {}", show(least))),
                Bound::Excluded(least) => Some(format!("above {}", show(least))),
                Bound::Unbounded => None,
            };
            let upper = match range.end_bound() {
                Bound::Included(most) => Some(format!("at most {}", show(most))),
                Bound::Excluded(most) => Some(format!("below {}", show(most))),
                Bound::Unbounded => None,
            };
            let bounds: Vec<String> = lower.into_iter().chain(upper).collect();
            format!("is {}, and must be {}", show(value), bounds.join(" and "))
        });
    }
}

/// Formats a number in a readable form: an enormous or tiny one with an exponent, not with hundreds
/// of digits.
fn shown(number: f64) -> String {
    if number == 0.0 || (1e-9..1e15).contains(&number.abs()) || !number.is_finite() {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}
