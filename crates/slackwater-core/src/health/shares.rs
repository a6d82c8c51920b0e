//! Whom a query avoids: who has less than its whole share, as the draws will have it.

use super::WHOLE;
use crate::draw::Draw;
use crate::policy::{Policy, Query};
use crate::replica::ReplicaId;
use alloc::vec::Vec;

/// With more than so many that have less than their share, the others of them are not spared: each query compares with all.
const SPARED_MAX: usize = 64;

/// A query avoids no more than so many.
const AVOIDED_MAX: usize = SPARED_MAX + 16;

/// The replicas in the choice that have less than their whole share.
#[derive(Debug)]
pub(super) struct Shares {
    less: Vec<(ReplicaId, u32)>,
    /// Room for whom one query avoids.
    avoid: Vec<ReplicaId>,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            less: Vec::with_capacity(SPARED_MAX),
            avoid: Vec::with_capacity(AVOIDED_MAX),
        }
    }
}

impl Shares {
    pub(super) fn clear(&mut self) {
        self.less.clear();
    }

    pub(super) fn add(&mut self, replica: ReplicaId, share: u32) {
        if share < WHOLE && self.less.len() < SPARED_MAX {
            self.less.push((replica, share));
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.less.is_empty()
    }

    /// Whom a query must not go to: those that it has tried, and others as the draws will have it; one draw for each that has
    /// less than its share. `None`: nobody but those tried. It is nobody where nobody else would be left who may be chosen, as
    /// a bad replica is better than one that is down; and not the one that the query is pinned to, as what it comes for is
    /// there and nowhere else.
    pub(super) fn avoid(
        &mut self,
        policy: &dyn Policy,
        query: Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<&[ReplicaId]> {
        self.avoid.clear();
        for &(replica, share) in &self.less {
            let drawn = (u128::from(draw.draw()) * u128::from(WHOLE)) >> 64;
            let is_avoided = drawn >= u128::from(share) && query.pinned != Some(replica);
            if is_avoided && policy.is_available(replica) {
                self.avoid.push(replica);
            }
        }
        if self.avoid.is_empty() {
            return None;
        }
        for &tried in query.avoid {
            // A query that has been at more than there is room for is spared nobody.
            if self.avoid.len() == AVOIDED_MAX {
                return None;
            }
            if !self.avoid.contains(&tried) {
                self.avoid.push(tried);
            }
        }
        let avoided = self.avoid.iter();
        let avoided = avoided.filter(|&&replica| policy.is_available(replica));
        (avoided.count() < policy.available_count()).then_some(&*self.avoid)
    }
}
