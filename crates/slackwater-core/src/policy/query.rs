//! A query on its way through a policy: what is asked, what was decided and why, and how it ended.

use crate::named;
use crate::policy::mark::Mark;
use crate::policy::outcome::Outcome;
use crate::policy::pooled_view::PooledView;
use crate::policy::probe::ProbeRound;
use crate::replica::ReplicaId;
use crate::report::Rif;
use crate::time::Instant;
use crate::tracker::Arrival;
use core::fmt;
use core::time::Duration;

/// Which try of a query this is. Only first tries trigger probes and removals. `[A2]` `[A10]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// The first.
    #[default]
    First,
    /// Another one after a failure.
    Retry,
    /// Another one while the first is still out.
    Hedge,
    /// A copy of a query whose answer no client waits for, to see how a replica does that is out of
    /// the choice. It is charged as any other, and its ticket comes back. Only health sends any,
    /// and no more than there may be trials. `[H4]`
    Trial,
}

impl Attempt {
    /// Those that a client waits for, as recordings number them.
    pub const ALL: [Self; 3] = [Self::First, Self::Retry, Self::Hedge];
}

/// A query that needs a replica.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// Which try this is.
    pub attempt: Attempt,
    /// Replicas that have had the query already and are not chosen again.
    pub avoid: &'a [ReplicaId],
    /// The replica that it goes to if that may be chosen and is none of `avoid`; otherwise the
    /// policy chooses as ever.
    pub pinned: Option<ReplicaId>,
    /// It is pinned to that one because it has waited for room, and there it is: no session and no
    /// key belongs there.
    pub has_room: bool,
    /// The round that a [`Decision::Probe`] began for it, which ends with the answers that it has:
    /// the choice is made now. Policies that begin no rounds choose as ever. `[S1]` `[S2]`
    pub round: Option<&'a ProbeRound>,
}

impl<'a> Query<'a> {
    /// A query's first try.
    pub const fn first() -> Self {
        Self {
            attempt: Attempt::First,
            avoid: &[],
            pinned: None,
            has_room: false,
            round: None,
        }
    }

    /// A query's first try, for which somebody else has chosen already: a session's cookie, a key's
    /// hash. The policy charges it like a choice of its own, so that what it knows of the replica
    /// stays true.
    pub const fn pinned(replica: ReplicaId) -> Self {
        Self {
            pinned: Some(replica),
            ..Self::first()
        }
    }

    /// A query that every replica was too full for, and that has waited until this one had room. It
    /// triggers nothing that a first try does, as that was made before it waited. The policy
    /// charges it like a choice of its own.
    pub const fn with_room(replica: ReplicaId) -> Self {
        Self {
            attempt: Attempt::Retry,
            pinned: Some(replica),
            has_room: true,
            ..Self::first()
        }
    }

    /// A further try on a replica that is none of `avoid`.
    pub const fn retry(avoid: &'a [ReplicaId]) -> Self {
        Self {
            attempt: Attempt::Retry,
            avoid,
            ..Self::first()
        }
    }

    /// A second copy on a replica that is none of `avoid`, and may be chosen.
    pub const fn hedge(avoid: &'a [ReplicaId]) -> Self {
        Self {
            attempt: Attempt::Hedge,
            avoid,
            ..Self::first()
        }
    }

    /// A copy of a query for a replica that is out of the choice.
    pub const fn trial() -> Self {
        Self {
            attempt: Attempt::Trial,
            ..Self::first()
        }
    }

    /// Whether a replica that may not be chosen is better than none. Not for a second copy: the
    /// first may still be answered.
    pub(crate) fn may_leave_the_choice(&self) -> bool {
        self.attempt != Attempt::Hedge
    }

    /// It leaves out replicas, though it has been nowhere yet: for their share of queries.
    pub(in crate::policy) fn spares_some(&self) -> bool {
        self.attempt == Attempt::First && !self.avoid.is_empty()
    }

    /// The same if it spared nobody.
    pub(in crate::policy) const fn sparing_nobody(self) -> Self {
        Self { avoid: &[], ..self }
    }

    pub(crate) fn allows(&self, replica: ReplicaId) -> bool {
        !self.avoid.contains(&replica)
    }

    /// Why it goes where it is pinned to.
    pub(crate) const fn pin_reason(&self) -> PickReason {
        if self.has_room {
            PickReason::Room
        } else {
            PickReason::Pinned
        }
    }
}

/// What a policy says to a query.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// Send it there.
    Pick(Pick),
    /// Ask these replicas first, then choose again with the [round](Query::round).
    Probe(ProbeRound),
    /// No replica is known, or the query has been at all of them, or, for a second copy, at all
    /// that may be chosen. For a trial: none is due.
    NoReplica,
}

impl Decision {
    /// The pick, if it is one.
    pub fn pick(self) -> Option<Pick> {
        match self {
            Self::Pick(pick) => Some(pick),
            Self::Probe(_) | Self::NoReplica => None,
        }
    }
}

