//! The replicas that a query avoids, drawn at random from those with less than their whole share.

use super::WHOLE;
use crate::draw::Draw;
use crate::policy::{Policy, Query};
use crate::replica::ReplicaId;
use alloc::vec::Vec;

/// At most this many replicas are spared, since each query draws for all of them. If more have less
/// than their share, those with the smallest are spared, and held-back ones before new ones.
const SPARED_MAX: usize = 64;

/// Most replicas that a query avoids.
const AVOIDED_MAX: usize = SPARED_MAX + 16;

#[derive(Clone, Copy, Debug)]
struct Spared {
    replica: ReplicaId,
    share: u32,
    is_held_back: bool,
}

impl Spared {
    /// The replica with the smaller rank is spared first.
    const fn rank(&self) -> (bool, u32) {
        (!self.is_held_back, self.share)
    }
}

/// The replicas in the choice that have less than their whole share.
#[derive(Debug)]
pub(super) struct Shares {
    less: Vec<Spared>,
    /// The one of `less` to replace first once there are too many.
    last: Option<usize>,
    /// Buffer for the replicas that one query avoids.
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

    /// Adds a replica. `is_held_back`: its share is small for what it did, not because it is new.
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

    /// The replicas that have less than their whole share.
    pub(super) fn replicas(&self) -> impl Iterator<Item = ReplicaId> {
        self.less.iter().map(|spared| spared.replica)
    }

    /// The replicas that a query must avoid: those it has tried, and others by chance, with one
    /// draw for each that has less than its share. `None`: only those tried. It is also `None` if
    /// no available replica would be left, because a bad replica is better than none. The replica
    /// that the query is pinned to is never avoided, because only that one has what the query
    /// needs.
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
            // There is no space for all that the query has tried: spares no replica.
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
    use crate::draw::NoDraw;
    use crate::policy::{Event, Random};
    use crate::replica::ReplicaIds;
    use crate::time::Instant;

    #[test]
    fn smallest_shares_are_kept_with_limited_replicas_first() {
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

    #[test]
    fn query_avoids_a_replica_with_a_probability_of_one_minus_its_share() {
        let mut ids = ReplicaIds::new();
        let mut policy = Random::new();
        let [first, _] = [(); 2].map(|()| {
            let replica = ids.allocate().expect("room");
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            replica
        });
        let mut shares = Shares::default();
        shares.add(first, WHOLE / 4, true);
        for (draw, is_avoided) in [(0, false), ((1 << 62) - 1, false), (1 << 62, true)] {
            let found = shares.avoid(&policy, Query::first(), &mut || draw);
            assert_eq!(found, is_avoided.then_some(&[first][..]), "{draw}");
        }
        let pinned = Query {
            pinned: Some(first),
            ..Query::first()
        };
        assert_eq!(shares.avoid(&policy, pinned, &mut || u64::MAX), None);
    }

    #[test]
    fn query_avoids_no_replica_for_its_share_if_it_has_tried_more_than_sixteen_others() {
        let mut ids = ReplicaIds::new();
        let mut policy = Random::new();
        let mut shares = Shares::default();
        let mut tried = Vec::new();
        for place in 0..100 {
            let replica = ids.allocate().expect("room");
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            if place < 64 {
                shares.add(replica, 0, true);
            } else {
                tried.push(replica);
            }
        }
        let mut avoided = |tried| {
            let query = Query::retry(tried);
            let avoid = shares.avoid(&policy, query, &mut || u64::MAX);
            avoid.map(<[ReplicaId]>::len)
        };
        assert_eq!(avoided(&tried[..16]), Some(80));
        assert_eq!(avoided(&tried[..17]), None);
    }
}
