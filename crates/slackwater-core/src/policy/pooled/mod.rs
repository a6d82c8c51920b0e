//! The probe pool as a policy, with any rule of choice: reports bounded in number, age and use.
//!
//! "Linear, C3, and Prequal all use the asynchronous probing method described in §4, but they
//! differ in the scoring rule" `[Prequal §5.2]`: a [`PoolRule`] is that rule, and [`Pooled`] is the
//! rest of section 4. Points that the paper leaves open are decided in `docs/decisions/`. This file
//! has the order of steps in a query; each step has its own file:
//!
//! | step | file |
//! |---|---|
//! | keep reports, the best to choose, the worst to remove | `pool` |
//! | how many uses a report has | `reuse` |
//! | what is removed after each query | `removal` |

mod pool;
mod removal;
mod reuse;

use crate::draw::Draw;
use crate::fixed::ONE;
use crate::policy::comparison::{Comparison, Values};
use crate::policy::explanation::{Candidate, Explanation};
use crate::policy::pooled_view::PooledView;
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::rank::{Load, Order};
use crate::policy::probed::{Choice, Client, Compared, Keep, Subject};
use crate::policy::query::{Attempt, Head, PickReason, Query};
use crate::policy::report_yield::ReportYield;
use crate::replica::ReplicaId;
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::fmt::Debug;
use pool::{Inserted, Pool, PooledReport};
use removal::{Removal, Removed};
use reuse::{Balance, draw_uses};

/// A smaller pool decides nothing. `[A8]`
const POOL_MIN: usize = 2;

/// A rule of choice: an order over the reports of a pool. The least is chosen, the greatest
/// removed.
pub trait PoolRule: Debug + Send {
    /// The policy's name.
    const NAME: &'static str;

    /// The RIF from which a report is hot, for rules with hot and cold. `[A6]`
    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        let _ = client;
        None
    }

    /// The current order: the place of a replica with this load.
    fn order(&self, rif_limit: Option<Rif>, client: &Client) -> impl Order;

    /// Why a report is chosen whose place begins with `first`.
    fn reason(first: u64) -> PickReason;

    /// How reports are compared now, and the values that all have in common.
    fn comparison(&self, rif_limit: Option<Rif>) -> (&'static Comparison, Values);

    /// The compared values of a replica's report with this load.
    fn values(
        &self,
        replica: ReplicaId,
        load: Load,
        rif_limit: Option<Rif>,
        client: &Client,
    ) -> Values;

    /// Adds a replica about which nothing is known. By default a rule keeps nothing outside the
    /// pool.
    fn add_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Removes a replica, and forgets what was known about it.
    fn remove_replica(&mut self, replica: ReplicaId) {
        let _ = replica;
    }

    /// Takes in a report that enters the pool.
    fn handle_report(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        let _ = (now, replica, report);
    }

    /// Notes the latency of a query to the replica. Called once per query.
    fn handle_head(&mut self, now: Instant, replica: ReplicaId, head: Head) {
        let _ = (now, replica, head);
    }
}

/// A pool of reports, and the rule by which it chooses.
#[derive(Debug)]
pub struct Pooled<R> {
    rule: R,
    pool: Pool,
    report_yield: ReportYield,
    /// Equation (1) for the current fleet and yield, in millionths.
    reuse_limit: u32,
    /// The share of the probe rate that `reuse_limit` was computed for.
    probe_share: u32,
    removal: Removal,
    report_age_max_ns: u64,
}

impl<R: PoolRule> Pooled<R> {
    /// An empty pool.
    pub(in crate::policy) fn new(rule: R, config: &PrequalConfig) -> Self {
        Self {
            rule,
            pool: Pool::new(config.pool_capacity),
            report_yield: ReportYield::new(config.probe_rate),
            reuse_limit: ONE,
            probe_share: ONE,
            removal: Removal::default(),
            report_age_max_ns: span_ns(config.report_age_max),
        }
    }

    fn balance_reuse(&mut self, client: &Client) {
        self.probe_share = client.probe_share;
        let balance = Balance {
            pool_capacity: client.config.pool_capacity,
            replicas: u32::try_from(client.fleet.available().len()).unwrap_or(u32::MAX),
            probe_rate: self.report_yield.rate(),
            remove_rate: client.remove_rate(),
            pool_drift: client.config.pool_drift,
            reuse_max: client.config.reuse_max,
        };
        self.reuse_limit = balance.reuse_limit();
    }

    fn expire(&mut self, now: Instant, client: &mut Client) {
        let expired = self.pool.expire(now, self.report_age_max_ns);
        client.counters.removed_expired += expired as u64;
    }

    /// The best report if at least two are usable `[A7]`, else a random replica `[A8]`; and the
    /// report's place in the pool.
    fn find(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        rif_limit: Option<Rif>,
        client: &Client,
        draw: &mut dyn Draw,
    ) -> Option<(Choice, Option<usize>)> {
        let usable = self.pool.usable(query);
        let candidates = u16::try_from(usable).unwrap_or(u16::MAX);
        if usable >= POOL_MIN
            && let Some(best) = self
                .pool
                .best(query, self.rule.order(rif_limit, client), draw)
        {
            let report = self.pool.at(best.index);
            let choice = Choice {
                replica: report.replica,
                reason: R::reason(best.first),
                rif_limit,
                candidates,
                chosen: Some(report.view(now, rif_limit)),
                runner_up: best.runner_up.map(|index| self.pool.at(index).replica),
            };
            return Some((choice, Some(best.index)));
        }
        // Too few reports are usable.
        let replica = client.random(now, query, draw)?;
        let choice = Choice {
            replica,
            reason: client.fleet.reason_for(replica, PickReason::Fallback),
            rif_limit,
            candidates,
            chosen: None,
            runner_up: None,
        };
        Some((choice, None))
    }