/// A choice that has been made and charged.
#[derive(Debug)]
#[must_use]
pub struct Pick {
    /// To be handed back when the query ends.
    pub ticket: Ticket,
    /// The rule that decided.
    pub reason: PickReason,
    /// Reports with this RIF or more were hot; `None` where nothing was. `[A6]`
    pub rif_limit: Option<Rif>,
    /// How many reports there were to choose from.
    pub candidates: u16,
    /// The report that was chosen, as it was at the choice: before this query was charged to it.
    pub chosen: Option<PooledView>,
    /// The replica that came second.
    pub runner_up: Option<ReplicaId>,
    /// Time spent probing for this query; zero unless the policy probes synchronously. `[S4]`
    pub probing: Duration,
}

impl Pick {
    pub(crate) const fn without_reports(ticket: Ticket, reason: PickReason) -> Self {
        Self {
            ticket,
            reason,
            rif_limit: None,
            candidates: 0,
            chosen: None,
            runner_up: None,
            probing: Duration::ZERO,
        }
    }
}

named! {
    /// Why a replica was chosen.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum PickReason by as_str {
        /// It had the lowest latency among the cold. `[A7]`
        Cold = "cold",
        /// All were hot, and it had the lowest RIF. `[A7]`
        Hot = "hot",
        /// Of those pooled, it had the lowest score.
        LowestScore = "lowest_score",
        /// Fewer than two reports were usable: a random replica. `[A8]`
        Fallback = "fallback",
        /// No replica may be chosen, so all may be: one of them by chance, or as the policy
        /// compares them. `[A8]`
        Panic = "panic",
        /// It was the only one that answered a synchronous probe. `[S2]`
        SoleAnswer = "sole_answer",
        /// Chance, which is the policy.
        Random = "random",
        /// It was its turn.
        Turn = "turn",
        /// It had the fewest queries of this client's in flight, of all or of those drawn.
        LeastLoaded = "least_loaded",
        /// Of those drawn, its latency times the queries in flight there was the lowest.
        LowestCost = "lowest_cost",
        /// Of those drawn, it had the lowest RIF by its last report; without one it ranks as an
        /// estimate.
        LowestRif = "lowest_rif",
        /// Chance, in proportion to weights.
        Weighted = "weighted",
        /// The query was pinned to it.
        Pinned = "pinned",
        /// It is out of the choice, and the query is to show how it does.
        Trial = "trial",
        /// It may not be chosen. But all that may be have had the query, and one that may not is
        /// better than none.
        LastResort = "last_resort",
        /// All were full, and it was the first to have room for the query.
        Room = "room",
    }
}

impl PickReason {
    /// Whether the best of several was chosen, so that one of them came second: not by chance, in
    /// turn or for want of others.
    pub(crate) const fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Cold
                | Self::Hot
                | Self::LowestScore
                | Self::LeastLoaded
                | Self::LowestCost
                | Self::LowestRif
        )
    }
}

impl fmt::Display for PickReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A query as the tracker of its replica saw it.
#[derive(Debug)]
pub(in crate::policy) struct LocalArrival {
    pub(in crate::policy) watch: u32,
    pub(in crate::policy) arrival: Arrival,
}

/// A query that is out. Hand it back by
/// [`Policy::handle_query_done`](crate::policy::Policy::handle_query_done); it can neither be
/// copied nor made up, so each query that was handed out ends at most once.
#[derive(Debug)]
#[must_use = "a query that never ends stays in flight for ever"]
pub struct Ticket {
    replica: ReplicaId,
    sent_at: Instant,
    /// The query as this client's own tracker of a silent replica saw it. `[A13]`
    pub(in crate::policy) local: Option<LocalArrival>,
    /// What the head of the response said, once it has come.
    pub(in crate::policy) head: Option<Head>,
    /// What the health of its replica has to know of it.
    pub(crate) health: Mark,
}

/// The head of a response, as a policy that learns latencies keeps it until the query's end.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// From the pick to the head.
    pub(in crate::policy) latency: Duration,
    /// What it says.
    pub(in crate::policy) outcome: Outcome,
}

impl Head {
    /// It was the head of no good answer: its latency is no sample.
    pub(in crate::policy) fn failed(self) -> bool {
        self.outcome != Outcome::Success
    }
}

impl Ticket {
    pub(crate) const fn new(replica: ReplicaId, sent_at: Instant) -> Self {
        Self {
            replica,
            sent_at,
            local: None,
            head: None,
            health: Mark::NONE,
        }
    }

    /// Notes that latency ends now, with the head of a response or else with the query; `None` if
    /// it had ended before.
    pub(in crate::policy) fn end_latency(
        &mut self,
        now: Instant,
        outcome: Outcome,
    ) -> Option<Head> {
        if self.head.is_some() {
            return None;
        }
        self.head = Some(Head {
            latency: now.saturating_since(self.sent_at),
            outcome,
        });
        self.head
    }

    /// Where the query goes.
    pub const fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// When it was picked.
    pub const fn sent_at(&self) -> Instant {
        self.sent_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_push_back_or_to_be_given_up_is_no_failure() {
        let failures = Outcome::ALL.map(Outcome::is_failure);
        assert_eq!(failures, [false, true, true, true, false, true, false]);
    }
}
