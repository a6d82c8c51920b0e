//! What all policies that probe asynchronously have in common: a fleet, probes on their way,
//! replicas that answer none, and the way in and out of a query.
//!
//! Such a policy is nothing but what it keeps of reports and how it chooses among them, a [`Keep`];
//! [`Probed`] makes a [`Policy`](crate::policy::Policy) of it.
//!
//! | subject | file |
//! |---|---|
//! | the way of a query, a report, a timeout | `flow` |
//! | whom to probe, and when | `probing`, `sounding` |
//! | how often at most, and how much less in an overload | `rate_cap`, `back_off` |
//! | replicas that answer no probes | `local`, `recent_mean` |
//! | which RIF is high, as replicas go | `rif_limit` |
//! | the best and the worst of what is kept | `rank` |

mod back_off;
mod flow;
mod local;
mod probing;
pub(in crate::policy) mod rank;
mod rate_cap;
pub(in crate::policy) mod recent_mean;
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
use local::LocalLoads;
use probing::Probing;
use rank::Place;
use rif_limit::RifDistribution;

/// Up to this quantile of recent reports, RIF is ordinary: among five replicas that answer, or
/// more, a single one cannot say what is. Not the user's quantile of the RIF limit, by which
/// anything or nothing may be hot. `[A13]` `[Decision 0002]`
const ORDINARY_QUANTILE: Quantile = match Quantile::from_millionths(800_000) {
    Some(quantile) => quantile,
    None => Quantile::ONE,
};

/// What a policy keeps of reports, and how it chooses among them.
pub trait Keep: Debug + Send {
    /// The policy's name.
    const NAME: &'static str;
    /// Each choice compares all replicas with each other, so that what it knows of them has to be
    /// of one kind: while any is silent that may be chosen, all reports come with the client's own
    /// latencies, and are marked local. `[A13]`
    const COMPARES_ALL: bool = false;
    /// The rule where no report helps.
    const WITHOUT_REPORTS: PickReason = PickReason::Random;

    /// The turn of a replica passes that the query is to spare, where the policy goes by turns. It
    /// comes before the choice. `[Decision 0014]`
    fn pass_turn(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        let _ = (now, query, client, draw);
    }

    /// Chooses, and charges the choice to what is kept; `None` if there is no replica that the
    /// query may go to.
    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice>;

    /// What the choice is made from that comes next, for whoever wants to know.
    fn explain(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &mut Client,
        explanation: &mut Explanation,
    );

    /// Charges a choice that was made elsewhere to what is kept.
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

    /// Siblings have sent so many queries to a replica: what is kept of it counts them. `[A11]`
    fn charge_siblings(&mut self, replica: ReplicaId, queries: u32);

    /// What follows a choice: by now its query is in flight.
    fn handle_sent(
        &mut self,
        now: Instant,
        query: Query<'_>,
        choice: &Choice,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        let _ = (now, query, choice, client, draw);
    }

    /// A report of an available replica's; `local` if it is the client's own, in place of a silent
    /// one's. `[A13]`
    fn handle_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        local: bool,
        client: &mut Client,
        draw: &mut dyn Draw,
    );

    /// What a replica that may be chosen has said of its load with a response. By default it is
    /// nothing.
    fn handle_carried_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        client: &mut Client,
    ) {
        let _ = (now, replica, report, client);
    }

    /// Probes that each query triggers. `[A2]`
    fn probe_rate(&self, client: &Client) -> Rate {
        client.config.probe_rate
    }

    /// What the replica has reported no longer tells what a query meets there.
    fn forget(&mut self, replica: ReplicaId);

    /// The latency of a query that went to the replica has ended: once for each, with the head of
    /// the response or, where no head was told of, with the query.
    fn handle_head(&mut self, now: Instant, replica: ReplicaId, head: Head) {
        let _ = (now, replica, head);
    }

    /// From now on some replica is silent that may be chosen, or none is any more. `[A13]`
    fn silence_changed(&mut self, any_silent: bool) {
        let _ = any_silent;
    }

    /// A replica has joined, of which nothing is known.
    fn add_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// A replica has left.
    fn remove_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Who may be chosen has changed; whoever may not any more has been forgotten.
    fn fleet_changed(&mut self, client: &Client);

    /// From which RIF on a report is hot, for policies that tell hot from cold. `[A6]`
    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        let _ = client;
        None
    }

    /// The reports that are kept, oldest first.
    fn views(&self, now: Instant, client: &Client) -> Vec<PooledView>;

    /// How reports are compared at this moment, and what all have in common.
    fn comparison(&self, client: &Client) -> (&'static Comparison, Values);

    /// Whose reports are compared for the next query, oldest first.
    fn compared(&self, now: Instant, client: &Client) -> Vec<Compared>;
}

