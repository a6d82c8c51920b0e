//! Probes: what carries them, and how their answers are reported.
//!
//! A [`Prober`] takes a probe without waiting, or refuses it. It reports the result through
//! [`Reports`]. There are two carriers, [`UdpProber`] and [`HttpProber`], and [`NoProber`] for
//! policies that do not probe. A prober that never answers does no harm: the policy watches each
//! probe's deadline itself.

mod counters;
mod http;
mod round_trip;
mod udp;

pub use counters::ProbeCounters;
pub use http::{Connect, Connecting, HttpProber, HttpProberConfig, ProbeStream};
pub use udp::{UdpProber, UdpProberConfig};

use super::balancer::{Balancer, Shared};
use super::rounds::RoundId;
use bytes::Bytes;
use core::fmt::Debug;
use core::net::SocketAddr;
use core::time::Duration;
use slackwater_core::policy::ProbeId;
use slackwater_core::{Instant, LoadReport, ReplicaId};
use std::sync::Weak;

/// Carries the probes of one balancer: a prober has only one [`Reports`]. Share it in an `Arc` to
/// read its counters, not to give it to a second balancer.
pub trait Prober: Debug + Send + Sync + 'static {
    /// Called by each balancer that is given this prober, before its first probe and within its
    /// tokio runtime. The first call spawns tasks and keeps `reports`. The tasks must end when the
    /// prober is dropped. A further call changes nothing and returns `false`: that balancer logs an
    /// error and sends no probes.
    fn start(&self, reports: Reports) -> bool;

    /// Takes a probe to send, or refuses it. Called on a query's path, so it must not wait, nor do
    /// work that can be done later. A probe that was taken should end as a report or as lost; a
    /// refused one must not.
    fn send(&self, probe: ProbeToSend) -> Result<(), Refused>;

    /// Hands in the answers that have arrived. Called before each pick and before a timeout is
    /// handled, so that answers need not wake a task. It must not wait or block. `now` is on the
    /// balancer's clock.
    fn collect(&self, now: Instant) {
        let _ = now;
    }

    /// Called when no replica is probed at `addr` any more: its connections may be closed.
    fn forget(&self, addr: SocketAddr) {
        let _ = addr;
    }

    /// Counts of what has happened so far.
    fn counters(&self) -> ProbeCounters {
        ProbeCounters::default()
    }

    /// The round-trip time of a probe that nothing delays; `None` if not known.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
}

/// Pointers to a prober (`Arc`, `Box`) are probers, too.
impl<P, R> Prober for P
where
    P: core::ops::Deref<Target = R> + Debug + Send + Sync + 'static,
    R: Prober + ?Sized,
{
    fn start(&self, reports: Reports) -> bool {
        (**self).start(reports)
    }

    fn send(&self, probe: ProbeToSend) -> Result<(), Refused> {
        (**self).send(probe)
    }

    fn collect(&self, now: Instant) {
        (**self).collect(now);
    }

    fn forget(&self, addr: SocketAddr) {
        (**self).forget(addr);
    }

    fn counters(&self) -> ProbeCounters {
        (**self).counters()
    }

    fn round_trip(&self) -> Option<Duration> {
        (**self).round_trip()
    }
}

/// The id of a probe, which comes back with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeToken(pub(super) Purpose);

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// The pool of an asynchronous policy.
    Pooled { id: ProbeId, replica: ReplicaId },
    /// One query's choice. `[S1]`
    Round { round: RoundId, replica: ReplicaId },
}

impl ProbeToken {
    pub(super) const fn pooled(id: ProbeId, replica: ReplicaId) -> Self {
        Self(Purpose::Pooled { id, replica })
    }

    pub(super) const fn of_round(round: RoundId, replica: ReplicaId) -> Self {
        Self(Purpose::Round { round, replica })
    }
}

/// A probe to send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProbeToSend {
    /// Comes back with the answer.
    pub token: ProbeToken,
    /// The replica to probe.
    pub replica: ReplicaId,
    /// Where that replica answers probes.
    pub addr: SocketAddr,
    /// Now, on the balancer's clock.
    pub sent_at: Instant,
    /// The time from which an answer is of no use, on the same clock.
    pub deadline: Instant,
    /// What the query is about; empty for none. `[S3]`
    pub hint: Bytes,
}

/// Why a probe was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Too many probes are outstanding.
    #[error("too many probes are outstanding")]
    Full,
    /// The replica could not be reached a moment ago.
    #[error("the replica could not be reached a moment ago")]
    BackOff,
    /// This prober cannot carry it: no socket for the address's family, or a hint beyond
    /// [`HINT_BYTES_MAX`](crate::wire::HINT_BYTES_MAX).
    #[error("the prober cannot carry this probe")]
    Unsupported,
    /// The prober has stopped, or sends no probes.
    #[error("the prober sends no probes")]
    Stopped,
}

/// Where a prober reports answers. Holds the balancer weakly: after its end, answers are dropped.
#[derive(Clone, Debug)]
pub struct Reports(Weak<Shared>);

impl Reports {
    pub(super) const fn new(balancer: Weak<Shared>) -> Self {
        Self(balancer)
    }

    /// Reports the answer to a probe. After the probe's deadline it is counted, and has no other
    /// effect. `[A4]`
    pub fn report(&self, token: ProbeToken, report: &LoadReport) {
        if let Some(balancer) = self.balancer() {
            balancer.report(token, report);
        }
    }

    /// Reports the answers to many probes at `now`, for the cost of one. Empties `answers`.
    pub(super) fn report_all(&self, now: Instant, answers: &mut Vec<(ProbeToken, LoadReport)>) {
        if !answers.is_empty()
            && let Some(balancer) = self.balancer()
        {
            balancer.report_all(now, answers);
        }
        answers.clear();
    }

    /// Reports that a probe will not be answered.
    pub fn lost(&self, token: ProbeToken) {
        if let Some(balancer) = self.balancer() {
            balancer.probe_lost(token);
        }
    }

    /// The time on the balancer's clock; `None` after the balancer's end.
    pub(super) fn now(&self) -> Option<Instant> {
        self.balancer().map(|balancer| balancer.now())
    }

    fn balancer(&self) -> Option<Balancer> {
        self.0.upgrade().map(Balancer::from_shared)
    }
}

/// Sends no probes, for policies that need none. With a policy that probes, each probe counts as
/// lost, and replicas become unprobed. `[A13]`
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProber;

impl Prober for NoProber {
    fn start(&self, _reports: Reports) -> bool {
        true
    }

    fn send(&self, _probe: ProbeToSend) -> Result<(), Refused> {
        Err(Refused::Stopped)
    }
}
