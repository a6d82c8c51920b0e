//! Prequal: probe replicas for requests in flight and latency, keep a small pool of answers, choose by the hot-cold rule.
//!
//! Wydrowski, Kleinberg, Rumble, Archer: "Load is not what you should balance: Introducing Prequal", NSDI 2024,
//! section 4. What the paper leaves open is decided in `docs/decisions/`. This file is the order of work in a query;
//! each step has a file of its own:
//!
//! | step | file |
//! |---|---|
//! | keep reports, bounded in number, age and use | `pool` |
//! | tell hot from cold | `rif_limit` |
//! | choose, and say what is worst | `hot_cold` |
//! | how often a report may be used | `reuse` |
//! | what goes after each query | `removal` |
//! | whom to probe, and when | `probing`, `sounding` |
//! | replicas that answer no probes | `local` |
//! | asking at each query instead | `sync` |

mod config;
mod hot_cold;
mod local;
mod pool;
mod probing;
mod removal;
mod reuse;
mod rif_limit;
mod sounding;
mod sync;

pub use config::{PrequalConfig, PrequalConfigError, PrequalSettings};
pub(in crate::policy) use local::LocalArrival;
pub use sync::PrequalSync;

use crate::draw::Draw;
use crate::fixed::Accumulator;
use crate::policy::Policy;
use crate::policy::fleet::Fleet;
use crate::policy::observe::{Counters, PooledView, Snapshot};
use crate::policy::probe::{Probe, ProbeId};
use crate::policy::query::{Attempt, Decision, Outcome, Pick, PickReason, Query, Ticket};
use crate::replica::ReplicaId;
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use hot_cold::Best;
use local::LocalLoads;
use pool::{Inserted, Pool, PooledReport};
use probing::Probing;
use removal::{Removal, Removed};
use reuse::{Balance, ReportYield, draw_uses};
use rif_limit::RifDistribution;

/// A pool smaller than this decides nothing. `[A8]`
const POOL_MIN: usize = 2;

/// Prequal with asynchronous probes.
#[derive(Debug)]
pub struct Prequal {
    config: PrequalConfig,
    spans: SpansNs,
    fleet: Fleet,
    pool: Pool,
    /// RIF as replicas report it.
    reported: RifDistribution,
    /// RIF of silent replicas, as estimated; the limit comes from it only while no replica reports.
    estimated: RifDistribution,
    probing: Probing,
    locals: LocalLoads,
    report_yield: ReportYield,
    /// Equation (1) for the fleet and yield of now, in millionths.
    reuse_limit: u32,
    probes_owed: Accumulator,
    removal: Removal,
    counters: Counters,
    /// The latest time seen. The pool's order, and every age, rely on time that does not step back.
    latest: Instant,
    /// Room for the replicas whose probes expire together.
    lost: Vec<ReplicaId>,
}

/// The configured spans that are looked at for each query or probe, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SpansNs {
    report_age_max: u64,
    probe_interval_min: u64,
    probe_deadline: u64,
}

/// What was found for a query, before it is charged.
struct Choice {
    replica: ReplicaId,
    reason: PickReason,
    /// The report that decided, by its place in the pool.
    chosen: Option<usize>,
    runner_up: Option<ReplicaId>,
}

impl Prequal {
    /// Prequal with an empty fleet.
    pub fn new(config: PrequalConfig) -> Self {
        let mut prequal = Self {
            spans: SpansNs {
                report_age_max: span_ns(config.report_age_max),
                probe_interval_min: span_ns(config.probe_interval_min),
                probe_deadline: span_ns(config.probe_deadline),
            },
            fleet: Fleet::default(),
            pool: Pool::new(config.pool_capacity),
            reported: RifDistribution::new(),
            estimated: RifDistribution::new(),
            probing: Probing::new(&config),
            locals: LocalLoads::default(),
            report_yield: ReportYield::new(config.probe_rate),
            reuse_limit: 0,
            probes_owed: Accumulator::default(),
            removal: Removal::default(),
            counters: Counters::default(),
            latest: Instant::EPOCH,
            lost: Vec::with_capacity(usize::from(config.probes_outstanding_max)),
            config,
        };
        prequal.balance_reuse();
        prequal
    }

    /// The configuration it was made with.
    pub const fn config(&self) -> &PrequalConfig {
        &self.config
    }