/// A report that is compared for the next query.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub(in crate::policy) replica: ReplicaId,
    pub(in crate::policy) place: Place,
    /// What is compared.
    pub(in crate::policy) values: Values,
}

/// What was found for a query.
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

/// What a client knows besides the reports that its policy keeps.
#[derive(Debug)]
pub struct Client {
    pub(in crate::policy) config: PrequalConfig,
    pub(in crate::policy) fleet: Fleet,
    pub(in crate::policy) counters: Counters,
    /// RIF as replicas report it that may be chosen.
    reported: RifDistribution,
    /// RIF of silent replicas that may be chosen, as estimated; the limit comes from it only while
    /// no replica reports.
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

    /// Reports removed after each query: as many fewer as there are fewer probes. `[A10]`
    /// `[Decision 0011]`
    pub(in crate::policy) fn remove_rate(&self) -> Rate {
        self.config.remove_rate.share(self.probe_share)
    }

    /// The RIF limit of now. `[A6]`
    pub(in crate::policy) fn rif_limit(&self) -> Option<Rif> {
        let distribution = if self.reported.is_empty() {
            &self.estimated
        } else {
            &self.reported
        };
        distribution.limit(self.config.rif_limit_quantile)
    }

    /// A reported RIF as far as it is within what replicas report as a rule. `[A13]`
    fn ordinary(&self, rif: Rif) -> Rif {
        let most = self.reported.limit(ORDINARY_QUANTILE);
        most.map_or(rif, |most| rif.min(most))
    }

    /// A uniformly random replica that the query may go to: those that are silent and out of reach
    /// only if there is no other. `[A8]` `[A13]`
    pub(in crate::policy) fn random(
        &self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<ReplicaId> {
        if !self.locals.any_out_of_reach(now) {
            return self.fleet.random(query, draw);
        }
        let within_reach = || {
            let choice = self.fleet.choice().iter().copied();
            choice.filter(|&replica| query.allows(replica) && !self.is_out_of_reach(now, replica))
        };
        match u32::try_from(within_reach().count()) {
            Ok(0) | Err(_) => self.fleet.random(query, draw),
            Ok(count) => within_reach().nth(below(draw, count) as usize),
        }
    }

    /// The replicas that [`random`](Self::random) draws from, each with its report if it has one.
    pub(in crate::policy) fn explain_chance(
        &self,
        now: Instant,
        query: Query<'_>,
        report: impl Fn(ReplicaId) -> Option<PooledView>,
        explanation: &mut Explanation,
    ) {
        explanation.compare(&CHANCE, Values::NONE);
        let any_out = self.locals.any_out_of_reach(now);
        let may_be = |&replica: &ReplicaId| query.allows(replica);
        let within_reach = |replica: &ReplicaId| {
            any_out && may_be(replica) && !self.is_out_of_reach(now, *replica)
        };
        let is_any_within = self.fleet.choice().iter().any(within_reach);
        for replica in self.fleet.allowed_set(query) {
            if may_be(replica) && (!is_any_within || within_reach(replica)) {
                let in_flight = self.fleet.in_flight(*replica);
                explanation.consider(Candidate::new(*replica, report(*replica), in_flight));
            }
        }
    }

    /// The replica is silent, and could not be reached just now: the last to try. `[A13]`
    pub(in crate::policy) fn is_out_of_reach(&self, now: Instant, replica: ReplicaId) -> bool {
        self.locals.any_out_of_reach(now) && self.locals.is_out_of_reach(now, replica)
    }
}

/// A policy with asynchronous probes.
pub struct Probed<K> {
    spans: SpansNs,
    client: Client,
    kept: K,
    probing: Probing,
    probes_owed: Accumulator,
    /// Of those that were not asked for in an overload.
    probes_left_out: Accumulator,
    /// The latest time seen. The order of reports, and every age, rely on time that does not step
    /// back.
    latest: Instant,
    /// Room for the replicas whose probes expire together.
    lost: Vec<ReplicaId>,
}

/// The configured spans that are looked at for each probe, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SpansNs {
    probe_interval_min: u64,
    probe_deadline: u64,
}

