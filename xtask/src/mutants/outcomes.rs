//! The results of mutants, counted by file.

use crate::mutants::list::Mutant;
use std::collections::BTreeMap;

/// The result of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed.
    Caught,
    /// No test failed.
    Missed,
    /// The tests did not end.
    TimedOut,
    /// It does not compile, and does not count.
    Unviable,
}

impl Outcome {
    pub(super) const ALL: [Self; 4] = [Self::Caught, Self::Missed, Self::TimedOut, Self::Unviable];
}

/// A file's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) caught: usize,
    pub(super) missed: usize,
    pub(super) timed_out: usize,
    pub(super) unviable: usize,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Caught => &mut self.caught,
            Outcome::Missed => &mut self.missed,
            Outcome::Unviable => &mut self.unviable,
            Outcome::TimedOut => &mut self.timed_out,
        } += 1;
    }

    /// Number of mutants that compile.
    pub(super) const fn viable(&self) -> usize {
        self.caught + self.missed + self.timed_out
    }

    /// Number of mutants that the tests noticed: failed or timed out.
    pub(super) const fn noticed(&self) -> usize {
        self.caught + self.timed_out
    }
}

/// The results of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    pub(super) files: BTreeMap<String, Counts>,
    /// Mutants that no test noticed, as `file:line:column: what was changed`.
    pub(super) missed: Vec<String>,
    /// Mutants with which the tests did not end.
    pub(super) timed_out: Vec<String>,
}

impl Outcomes {
    pub(super) fn add(&mut self, mutant: &Mutant, outcome: Outcome) {
        let counts = self.files.entry(mutant.file.clone()).or_default();
        counts.add(outcome);
        match outcome {
            Outcome::Missed => self.missed.push(mutant.name.clone()),
            Outcome::TimedOut => self.timed_out.push(mutant.name.clone()),
            Outcome::Caught | Outcome::Unviable => {}
        }
    }

    /// The sum over all files.
    pub(super) fn total(&self) -> Counts {
        self.files
            .values()
            .fold(Counts::default(), |sum, file| Counts {
                caught: sum.caught + file.caught,
                missed: sum.missed + file.missed,
                timed_out: sum.timed_out + file.timed_out,
                unviable: sum.unviable + file.unviable,
            })
    }
}
