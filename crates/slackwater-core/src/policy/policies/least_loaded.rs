//! Least loaded: each query to the replica where this client has the fewest in flight.
//!
//! A pick looks at every available replica, so it takes time in proportion to the fleet. Ties
//! rotate, so that an idle client does not always start at the same replica.

use crate::draw::{Draw, below};
use crate::policy::candidates::Candidates;
use crate::policy::comparison::{Comparison, Equals, OWN_IN_FLIGHT, Step, Values};
use crate::policy::entry::PolicyEntry;
use crate::policy::query::PickReason;
use crate::policy::unprobed::{Choose, Unprobed};
use crate::replica::ReplicaId;
use alloc::boxed::Box;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    comparisons: &[&COMPARISON],
    ..PolicyEntry::new(
        "least_loaded",
        "fewest of its own in flight",
        "Picks the replica with the fewest requests in flight from this worker. Sends no probes.",
        |_| Box::new(LeastLoaded::new()),
    )
};

/// How replicas are compared. They are numbered starting after the last pick.
const COMPARISON: Comparison = Comparison {
    name: "fewest_in_flight_in_turn",
    formula: "fewest requests in flight from this worker; of equals the next in turn",
    shared: &[],
    factors: &[OWN_IN_FLIGHT],
    order: &[Step::lowest("in_flight")],
    equals: Equals::First,
};

/// Picks by the client's own queries in flight.
pub type LeastLoaded = Unprobed<FewestInFlight>;

/// The rule of [`LeastLoaded`].
#[derive(Clone, Debug, Default)]
pub struct FewestInFlight {
    /// Where the next search starts. `None` before the first query.
    next: Option<usize>,
}

impl Choose for FewestInFlight {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::LeastLoaded;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        let replicas = from.replicas();
        let count = u32::try_from(replicas.len())
            .ok()
            .filter(|&count| count > 0)?;
        let start = self.next.unwrap_or_else(|| below(draw, count) as usize) % replicas.len();
        let (before, after) = replicas.split_at(start);
        from.compare(&COMPARISON, Values::NONE);
        // `min_by_key` keeps the first of equals, which is the nearest after the last pick.
        let chosen = (after.iter().chain(before).enumerate())
            .filter(|&(_, &replica)| from.allows(replica))
            .inspect(|&(_, &replica)| {
                let in_flight = from.in_flight(replica).into();
                from.consider(replica, || (in_flight, Values::of([in_flight])));
            })
            .min_by_key(|&(_, &replica)| from.in_flight(replica));
        let (offset, &replica) = chosen?;
        self.next = Some(start + offset + 1);
        Some(replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::NoDraw;
    use crate::policy::{Decision, Event, Outcome, Policy, Query, Ticket};
    use crate::replica::ReplicaIds;
    use crate::time::Instant;
    use alloc::vec::Vec;

    fn pick(policy: &mut LeastLoaded) -> Ticket {
        match policy.choose(Instant::EPOCH, Query::first(), &mut || 0, None) {
            Decision::Pick(pick) => pick.ticket,
            _ => panic!("replicas are known"),
        }
    }

    #[test]
    fn lowest_rif_wins_and_ties_rotate() {
        let mut ids = ReplicaIds::new();
        let mut policy = LeastLoaded::new();
        let replicas: Vec<_> = (0..3).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        let first = pick(&mut policy);
        let second = pick(&mut policy);
        let third = pick(&mut policy);
        let order = [first.replica(), second.replica(), third.replica()];
        assert_eq!(
            order,
            [replicas[0], replicas[1], replicas[2]],
            "all equal: in turn"
        );

        policy.handle_query_done(Instant::EPOCH, second, Outcome::Dropped);
        let fourth = pick(&mut policy);
        assert_eq!(
            fourth.replica(),
            replicas[1],
            "a dropped query is over, too"
        );

        policy.handle_query_done(Instant::EPOCH, third, Outcome::Failed);
        policy.handle_query_done(Instant::EPOCH, first, Outcome::Success);
        policy.handle_query_done(Instant::EPOCH, fourth, Outcome::Success);
        assert_eq!(
            pick(&mut policy).replica(),
            replicas[2],
            "ties go on after the last choice"
        );
    }
}
