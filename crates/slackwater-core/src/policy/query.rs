//! A query on its way through a policy: its request, the decision with its reason, and its end.

use crate::key::KeyHash;
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

/// The kind of an attempt of a query. Only first attempts trigger probes and removals. `[A2]`
/// `[A10]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// The first attempt.
    #[default]
    First,
    /// Another attempt after a failure.
    Retry,
    /// Another attempt while the first is in flight.
    Hedge,
    /// A copy of a query whose answer no client waits for, to test a replica that is out of the
    /// choice. It is charged like any other, and its ticket is returned. Only health sends trials,
    /// within their limit. `[H4]`
    Trial,
}

impl Attempt {
    /// The attempts that a client waits for, in the order of their numbers in recordings.
    pub const ALL: [Self; 3] = [Self::First, Self::Retry, Self::Hedge];
}

/// A query that needs a replica.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a> {
    /// The kind of attempt.
    pub attempt: Attempt,
    /// Replicas that the query has tried and that are not chosen again.
    pub avoid: &'a [ReplicaId],
    /// The replica that it goes to if that is available and not in `avoid`. Otherwise the policy
    /// chooses as usual.
    pub pinned: Option<ReplicaId>,
    /// Whether it is pinned because it has waited for a permit and this replica has one, not
    /// because of a session or a key.
    pub has_room: bool,
    /// The round that a [`Decision::Probe`] started for it, which now ends with the answers that it
    /// has. Policies without rounds choose as usual. `[S1]` `[S2]`
    pub round: Option<&'a ProbeRound>,
    /// The key that it is about. Only a policy with [keys](crate::keys) uses it.
    pub key: Option<KeyHash>,
    /// The replicas to choose from, at most [`Query::AMONG_MAX`]; more are ignored. If none of them
    /// may be chosen, or there are none, all may.
    pub among: &'a [ReplicaId],
    /// The replicas of `among` or besides it that it prefers, at most [`Query::AMONG_MAX`]: the
    /// policy chooses one of them while one may be chosen. A policy with rounds probes them, and
    /// random others of `among`.
    pub homes: &'a [ReplicaId],
}

impl<'a> Query<'a> {
    /// A query's first attempt.
    pub const fn first() -> Self {
        Self {
            attempt: Attempt::First,
            avoid: &[],
            pinned: None,
            has_room: false,
            round: None,
            key: None,
            among: &[],
            homes: &[],
        }
    }

    /// Most replicas to choose from.
    pub const AMONG_MAX: usize = 16;

    /// This query, which is about a key.
    #[must_use]
    pub const fn with_key(self, key: KeyHash) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    /// This query, which may go to these replicas only, while one of them may be chosen. At most
    /// [`Query::AMONG_MAX`].
    #[must_use]
    pub const fn among(self, among: &'a [ReplicaId]) -> Self {
        Self { among, ..self }
    }

    /// A query's first attempt, whose replica was chosen elsewhere: by a session's cookie or the
    /// hash of a key. The policy charges it like its own choice, so that its data about the replica
    /// stays correct.
    pub const fn pinned(replica: ReplicaId) -> Self {
        Self {
            pinned: Some(replica),
            ..Self::first()
        }
    }

    /// A query that waited because every replica was full, until this one had a free permit. It
    /// triggers nothing that a first attempt does, since that attempt was made before it waited.
    /// The policy charges it like its own choice.
    pub const fn with_room(replica: ReplicaId) -> Self {
        Self {
            attempt: Attempt::Retry,
            pinned: Some(replica),
            has_room: true,
            ..Self::first()
        }
    }

    /// A further attempt on a replica that is not in `avoid`.
    pub const fn retry(avoid: &'a [ReplicaId]) -> Self {
        Self {
            attempt: Attempt::Retry,
            avoid,
            ..Self::first()
        }
    }

    /// A second copy on an available replica that is not in `avoid`.
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

    /// Whether an unavailable replica is better than none. It is not for a second copy, since the
    /// first may still be answered.
    pub(crate) fn may_leave_the_choice(&self) -> bool {
        self.attempt != Attempt::Hedge
    }

    /// Whether it avoids replicas although it has tried none: because of their share of queries.
    pub(in crate::policy) fn spares_some(&self) -> bool {
        self.attempt == Attempt::First && !self.avoid.is_empty()
    }

    /// The query without replicas to avoid.
    pub(in crate::policy) const fn avoiding_none(self) -> Self {
        Self { avoid: &[], ..self }
    }

    /// Whether it has tried the replica, or spares it.
    pub(crate) fn avoids(&self, replica: ReplicaId) -> bool {
        self.avoid.contains(&replica)
    }

    /// Whether it may go to the replica.
    pub(crate) fn allows(&self, replica: ReplicaId) -> bool {
        !self.avoids(replica) && (self.among.is_empty() || self.among.contains(&replica))
    }

