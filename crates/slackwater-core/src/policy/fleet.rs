//! The replicas that a policy knows, and which of them may be chosen.

use crate::draw::{Draw, below};
use crate::policy::observe::ReplicaView;
use crate::policy::query::{PickReason, Query};
use crate::replica::{ReplicaId, ReplicaMap, ReplicaSet};
use alloc::vec::Vec;

/// What holds for one replica.
#[derive(Clone, Debug, Default)]
struct Standing {
    /// The driver took it out of the choice.
    ejected: bool,
    /// Its own report took it out.
    draining: bool,
    /// Queries of this client's that are out there.
    in_flight: u32,
}

impl Standing {
    const fn is_available(&self) -> bool {
        !self.ejected && !self.draining
    }
}

/// The fleet: everyone known (who may be probed) and the part that may be chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    known: ReplicaSet,
    available: ReplicaSet,
    /// Of everyone known. What is asked of one replica is all answered from here: with many replicas each table that is
    /// looked into is a miss of the cache, for each report.
    standings: ReplicaMap<Standing>,
}

impl Fleet {
    pub(crate) fn add(&mut self, replica: ReplicaId) -> bool {
        let new = self.known.insert(replica);
        if new {
            self.available.insert(replica);
            self.standings.insert(replica, Standing::default());
        }
        new
    }

    pub(crate) fn remove(&mut self, replica: ReplicaId) -> bool {
        self.available.remove(replica);
        self.standings.remove(replica);
        self.known.remove(replica)
    }

    /// The driver's word on whether it may be chosen; `true` if that changed who may be.
    pub(crate) fn set_ejected(&mut self, replica: ReplicaId, ejected: bool) -> bool {
        self.change(replica, |standing| standing.ejected = ejected)
    }

    /// The replica's own word; `true` if that changed who may be chosen.
    pub(crate) fn set_draining(&mut self, replica: ReplicaId, draining: bool) -> bool {
        self.change(replica, |standing| standing.draining = draining)
    }

    fn change(&mut self, replica: ReplicaId, set: impl FnOnce(&mut Standing)) -> bool {
        let Some(standing) = self.standings.find_mut(replica) else {
            return false;
        };
        let before = standing.is_available();
        set(standing);
        let after = standing.is_available();
        if after && !before {
            self.available.insert(replica);
        } else if before && !after {
            self.available.remove(replica);
        }
        before != after
    }

    pub(crate) fn is_draining(&self, replica: ReplicaId) -> bool {
        self.standings
            .find(replica)
            .is_some_and(|standing| standing.draining)
    }

    pub(crate) fn knows(&self, replica: ReplicaId) -> bool {
        self.standings.find(replica).is_some()
    }

    pub(crate) fn is_available(&self, replica: ReplicaId) -> bool {
        self.standings
            .find(replica)
            .is_some_and(Standing::is_available)
    }

    pub(crate) fn known(&self) -> &[ReplicaId] {
        self.known.as_slice()
    }

    pub(crate) fn available(&self) -> &[ReplicaId] {
        self.available.as_slice()
    }

    /// Nobody may be chosen, though somebody is known.
    pub(crate) fn in_panic(&self) -> bool {
        self.available.len() == 0 && self.known.len() > 0
    }

    /// Why a replica is chosen: for `reason`, unless it is for want of any that may be.
    pub(crate) fn reason_or_panic(&self, reason: PickReason) -> PickReason {
        if self.in_panic() {
            PickReason::Panic
        } else {
            reason
        }
    }

    /// Those to choose from: the available, or everyone when nobody is. `[A8]`
    pub(crate) fn choice(&self) -> &[ReplicaId] {
        if self.available.len() == 0 {
            self.known.as_slice()
        } else {
            self.available.as_slice()
        }
    }

    /// A uniformly random replica that the query may go to. If all available ones have had it, any other known one.
    pub(crate) fn random(&self, query: Query<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        random_of(self.choice(), query, draw).or_else(|| random_of(self.known(), query, draw))
    }

    /// The replica that the query is pinned to, if it may go there.
    pub(crate) fn pinned(&self, query: Query<'_>) -> Option<ReplicaId> {
        let may_go = |&replica: &ReplicaId| self.is_available(replica) && query.allows(replica);
        query.pinned.filter(may_go)
    }

    pub(crate) fn in_flight(&self, replica: ReplicaId) -> u32 {
        self.standings
            .find(replica)
            .map_or(0, |standing| standing.in_flight)
    }

    pub(crate) fn query_sent(&mut self, replica: ReplicaId) {
        if let Some(standing) = self.standings.find_mut(replica) {
            standing.in_flight = standing.in_flight.saturating_add(1);
        }
    }

    pub(crate) fn query_done(&mut self, replica: ReplicaId) {
        if let Some(standing) = self.standings.find_mut(replica) {
            standing.in_flight = standing.in_flight.saturating_sub(1);
        }
    }

    /// Every known replica, as seen from outside; `silent` says which of them answer no probes.
    pub(crate) fn views(&self, silent: impl Fn(ReplicaId) -> bool) -> Vec<ReplicaView> {
        let view = |&replica: &ReplicaId| ReplicaView {
            replica,
            available: self.is_available(replica),
            draining: self.is_draining(replica),
            in_flight: self.in_flight(replica),
            silent: silent(replica),
        };
        self.known().iter().map(view).collect()
    }
}

/// A uniformly random member that the query allows. Counts rather than collects: no allocation, one draw.
fn random_of(replicas: &[ReplicaId], query: Query<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
    if query.avoid.is_empty() {
        let index = below(draw, u32::try_from(replicas.len()).ok()?);
        return replicas.get(index as usize).copied();
    }
    let allowed = || replicas.iter().filter(|&&replica| query.allows(replica));
    let index = below(draw, u32::try_from(allowed().count()).ok()?);
    allowed().nth(index as usize).copied()
}