    /// Counts the query on its replica's report `[A11]` and spends a use of the report that decided
    /// `[A9]`.
    fn charge(&mut self, replica: ReplicaId, chosen: Option<usize>, client: &mut Client) {
        match chosen {
            Some(index) => {
                self.pool.compensate(index, 1);
                if self.pool.spend(index) {
                    client.counters.removed_spent += 1;
                }
            }
            None => {
                if let Some(index) = self.pool.position(replica) {
                    self.pool.compensate(index, 1);
                }
            }
        }
    }

    fn remove_by_rate(&mut self, rif_limit: Option<Rif>, client: &mut Client, draw: &mut dyn Draw) {
        for _ in 0..self.removal.due(client.remove_rate()) {
            let order = self.rule.order(rif_limit, client);
            match self.removal.remove(&mut self.pool, order, draw) {
                Some(Removed::Oldest) => client.counters.removed_oldest += 1,
                Some(Removed::Worst) => client.counters.removed_worst += 1,
                None => client.counters.removals_withheld += 1,
            }
        }
    }
}

impl<R: PoolRule> Keep for Pooled<R> {
    const NAME: &'static str = R::NAME;

    fn choose(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        self.expire(now, client);
        let rif_limit = self.rule.rif_limit(client);
        let (choice, chosen) = self.find(now, query, rif_limit, client, draw)?;
        self.charge(choice.replica, chosen, client);
        Some(choice)
    }

    fn explain(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        explanation: &mut Explanation,
    ) {
        self.expire(now, client);
        let rif_limit = self.rule.rif_limit(client);
        if self.pool.usable(query) < POOL_MIN {
            let report = |replica| {
                let index = self.pool.position(replica)?;
                Some(self.pool.at(index).view(now, rif_limit))
            };
            client.explain_chance(now, query, report, explanation);
            return;
        }
        let (comparison, shared) = self.rule.comparison(rif_limit);
        explanation.compare(comparison, shared);
        let order = self.rule.order(rif_limit, client);
        for (report, load) in self.pool.loads() {
            let replica = report.replica;
            let place = order(replica, load);
            let report = Some(report.view(now, rif_limit));
            let in_flight = client.fleet.in_flight(replica);
            explanation.consider(Candidate {
                values: self.rule.values(replica, load, rif_limit, client),
                avoided: !query.allows(replica),
                place: (place.first, place.second),
                ..Candidate::new(replica, report, in_flight)
            });
        }
    }

    fn charge_pinned(&mut self, now: Instant, replica: ReplicaId, client: &mut Client) -> Choice {
        self.expire(now, client);
        self.charge(replica, None, client);
        Choice {
            replica,
            reason: PickReason::Pinned,
            rif_limit: self.rule.rif_limit(client),
            candidates: 0,
            chosen: None,
            runner_up: None,
        }
    }

    fn charge_siblings(&mut self, replica: ReplicaId, queries: u32) {
        if let Some(index) = self.pool.position(replica) {
            self.pool.compensate(index, queries);
        }
    }

    /// Removes by rate. This comes last, because a rule that counts queries in flight must see this
    /// one to find the worst report. `[A10]`
    fn handle_sent(
        &mut self,
        _now: Instant,
        query: &Query<'_>,
        choice: &Choice,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        if query.attempt == Attempt::First {
            self.remove_by_rate(choice.rif_limit, client, draw);
            let is_lowered = self.probe_share != client.probe_share;
            if self.report_yield.query() || is_lowered {
                self.balance_reuse(client);
            }
        }
    }

    fn handle_report(
        &mut self,
        now: Instant,
        from: Subject,
        report: &LoadReport,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        let Subject { replica, local, .. } = from;
        self.report_yield.report_pooled();
        self.rule.handle_report(now, replica, report);
        let inserted = self.pool.insert(PooledReport {
            replica,
            rif: report.rif,
            latency_ns: report.known_latency().map(span_ns),
            received_at: now,
            uses_left: draw_uses(self.reuse_limit, draw),
            local,
        });
        match inserted {
            Inserted::Added => {}
            Inserted::Replaced => client.counters.replaced += 1,
            Inserted::Evicted => client.counters.evicted += 1,
        }
    }

    fn forget(&mut self, replica: ReplicaId) {
        self.pool.remove_replica(replica);
    }

    fn handle_head(&mut self, now: Instant, replica: ReplicaId, head: Head, _client: &Client) {
        self.rule.handle_head(now, replica, head);
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.rule.add_replica(replica);
    }

    fn remove_replica(&mut self, replica: ReplicaId) {
        self.rule.remove_replica(replica);
    }

    fn fleet_changed(&mut self, client: &Client) {
        self.balance_reuse(client); // equation (1) has another n
    }

    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        self.rule.rif_limit(client)
    }

    fn views(&self, now: Instant, client: &Client) -> Vec<PooledView> {
        self.pool.views(now, self.rule.rif_limit(client))
    }

    fn comparison(&self, client: &Client) -> (&'static Comparison, Values) {
        self.rule.comparison(self.rule.rif_limit(client))
    }

    fn compared(&self, now: Instant, client: &Client) -> Vec<Compared> {
        let rif_limit = self.rule.rif_limit(client);
        let order = self.rule.order(rif_limit, client);
        let fresh = self.pool.fresh_loads(now, self.report_age_max_ns);
        if fresh.len() < POOL_MIN {
            return Vec::new();
        }
        let compared = |(replica, load)| Compared {
            replica,
            place: order(replica, load),
            values: self.rule.values(replica, load, rif_limit, client),
        };
        fresh.into_iter().map(compared).collect()
    }
}
