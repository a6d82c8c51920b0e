//! The loss of probes that this client sees, and how many probes in a row a replica must leave
//! unanswered before it counts as gone. `[Decision 0007]`
//!
//! Probes get lost although their replica lives: on the way, or because the answer is late. If a
//! share `p` of them is lost, the last `n` probes of a living replica are all lost with probability
//! `p^n`. That is also the share of living replicas that would count as gone at any time, so `n` is
//! the smallest number that makes it negligible.

use crate::fixed::follow;

/// Fewest probes in a row without an answer that make a replica unprobed, and may make it lost.
pub(in crate::policy) const LOST_IN_A_ROW_MIN: u8 = 3;
/// Most such probes, whatever the loss. A replica that is gone must be found.
const LOST_IN_A_ROW_MAX: u8 = 16;
/// All probes.
const ALL: u64 = 1 << 30;
/// Share of living replicas that may count as gone: one in ten thousand. In a fleet of a thousand,
/// one client then wrongly leaves out a tenth of a replica in the mean.
const MISTAKEN_MAX: u64 = ALL / 10_000;
/// Length of the running mean, in probes.
const REMEMBERED: u64 = 256;
/// The mean begins as if this many probes had been answered, so that the first loss shows little.
const PRESUMED: u64 = 32;

/// The running mean of lost probes, among replicas that answer.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct ProbeLoss {
    /// Lost probes, in parts of [`ALL`].
    share: u64,
    /// Probes that count so far, at most [`REMEMBERED`].
    seen: u64,
}

impl ProbeLoss {
    /// Notes that a replica has answered after it lost `lost` probes in a row: it lived all the
    /// while, so the loss was not its end. `is_own`: the answer is to a probe of this client, and
    /// not to a sibling's.
    ///
    /// A run that made the replica count as gone is left out. It was gone, or restarted, and shows
    /// nothing about the others. Where it was alive, shorter runs raise the mean, and with it the
    /// length of the runs that count.
    pub(in crate::policy) fn answered(&mut self, lost: u8, is_own: bool) {
        if lost > 0 {
            self.note_run(lost);
        }
        if is_own {
            self.note(0);
        }
    }

    #[cold]
    fn note_run(&mut self, lost: u8) {
        if lost < self.lost_in_a_row() {
            for _ in 0..lost {
                self.note(ALL);
            }
        }
    }

    fn note(&mut self, lost: u64) {
        self.seen = (self.seen + 1).min(REMEMBERED - PRESUMED);
        // Without any loss, which is usual, the mean stays what it is.
        if self.share != lost {
            self.share = follow(self.share, lost, PRESUMED + self.seen);
        }
    }

    /// Probes in a row without an answer that make a replica unprobed, and may make it lost.
    pub(in crate::policy) fn lost_in_a_row(&self) -> u8 {
        let mut mistaken = ALL;
        for lost in 1..LOST_IN_A_ROW_MAX {
            mistaken = mistaken * self.share / ALL;
            if lost >= LOST_IN_A_ROW_MIN && mistaken <= MISTAKEN_MAX {
                return lost;
            }
        }
        LOST_IN_A_ROW_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{SplitMix64, below};

    /// The number of probes at this loss, in percent.
    fn at_loss(percent: u64) -> u8 {
        let loss = ProbeLoss {
            share: ALL * percent / 100,
            seen: REMEMBERED,
        };
        loss.lost_in_a_row()
    }

    #[test]
    fn one_in_ten_thousand_living_replicas_counts_as_gone() {
        let cases = [
            (0, 3),
            (4, 3),  // 0.04^3 = 6.4e-5
            (5, 4),  // 0.05^3 = 1.25e-4
            (10, 4), // exactly one in ten thousand
            (20, 6),
            (30, 8),
            (40, 11),
            (50, 14),
            (55, 16),
            (90, 16),
            (100, 16),
        ];
        for (percent, lost) in cases {
            assert_eq!(at_loss(percent), lost, "{percent} %");
        }
    }

    #[test]
    fn number_of_probes_follows_the_loss_from_any_beginning() {
        for (percent, expected) in [(1, 3..=4), (30, 6..=10), (50, 11..=16), (70, 16..=16)] {
            for mut loss in [
                ProbeLoss::default(),
                ProbeLoss {
                    share: ALL * 9 / 10,
                    seen: REMEMBERED,
                },
            ] {
                let mut draw = SplitMix64::new(7);
                let mut run = 0;
                for probe in 0..20_000 {
                    if below(&mut draw, 100) < percent {
                        run += 1;
                    } else {
                        loss.answered(run, true);
                        run = 0;
                    }
                    let lost = loss.lost_in_a_row();
                    assert!(
                        probe < 2_000 || expected.contains(&lost),
                        "{percent} %: {lost} after {probe}"
                    );
                }
            }
        }
    }

    #[test]
    fn replicas_that_come_back_raise_no_loss() {
        let mut loss = ProbeLoss::default();
        for _ in 0..1_000 {
            loss.answered(LOST_IN_A_ROW_MIN, true);
            loss.answered(u8::MAX, true);
        }
        assert_eq!(loss.share, 0);
        loss.answered(LOST_IN_A_ROW_MIN - 1, true);
        assert!(loss.share > 0, "a shorter run counts");
    }

    #[test]
    fn first_lost_probes_change_little() {
        let mut loss = ProbeLoss::default();
        loss.answered(1, true);
        assert_eq!(loss.lost_in_a_row(), 3);
        loss.answered(2, true);
        loss.answered(2, true);
        assert_eq!(loss.lost_in_a_row(), 5, "five of eight, and 32 presumed");
    }

    #[test]
    fn answers_to_siblings_are_not_answers_to_own_probes() {
        let mut loss = ProbeLoss::default();
        loss.answered(2, true);
        let share = loss.share;
        for _ in 0..1_000 {
            loss.answered(0, false);
        }
        assert_eq!(loss.share, share);
        loss.answered(1, false);
        assert!(loss.share > share, "but they prove that the replica lives");
    }

    #[test]
    fn mean_is_over_256_probes_of_which_32_are_presumed() {
        let probes = |share| (ALL + share / 2) / share;
        let mut loss = ProbeLoss::default();
        loss.answered(1, true);
        assert_eq!(probes(loss.share), 34, "one of two, and 32 presumed");
        let mut loss = ProbeLoss::default();
        for _ in 0..1_000 {
            loss.answered(0, true);
        }
        loss.answered(1, true);
        assert_eq!(probes(loss.share), 257, "a 256th, and a bit has faded");
    }
}
