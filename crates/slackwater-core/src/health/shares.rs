//! Whom a query avoids: who has less than its whole share, as the draws will have it.

use super::WHOLE;
use crate::draw::Draw;
use crate::policy::{Policy, Query};
use crate::replica::ReplicaId;
use alloc::vec::Vec;

/// With more than so many that have less than their share, those with the smallest are spared, and
/// of them those that are held back before those that are new: each query compares with all.
const SPARED_MAX: usize = 64;

/// A query avoids no more than so many.
const AVOIDED_MAX: usize = SPARED_MAX + 16;

#[derive(Clone, Copy, Debug)]
struct Spared {
    replica: ReplicaId,
    share: u32,
    is_held_back: bool,
}

impl Spared {
    /// Who has the smaller one is spared rather.
    const fn rank(&self) -> (bool, u32) {
        (!self.is_held_back, self.share)
    }
}

/// The replicas in the choice that have less than their whole share.
#[derive(Debug)]
pub(super) struct Shares {
    less: Vec<Spared>,
    /// Of these the one to make room first, once there are too many.
    last: Option<usize>,
    /// Room for whom one query avoids.
    avoid: Vec<ReplicaId>,
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            less: Vec::with_capacity(SPARED_MAX),
            last: None,
            avoid: Vec::with_capacity(AVOIDED_MAX),
        }
    }
}

impl Shares {
    pub(super) fn clear(&mut self) {
        self.less.clear();
        self.last = None;
    }

    /// `is_held_back`: it has no more for what it did, not for being new.
    pub(super) fn add(&mut self, replica: ReplicaId, share: u32, is_held_back: bool) {
        if share == WHOLE {
            return;
        }
        let spared = Spared {
            replica,
            share,
            is_held_back,
        };
        if self.less.len() < SPARED_MAX {
            self.less.push(spared);
            return;
        }
        let less = &self.less;
        let rank = |place: usize| less.get(place).map(Spared::rank);
        let last = self
            .last
            .or_else(|| (0..less.len()).max_by_key(|&place| rank(place)));
        self.last = last;
        if let Some(place) = last
            && rank(place) > Some(spared.rank())
        {
            self.less[place] = spared;
            self.last = None;
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.less.is_empty()
    }

    /// Who has less than its whole share.
    pub(super) fn replicas(&self) -> impl Iterator<Item = ReplicaId> {
        self.less.iter().map(|spared| spared.replica)
    }

    /// Whom a query must not go to: those that it has tried, and others as the draws will have it;
    /// one draw for each that has less than its share. `None`: nobody but those tried. It is nobody
    /// where nobody else would be left who may be chosen, as a bad replica is better than one that
    /// is down; and not the one that the query is pinned to, as what it comes for is there and
    /// nowhere else.
    pub(super) fn avoid(
        &mut self,
        policy: &dyn Policy,
        query: Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<&[ReplicaId]> {
        self.avoid.clear();
        let fleet = policy.fleet();
        for &Spared { replica, share, .. } in &self.less {
            let drawn = (u128::from(draw.draw()) * u128::from(WHOLE)) >> 64;
            let is_avoided = drawn >= u128::from(share) && query.pinned != Some(replica);
            if is_avoided && fleet.is_available(replica) {
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
        let avoided = avoided.filter(|&&replica| fleet.is_available(replica));
        (avoided.count() < fleet.available().len()).then_some(&*self.avoid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::ReplicaIds;

    #[test]
    fn of_too_many_those_with_the_smallest_shares_are_spared_and_who_is_held_back_first() {
        let mut ids = ReplicaIds::new();
        let mut shares = Shares::default();
        let mut kept = |those: &mut dyn Iterator<Item = (u32, bool)>| {
            shares.clear();
            for (share, is_held_back) in those {
                let replica = ids.allocate().expect("room");
                shares.add(replica, share, is_held_back);
            }
            let mut kept: Vec<_> = shares.less.iter().map(Spared::rank).collect();
            kept.sort_unstable();
            kept
        };
        let falling = kept(&mut (0..200).rev().map(|share| (share, false)));
        assert_eq!(
            falling,
            (0..64).map(|share| (true, share)).collect::<Vec<_>>()
        );
        let new = (0..100).map(|_| (WHOLE / 10, false));
        let held_back = (0..10).map(|_| (WHOLE / 2, true));
        let both = kept(&mut new.chain(held_back));
        assert_eq!(both[..10], [(false, WHOLE / 2); 10]);
        assert_eq!(both[10..], [(true, WHOLE / 10); 54]);
        assert_eq!(kept(&mut [(WHOLE, true)].into_iter()), [], "it has all");
    }
}
