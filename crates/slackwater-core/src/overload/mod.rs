//! A replica that is asked for more than it can do: who starts, who waits, and who is turned away
//! at once.
//!
//! [`ConcurrencyLimit`] says how many queries the application works on at a time, [`Queue`] holds
//! those that wait for a place, and [`Admission`] is both together. A server that takes in more
//! than it can finish finishes nothing in time, so whatever waits has an end, a query whose
//! deadline has passed is never started, and who is turned away hears why.
//!
//! | | file |
//! |---|---|
//! | who waits, in which order, and who goes | `queue` |
//! | whose time is over first | `ends` |
//! | whether a line has stood for too long | `standing` |
//! | how many at a time | `limit`, and `gradient` where that is learned |
//! | both together | `admission` |

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
    /// How urgent a query is. A higher one starts first; where there is no room, a lower one goes
    /// first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Priority by name {
        /// Somebody waits for the answer.
        #[default]
        Interactive = "interactive",
        /// It has to be done, but nobody sits and waits.
        Batch = "batch",
        /// A copy that may go unanswered: shadow traffic, or the second copy of a query.
        Shadow = "shadow",
    }
}

impl Priority {
    /// Its place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The priority of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

named! {
    /// Why a query was turned away unstarted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Shed by name {
        /// All places are taken, and so is all room to wait; or one of a higher priority took its
        /// room.
        Full = "full",
        /// Its deadline passed.
        Deadline = "deadline",
        /// It has waited for as long as anybody may.
        WaitOver = "wait_over",
        /// Its line has stood for too long, and so has it.
        Overloaded = "overloaded",
        /// Its other copy has been started elsewhere. `[H2]`
        TwinStarted = "twin_started",
    }
}

impl Shed {
    /// Its place in [`Self::ALL`].
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
            Self::TwinStarted => "its other copy has been started",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_place_and_a_name_of_its_own() {
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
