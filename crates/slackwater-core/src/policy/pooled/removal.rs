//! Removal by rate: after each query some reports are removed, the oldest and the worst in turn.
//!
//! `[A10]` `[Prequal §4 "Probe reuse and removal"]` The oldest, because load changes. The worst,
//! because a report that is not chosen stays, so that the pool would end up with only loaded
//! replicas. Enough stay that picks do not become random.

use crate::draw::Draw;
use crate::fixed::{Accumulator, Rate};
use crate::policy::pooled::pool::Pool;
use crate::policy::probed::rank::Order;

/// The size below which removal by rate stops: two reports to decide, and two for when reports come
/// late or in bursts. For a pool hardly larger than that, one less than its capacity, but at least
/// the two to decide. `[Decision 0001]`
fn floor(capacity: usize) -> usize {
    4.min(capacity - 1).max(2)
}

/// Why a report was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Removed {
    #[default]
    Oldest,
    Worst,
}

/// The removals that are owed, and which kind is next.
#[derive(Clone, Debug, Default)]
pub(super) struct Removal {
    owed: Accumulator,
    next: Removed,
}

impl Removal {
    /// How many removals are due with this query.
    pub(super) fn due(&mut self, rate: Rate) -> u32 {
        self.owed.step(rate)
    }

    /// Removes one report and passes the turn on. Returns `None`, and keeps the turn, if the pool
    /// is too small.
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
