//! The choice when no report helps.

use crate::draw::Draw;
use crate::policy::comparison::{Comparison, Equals, Factor, OWN_IN_FLIGHT, Step};
use crate::policy::probed::rank::{self, Place, Rank};
use crate::policy::probed::{Choice, Client};
use crate::policy::query::{PickReason, Query};
use crate::replica::ReplicaId;
use crate::time::Instant;

/// Ranks among a whole fleet, which has at most [`ReplicaIds::MAX`](crate::ReplicaIds::MAX)
/// replicas.
pub(super) type FleetRank = Rank<20>;

/// The choice when no report helps: the replica where this client has the fewest queries in flight;
/// equals are drawn. Unprobed replicas that are out of reach come last. `[A13]`
pub(super) fn fewest_in_flight(
    now: Instant,
    client: &Client,
    query: &Query<'_>,
    draw: &mut dyn Draw,
) -> Option<Choice> {
    let fleet = &client.fleet;
    fleet.find_for(*query, |replicas| {
        let allowed = (0_u32..)
            .zip(replicas)
            .filter(|&(_, &replica)| query.allows(replica));
        let ranks = allowed
            .map(|(index, &replica)| FleetRank::new(index, place_in_flight(now, client, replica)));
        let best = rank::best(ranks, draw)?;
        Some(Choice {
            replica: replicas[best.index],
            reason: fleet.reason_for(replicas[best.index], PickReason::LeastLoaded),
            rif_limit: None,
            candidates: 0,
            chosen: None,
            runner_up: best.runner_up.map(|index| replicas[index]),
        })
    })
}

/// The comparison of [`fewest_in_flight`].
pub(in crate::policy) const FEWEST_IN_FLIGHT: Comparison = Comparison {
    name: "fewest_in_flight",
    formula: "fewest requests in flight from this worker",
    shared: &[],
    factors: &[Factor::flag("out_of_reach", "out of reach"), OWN_IN_FLIGHT],
    order: &[Step::lowest("out_of_reach"), Step::lowest("in_flight")],
    equals: Equals::Draw,
};

/// The place of a replica in it.
pub(super) fn place_in_flight(now: Instant, client: &Client, replica: ReplicaId) -> Place {
    Place {
        first: client.is_out_of_reach(now, replica).into(),
        second: client.fleet.in_flight(replica).into(),
    }
}
