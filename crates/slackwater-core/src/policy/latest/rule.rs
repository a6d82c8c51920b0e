//! A rule of choice among the latest reports, and its inputs.

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
    /// Number of newest reports that are compared; by default all.
    const NEWEST_MAX: usize = usize::MAX;

    /// Whether it uses turns.
    const TAKES_TURNS: bool = false;

    /// For rules with hot and cold: the RIF from which a report is hot, given the lowest RIF of the
    /// candidates `[A6]`. Without it nothing is hot, and neither the lowest RIF nor the stand-in
    /// for unknown latencies is computed `[A7]`.
    const RIF_LIMIT: Option<fn(&Self, lowest: Rif) -> Rif> = None;

    /// The place of a replica with this load.
    fn place(&self, load: LatestLoad, rif_limit: Option<Rif>) -> Place;

    /// Why a replica is chosen whose place begins with `first`.
    fn reason(first: u64) -> PickReason;

    /// The compared values of a replica with this load.
    fn values(&self, load: LatestLoad, rif_limit: Option<Rif>) -> Values;

    /// Takes in a replica's report. By default a rule learns nothing.
    fn handle_report(&mut self, now: Instant, reported: Reported) {
        let _ = (now, reported);
    }

    /// Adds a replica about which nothing is known.
    fn add_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Drops what the replica has reported: it no longer predicts what a query meets there.
    fn forget(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Drops what was learned about all replicas: from now on reports are of another kind. `[A13]`
    fn forget_all(&mut self) {}
}

/// A report, with derived values.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    pub(in crate::policy) replica: ReplicaId,
    /// As in [`LatestLoad`].
    pub(in crate::policy) others: Option<u32>,
    pub(in crate::policy) rif: Rif,
    pub(in crate::policy) latency_ns: Option<u64>,
}

/// The load of a replica at a pick.
#[derive(Clone, Copy, Debug)]
pub struct LatestLoad {
    pub(in crate::policy) replica: ReplicaId,
    /// What other clients had in flight there when it reported. `None` while only this client's own
    /// queries count.
    pub(in crate::policy) others: Option<u32>,
    /// `others` plus what this client has there now.
    pub(in crate::policy) rif: Rif,
    /// The latency. For rules with hot and cold, an unknown one has its stand-in `[A7]`; for other
    /// rules it is 0.
    pub(in crate::policy) latency_ns: u64,
    /// How old the report is.
    pub(in crate::policy) age_ns: u64,
    /// Its share of this client's recent queries.
    pub(in crate::policy) turn: Turn,
}
