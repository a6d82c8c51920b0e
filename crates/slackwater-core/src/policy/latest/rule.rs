//! What a rule of choice among the latest reports says, and what it is told.

use crate::policy::comparison::{Comparison, Values};
use crate::policy::probed::rank::Place;
use crate::policy::query::PickReason;
use crate::policy::turns::Turn;
use crate::replica::ReplicaId;
use crate::report::Rif;
use crate::time::Instant;
use core::fmt::Debug;

/// A rule of choice among the latest reports of all replicas.
pub trait LatestRule: Debug + Send {
    /// The policy's name.
    const NAME: &'static str;
    /// How it compares replicas. Its shared factor, if it has one, is the RIF limit.
    const COMPARISON: &'static Comparison;
    /// So many reports are compared, the newest; by default all of them.
    const NEWEST_MAX: usize = usize::MAX;

    /// Whether it goes by whose turn it is.
    const TAKES_TURNS: bool = false;

    /// For rules that tell hot from cold: from which RIF on a report is hot, given the lowest RIF
    /// in sight `[A6]`. Without it nothing is hot, and nobody looks for the lowest RIF, or for the
    /// median latency that stands for those that are unknown `[A7]`.
    const RIF_LIMIT: Option<fn(&Self, lowest: Rif) -> Rif> = None;

    /// Where a replica of such a load stands.
    fn place(&self, load: LatestLoad, rif_limit: Option<Rif>) -> Place;

    /// Why a replica is chosen whose place begins with `first`.
    fn reason(first: u64) -> PickReason;

    /// What is compared of a replica of such a load.
    fn values(&self, load: LatestLoad, rif_limit: Option<Rif>) -> Values;

    /// A replica has reported this load. By default a rule learns nothing.
    fn handle_report(&mut self, now: Instant, reported: Reported) {
        let _ = (now, reported);
    }

    /// A replica has joined, of which nothing is known.
    fn add_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// What the replica has reported no longer tells what a query meets there.
    fn forget(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// From now on reports are of another kind, and what was learned of all replicas tells nothing.
    /// `[A13]`
    fn forget_all(&mut self) {}
}

/// What a report says, and what is known beside it.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    pub(in crate::policy) replica: ReplicaId,
    /// As in [`LatestLoad`].
    pub(in crate::policy) others: Option<u32>,
    pub(in crate::policy) rif: Rif,
    pub(in crate::policy) latency_ns: Option<u64>,
}

/// What is known of a replica at a pick.
#[derive(Clone, Copy, Debug)]
pub struct LatestLoad {
    pub(in crate::policy) replica: ReplicaId,
    /// What other clients had in flight there when it reported; `None` while this client's own
    /// alone counts.
    pub(in crate::policy) others: Option<u32>,
    /// That, and what this client has there now.
    pub(in crate::policy) rif: Rif,
    /// An unknown one has its stand-in here, for rules that tell hot from cold `[A7]`; for others
    /// 0.
    pub(in crate::policy) latency_ns: u64,
    /// How old the report is.
    pub(in crate::policy) age_ns: u64,
    /// What it has had of this client's queries lately.
    pub(in crate::policy) turn: Turn,
}
