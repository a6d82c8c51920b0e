//! A rule of choice among the latest reports, and its inputs.

use super::From;
use crate::fixed::Rate;
use crate::policy::comparison::{Comparison, Values};
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::rank::Place;
use crate::policy::query::PickReason;
use crate::policy::turns::Turn;
use crate::replica::ReplicaId;
use crate::report::Rif;
use crate::time::Instant;
use core::fmt::Debug;
use core::time::Duration;

/// A rule of choice among the latest reports of all replicas.
pub trait LatestRule: Debug + Send {
    /// The policy's name.
    const NAME: &'static str;
    /// Number of newest reports that are compared, at most 16; by default all are.
    const NEWEST_MAX: usize = usize::MAX;

    /// Whether it uses turns.
    const TAKES_TURNS: bool = false;

    /// For rules with hot and cold: the RIF from which a report is hot, given the lowest RIF of the
    /// candidates `[A6]`. Without it nothing is hot, and neither the lowest RIF nor the stand-in
    /// for unknown latencies is computed `[A7]`.
    const RIF_LIMIT: Option<fn(&Self, lowest: Rif) -> Rif> = None;

    /// A lower bound of the first part of a replica's place, so that most replicas need not be
    /// looked at more closely.
    const FIRST_MIN: Option<fn(&Self::Known) -> u64> = None;

    /// What is known of a replica since its latest report.
    type Known: Copy + Debug + Default + Send;

    /// What all candidates of a choice are compared by.
    type Moment: Copy + Debug;

    /// What is known of a replica now, at which other clients have this many queries in flight, or
    /// more.
    fn known(&self, replica: ReplicaId, others: u32) -> Self::Known;

    /// What all candidates are compared by now.
    fn moment(&self) -> Self::Moment;

    /// How it compares replicas now. Its shared factor, if it has one, is the RIF limit.
    fn comparison(&self) -> &'static Comparison;

    /// The place of a replica with this load.
    fn place(&self, load: LatestLoad, known: &Self::Known, moment: &Self::Moment) -> Place;

    /// Why a replica is chosen whose place begins with `first`.
    fn reason(first: u64) -> PickReason;

    /// The compared values of a replica with this load.
    fn values(&self, load: LatestLoad, known: &Self::Known, moment: &Self::Moment) -> Values;

    /// The capacity, in thousandths, and the cost that a replica counts with, for rules that
    /// compare them.
    fn reported(&self, replica: ReplicaId) -> (Option<u32>, Option<Duration>) {
        let _ = replica;
        (None, None)
    }

    /// Takes in a replica's report, and returns what is known of the replica now. By default a rule
    /// learns nothing.
    fn handle_report(&mut self, now: Instant, reported: Reported) -> Update<Self::Known> {
        let _ = now;
        Update {
            known: self.known(reported.replica, reported.others),
            of_all: false,
        }
    }

    /// Takes in the latency of this client's own query to an unprobed replica. One that `failed`
    /// would have taken at least as long. `[A13]`
    fn handle_own_latency(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        latency_ns: u64,
        failed: bool,
    ) {
        let _ = (now, replica, latency_ns, failed);
    }

    /// Whether reports that come with responses count, if they have a capacity.
    fn takes_carried(&self) -> bool {
        false
    }

    /// Probes per query, given that `carried_rate` reports with a capacity come with the responses
    /// of each query. `sends_most`: most queries that replicas get are this client's.
    fn probe_rate(&self, carried_rate: Rate, sends_most: bool, config: &PrequalConfig) -> Rate {
        let _ = (carried_rate, sends_most);
        config.probe_rate
    }

    /// Adds a replica about which nothing is known.
    fn add_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Notes that a replica is in another zone, this round trip away.
    fn set_far(&mut self, replica: ReplicaId, round_trip: Duration) {
        let _ = (replica, round_trip);
    }

    /// Drops what the replica has reported: it no longer predicts what a query meets there. Returns
    /// whether what is known of all replicas has changed.
    fn forget(&mut self, replica: ReplicaId) -> bool {
        let _ = replica;
        false
    }
}

/// What a rule has learned from a report.
#[derive(Clone, Copy, Debug)]
pub struct Update<K> {
    /// What is known of the replica now.
    pub(in crate::policy) known: K,
    /// Whether that has changed for all replicas.
    pub(in crate::policy) of_all: bool,
}

/// A report, with derived values.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    pub(in crate::policy) replica: ReplicaId,
    pub(in crate::policy) from: From,
    pub(in crate::policy) rif: Rif,
    /// Queries that other clients have in flight there, or more.
    pub(in crate::policy) others: u32,
    pub(in crate::policy) latency_ns: Option<u64>,
    /// 0 if it reports none.
    pub(in crate::policy) query_rate_millis: u32,
    /// 0 if it reports none.
    pub(in crate::policy) capacity_millirif: u32,
    /// 0 if it reports none.
    pub(in crate::policy) cost_ns: u64,
}

/// The load of a replica at a pick.
#[derive(Clone, Copy, Debug)]
pub struct LatestLoad {
    /// What other clients had in flight there when it reported, plus what this client has there
    /// now, in 1/1024.
    pub(in crate::policy) in_flight: u64,
    /// For rules with hot and cold: the RIF from which it is hot.
    pub(in crate::policy) rif_limit: Option<Rif>,
    /// The latency. For rules with hot and cold, an unknown one has its stand-in `[A7]`; for other
    /// rules it is 0.
    pub(in crate::policy) latency_ns: u64,
    /// How old the report is.
    pub(in crate::policy) age_ns: u64,
    /// Its share of this client's recent queries.
    pub(in crate::policy) turn: Turn,
}
