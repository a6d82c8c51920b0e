//! One call of a policy: what went in, and what came out.

use slackwater_core::ReplicaId;
use slackwater_core::keys::KeyHash;
use slackwater_core::policy::{Attempt, Event, Outcome, PickReason, ProbeId, Query, RoundReply};
use std::borrow::Cow;

/// A query as it is passed to a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Number of the attempt.
    pub attempt: Attempt,
    /// Replicas that the query must not go to.
    pub avoid: Cow<'a, [ReplicaId]>,
    /// Replica that the query goes to if it is available.
    pub pinned: Option<ReplicaId>,
    /// The query has waited for a permit at the pinned replica.
    pub has_room: bool,
    /// The hash of its key.
    pub key: Option<KeyHash>,
    /// Replicas to choose from; all if there are none.
    pub among: Cow<'a, [ReplicaId]>,
    /// Replicas that it prefers.
    pub homes: Cow<'a, [ReplicaId]>,
}

impl<'a> Asked<'a> {
    /// Copies the query for the recording.
    pub const fn new(query: Query<'a>) -> Self {
        Self {
            attempt: query.attempt,
            avoid: Cow::Borrowed(query.avoid),
            pinned: query.pinned,
            has_room: query.has_room,
            key: query.key,
            among: Cow::Borrowed(query.among),
            homes: Cow::Borrowed(query.homes),
        }
    }

    /// Returns the query as it is passed to the policy again.
    pub fn query(&self) -> Query<'_> {
        Query {
            attempt: self.attempt,
            avoid: &self.avoid,
            pinned: self.pinned,
            has_room: self.has_room,
            round: None,
            key: self.key,
            among: &self.among,
            homes: &self.homes,
        }
    }
}

/// A policy's answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The query goes to a replica.
    Pick {
        /// The chosen replica.
        replica: ReplicaId,
        /// The rule that chose it.
        reason: PickReason,
    },
    /// These replicas are probed first.
    Probe {
        /// Targets in the order of the round.
        targets: Vec<ReplicaId>,
    },
    /// No replica is available.
    NoReplica,
}

/// A call of a policy, or a note between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The policy handles what has happened.
    Event(Event<'a>),
    /// The operator's name of a replica. It is not a call: the policy does not receive it.
    Named {
        /// The replica, which has joined before.
        replica: ReplicaId,
        /// A name of up to [`Entry::NAME_MAX`] bytes.
        name: Cow<'a, str>,
    },
    /// A query arrives, and a replica is chosen.
    Query {
        /// The query.
        asked: Asked<'a>,
        /// The policy's answer.
        answer: Answer,
    },
    /// A copy of a query is needed for a trial.
    Trial {
        /// The replica and the reason; `None`: no trial.
        answer: Option<(ReplicaId, PickReason)>,
    },
    /// The head of a response has arrived.
    Head {
        /// When its query was picked, in nanoseconds. No two queries of a stream are picked at the
        /// same time.
        sent_at_ns: u64,
        /// The outcome that the head shows.
        outcome: Outcome,
    },
    /// A query has ended.
    Done {
        /// As in [`Entry::Head`].
        sent_at_ns: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// A synchronous round ends, and a replica is chosen.
    Round {
        /// When the round began, in nanoseconds: the query's own time.
        started_at_ns: u64,
        /// The query.
        asked: Asked<'a>,
        /// The reply to each probe.
        replies: Vec<(ReplicaId, RoundReply)>,
        /// The replica and the reason; `None`: no replica is available.
        answer: Option<(ReplicaId, PickReason)>,
    },
    /// The caller polls for the next probe.
    Poll {
        /// The probe and its target; `None`: none is due.
        probe: Option<(ProbeId, ReplicaId)>,
    },
    /// The record of a finished request. It is not a call: the policy does not receive it.
    Request {
        /// When the first replica was picked for it, in nanoseconds, as in [`Entry::Head`].
        sent_at_ns: u64,
        /// The record.
        request: Cow<'a, Request>,
    },
}

/// The record of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its method, truncated to [`Request::TEXT_MAX`] bytes.
    pub method: String,
    /// The status that its client received; `None`: none.
    pub status: Option<u16>,
    /// Bytes of its body that were sent to a replica.
    pub bytes_in: u64,
    /// Bytes of the response's body that were sent to the client.
    pub bytes_out: u64,
    /// The values of the recorded fields, in the order of the stream's list and truncated; `None`:
    /// the request did not have the field.
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