    /// The time it is: `now`, or the latest time seen if the driver's clock has stepped back.
    fn tick(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    fn balance_reuse(&mut self) {
        let balance = Balance {
            pool_capacity: self.config.pool_capacity,
            replicas: u32::try_from(self.fleet.available().len()).unwrap_or(u32::MAX),
            probe_rate: self.report_yield.rate(),
            remove_rate: self.config.remove_rate,
            pool_drift: self.config.pool_drift,
            reuse_max: self.config.reuse_max,
        };
        self.reuse_limit = balance.reuse_limit();
    }

    fn rif_limit(&self) -> Option<Rif> {
        let distribution = if self.reported.is_empty() {
            &self.estimated
        } else {
            &self.reported
        };
        distribution.limit(self.config.rif_limit_quantile)
    }

    fn expire(&mut self, now: Instant) {
        let expired = self.pool.expire(now, self.spans.report_age_max);
        self.counters.removed_expired += expired as u64;
    }

    /// The best report if at least two are usable `[A7]`, else chance `[A8]`.
    fn choose(
        &mut self,
        limit: Option<Rif>,
        query: Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        if self.pool.usable(query) >= POOL_MIN
            && let Some(Best {
                index,
                hot,
                runner_up,
            }) = self.pool.best(limit, query, draw)
        {
            return Some(Choice {
                replica: self.pool.at(index).replica,
                reason: if hot {
                    PickReason::Hot
                } else {
                    PickReason::Cold
                },
                chosen: Some(index),
                runner_up: runner_up.map(|index| self.pool.at(index).replica),
            });
        }
        let replica = self.fleet.random(query, draw)?;
        let reason = if self.fleet.in_panic() {
            PickReason::Panic
        } else {
            PickReason::Fallback
        };
        Some(Choice {
            replica,
            reason,
            chosen: None,
            runner_up: None,
        })
    }

    /// Counts the query on its replica's report `[A11]` and spends a use of the report that decided `[A9]`.
    fn charge(&mut self, choice: &Choice) {
        match choice.chosen {
            Some(index) => {
                self.pool.compensate(index);
                if self.pool.spend(index) {
                    self.counters.removed_spent += 1;
                }
            }
            None => {
                if let Some(index) = self.pool.position(choice.replica) {
                    self.pool.compensate(index);
                }
            }
        }
    }

    fn remove_by_rate(&mut self, limit: Option<Rif>, draw: &mut dyn Draw) {
        for _ in 0..self.removal.due(self.config.remove_rate) {
            match self.removal.remove(&mut self.pool, limit, draw) {
                Some(Removed::Oldest) => self.counters.removed_oldest += 1,
                Some(Removed::Worst) => self.counters.removed_worst += 1,
                None => self.counters.removals_withheld += 1,
            }
        }
    }

    /// Puts a report into the pool, if its replica may be chosen.
    fn pool_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        local: bool,
        draw: &mut dyn Draw,
    ) {
        if !self.fleet.is_available(replica) {
            return;
        }
        self.report_yield.report_pooled();
        let inserted = self.pool.insert(PooledReport {
            replica,
            rif: report.rif,
            latency_ns: report.latency.map(span_ns),
            received_at: now,
            uses_left: draw_uses(self.reuse_limit, draw),
            local,
        });
        match inserted {
            Inserted::Added => {}
            Inserted::Replaced => self.counters.replaced += 1,
            Inserted::Evicted => self.counters.evicted += 1,
        }
    }

    /// Who may be chosen has changed: whoever may not leaves the pool `[A12]`, and equation (1) has another n.
    fn fleet_changed(&mut self, replica: ReplicaId) {
        if !self.fleet.is_available(replica) {
            self.pool.remove_replica(replica);
        }
        self.balance_reuse();
        self.forget_if_deaf();
    }
}

