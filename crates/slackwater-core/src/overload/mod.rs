//! Overload control of a replica: which queries start, which wait, and which are shed at once.
//!
//! [`ConcurrencyLimit`] sets how many queries the application processes at a time. [`Queue`] holds
//! those that wait for a permit. [`Admission`] combines the two. A server that takes in more than
//! it can finish finishes nothing in time. So every wait has an end, a query whose deadline has
//! passed is never started, and a shed query gets the reason.
//!
//! | | file |
//! |---|---|
//! | waiting queries, their order, and which are dropped | `queue` |
//! | which wait ends first | `ends` |
//! | whether a line is standing | `standing` |
//! | the limit, fixed or learned | `limit`, `gradient` |
//! | queue and limit together | `admission` |

mod admission;
mod ends;
mod gradient;
mod limit;
mod queue;
mod standing;

pub use admission::{Admission, AdmissionView, Admit, Left, Started};
pub use gradient::{GradientConfig, GradientSettings};
pub use limit::ConcurrencyLimit;
pub use queue::{
    Asks, Discipline, Place, Queue, QueueConfig, QueueSettings, Refused, Taken, Waits,
};

use crate::named;
use core::fmt;

named! {
    /// How urgent a query is. A higher priority starts first; if the queue is full, a lower one is
    /// shed first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Priority by name {
        /// A person waits for the answer.
        #[default]
        Interactive = "interactive",
        /// It must be done, but no person waits for it.
        Batch = "batch",
        /// A copy that may go unanswered: shadow traffic, or the second copy of a query.
        Shadow = "shadow",
    }
}

impl Priority {
    /// Its index in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The priority with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

named! {
    /// Why a query was shed before it started.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Shed by name {
        /// No permit is free and the queue is full, or a query of a higher priority took its slot.
        Full = "full",
        /// Its deadline passed.
        Deadline = "deadline",
        /// It has waited for the longest time allowed.
        WaitOver = "wait_over",
        /// Its line is standing, and it has waited for too long itself.
        Overloaded = "overloaded",
        /// Its other copy has been started elsewhere. `[H2]`
        CopyStarted = "twin_started",
    }
}

impl Shed {
    /// Its index in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Shed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "too many queries wait already",
            Self::Deadline => "the deadline passed before its turn came",
            Self::WaitOver => "its turn did not come in time",
            Self::Overloaded => "the queue has stood for too long",
            Self::CopyStarted => "its other copy has been started",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_and_shed_reasons_have_unique_indices_and_names() {
        for (index, priority) in Priority::ALL.into_iter().enumerate() {
            assert_eq!(priority.index(), index);
            assert_eq!(Priority::named(priority.name()), Some(priority));
        }
        assert_eq!(Priority::named("Batch"), None);
        assert!(Priority::Interactive < Priority::Batch && Priority::Batch < Priority::Shadow);
        for (index, shed) in Shed::ALL.into_iter().enumerate() {
            assert_eq!(shed.index(), index);
            let same = Shed::ALL.iter().filter(|it| it.name() == shed.name());
            assert_eq!(same.count(), 1);
        }
    }
}
