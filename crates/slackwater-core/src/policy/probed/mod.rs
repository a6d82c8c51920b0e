//! What all policies with asynchronous probes share: a fleet, probes in flight, replicas that
//! answer none, and the handling of a query from pick to end.
//!
//! Such a policy only defines which reports it keeps and how it chooses among them, as a [`Keep`].
//! [`Probed`] turns that into a [`Policy`](crate::policy::Policy).
//!
//! | subject | file |
//! |---|---|
//! | handling of queries, reports, timeouts | `flow` |
//! | which replica to probe, and when | `probing`, `sounding` |
//! | largest probe rate, and a lower one in an overload | `rate_cap`, `back_off` |
//! | replicas that answer no probes | `local`, `others`, `recent_mean`, `recent_queries` |
//! | which RIF is high in this fleet | `rif_limit` |
//! | the best and the worst of the kept reports | `rank` |

mod back_off;
mod flow;
mod local;
mod others;
mod probing;
pub(in crate::policy) mod rank;
mod rate_cap;
pub(in crate::policy) mod recent_mean;
pub(in crate::policy) mod recent_queries;
pub(in crate::policy) mod rif_limit;
mod sounding;

pub(in crate::policy) use probing::draw_distinct;

use crate::draw::{Draw, below};
use crate::fixed::{Accumulator, ONE, Quantile, Rate};
use crate::policy::comparison::{CHANCE, Comparison, Values};
use crate::policy::explanation::{Candidate, Explanation};
use crate::policy::fleet::{Changed, Fleet};
use crate::policy::observe::Counters;
use crate::policy::pooled_view::PooledView;
use crate::policy::prequal::PrequalConfig;
use crate::policy::query::{Head, PickReason, Query};
use crate::replica::ReplicaId;
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::fmt::Debug;
use core::time::Duration;
use local::LocalLoads;
use probing::{Answer, Probing};
use rank::Place;
use rif_limit::RifDistribution;

/// Up to this quantile of recent reports, RIF is ordinary: among five or more replicas that answer,
/// a single one cannot define it. It is not the configured quantile of the RIF limit, which may
/// make all replicas hot or none. `[A13]` `[Decision 0002]`
const ORDINARY_QUANTILE: Quantile = match Quantile::from_millionths(800_000) {
    Some(quantile) => quantile,
    None => Quantile::ONE,
};

/// What a policy keeps of reports, and how it chooses among them.
pub trait Keep: Debug + Send {
    /// The policy's name.
    const NAME: &'static str;
    /// Whether the estimated load of other clients at an unprobed replica has the spread of recent
    /// reports, instead of a mean of those that are ordinary `[A13]`. Such a policy learns no RIF
    /// limit from reports.
    const DRAWS_OTHERS: bool = false;
    /// The reason of a pick when no report helps.
    const WITHOUT_REPORTS: PickReason = PickReason::Random;

    /// Passes the turn of the replica that the query must spare, for policies with turns. Called
    /// before the choice. `[Decision 0014]`
    fn pass_turn(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        let _ = (now, query, client, draw);
    }

    /// Chooses a replica, and charges the query to what is kept. `None` if the query may go to no
    /// replica.
    fn choose(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice>;

    /// Explains what the next choice is made from.
    fn explain(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        explanation: &mut Explanation,
    );

    /// Charges a choice that was made elsewhere.
    fn charge_pinned(&mut self, now: Instant, replica: ReplicaId, client: &mut Client) -> Choice {
        let _ = now;
        Choice {
            replica,
            reason: PickReason::Pinned,
            rif_limit: self.rif_limit(client),
            candidates: 0,
            chosen: None,
            runner_up: None,
        }
    }

    /// Charges `queries` that siblings have sent to a replica. `[A11]`
    fn charge_siblings(&mut self, replica: ReplicaId, queries: u32);

    /// Does what follows a choice. Its query is in flight by now.
    fn handle_sent(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        choice: &Choice,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        let _ = (now, query, choice, client, draw);
    }

    /// Takes in a report of an available replica.
    fn handle_report(
        &mut self,
        now: Instant,
        from: Subject,
        report: &LoadReport,
        client: &mut Client,
        draw: &mut dyn Draw,
    );

    /// Takes in the load that an available replica reported with a response. By default it is
    /// ignored.
    fn handle_carried_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        client: &mut Client,
    ) {
        let _ = (now, replica, report, client);
    }

