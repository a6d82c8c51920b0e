//! The consecutive seeds of a study.
//!
//! What was tuned on one set of seeds is checked on another, so the first need not be 1.

use core::fmt;

/// Consecutive seeds; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    last: u64,
}

impl Seeds {
    /// Returns `count` seeds from `first` on. A count of 0 counts as 1, and seeds end at the
    /// largest number.
    pub const fn new(first: u64, count: u64) -> Self {
        Self {
            first,
            last: first.saturating_add(count.saturating_sub(1)),
        }
    }

    /// Returns the seeds from 1 to `count`.
    pub const fn up_to(count: u64) -> Self {
        Self::new(1, count)
    }

    /// Returns the number of seeds.
    pub fn count(self) -> usize {
        usize::try_from(self.last - self.first)
            .unwrap_or(usize::MAX)
            .saturating_add(1)
    }

    /// Returns each seed, in order.
    pub fn iter(self) -> impl Iterator<Item = u64> + Clone {
        self.first..=self.last
    }
}

/// `seed 7`, or `seeds 4 to 6`.
impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "seed {}", self.first)
        } else {
            write!(f, "seeds {} to {}", self.first, self.last)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(seeds: Seeds) -> Vec<u64> {
        seeds.iter().collect()
    }

    #[test]
    fn seeds_are_consecutive() {
        assert_eq!(all(Seeds::up_to(3)), [1, 2, 3]);
        assert_eq!(all(Seeds::new(4, 3)), [4, 5, 6]);
        assert_eq!(Seeds::new(4, 3).count(), 3);
        assert_eq!(all(Seeds::new(7, 0)), [7], "at least one");
        assert_eq!(all(Seeds::new(u64::MAX, 2)), [u64::MAX], "and no more");
    }

    #[test]
    fn seeds_are_displayed_as_a_range() {
        assert_eq!(Seeds::new(4, 3).to_string(), "seeds 4 to 6");
        assert_eq!(Seeds::new(7, 1).to_string(), "seed 7");
    }
}
