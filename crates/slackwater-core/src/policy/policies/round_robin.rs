//! Round robin: sends each query to the next available replica in turn. It is the default of most
//! proxies.

use crate::draw::{Draw, below};
use crate::policy::candidates::Candidates;
use crate::policy::comparison::{NEXT_IN_TURN, Values};
use crate::policy::entry::PolicyEntry;
use crate::policy::query::PickReason;
use crate::policy::unprobed::{Choose, Unprobed};
use crate::replica::ReplicaId;
use alloc::boxed::Box;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    comparisons: &[&NEXT_IN_TURN],
    ..PolicyEntry::new(
        "round_robin",
        "each in turn",
        "Takes each replica in turn, whatever its load.",
        |_| Box::new(RoundRobin::new()),
    )
};

/// Picks in turn, starting at a random replica so that many clients do not move in step.
pub type RoundRobin = Unprobed<Turn>;

/// The rule of [`RoundRobin`].
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Where the next search starts. `None` before the first query.
    next: Option<usize>,
}

impl Choose for Turn {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::Turn;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        let replicas = from.replicas();
        let count = u32::try_from(replicas.len())
            .ok()
            .filter(|&count| count > 0)?;
        let start = self.next.unwrap_or_else(|| below(draw, count) as usize);
        let in_turn = (start..start + replicas.len())
            .map(|index| index % replicas.len())
            .map(|index| (index, replicas[index]));
        if from.is_explained() {
            from.compare(&NEXT_IN_TURN, Values::NONE);
            for (_, replica) in in_turn.clone() {
                from.consider(replica, || (0, Values::NONE));
            }
        }
        let (index, replica) = { in_turn }.find(|&(_, replica)| from.allows(replica))?;
        self.next = Some((index + 1) % replicas.len());
        Some(replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::NoDraw;
    use crate::policy::{Decision, Event, Policy, Query};
    use crate::replica::ReplicaIds;
    use crate::time::Instant;
    use alloc::vec::Vec;

    fn pick(policy: &mut RoundRobin, query: Query<'_>) -> Option<ReplicaId> {
        match policy.choose(Instant::EPOCH, query, &mut || 0, None) {
            Decision::Pick(pick) => Some(pick.ticket.replica()),
            _ => None,
        }
    }

    #[test]
    fn turns_skip_avoided_replicas_and_survive_removals() {
        let mut ids = ReplicaIds::new();
        let mut policy = RoundRobin::new();
        assert_eq!(
            pick(&mut policy, Query::first()),
            None,
            "no replica is known"
        );
        let replicas: Vec<_> = (0..3).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        let turns: Vec<_> = (0..4)
            .filter_map(|_| pick(&mut policy, Query::first()))
            .collect();
        assert_eq!(turns, [replicas[0], replicas[1], replicas[2], replicas[0]]);

        let retry = pick(&mut policy, Query::retry(&[replicas[1]]));
        assert_eq!(
            retry,
            Some(replicas[2]),
            "the next one is avoided, the one after it is not"
        );
        assert_eq!(
            pick(&mut policy, Query::retry(&replicas)),
            None,
            "it has been at all of them"
        );

        policy.handle(Instant::EPOCH, Event::Removed(replicas[2]), &mut NoDraw);
        policy.handle(Instant::EPOCH, Event::Removed(replicas[0]), &mut NoDraw);
        assert_eq!(pick(&mut policy, Query::first()), Some(replicas[1]));
        assert_eq!(pick(&mut policy, Query::first()), Some(replicas[1]));
    }

    #[test]
    fn unavailable_replica_gets_no_turn_unless_all_are_unavailable() {
        let mut ids = ReplicaIds::new();
        let mut policy = RoundRobin::new();
        let replicas: Vec<_> = (0..2).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        policy.handle(
            Instant::EPOCH,
            Event::Available(replicas[0], false),
            &mut NoDraw,
        );
        for _ in 0..3 {
            assert_eq!(pick(&mut policy, Query::first()), Some(replicas[1]));
        }
        policy.handle(
            Instant::EPOCH,
            Event::Available(replicas[1], false),
            &mut NoDraw,
        );
        let Decision::Pick(pick) = policy.choose(Instant::EPOCH, Query::first(), &mut || 0, None)
        else {
            panic!("in panic everyone may be chosen");
        };
        assert_eq!(pick.reason, PickReason::Panic);
    }
}