    /// Whether it is a first attempt.
    pub(crate) fn is_first(&self) -> bool {
        self.attempt == Attempt::First
    }

    /// Whether it may go to any replica.
    pub(crate) const fn allows_all(&self) -> bool {
        self.avoid.is_empty() && self.among.is_empty()
    }

    /// Whether it may go to some replicas only, or prefers some.
    pub(in crate::policy) const fn is_narrow(&self) -> bool {
        !self.among.is_empty() || !self.homes.is_empty()
    }

    /// Why it goes to its pinned replica.
    pub(crate) const fn pin_reason(&self) -> PickReason {
        if self.has_room {
            PickReason::Room
        } else {
            PickReason::Pinned
        }
    }
}

/// A policy's answer to a query.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// Send the query there.
    Pick(Pick),
    /// Probe these replicas first, then choose again with the [round](Query::round).
    Probe(ProbeRound),
    /// No replica is known, or the query has tried all of them. For a second copy: it has tried all
    /// available ones. For a trial: none is due.
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
    /// Must be returned when the query ends.
    pub ticket: Ticket,
    /// The rule that decided.
    pub reason: PickReason,
    /// Reports with this RIF or more were hot. `None` if nothing was. `[A6]`
    pub rif_limit: Option<Rif>,
    /// Number of reports to choose from.
    pub candidates: u16,
    /// The report that was chosen, as it was at the choice: before this query was charged to it.
    pub chosen: Option<PooledView>,
    /// The runner-up.
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
        /// It had the lowest score in the pool.
        LowestScore = "lowest_score",
        /// Fewer than two reports were usable: a random replica. `[A8]`
        Fallback = "fallback",
        /// No replica is available, so all may be chosen: at random, or as the policy compares
        /// them. `[A8]`
        Panic = "panic",
        /// It was the only one that answered a synchronous probe. `[S2]`
        SoleAnswer = "sole_answer",
        /// A random pick, as is the policy's rule.
        Random = "random",
        /// It was its turn.
        Turn = "turn",
        /// It had the fewest queries of this client in flight, of all or of the drawn replicas.
        LeastLoaded = "least_loaded",
        /// It had the lowest latency times queries in flight of the drawn replicas.
        LowestCost = "lowest_cost",
        /// It had the lowest RIF by the last report of the drawn replicas. Without a report it
        /// ranks with an estimate.
        LowestRif = "lowest_rif",
        /// A random pick, in proportion to weights.
        Weighted = "weighted",
        /// The query was pinned to it.
        Pinned = "pinned",
        /// It is out of the choice, and the query tests it.
        Trial = "trial",
        /// It is not available. But the query has tried all available ones, and an unavailable one
        /// is better than none.
        LastResort = "last_resort",
        /// All were full, and it was the first with a free permit.
        Room = "room",
        /// It is a home of the query's key.
        KeyHome = "key_home",
        /// The homes of the query's key were busy or out, and it is of the key's set.
        KeySet = "key_set",
        /// The key's set was busy or out, so any replica could be chosen.
        KeySpill = "key_spill",
    }
}

impl PickReason {
    /// Whether the best of several was chosen, so that there is a runner-up: not at random, in
    /// turn, or for lack of alternatives.
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

/// A query in flight. Return it by
/// [`Policy::handle_query_done`](crate::policy::Policy::handle_query_done). It can neither be
/// copied nor created outside, so each query ends at most once.
#[derive(Debug)]
#[must_use = "a query that never ends stays in flight forever"]
pub struct Ticket {
    replica: ReplicaId,
    sent_at: Instant,
    /// The query as this client's own tracker of an unprobed replica saw it. `[A13]`
    pub(in crate::policy) local: Option<LocalArrival>,
    /// The head of the response, once it has come.
    pub(in crate::policy) head: Option<Head>,
    /// Data for the health of its replica.
    pub(crate) health: Mark,
    /// The partition of its key.
    pub(crate) partition: Option<u16>,
}

/// The head of a response, as a policy that learns latencies keeps it until the query's end.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// From the pick to the head.
    pub(in crate::policy) latency: Duration,
    /// The outcome by the head.
    pub(in crate::policy) outcome: Outcome,
}

impl Head {
    /// Whether it was not the head of a good answer, so that its latency is not a sample.
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
            partition: None,
        }
    }

    /// Notes that latency ends now, at the head of the response or else at the query's end. Returns
    /// `None` if it had ended before.
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

    /// The replica that the query goes to.
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
    fn pushback_and_dropped_queries_are_not_failures() {
        let failures = Outcome::ALL.map(Outcome::is_failure);
        assert_eq!(failures, [false, true, true, true, false, true, false]);
    }
}