impl<K: Keep> Probed<K> {
    /// The policy that keeps `kept`, with an empty fleet.
    pub(in crate::policy) fn with(kept: K, config: PrequalConfig) -> Self {
        Self {
            spans: SpansNs {
                probe_interval_min: span_ns(config.probe_interval_min),
                probe_deadline: span_ns(config.probe_deadline),
            },
            kept,
            probing: Probing::new(&config),
            probes_owed: Accumulator::default(),
            probes_left_out: Accumulator::default(),
            latest: Instant::EPOCH,
            lost: Vec::with_capacity(usize::from(config.probes_outstanding_max)),
            client: Client::new(config, LocalLoads::new(K::COMPARES_ALL)),
        }
    }

    /// The configuration of its probes, and of its pool if it has one.
    pub const fn config(&self) -> &PrequalConfig {
        &self.client.config
    }

    /// The time it is: `now`, or the latest time seen if the driver's clock has stepped back.
    fn tick(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// A replica has answered a probe that was sent to it at that time.
    fn take_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        sent_at: Instant,
        report: &LoadReport,
        draw: &mut dyn Draw,
    ) {
        if !self.client.fleet.knows(replica) {
            self.client.counters.reports_unknown += 1;
            return;
        }
        // It cannot have fewer than this client alone has had there all the time. [Decision 0015]
        let rif_min = self.client.fleet.rif_min(replica);
        let raised = (report.rif < rif_min).then(|| LoadReport {
            rif: rif_min,
            ..report.clone()
        });
        let report = raised.as_ref().unwrap_or(report);
        self.heard(now, replica, sent_at, report);
        match self.client.locals.own_load(now, replica) {
            Some(own) if K::COMPARES_ALL => {
                let report = LoadReport::new(report.rif, own.latency);
                self.keep_report(now, replica, &report, true, draw);
            }
            _ => self.keep_report(now, replica, report, false, draw),
        }
    }

    /// Hands a report to what is kept, if its replica may be chosen.
    fn keep_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        local: bool,
        draw: &mut dyn Draw,
    ) {
        if self.client.fleet.is_available(replica) {
            self.kept
                .handle_report(now, replica, report, local, &mut self.client, draw);
        }
    }

    /// The replica has joined or left.
    fn membership_changed(&mut self, replica: ReplicaId) {
        let changed = if self.client.fleet.any_lost() {
            Changed::Others
        } else {
            Changed::Itself
        };
        self.fleet_changed(replica, changed);
    }

    /// Who may be chosen may have changed: of whoever may not, nothing is kept. `[A12]`
    fn fleet_changed(&mut self, replica: ReplicaId, changed: Changed) {
        if changed == Changed::No {
            return;
        }
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
        self.watch_silences(|client| client.locals.settle(replica, &client.fleet));
    }
}
