//! RIF, then latency: the latest report of every replica, near-ties in RIF broken by latency. For small fleets.
//!
//! Where the pool of Prequal would hold half the fleet or more, its choice herds: what it knows is used again and again,
//! and what once looked slow gets no traffic by which to look fast. This policy keeps one report of each replica, for as
//! long as it is fresh, and corrects it at each pick: RIF is what *others* had in flight there when it reported, plus what
//! this client has now, so that queries that have ended count no more, either. The hot-cold rule then decides `[A7]`, with
//! a limit that follows the lowest RIF in sight and not a quantile: cold is whatever comes near the lowest.
//!
//! Replicas that answer no probes cannot be compared with others: one report is what a replica has at the moment, the other
//! an estimate of what it has as a rule, and whoever looks for the lowest finds it among the former. While any replica is
//! silent that may be chosen, all count with this client's own counts and round trips. `[A13]` `[Decision 0002]`
//!
//! With `local_only` it sends no probes and goes by the client's own counts and round trips, which for a single client is
//! about as good. A pick looks at every report: its time is in proportion to the fleet.

use crate::draw::Draw;
use crate::fixed::ONE;
use crate::policy::explanation::{self, Explanation};
use crate::policy::fleet::Fleet;
use crate::policy::observe::PooledView;
use crate::policy::prequal::{PrequalConfig, hot_cold};
use crate::policy::probed::rank::{self, Load, Place, Rank};
use crate::policy::probed::{Choice, Client, Keep, Probed};
use crate::policy::query::{PickReason, Query};
use crate::policy::settings::{ConfigError, Settings, Valid, require};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::time::Duration;

/// Chooses by RIF, and by latency between replicas whose RIF is nearly the same.
pub type RifThenLatency = Probed<LatestReports>;

/// Settings of [`RifThenLatency`] besides those of its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RifThenLatencySettings {
    /// How much RIF may exceed the lowest in sight for latency to decide, as a factor in millionths: 1,000,000 to
    /// 1,000,000,000, default 1,250,000. At 1,000,000 latency decides between equals only. Where the lowest is 0, it does
    /// so at any value.
    pub rif_slack_millionths: u32,
}

/// Valid settings of [`RifThenLatency`].
pub type RifThenLatencyConfig = Valid<RifThenLatencySettings>;

impl Default for RifThenLatencySettings {
    fn default() -> Self {
        Self {
            rif_slack_millionths: 1_250_000,
        }
    }
}

impl Settings for RifThenLatencySettings {
    fn check(&self) -> Result<(), ConfigError> {
        let valid = (ONE..=1_000 * ONE).contains(&self.rif_slack_millionths);
        require(
            valid,
            "rif_slack_millionths",
            "from 1,000,000 to 1,000,000,000",
        )
    }
}

impl RifThenLatency {
    /// The policy with an empty fleet; of `config`, what concerns the pool has no meaning here.
    pub fn new(config: PrequalConfig, settings: &RifThenLatencyConfig) -> Self {
        Self::with(LatestReports::new(settings, &config), config)
    }
}

/// Ranks among a whole fleet, which has at most [`ReplicaIds::MAX`](crate::ReplicaIds::MAX) replicas.
type FleetRank = Rank<20>;

/// The latest report of a replica.
#[derive(Clone, Copy, Debug)]
struct Latest {
    /// Queries of other clients' in flight there: the RIF reported less what this client had in flight.
    others: u32,
    latency_ns: Option<u64>,
    received_at: Instant,
    local: bool,
}

/// A replica that a query may go to and that has a report.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Its place among the available.
    index: u32,
    rif: Rif,
    latency_ns: Option<u64>,
}

/// What the candidates for a query have in common.
#[derive(Clone, Copy, Debug)]
struct Survey {
    count: u16,
    rif_limit: Rif,
    /// The median of the latencies that are known stands for one that is not. `[A7]`
    stand_in_ns: u64,
}

/// The latest report of every replica, and the rule by which [`RifThenLatency`] chooses among them.
#[derive(Debug)]
pub struct LatestReports {
    latest: ReplicaMap<Latest>,
    rif_slack_millionths: u64,
    report_age_max_ns: u64,
    /// Some replica is silent that may be chosen, and so all count with what this client has in flight there. `[A13]`
    own_only: bool,
    /// No report is older than one received then; looked at before searching.
    oldest_at: Option<Instant>,
    /// Room to find a median in.
    scratch_ns: Vec<u64>,
}

impl LatestReports {
    fn new(settings: &RifThenLatencySettings, config: &PrequalConfig) -> Self {
        Self {
            latest: ReplicaMap::default(),
            rif_slack_millionths: settings.rif_slack_millionths.into(),
            report_age_max_ns: span_ns(config.report_age_max),
            own_only: false,
            oldest_at: None,
            scratch_ns: Vec::new(),
        }
    }