    /// Probes per query. `[A2]`
    fn probe_rate(&self, client: &Client) -> Rate {
        client.config.probe_rate
    }

    /// Drops what the replica has reported: it no longer predicts what a query meets there.
    fn forget(&mut self, replica: ReplicaId);

    /// Notes the latency of a query to the replica. Called once per query: at the head of the
    /// response or, if the driver reports no heads, at the end.
    fn handle_head(&mut self, now: Instant, replica: ReplicaId, head: Head, client: &Client) {
        let _ = (now, replica, head, client);
    }

    /// Adds a replica about which nothing is known.
    fn add_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Notes that a replica is in another zone, this round trip away.
    fn set_far(&mut self, replica: ReplicaId, round_trip: Duration) {
        let _ = (replica, round_trip);
    }

    /// Removes a replica.
    fn remove_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Notes that availability has changed. Replicas that are no longer available have been
    /// forgotten.
    fn fleet_changed(&mut self, client: &Client);

    /// The RIF from which a report is hot, for policies with hot and cold. `[A6]`
    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        let _ = client;
        None
    }

    /// The kept reports, oldest first.
    fn views(&self, now: Instant, client: &Client) -> Vec<PooledView>;

    /// How reports are compared now, and the values that all have in common.
    fn comparison(&self, client: &Client) -> (&'static Comparison, Values);

    /// The reports that are compared for the next query, oldest first.
    fn compared(&self, now: Instant, client: &Client) -> Vec<Compared>;
}

/// The available replica that a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub(in crate::policy) replica: ReplicaId,
    /// Queries that this client has in flight there.
    pub(in crate::policy) own_in_flight: u32,
    /// The report is the client's own, in place of an unprobed replica's. `[A13]`
    pub(in crate::policy) local: bool,
}

/// A report that is compared for the next query.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub(in crate::policy) replica: ReplicaId,
    pub(in crate::policy) place: Place,
    /// The compared values.
    pub(in crate::policy) values: Values,
}

/// The result of a choice.
#[derive(Debug)]
pub struct Choice {
    pub(in crate::policy) replica: ReplicaId,
    pub(in crate::policy) reason: PickReason,
    pub(in crate::policy) rif_limit: Option<Rif>,
    pub(in crate::policy) candidates: u16,
    /// The report that decided, as it was before the query was charged to it.
    pub(in crate::policy) chosen: Option<PooledView>,
    pub(in crate::policy) runner_up: Option<ReplicaId>,
}

/// State of a client besides the reports that its policy keeps.
#[derive(Debug)]
pub struct Client {
    pub(in crate::policy) config: PrequalConfig,
    pub(in crate::policy) fleet: Fleet,
    pub(in crate::policy) counters: Counters,
    /// RIF that available replicas report.
    reported: RifDistribution,
    /// Estimated RIF of available unprobed replicas. The limit uses it only while no replica
    /// reports.
    estimated: RifDistribution,
    locals: LocalLoads,
    /// The share of the configured probe rate that is used, in millionths: less than one in an
    /// overload.
    pub(in crate::policy) probe_share: u32,
}

impl Client {
    fn new(config: PrequalConfig, locals: LocalLoads) -> Self {
        Self {
            config,
            locals,
            fleet: Fleet::default(),
            counters: Counters::default(),
            reported: RifDistribution::new(),
            estimated: RifDistribution::new(),
            probe_share: ONE,
        }
    }

