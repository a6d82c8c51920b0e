//! Events that happen to a policy, as a value.
//!
//! An [`Event`] is `Copy`: a wrapper can forward it, a recorder store it, a replay read it back and
//! a fuzzer generate it, each in one place for all events. Inputs that are not events either have
//! an answer (a query, a probe that is due) or come with a [`Ticket`](crate::policy::Ticket), which
//! must not be copied. `[Decision 0017]`

use crate::key::Identity;
use crate::policy::probe::ProbeId;
use crate::replica::ReplicaId;
use crate::report::LoadReport;
use core::time::Duration;

/// An input of [`Policy::handle`](crate::policy::Policy::handle).
///
/// Events about replicas or probes of which the policy has no record are normal: the policy ignores
/// them, and counts those that carry information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The replica joins the fleet: from now on it may be chosen and probed. If it is known
    /// already, nothing changes.
    Added(ReplicaId),
    /// The replica leaves the fleet: it is no longer chosen or probed, and all that was known about
    /// it is forgotten.
    Removed(ReplicaId),
    /// The stable name of a replica that has joined, by which [keys](crate::keys) find their
    /// replicas. It follows [`Event::Added`]. Without it the name derives from the [`ReplicaId`],
    /// and clients agree on a key's replicas only if all replicas join in the same order. Policies
    /// ignore it.
    Identified(ReplicaId, Identity),
    /// The replica is in another zone than this client, and this is the round trip between the two;
    /// 0: it is not known. It follows [`Event::Added`], and holds until the
    /// replica leaves. Only the policy `shortest_expected_delay` uses it.
    Far(ReplicaId, Duration),
    /// The driver takes the replica out of the choice (`false`: it ejects or drains it) or puts it
    /// back. The replica stays known and probed. When no replica may be chosen, all may be (panic).
    /// `[A8]` `[A12]`
    Available(ReplicaId, bool),
    /// The answer to a probe. One that comes after the probe's deadline is counted and ignored.
    /// `[A4]`
    Report(ProbeId, &'a LoadReport),
    /// The replica's answer to a probe of a sibling: another client on the same machine, which
    /// shares its answers. It is as fair a sample of the fleet as the answers to this client's own
    /// probes. `[Decision 0006]`
    SiblingReport(ReplicaId, &'a LoadReport),
    /// Queries that siblings have sent to the replica since their last such event. They count at
    /// the replica until it reports again. `[A11]` `[Decision 0006]`
    SiblingQueries(ReplicaId, u32),
    /// A report that came with a response, without a probe. Such reports come from replicas that
    /// were chosen, so they are no fair sample of the fleet: a policy that separates high from low
    /// RIF ignores them. A policy that learns the cost of a query, or the capacity in use, may use
    /// them. Its RIF counts the query that it came with only if that is not done yet. `[A6]`
    /// `[Decision 0009]`
    CarriedReport(ReplicaId, &'a LoadReport),
    /// A probe has failed before its deadline (refused, unreachable). The deadline itself needs no
    /// event: the policy watches it at each [`Event::Timeout`].
    ProbeLost(ProbeId),
    /// A probe could not be sent because the sender's queue was full. It shows nothing about the
    /// replica, and another probe may be sent at once.
    ProbeUnsent(ProbeId),
    /// The time of [`Policy::poll_timeout`](crate::policy::Policy::poll_timeout) has come: probes
    /// past their deadline count as lost, and idle probes become due. `[A3]` `[A4]`
    Timeout,
}
