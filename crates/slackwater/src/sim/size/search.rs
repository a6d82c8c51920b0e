//! The search for the smallest number that is enough, where each try is expensive.
//!
//! It grows until a number is enough, doubling the step each time, and then halves the gap to the
//! largest number that was not. Whether a number is enough need not be monotonic: a tail may be
//! better with seven replicas than with eight. So a number counts only if the next one is enough as
//! well; otherwise the search goes on above it.

/// A search from `least` to `most`.
#[derive(Clone, Debug)]
pub(super) struct Search {
    most: usize,
    /// The largest number that is known not to be enough. No number below it was confirmed, either.
    short: usize,
    /// A number that is enough.
    enough: Option<usize>,
    /// The number above it is enough as well.
    is_confirmed: bool,
    /// Step above `short` while no number is enough.
    step: usize,
}

impl Search {
    /// Starts a search at `start`; numbers below `least` are assumed not to be enough.
    pub(super) fn new(least: usize, start: usize, most: usize) -> Self {
        let short = least.saturating_sub(1);
        Self {
            most,
            short,
            enough: None,
            is_confirmed: false,
            step: start.saturating_sub(short).max(1),
        }
    }

    /// Returns the number to try next; `None` once the search has ended.
    pub(super) fn next(&self) -> Option<usize> {
        match self.enough {
            None if self.short >= self.most => None,
            None => Some((self.short + self.step).min(self.most)),
            Some(enough) if enough - self.short > 1 => Some(self.short + (enough - self.short) / 2),
            Some(enough) if self.is_confirmed || enough >= self.most => None,
            Some(enough) => Some(enough + 1),
        }
    }

    /// Records whether `tried`, the number that [`Self::next`] returned, is enough.
    pub(super) fn record(&mut self, tried: usize, is_enough: bool) {
        match (self.enough, is_enough) {
            (Some(enough), true) if tried > enough => self.is_confirmed = true,
            (Some(enough), false) if tried > enough => {
                self.short = tried;
                self.enough = None;
                self.step = 1;
            }
            (_, true) => self.enough = Some(tried),
            (Some(_), false) => self.short = tried,
            (None, false) => {
                self.short = tried;
                self.step *= 2;
            }
        }
    }

    /// Returns the smallest number that is enough, once the search has ended; `None` if there is
    /// none.
    pub(super) fn answer(&self) -> Option<usize> {
        self.enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer, and how many numbers were tried.
    fn search(
        least: usize,
        start: usize,
        most: usize,
        is_enough: impl Fn(usize) -> bool,
    ) -> (Option<usize>, usize) {
        let mut search = Search::new(least, start, most);
        let mut tries = 0;
        while let Some(number) = search.next() {
            assert!((least..=most).contains(&number), "{number}");
            tries += 1;
            assert!(tries < 100, "it ends");
            search.record(number, is_enough(number));
        }
        (search.answer(), tries)
    }

    #[test]
    fn smallest_number_is_found_from_any_start() {
        for smallest in 1..=60 {
            for start in [1, 2, 7, 40, 64] {
                let (answer, tries) = search(1, start, 64, |number| number >= smallest);
                assert_eq!(answer, Some(smallest), "from {start}");
                assert!(tries <= 15, "{tries} tries from {start} to {smallest}");
            }
        }
    }

    #[test]
    fn search_finds_nothing_beyond_its_bounds() {
        assert_eq!(search(1, 8, 64, |_| false).0, None);
        assert_eq!(search(1, 8, 64, |number| number > 64).0, None);
        assert_eq!(
            search(1, 8, 64, |number| number >= 64).0,
            Some(64),
            "the last"
        );
        assert_eq!(
            search(3, 8, 64, |_| true).0,
            Some(3),
            "the first that may be"
        );
        assert_eq!(search(1, 1, 1, |_| true).0, Some(1));
    }

    #[test]
    fn number_is_rejected_if_the_next_larger_one_fails() {
        let (answer, _) = search(1, 8, 64, |number| number >= 20 || number == 8);
        assert_eq!(answer, Some(20));
        let (answer, _) = search(1, 2, 64, |number| number >= 10 && number != 11);
        assert_eq!(answer, Some(12));
    }
}
