//! One call of a policy: what went in, and what came out.

use slackwater_core::ReplicaId;
use slackwater_core::policy::{Attempt, Event, Outcome, PickReason, ProbeId, Query, RoundReply};
use std::borrow::Cow;

/// A query as a policy is asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Which try.
    pub attempt: Attempt,
    /// Where it is not to go.
    pub avoid: Cow<'a, [ReplicaId]>,
    /// Where it is to go if it may.
    pub pinned: Option<ReplicaId>,
    /// It has waited for room there, which is why it is pinned.
    pub has_room: bool,
}

impl<'a> Asked<'a> {
    /// The query as it is written down.
    pub const fn new(query: Query<'a>) -> Self {
        Self {
            attempt: query.attempt,
            avoid: Cow::Borrowed(query.avoid),
            pinned: query.pinned,
            has_room: query.has_room,
        }
    }

    /// The query as the policy is asked for it again.
    pub fn query(&self) -> Query<'_> {
        Query {
            attempt: self.attempt,
            avoid: &self.avoid,
            pinned: self.pinned,
            has_room: self.has_room,
            round: None,
        }
    }
}

/// What a policy says to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It goes there.
    Pick {
        /// Which replica.
        replica: ReplicaId,
        /// By which rule.
        reason: PickReason,
    },
    /// These replicas are asked first.
    Probe {
        /// In the order of the round.
        targets: Vec<ReplicaId>,
    },
    /// There is none.
    NoReplica,
}

/// A call of a policy, or a note between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The policy handles what has happened.
    Event(Event<'a>),
    /// What people call a replica. Not a call: the policy never hears of it.
    Named {
        /// Which one; it has joined.
        replica: ReplicaId,
        /// Up to [`Entry::NAME_MAX`] bytes.
        name: Cow<'a, str>,
    },
    /// A query arrives, and a replica is chosen.
    Query {
        /// What is asked.
        asked: Asked<'a>,
        /// The answer.
        said: Said,
    },
    /// A copy of a query is to be had for a trial.
    Trial {
        /// Where it goes, and why; `None`: nowhere.
        said: Option<(ReplicaId, PickReason)>,
    },
    /// The head of a response is here.
    Head {
        /// When its query was picked, in nanoseconds: no two of a stream are picked at the same
        /// time.
        sent_at_ns: u64,
        /// What the head says.
        outcome: Outcome,
    },
    /// A query has ended.
    Done {
        /// As in [`Entry::Head`].
        sent_at_ns: u64,
        /// How.
        outcome: Outcome,
    },
    /// A synchronous round ends, and a replica is chosen.
    Round {
        /// When it began, in nanoseconds: the query's own time.
        started_at_ns: u64,
        /// What is asked.
        asked: Asked<'a>,
        /// What has become of its probes.
        replies: Vec<(ReplicaId, RoundReply)>,
        /// Where the query goes, and why.
        said: Option<(ReplicaId, PickReason)>,
    },
    /// Somebody asks which probe is to be sent.
    Poll {
        /// The probe, and whom it asks; `None`: none is due.
        probe: Option<(ProbeId, ReplicaId)>,
    },
    /// What a request was like that is over. Not a call: the policy never hears of it.
    Request {
        /// When the first replica was picked for it, in nanoseconds; as in [`Entry::Head`].
        sent_at_ns: u64,
        /// What is known of it.
        request: Cow<'a, Request>,
    },
}

/// What a request was like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its method; of one longer than [`Request::TEXT_MAX`] bytes the beginning.
    pub method: String,
    /// The status that its client got; `None`: none.
    pub status: Option<u16>,
    /// Bytes of its body that went to a replica.
    pub bytes_in: u64,
    /// Bytes of its response's body that went to the client.
    pub bytes_out: u64,
    /// What the fields said that are recorded, in the order of the stream's list; of longer ones
    /// the beginning; `None`: it had none.
    pub fields: Vec<Option<String>>,
}

impl Request {
    /// The most bytes of a text that are kept.
    pub const TEXT_MAX: usize = 64;
    /// The most fields that are recorded.
    pub const FIELDS_MAX: usize = 8;
}

impl Entry<'_> {
    /// The most bytes of a replica's name that are kept.
    pub const NAME_MAX: usize = 256;
}