    /// Removes the reports that have reached their age. `[A5]`
    fn expire(&mut self, now: Instant, client: &mut Client) {
        let age_max_ns = self.report_age_max_ns;
        let expired = |received_at| now.ns_since(received_at) >= age_max_ns;
        if !self.oldest_at.is_some_and(expired) {
            return;
        }
        self.oldest_at = None;
        for &replica in client.fleet.available() {
            let Some(&Latest { received_at, .. }) = self.latest.find(replica) else {
                continue;
            };
            if expired(received_at) {
                self.latest.remove(replica);
                client.counters.removed_expired += 1;
            } else {
                let oldest_at = self.oldest_at.get_or_insert(received_at);
                *oldest_at = received_at.min(*oldest_at);
            }
        }
    }

    /// Those to choose from. A replica of which nothing fresh is known is none of them, as long as there is another: what
    /// answers no probes, and is not silent yet, may be gone.
    fn candidates<'a>(
        &'a self,
        query: Query<'a>,
        fleet: &'a Fleet,
    ) -> impl Iterator<Item = Candidate> + Clone + 'a {
        (0_u32..)
            .zip(fleet.available())
            .filter_map(move |(index, &replica)| {
                let latest = self
                    .latest
                    .find(replica)
                    .filter(|_| query.allows(replica))?;
                Some(Candidate {
                    index,
                    rif: self.rif(latest, fleet.in_flight(replica)),
                    latency_ns: latest.latency_ns,
                })
            })
    }

    /// The RIF that a report counts with.
    fn rif(&self, latest: &Latest, own_in_flight: u32) -> Rif {
        let others = if self.own_only { 0 } else { latest.others };
        Rif::new(others.saturating_add(own_in_flight))
    }

    /// From which RIF on a report is hot: the first that is not near the lowest.
    fn limit(&self, lowest: Rif) -> Rif {
        let near = u64::from(lowest.count()) * self.rif_slack_millionths / u64::from(ONE);
        u32::try_from(near).map_or(Rif::new(u32::MAX), |near| Rif::new(near).plus_one())
    }

    /// What the candidates have in common; `None` if there are none.
    fn survey(&mut self, query: Query<'_>, fleet: &Fleet) -> Option<Survey> {
        let mut known_ns = core::mem::take(&mut self.scratch_ns);
        known_ns.clear();
        let mut lowest = None;
        let mut count = 0_usize;
        for candidate in self.candidates(query, fleet) {
            count += 1;
            lowest = Some(lowest.map_or(candidate.rif, |lowest| candidate.rif.min(lowest)));
            known_ns.extend(candidate.latency_ns);
        }
        let stand_in_ns = if known_ns.len() < count {
            rank::stand_in_ns(&mut known_ns)
        } else {
            0 // stands for nothing
        };
        self.scratch_ns = known_ns;
        Some(Survey {
            count: u16::try_from(count).unwrap_or(u16::MAX),
            rif_limit: self.limit(lowest?),
            stand_in_ns,
        })
    }

    /// The best of the candidates, if there is one.
    fn best(
        &mut self,
        now: Instant,
        query: Query<'_>,
        fleet: &Fleet,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        let survey = self.survey(query, fleet)?;
        let rif_limit = Some(survey.rif_limit);
        let ranks = self.candidates(query, fleet).map(|candidate| {
            let load = Load {
                rif: candidate.rif.count().into(),
                latency_ns: candidate.latency_ns.unwrap_or(survey.stand_in_ns),
            };
            FleetRank::new(
                candidate.index,
                hot_cold::place(load, hot_cold::unscaled(rif_limit)),
            )
        });
        let best = rank::best(ranks, draw)?;
        let replica = fleet.available()[best.index];
        Some(Choice {
            replica,
            reason: hot_cold::reason(best.first),
            rif_limit,
            candidates: survey.count,
            chosen: self.view(now, replica, rif_limit, fleet),
            runner_up: best.runner_up.map(|index| fleet.available()[index]),
        })
    }

    fn view(
        &self,
        now: Instant,
        replica: ReplicaId,
        rif_limit: Option<Rif>,
        fleet: &Fleet,
    ) -> Option<PooledView> {
        let latest = self.latest.find(replica)?;
        let rif = self.rif(latest, fleet.in_flight(replica));
        Some(PooledView {
            replica,
            rif,
            latency: latest.latency_ns.map(Duration::from_nanos),
            age: now.saturating_since(latest.received_at),
            uses_left: u32::MAX,
            local: latest.local,
            hot: rif_limit.is_some_and(|limit| rif >= limit),
        })
    }
}

