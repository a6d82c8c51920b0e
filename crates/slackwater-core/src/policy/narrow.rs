//! A query that may go to a few replicas only, or prefers some: those of them that may be chosen.
//!
//! After this, [`Query::among`] has no replica that the policy may not choose, so a rule can
//! iterate over it in the place of the fleet.

use crate::policy::fleet::Fleet;
use crate::policy::query::Query;
use crate::replica::ReplicaId;

/// No replica, in an unused place.
const UNUSED: ReplicaId = ReplicaId::from_bits(u64::MAX);

/// Replicas that a query may go to, each once.
#[derive(Debug)]
pub(in crate::policy) struct Narrowed {
    replicas: [ReplicaId; Query::AMONG_MAX],
    len: usize,
}

impl Narrowed {
    /// The replicas of `some` that the query may go to now.
    pub(in crate::policy) fn new(fleet: &Fleet, query: Query<'_>, some: &[ReplicaId]) -> Self {
        let mut narrowed = Self {
            replicas: [UNUSED; Query::AMONG_MAX],
            len: 0,
        };
        narrowed.add(fleet, query, some);
        narrowed
    }

    /// The homes of the query that it may go to, or if there are none those of `among`.
    pub(in crate::policy) fn of(fleet: &Fleet, query: Query<'_>) -> Self {
        let mut narrowed = Self::new(fleet, query, query.homes);
        if narrowed.len == 0 {
            narrowed.add(fleet, query, query.among);
        }
        narrowed
    }

    fn add(&mut self, fleet: &Fleet, query: Query<'_>, some: &[ReplicaId]) {
        for &replica in some.iter().take(Query::AMONG_MAX) {
            let is_new = !self.as_slice().contains(&replica);
            if is_new && fleet.is_choosable(replica) && !query.avoids(replica) {
                self.replicas[self.len] = replica;
                self.len += 1;
            }
        }
    }

    pub(in crate::policy) fn as_slice(&self) -> &[ReplicaId] {
        &self.replicas[..self.len]
    }

    /// The query, which may go to these replicas only, or to all if there are none.
    pub(in crate::policy) fn apply<'a>(&'a self, query: Query<'a>) -> Query<'a> {
        Query {
            among: self.as_slice(),
            homes: &[],
            ..query
        }
    }
}