    /// Reports removed after each query, lowered in proportion to the probe rate. `[A10]`
    /// `[Decision 0011]`
    pub(in crate::policy) fn remove_rate(&self) -> Rate {
        self.config.remove_rate.share(self.probe_share)
    }

    /// The current RIF limit. `[A6]`
    pub(in crate::policy) fn rif_limit(&self) -> Option<Rif> {
        let distribution = if self.reported.is_empty() {
            &self.estimated
        } else {
            &self.reported
        };
        distribution.limit(self.config.rif_limit_quantile)
    }

    /// Whether any available replica is unprobed. `[A13]`
    pub(in crate::policy) fn any_unprobed(&self) -> bool {
        self.locals.any_unprobed_available()
    }

    /// The latency of this client's own query to an unprobed replica, as that would report it.
    /// `[A13]`
    pub(in crate::policy) fn without_way(&self, latency: Duration) -> Duration {
        self.locals.without_way(latency)
    }

    /// A reported RIF, capped at what replicas ordinarily report. `[A13]`
    fn ordinary(&self, rif: Rif) -> Rif {
        let most = self.reported.limit(ORDINARY_QUANTILE);
        most.map_or(rif, |most| rif.min(most))
    }

    /// A uniformly random replica that the query may go to. Replicas that are unprobed and out of
    /// reach are used only if there is no other. `[A8]` `[A13]`
    pub(in crate::policy) fn random(
        &self,
        now: Instant,
        query: &Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<ReplicaId> {
        if !self.locals.any_out_of_reach(now) {
            return self.fleet.random(*query, draw);
        }
        let within_reach = || {
            let choice = self.fleet.choice_for(*query).iter().copied();
            choice.filter(|&replica| query.allows(replica) && !self.is_out_of_reach(now, replica))
        };
        match u32::try_from(within_reach().count()) {
            Ok(0) | Err(_) => self.fleet.random(*query, draw),
            Ok(count) => within_reach().nth(below(draw, count) as usize),
        }
    }

    /// Explains a random pick: the replicas that [`random`](Self::random) draws from, each with its
    /// report if it has one.
    pub(in crate::policy) fn explain_chance(
        &self,
        now: Instant,
        query: &Query<'_>,
        report: impl Fn(ReplicaId) -> Option<PooledView>,
        explanation: &mut Explanation,
    ) {
        explanation.compare(&CHANCE, Values::NONE);
        let any_out = self.locals.any_out_of_reach(now);
        let may_be = |&replica: &ReplicaId| query.allows(replica);
        let within_reach = |replica: &ReplicaId| {
            any_out && may_be(replica) && !self.is_out_of_reach(now, *replica)
        };
        let is_any_within = self.fleet.choice_for(*query).iter().any(within_reach);
        for replica in self.fleet.allowed_set(*query) {
            if may_be(replica) && (!is_any_within || within_reach(replica)) {
                let in_flight = self.fleet.in_flight(*replica);
                explanation.consider(Candidate::new(*replica, report(*replica), in_flight));
            }
        }
    }

    /// Whether the replica is unprobed and could recently not be reached, so that it is the last to
    /// try. `[A13]`
    pub(in crate::policy) fn is_out_of_reach(&self, now: Instant, replica: ReplicaId) -> bool {
        self.locals.any_out_of_reach(now) && self.locals.is_out_of_reach(now, replica)
    }
}

/// A policy with asynchronous probes.
pub struct Probed<K> {
    probe_interval_min_ns: u64,
    client: Client,
    kept: K,
    probing: Probing,
    probes_owed: Accumulator,
    /// The part of `probes_owed` that an overload suppressed.
    probes_left_out: Accumulator,
    /// The latest time seen. The order of reports, and every age, rely on time that does not step
    /// back.
    latest: Instant,
    /// Buffer for replicas whose probes expire together.
    lost: Vec<ReplicaId>,
}

impl<K: Keep> Probed<K> {
    /// A policy that keeps `kept`, with an empty fleet.
    pub(in crate::policy) fn with(kept: K, config: PrequalConfig) -> Self {
        Self {
            probe_interval_min_ns: span_ns(config.probe_interval_min),
            kept,
            probing: Probing::new(&config),
            probes_owed: Accumulator::default(),
            probes_left_out: Accumulator::default(),
            latest: Instant::EPOCH,
            lost: Vec::with_capacity(usize::from(config.probes_outstanding_max)),
            client: Client::new(config, LocalLoads::default()),
        }
    }

