//! What is kept of the last probe of each replica, and of how earlier ones ended.

use crate::time::{Instant, MaybeInstant};

/// The last probe of a replica, and the results of earlier ones. It is kept with all else that
/// probes look up of a replica, in the fleet: with many replicas each table is a cache miss.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::policy) struct LastProbe {
    pub(in crate::policy) sent_at: MaybeInstant,
    pub(in crate::policy) answered_at: MaybeInstant,
    /// When the first of the lost probes that count was lost.
    pub(in crate::policy) lost_since: MaybeInstant,
    /// Lost probes since the last answer.
    pub(in crate::policy) lost_in_a_row: u8,
    pub(in crate::policy) outstanding: bool,
    pub(in crate::policy) fared: Fared,
}

impl LastProbe {
    /// Notes that the replica has answered a probe. Returns how many it lost in a row before.
    pub(in crate::policy) fn answered(&mut self, now: Instant) -> u8 {
        self.answered_at = now.into();
        core::mem::take(&mut self.lost_in_a_row)
    }

    /// Notes that a probe is lost. Returns it with the ones lost before it.
    pub(in crate::policy) fn lost(&mut self, now: Instant) -> LostProbes {
        if self.lost_in_a_row == 0 {
            self.lost_since = now.into();
        }
        self.lost_in_a_row = self.lost_in_a_row.saturating_add(1);
        LostProbes {
            answered_at: self.answered_at.get(),
            since: self.lost_since.get().unwrap_or(now),
            in_a_row: self.lost_in_a_row,
        }
    }
}

/// How a replica's probes ended, in the window in which one last did.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::policy) struct Fared {
    pub(in crate::policy) window: u32,
    /// Bad ends minus good ends.
    pub(in crate::policy) balance: i32,
}

/// Lost probes of a replica in a row.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct LostProbes {
    /// When it last answered a probe before, if ever.
    pub(in crate::policy) answered_at: Option<Instant>,
    /// When the first of them was lost.
    pub(in crate::policy) since: Instant,
    pub(in crate::policy) in_a_row: u8,
}