impl Policy for Prequal {
    fn name(&self) -> &'static str {
        "prequal"
    }

    fn add_replica(&mut self, now: Instant, replica: ReplicaId) {
        let now = self.tick(now);
        if self.fleet.add(replica) {
            self.probing.add(replica);
            self.probing.begin_rest(now);
            self.locals.add(replica);
            if self.config.local_only {
                self.locals.begin_silence(replica);
            }
            self.fleet_changed(replica);
        }
    }

    fn remove_replica(&mut self, now: Instant, replica: ReplicaId) {
        self.tick(now);
        if self.fleet.remove(replica) {
            self.probing.remove(replica);
            self.locals.remove(replica);
            self.fleet_changed(replica);
        }
    }

    fn set_available(&mut self, now: Instant, replica: ReplicaId, available: bool) {
        self.tick(now);
        if self.fleet.set_ejected(replica, !available) {
            self.fleet_changed(replica);
        }
    }

    fn handle_query(&mut self, now: Instant, query: Query<'_>, draw: &mut dyn Draw) -> Decision {
        let now = self.tick(now);
        self.expire(now);
        let rif_limit = self.rif_limit();
        let candidates = u16::try_from(self.pool.usable(query)).unwrap_or(u16::MAX);
        let Some(choice) = self.choose(rif_limit, query, draw) else {
            self.counters.no_replica += 1;
            return Decision::NoReplica;
        };
        let report = choice
            .chosen
            .map(|index| self.pool.at(index).view(now, rif_limit));
        self.charge(&choice);
        if query.attempt == Attempt::First {
            self.remove_by_rate(rif_limit, draw);
            let probes = self.probes_owed.step(self.config.probe_rate);
            self.want_probes(probes);
            if self.report_yield.query() {
                self.balance_reuse();
            }
        }
        self.counters.picks.count(choice.reason);
        self.fleet.query_sent(choice.replica);
        let mut ticket = Ticket::new(choice.replica, now);
        self.locals.query_sent(now, &mut ticket);
        Decision::Pick(Pick {
            rif_limit,
            candidates,
            chosen: report,
            runner_up: choice.runner_up,
            ..Pick::without_reports(ticket, choice.reason)
        })
    }

    fn handle_query_done(&mut self, now: Instant, mut ticket: Ticket, outcome: Outcome) {
        let now = self.tick(now);
        let replica = ticket.replica();
        self.fleet.query_done(replica);
        self.locals.query_done(now, &mut ticket, outcome);
        if outcome == Outcome::Unreachable {
            // What it reported before no longer tells what a query meets there.
            self.pool.remove_replica(replica);
        }
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let now = self.tick(now);
        self.locals.head_ready(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        let now = self.tick(now);
        self.expire_probes(now);
        self.next_probe(now, draw)
    }

    fn handle_report(
        &mut self,
        now: Instant,
        probe: ProbeId,
        report: &LoadReport,
        draw: &mut dyn Draw,
    ) {
        let now = self.tick(now);
        self.expire_probes(now);
        let Some(replica) = self.probing.end(probe) else {
            self.counters.reports_late += 1;
            return;
        };
        self.counters.probes_answered += 1;
        if !self.fleet.knows(replica) {
            self.counters.reports_unknown += 1;
            return;
        }
        let ordinary = self
            .rif_limit()
            .map_or(report.rif, |limit| report.rif.min(limit));
        let own_in_flight = self.fleet.in_flight(replica);
        self.locals.answered(now, replica, ordinary, own_in_flight);
        if self.fleet.is_draining(replica) != report.draining
            && self.fleet.set_draining(replica, report.draining)
        {
            self.fleet_changed(replica);
        }
        if !report.draining {
            // Whoever runs empty tells nothing of how busy the others are.
            self.reported.record(report.rif);
        }
        self.pool_report(now, replica, report, false, draw);
    }

    fn handle_probe_unsent(&mut self, probe: ProbeId) {
        if self.probing.unsend(probe) {
            self.counters.probes_unsent += 1;
        }
    }

    fn handle_probe_lost(&mut self, now: Instant, probe: ProbeId, _draw: &mut dyn Draw) {
        let now = self.tick(now);
        if let Some(replica) = self.probing.end(probe) {
            self.probe_lost(now, replica);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.fleet.known().is_empty() {
            None
        } else {
            self.probing.next_timeout()
        }
    }

    fn handle_timeout(&mut self, now: Instant, draw: &mut dyn Draw) {
        let now = self.tick(now);
        self.expire_probes(now);
        if self.probing.is_idle(now) {
            self.probing.jitter(self.config.probe_idle_max, draw);
            self.probing.rest(now);
            let probes = u32::from(self.config.idle_probes);
            self.counters.probes_idle += u64::from(probes);
            self.want_probes(probes);
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        let now = self.latest.max(now);
        let rif_limit = self.rif_limit();
        let fresh = |view: &PooledView| view.age < self.config.report_age_max;
        Snapshot {
            replicas: self.fleet.views(|replica| self.locals.is_silent(replica)),
            pool: self
                .pool
                .views(now, rif_limit)
                .into_iter()
                .filter(fresh)
                .collect(),
            rif_limit,
        }
    }
}
