//! Random: sends each query to a uniformly random available replica. It is the baseline that no
//! policy may fall below.

use crate::draw::Draw;
use crate::policy::candidates::Candidates;
use crate::policy::entry::PolicyEntry;
use crate::policy::query::PickReason;
use crate::policy::unprobed::{Choose, Unprobed};
use crate::replica::ReplicaId;
use alloc::boxed::Box;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry::new(
    "random",
    "uniformly at random",
    "Picks a replica at random, whatever its load.",
    |_| Box::new(Random::new()),
);

/// Picks uniformly at random.
pub type Random = Unprobed<RandomChoice>;

/// The rule of [`Random`].
#[derive(Clone, Debug, Default)]
pub struct RandomChoice;

impl Choose for RandomChoice {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::Random;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        from.random(draw)
    }
}
