//! What happens to a policy, as a value.
//!
//! An [`Event`] is `Copy`: a wrapper passes it on, a recorder writes it down, a replay reads it
//! back and a fuzzer makes it up, each in one place for all of them. What is not here either has an
//! answer (a query, a probe that is due) or comes with a [`Ticket`](crate::policy::Ticket), which
//! must not be copied. `[Decision 0017]`

use crate::policy::probe::ProbeId;
use crate::replica::ReplicaId;
use crate::report::LoadReport;

/// An input of [`Policy::handle`](crate::policy::Policy::handle).
///
/// Events about replicas or probes that the policy does not know (any more) are normal: it ignores
/// them, and counts those that carry information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The replica joins the fleet: from now on it may be chosen and probed. If it is known
    /// already, nothing changes.
    Added(ReplicaId),
    /// The replica leaves the fleet: it is neither chosen nor probed any more, and all that was
    /// known of it is forgotten.
    Removed(ReplicaId),
    /// The driver takes the replica out of the choice (`false`: it ejects or drains it) or puts it
    /// back. The replica stays known and probed. When no replica may be chosen, all may be (panic).
    /// `[A8]` `[A12]`
    Available(ReplicaId, bool),
    /// The answer to a probe. One that comes after the probe's deadline is counted and ignored.
    /// `[A4]`
    Report(ProbeId, &'a LoadReport),
    /// The replica's answer to a probe of a sibling's: another client on the same machine, which
    /// shares its answers. It is as fair a sample of the fleet as the answers to one's own probes.
    /// `[Decision 0006]`
    SiblingReport(ReplicaId, &'a LoadReport),
    /// Siblings have sent so many queries to the replica since their last such event. What is known
    /// of the replica counts them until it reports again. `[A11]` `[Decision 0006]`
    SiblingQueries(ReplicaId, u32),
    /// A report that came with a response, unasked. Such reports come from replicas that were
    /// chosen, so they are no fair sample of the fleet: a policy that separates high from low RIF
    /// ignores them. One that learns what a query costs there, or how much capacity is in use, may
    /// use them. `[A6]` `[Decision 0009]`
    CarriedReport(ReplicaId, &'a LoadReport),
    /// A probe has failed before its deadline (refused, unreachable). The deadline itself needs no
    /// event: the policy watches it at each [`Event::Timeout`].
    ProbeLost(ProbeId),
    /// A probe could not be sent because the sender's queue was full. It says nothing of the
    /// replica, and another probe may go there at once.
    ProbeUnsent(ProbeId),
    /// The time of [`Policy::poll_timeout`](crate::policy::Policy::poll_timeout) has come: probes
    /// past their deadline count as lost, idle probes fall due. `[A3]` `[A4]`
    Timeout,
}
