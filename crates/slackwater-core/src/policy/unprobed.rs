//! What all policies that send no probes have in common: a fleet, counts, and the way in and out of a query.
//!
//! Such a policy is nothing but its rule of choice, a [`Choose`]; [`Unprobed`] makes a [`Policy`] of it.

use crate::draw::Draw;
use crate::policy::Policy;
use crate::policy::fleet::Fleet;
use crate::policy::observe::{Counters, Snapshot};
use crate::policy::query::{Decision, Outcome, Pick, PickReason, Query, Ticket};
use crate::replica::ReplicaId;
use crate::time::Instant;
use alloc::vec::Vec;
use core::fmt::Debug;

/// A rule of choice that looks at nothing but the fleet and the client's own counts.
pub trait Choose: Debug + Send {
    /// The policy's name.
    const NAME: &'static str;
    /// Why its picks were picked.
    const REASON: PickReason;

    /// One of the replicas that the query may go to.
    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId>;
}

/// The replicas that a rule of choice may look at.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    fleet: &'a Fleet,
    query: Query<'a>,
}

impl Candidates<'_> {
    /// The replicas to choose from, the same order from call to call while the fleet stays the same. Some of them may
    /// have had the query already: see [`Candidates::allows`].
    pub fn replicas(&self) -> &[ReplicaId] {
        self.fleet.choice()
    }

    /// Whether the query may go there.
    pub fn allows(&self, replica: ReplicaId) -> bool {
        self.query.allows(replica)
    }

    /// Queries that this client has in flight there.
    pub fn in_flight(&self, replica: ReplicaId) -> u32 {
        self.fleet.in_flight(replica)
    }

    /// A uniformly random one.
    pub fn random(&self, draw: &mut dyn Draw) -> Option<ReplicaId> {
        self.fleet.random(self.query, draw)
    }
}

/// A policy without probes.
#[derive(Clone, Debug, Default)]
pub struct Unprobed<C> {
    fleet: Fleet,
    counters: Counters,
    rule: C,
}

impl<C: Choose + Default> Unprobed<C> {
    /// The policy with an empty fleet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<C: Choose> Policy for Unprobed<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn add_replica(&mut self, _now: Instant, replica: ReplicaId) {
        self.fleet.add(replica);
    }

    fn remove_replica(&mut self, _now: Instant, replica: ReplicaId) {
        self.fleet.remove(replica);
    }

    fn set_available(&mut self, _now: Instant, replica: ReplicaId, available: bool) {
        self.fleet.set_ejected(replica, !available);
    }

    fn handle_query(&mut self, now: Instant, query: Query<'_>, draw: &mut dyn Draw) -> Decision {
        let candidates = Candidates {
            fleet: &self.fleet,
            query,
        };
        let choice = self.rule.choose(candidates, draw);
        // All available replicas may have had the query; one that is not available is better than none.
        let Some(replica) = choice.or_else(|| self.fleet.random(query, draw)) else {
            self.counters.no_replica += 1;
            return Decision::NoReplica;
        };
        let reason = match choice {
            _ if self.fleet.in_panic() => PickReason::Panic,
            Some(_) => C::REASON,
            None => PickReason::Fallback,
        };
        self.counters.picks.count(reason);
        self.fleet.query_sent(replica);
        Decision::Pick(Pick::without_reports(Ticket::new(replica, now), reason))
    }

    fn handle_query_done(&mut self, _now: Instant, ticket: Ticket, _outcome: Outcome) {
        self.fleet.query_done(ticket.replica());
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn snapshot(&self, _now: Instant) -> Snapshot {
        Snapshot {
            replicas: self.fleet.views(|_| false),
            pool: Vec::new(),
            rif_limit: None,
        }
    }
}
