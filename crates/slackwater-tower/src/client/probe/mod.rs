//! Probes on their way: what carries them, and how answers come back.
//!
//! A [`Prober`] takes a probe without waiting, or refuses it; what becomes of it comes back through
//! [`Reports`]. Two carriers are here, [`UdpProber`] and [`HttpProber`], and [`NoProber`] for
//! policies that ask nobody. A prober that never answers harms nothing: the policy watches each
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
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_core::policy::ProbeId;
use slackwater_core::{Instant, LoadReport, ReplicaId};
use std::sync::Weak;

/// Carries probes, for one balancer: a prober knows one way back for answers. An `Arc` of it is for
/// looking at its counters, not for a second balancer.
pub trait Prober: Debug + Send + Sync + 'static {
    /// Called once, before the first probe, within the owner's tokio runtime: here tasks are
    /// spawned and `reports` is kept. The prober must not outlive its use: its tasks end when it is
    /// dropped. A second call, which only a prober given to two balancers can get, is a mistake: it
    /// is ignored, and logged as an error.
    fn start(&self, reports: Reports);

    /// Takes a probe to send, or refuses it. Called on a query's path, so it must neither wait nor
    /// do work that could be done later. A probe taken should come back as a report or as lost; one
    /// refused must not.
    fn send(&self, probe: ProbeToSend) -> Result<(), Refused>;

    /// Hands in the answers that have come. Called before each pick, and before a timeout is
    /// handled, so that answers need wake nobody: it must neither wait nor block. `now` is the
    /// balancer's clock.
    fn collect(&self, now: Instant) {
        let _ = now;
    }

    /// No replica is probed at `addr` any more: what is kept for it (connections) may go.
    fn forget(&self, addr: SocketAddr) {
        let _ = addr;
    }

    /// What has happened so far.
    fn counters(&self) -> ProbeCounters {
        ProbeCounters::default()
    }

    /// How long a probe takes there and back where nothing holds it up; `None`: not known.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
}

/// A pointer to a prober is one, too: `Arc`, `Box`.
impl<P, R> Prober for P
where
    P: core::ops::Deref<Target = R> + Debug + Send + Sync + 'static,
    R: Prober + ?Sized,
{
    fn start(&self, reports: Reports) {
        (**self).start(reports);
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

/// For a prober that is given to a second balancer.
fn log_second_start() {
    tracing::error!(
        "a prober was given to a second balancer, which will get no reports; make one prober for each"
    );
}

/// The name of a probe, to hand its answer back under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeToken(pub(super) Purpose);

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// The pool of an asynchronous policy.
    Pooled {
        id: ProbeId,
        replica: ReplicaId,
        /// Of how many parts the replica that is asked is one.
        parts: NonZeroU32,
    },
    /// One query's choice. `[S1]`
    Round { round: RoundId, replica: ReplicaId },
}

impl ProbeToken {
    pub(super) const fn pooled(id: ProbeId, replica: ReplicaId, parts: NonZeroU32) -> Self {
        Self(Purpose::Pooled { id, replica, parts })
    }

    pub(super) const fn of_round(round: RoundId, replica: ReplicaId) -> Self {
        Self(Purpose::Round { round, replica })
    }
}

/// A probe to send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProbeToSend {
    /// Goes back with the answer.
    pub token: ProbeToken,
    /// Whom it asks.
    pub replica: ReplicaId,
    /// Where that replica answers probes.
    pub addr: SocketAddr,
    /// Now, on the balancer's clock.
    pub sent_at: Instant,
    /// When an answer is no longer of use, on the same clock.
    pub deadline: Instant,
    /// What the query is about; empty for none. `[S3]`
    pub hint: Bytes,
}

/// Why a probe was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Too many are outstanding.
    #[error("too many probes are outstanding")]
    Full,
    /// The replica could not be reached a moment ago.
    #[error("the replica could not be reached a moment ago")]
    BackOff,
    /// This prober cannot carry it: no socket for the address's family, or a hint beyond
    /// [`HINT_BYTES_MAX`](crate::wire::HINT_BYTES_MAX).
    #[error("the prober cannot carry this probe")]
    Unsupported,
    /// The prober has stopped, or sends none.
    #[error("the prober sends no probes")]
    Stopped,
}

/// The way back for answers. Holds the balancer weakly: after its end, answers go nowhere.
#[derive(Clone, Debug)]
pub struct Reports(Weak<Shared>);

impl Reports {
    pub(super) const fn new(balancer: Weak<Shared>) -> Self {
        Self(balancer)
    }

    /// A probe has been answered. After its deadline this is counted and has no other effect.
    /// `[A4]`
    pub fn report(&self, token: ProbeToken, report: &LoadReport) {
        if let Some(balancer) = self.balancer() {
            balancer.report(token, report);
        }
    }

    /// Probes have been answered, at `now`: many at once for the price of one. Empties `answers`.
    pub(super) fn report_all(&self, now: Instant, answers: &mut Vec<(ProbeToken, LoadReport)>) {
        if !answers.is_empty()
            && let Some(balancer) = self.balancer()
        {
            balancer.report_all(now, answers);
        }
        answers.clear();
    }

    /// A probe will not be answered.
    pub fn lost(&self, token: ProbeToken) {
        if let Some(balancer) = self.balancer() {
            balancer.probe_lost(token);
        }
    }

    /// The balancer's clock; `None` after its end.
    pub(super) fn now(&self) -> Option<Instant> {
        self.balancer().map(|balancer| balancer.now())
    }

    fn balancer(&self) -> Option<Balancer> {
        self.0.upgrade().map(Balancer::from_shared)
    }
}

/// Sends no probes. For policies that want none; with one that does, each counts as lost, and
/// replicas become silent. `[A13]`
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProber;

impl Prober for NoProber {
    fn start(&self, _reports: Reports) {}

    fn send(&self, _probe: ProbeToSend) -> Result<(), Refused> {
        Err(Refused::Stopped)
    }
}
