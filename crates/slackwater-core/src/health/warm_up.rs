//! The share of a new replica: small at first, and larger with each good answer.

use super::WHOLE;
use crate::time::Instant;

/// Good answers that a share needs to double.
const ANSWERS: u32 = 8;

/// A share that starts small and doubles with answers that are as fast as the others'.
#[derive(Clone, Copy, Debug)]
pub(super) struct WarmUp {
    share: u32,
    good: u32,
    ends_at: Instant,
}

impl WarmUp {
    pub(super) const fn new(share: u32, ends_at: Instant) -> Self {
        Self {
            share,
            good: 0,
            ends_at,
        }
    }

    pub(super) const fn share(&self) -> u32 {
        self.share
    }

    /// Counts an answer. A bad one takes back two good ones.
    pub(super) const fn answered(&mut self, is_good: bool) {
        self.good = if is_good {
            self.good.saturating_add(1)
        } else {
            self.good.saturating_sub(2)
        };
    }

    /// Takes in the answers. Returns `true` if the warm-up is over.
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        if self.good >= ANSWERS {
            self.good = 0;
            self.share = self.share.saturating_mul(2);
        }
        self.share >= WHOLE || now >= self.ends_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_doubles_with_eight_good_responses_and_a_bad_one_takes_back_two() {
        let now = Instant::EPOCH;
        let mut warm_up = WarmUp::new(WHOLE / 10, Instant::from_nanos(1_000));
        let mut tick_after = |good, bad| {
            for _ in 0..good {
                warm_up.answered(true);
            }
            for _ in 0..bad {
                warm_up.answered(false);
            }
            (!warm_up.tick(now)).then_some(warm_up.share())
        };
        assert_eq!(tick_after(0, 3), Some(100_000));
        assert_eq!(tick_after(7, 1), Some(100_000));
        assert_eq!(tick_after(2, 0), Some(100_000), "five and two");
        assert_eq!(tick_after(1, 0), Some(200_000));
        assert_eq!(tick_after(7, 0), Some(200_000), "it starts again at none");
        assert_eq!(tick_after(1, 0), Some(400_000));
        assert_eq!(tick_after(8, 0), Some(800_000));
        assert_eq!(tick_after(8, 0), None, "it has the whole share");
    }

    #[test]
    fn warm_up_is_over_at_its_end() {
        let mut warm_up = WarmUp::new(WHOLE / 10, Instant::from_nanos(1_000));
        assert!(!warm_up.tick(Instant::from_nanos(999)));
        assert!(warm_up.tick(Instant::from_nanos(1_000)));
    }
}