    /// The configuration of its probes, and of its pool if it has one.
    pub const fn config(&self) -> &PrequalConfig {
        &self.client.config
    }

    /// The current time: `now`, or the latest time seen if the driver's clock has stepped back.
    fn tick(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Takes in the report with which a probe was answered.
    fn take_report(
        &mut self,
        now: Instant,
        answer: Answer,
        report: &LoadReport,
        draw: &mut dyn Draw,
    ) {
        let replica = answer.replica;
        let Some(mut standing) = answer.standing else {
            self.client.counters.reports_unknown += 1;
            return;
        };
        // A lost replica is lost no longer.
        let mut is_changed = self.note_answer(now, answer);
        if standing.is_draining() != report.draining {
            let changed = self.client.fleet.set_draining(replica, report.draining);
            self.fleet_changed(replica, changed);
            is_changed = true;
        }
        if is_changed {
            let Some(after) = self.client.fleet.standing(replica) else {
                return;
            };
            standing = after;
        }
        // An unavailable replica runs empty, which shows neither the load of the others nor which
        // RIF is high among them.
        if let Some(own_in_flight) = self.client.fleet.in_flight_if_available(&standing) {
            // The RIF is at least what this client alone had there all the time. `[Decision 0015]`
            let raised;
            let report = if report.rif < standing.rif_min() {
                raised = with_rif(report, standing.rif_min());
                &raised
            } else {
                report
            };
            let client = &mut self.client;
            if K::DRAWS_OTHERS {
                client.locals.note_others(report, report.rif, own_in_flight);
            } else {
                let ordinary = client.ordinary(report.rif);
                client.locals.note_others(report, ordinary, own_in_flight);
                client.reported.record(report.rif);
            }
            let from = Subject {
                replica,
                own_in_flight,
                local: false,
            };
            (self.kept).handle_report(now, from, report, client, draw);
        }
    }

    /// Handles a replica that has joined or left.
    fn membership_changed(&mut self, replica: ReplicaId) {
        let changed = if self.client.fleet.any_lost() {
            Changed::Others
        } else {
            Changed::Itself
        };
        self.fleet_changed(replica, changed);
    }

    /// Handles a possible change of availability.
    #[inline]
    fn fleet_changed(&mut self, replica: ReplicaId, changed: Changed) {
        if changed != Changed::No {
            self.availability_changed(replica, changed);
        }
    }

    /// Handles a change of availability: nothing is kept of unavailable replicas. `[A12]`
    #[cold]
    fn availability_changed(&mut self, replica: ReplicaId, changed: Changed) {
        self.settle(replica);
        if changed == Changed::Others {
            for place in 0..self.client.fleet.known().len() {
                self.settle(self.client.fleet.known()[place]);
            }
        }
        self.kept.fleet_changed(&self.client);
        self.forget_if_deaf();
    }

    fn settle(&mut self, replica: ReplicaId) {
        if !self.client.fleet.is_available(replica) {
            self.kept.forget(replica);
        }
        let client = &mut self.client;
        client.locals.settle(replica, &client.fleet);
    }
}

/// A report, with another RIF.
#[cold]
fn with_rif(report: &LoadReport, rif: Rif) -> LoadReport {
    LoadReport {
        rif,
        ..report.clone()
    }
}
