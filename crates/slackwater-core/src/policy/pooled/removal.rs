//! Removal by rate: after each query some reports go, the oldest and the worst in turn.
//!
//! `[A10]` `[Prequal §4 "Probe reuse and removal"]` The oldest, because load changes; the worst,
//! because whatever is not chosen stays, and the pool would come to hold nothing but loaded
//! replicas. Not so many that chance has to choose.

use crate::draw::Draw;
use crate::fixed::{Accumulator, Rate};
use crate::policy::pooled::pool::Pool;
use crate::policy::probed::rank::Order;

/// Removal by rate leaves a pool of this size alone: two to decide, and two for when reports come
/// late or in bursts. Where the pool is hardly larger than that, one place less than it has, but
/// the two to decide in any case. `[Decision 0001]`
fn floor(capacity: usize) -> usize {
    4.min(capacity - 1).max(2)
}

/// As what a report was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Removed {
    #[default]
    Oldest,
    Worst,
}

/// What is owed, and whose turn it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Removal {
    owed: Accumulator,
    next: Removed,
}

impl Removal {
    /// How many removals fall to this query.
    pub(super) fn due(&mut self, rate: Rate) -> u32 {
        self.owed.step(rate)
    }

    /// Removes one report and passes the turn on; `None`, and the turn stays, if the pool has none
    /// to spare.
    pub(super) fn remove(
        &mut self,
        pool: &mut Pool,
        order: impl Order,
        draw: &mut dyn Draw,
    ) -> Option<Removed> {
        if pool.len() <= floor(pool.capacity()) {
            return None;
        }
        let removed = self.next;
        self.next = match removed {
            Removed::Oldest => {
                pool.remove_at(0);
                Removed::Worst
            }
            Removed::Worst => {
                let worst = pool.worst(order, draw)?;
                pool.remove_at(worst);
                Removed::Oldest
            }
        };
        Some(removed)
    }
}