/// Where no report helps: a replica at which this client has the fewest in flight, equals by chance; those that are silent
/// and out of reach come last. `[A13]`
fn fewest_in_flight(
    now: Instant,
    client: &Client,
    query: Query<'_>,
    draw: &mut dyn Draw,
) -> Option<Choice> {
    let fleet = &client.fleet;
    fleet.find_for(query, |replicas| {
        let allowed = (0_u32..)
            .zip(replicas)
            .filter(|&(_, &replica)| query.allows(replica));
        let ranks = allowed
            .map(|(index, &replica)| FleetRank::new(index, place_in_flight(now, client, replica)));
        let best = rank::best(ranks, draw)?;
        Some(Choice {
            replica: replicas[best.index],
            reason: fleet.reason_for(replicas[best.index], PickReason::LeastLoaded),
            rif_limit: None,
            candidates: 0,
            chosen: None,
            runner_up: best.runner_up.map(|index| replicas[index]),
        })
    })
}

/// Where a replica stands there.
fn place_in_flight(now: Instant, client: &Client, replica: ReplicaId) -> Place {
    Place {
        first: client.is_out_of_reach(now, replica).into(),
        second: client.fleet.in_flight(replica).into(),
    }
}

impl Keep for LatestReports {
    const NAME: &'static str = "rif_then_latency";
    const COMPARES_ALL: bool = true;
    const WITHOUT_REPORTS: PickReason = PickReason::LeastLoaded;

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        self.expire(now, client);
        let fleet = &client.fleet;
        self.best(now, query, fleet, draw)
            .or_else(|| fewest_in_flight(now, client, query, draw))
    }

    fn explain(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &mut Client,
        explanation: &mut Explanation,
    ) {
        self.expire(now, client);
        let fleet = &client.fleet;
        let survey = self.survey(query, fleet);
        let mut consider = |replica, report: Option<PooledView>, place: Place| {
            explanation.consider(explanation::Candidate {
                avoided: !query.allows(replica),
                place: (place.first, place.second),
                ..explanation::Candidate::new(replica, report, fleet.in_flight(replica))
            });
        };
        let Some(survey) = survey else {
            // Without a report to go by, queries in flight decide.
            let is_allowed = |&replica: &ReplicaId| query.allows(replica);
            let is_any_left = fleet.choice().iter().any(is_allowed);
            let replicas = if is_any_left || !query.may_leave_the_choice() {
                fleet.choice()
            } else {
                fleet.known()
            };
            for &replica in replicas {
                consider(replica, None, place_in_flight(now, client, replica));
            }
            return;
        };
        let rif_limit = Some(survey.rif_limit);
        for &replica in fleet.available() {
            if let Some(report) = self.view(now, replica, rif_limit, fleet) {
                let load = Load {
                    rif: report.rif.count().into(),
                    latency_ns: report.latency.map_or(survey.stand_in_ns, span_ns),
                };
                let place = hot_cold::place(load, hot_cold::unscaled(rif_limit));
                consider(replica, Some(report), place);
            }
        }
    }

    fn charge_siblings(&mut self, replica: ReplicaId, queries: u32) {
        if let Some(latest) = self.latest.find_mut(replica) {
            latest.others = latest.others.saturating_add(queries);
        }
    }

    fn handle_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        local: bool,
        client: &mut Client,
        _draw: &mut dyn Draw,
    ) {
        let own_in_flight = client.fleet.in_flight(replica);
        let latest = Latest {
            others: report.rif.count().saturating_sub(own_in_flight),
            latency_ns: report.latency.map(span_ns),
            received_at: now,
            local,
        };
        if self.latest.find(replica).is_some() {
            client.counters.replaced += 1;
        }
        self.latest.insert(replica, latest);
        self.oldest_at.get_or_insert(now);
    }

    fn forget(&mut self, replica: ReplicaId) {
        self.latest.remove(replica);
    }

    fn silence_changed(&mut self, any_silent: bool) {
        self.own_only = any_silent;
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.latest.reserve(replica);
    }

    fn fleet_changed(&mut self, client: &Client) {
        self.scratch_ns.clear();
        self.scratch_ns.reserve(client.fleet.known().len());
    }

    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        let candidates = self.candidates(Query::first(), &client.fleet);
        let lowest = candidates.map(|candidate| candidate.rif).min()?;
        Some(self.limit(lowest))
    }

    fn views(&self, now: Instant, client: &Client) -> Vec<PooledView> {
        let rif_limit = self.rif_limit(client);
        let fleet = &client.fleet;
        let view = |&replica: &ReplicaId| self.view(now, replica, rif_limit, fleet);
        let mut views: Vec<_> = fleet.available().iter().filter_map(view).collect();
        views.sort_by_key(|view| core::cmp::Reverse(view.age));
        views
    }
}
