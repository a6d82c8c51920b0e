//! The latest report of every replica, for any rule of choice.
//!
//! If the pool of Prequal would hold half of the fleet or more, its choice herds: it uses the same
//! reports again and again, and a replica that once looked slow gets no queries that could correct
//! that. [`LatestReports`] keeps one report of each replica for as long as it is fresh, and
//! corrects it at each pick: RIF is what *others* had in flight when it reported, plus what this
//! client has now, so that queries that have ended no longer count. A [`LatestRule`] decides among
//! them.
//!
//! An unprobed replica has no report. Among such replicas, what this client has in flight decides.
//! Against the others, each counts with a load that was drawn from their reports: if all are alike,
//! the lowest of all is found among the unprobed as often as there are of them. So a few unprobed
//! replicas take nothing from what the others report, and where all are unprobed only the client's
//! own counts decide. `[A13]` `[Decision 0002]`
//!
//! With `local_only` it sends no probes and uses the client's own counts and round trips, which for
//! a single client is about as good. A pick looks at every report, so its time is in proportion to
//! the fleet, except with a rule that compares only the newest reports, which are found directly.

mod by_age;
mod rule;
mod seen;

pub(in crate::policy) use rule::{LatestLoad, LatestRule, Reported};

use crate::draw::Draw;
use crate::fixed::{Rate, mul_div};
use crate::policy::comparison::{Comparison, Equals, Factor, OWN_IN_FLIGHT, Step, Values};
use crate::policy::explanation::{self, Explanation};
use crate::policy::fleet::Fleet;
use crate::policy::pooled_view::PooledView;
use crate::policy::prequal::PrequalConfig;
use crate::policy::prequal::hot_cold::shared;
use crate::policy::probed::rank::{self, Place, Rank};
use crate::policy::probed::recent_mean::RecentMean;
use crate::policy::probed::{Choice, Client, Compared, Keep};
use crate::policy::query::{Attempt, Head, PickReason, Query};
use crate::policy::report_yield::ReportYield;
use crate::policy::turns::{FINE, Turn};
use crate::replica::ReplicaId;
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use by_age::ByAge;
use core::fmt::Debug;

/// Ranks among a whole fleet, which has at most [`ReplicaIds::MAX`](crate::ReplicaIds::MAX)
/// replicas.
type FleetRank = Rank<20>;

/// The latest report of a replica.
#[derive(Clone, Copy, Debug)]
struct Latest {
    /// Queries that other clients have in flight: the reported RIF minus what this client had; for
    /// an unprobed replica, as drawn from what others reported.
    others: u32,
    latency_ns: Option<u64>,
    received_at: Instant,
    local: bool,
}

/// Where a report comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum From {
    /// It answers a probe, or takes the place of an unprobed replica's answer. `[A13]`
    Probe { local: bool },
    /// It came with a response.
    Response,
}

/// A replica with a report that the query may go to.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    /// Its index among the available ones.
    index: u32,
    replica: ReplicaId,
    /// RIF, in 1/1024.
    in_flight: u64,
    turn: Turn,
    latest: &'a Latest,
}

/// Values that all candidates for a query share.
#[derive(Debug)]
struct Survey<R: LatestRule> {
    /// Only reports received at this time or later are compared.
    since: Instant,
    /// For rules with hot and cold.
    rif_limit: Option<Rif>,
    /// The median of the known latencies, which stands for an unknown one in such rules. `[A7]`
    stand_in_ns: u64,
    moment: R::Moment,
}

/// The latest report of every replica, and the rule that chooses among them.
#[derive(Debug)]
pub struct LatestReports<R> {
    rule: R,
    latest: ByAge<Latest>,
    report_age_max_ns: u64,
    /// What this client has in flight at a replica, in 1/1024, by recent reports.
    own: RecentMean,
    /// The lowest load of other clients that was drawn for an unprobed candidate of the current
    /// choice. `[A13]`
    lowest_drawn: u32,
    /// Reports that come with responses.
    carried: ReportYield,
    /// Indexes, among the available, of the replicas that are compared for the current query. Empty
    /// if all are.
    places: Vec<u32>,
    /// Buffer to find a median in, for rules that need one.
    scratch_ns: Vec<u64>,
}

impl<R: LatestRule> LatestReports<R> {
    pub(in crate::policy) fn new(rule: R, config: &PrequalConfig) -> Self {
        Self {
            rule,
            latest: ByAge::default(),
            report_age_max_ns: span_ns(config.report_age_max),
            own: RecentMean::default(),
            lowest_drawn: 0,
            carried: ReportYield::unheard(Rate::ONE),
            places: Vec::new(),
            scratch_ns: Vec::new(),
        }
    }

    /// Removes reports that have reached their maximum age. `[A5]`
    fn expire(&mut self, now: Instant, client: &mut Client) {
        while let Some(&(replica, Latest { received_at, .. })) = self.latest.oldest()
            && now.ns_since(received_at) >= self.report_age_max_ns
        {
            self.latest.remove(replica);
            client.counters.removed_expired += 1;
        }
    }

    /// The replicas to choose from with a report received at `since` or later. A replica without a
    /// fresh report is left out while there is another: one that answers no probes, and is not
    /// unprobed yet, may be gone.
    fn candidates<'a>(
        &'a self,
        query: Query<'a>,
        since: Instant,
        fleet: &'a Fleet,
    ) -> impl Iterator<Item = Candidate<'a>> + Clone + 'a {
        (0_u32..)
            .zip(fleet.available())
            .filter_map(move |(index, &replica)| {
                self.candidate(query, since, fleet, index, replica)
            })
    }

    /// Like [`Self::candidates`], for the replicas in [`Self::places`].
    fn listed<'a>(
        &'a self,
        query: Query<'a>,
        since: Instant,
        fleet: &'a Fleet,
    ) -> impl Iterator<Item = Candidate<'a>> + Clone + 'a {
        self.places.iter().filter_map(move |&index| {
            let replica = *fleet.available().get(index as usize)?;
            self.candidate(query, since, fleet, index, replica)
        })
    }

    fn candidate<'a>(
        &'a self,
        query: Query<'_>,
        since: Instant,
        fleet: &Fleet,
        index: u32,
        replica: ReplicaId,
    ) -> Option<Candidate<'a>> {
        let latest = self
            .latest
            .find(replica)
            .filter(|latest| latest.received_at >= since && query.allows(replica))?;
        let (own_in_flight, turn) = fleet.sent_to(replica);
        Some(Candidate {
            index,
            replica,
            in_flight: self.in_flight(latest, own_in_flight),
            turn,
            latest,
        })
    }

    /// The RIF that a report counts with, in 1/1024. `[A11]` `[A13]`
    fn in_flight(&self, latest: &Latest, own_in_flight: u32) -> u64 {
        let own = u64::from(own_in_flight) * FINE;
        let others = if latest.local {
            // Other clients have more where this one has more.
            let usual = self.own.mean() + FINE;
            mul_div(u64::from(self.lowest_drawn) * FINE, own + FINE, usual)
        } else {
            u64::from(latest.others) * FINE
        };
        own.saturating_add(others)
    }

    /// The RIF that a report counts with, rounded.
    fn rif(&self, latest: &Latest, own_in_flight: u32) -> Rif {
        rounded(self.in_flight(latest, own_in_flight))
    }

    /// The load of a candidate.
    fn load(&self, now: Instant, candidate: Candidate<'_>, survey: &Survey<R>) -> LatestLoad {
        let latest = candidate.latest;
        LatestLoad {
            replica: candidate.replica,
            in_flight: candidate.in_flight,
            rif_limit: survey.rif_limit,
            latency_ns: latest.latency_ns.unwrap_or(survey.stand_in_ns),
            age_ns: now.ns_since(latest.received_at),
            turn: candidate.turn,
        }
    }

    /// The place of a candidate.
    fn place(&self, now: Instant, candidate: Candidate<'_>, survey: &Survey<R>) -> Place {
        let load = self.load(now, candidate, survey);
        self.rule.place(load, &survey.moment)
    }

    /// The time since which reports are among the newest: as many as the rule compares, and all
    /// received together with the last of them. In a larger fleet their indexes go into `places`,
    /// so that no others are looked at.
    fn newest_since(&self, query: Query<'_>, fleet: &Fleet, places: &mut Vec<u32>) -> Instant {
        places.clear();
        if fleet.available().len() <= R::NEWEST_MAX {
            return Instant::EPOCH;
        }
        let mut since = Instant::EPOCH;
        for &(replica, Latest { received_at, .. }) in self.latest.newest_first() {
            if received_at < since {
                break;
            }
            if let Some(place) = fleet.available_place(replica)
                && query.allows(replica)
            {
                places.push(place);
                if places.len() == R::NEWEST_MAX {
                    since = received_at;
                }
            }
        }
        // This is the order in which a look at all would find them; draws choose among equals by
        // it.
        places.sort_unstable();
        since
    }

    /// The values that the candidates share. `None` if there are no candidates.
    fn survey(&mut self, query: Query<'_>, client: &Client) -> Option<Survey<R>> {
        let fleet = &client.fleet;
        let mut places = core::mem::take(&mut self.places);
        let since = self.newest_since(query, fleet, &mut places);
        self.places = places;
        if client.any_unprobed() {
            let all = self.candidates(query, since, fleet);
            let drawn = all.filter(|it| it.latest.local).map(|it| it.latest.others);
            self.lowest_drawn = drawn.min().unwrap_or(0);
        }
        let mut known_ns = core::mem::take(&mut self.scratch_ns);
        known_ns.clear();
        let survey = if self.places.is_empty() {
            self.survey_of(self.candidates(query, since, fleet), since, &mut known_ns)
        } else {
            self.survey_of(self.listed(query, since, fleet), since, &mut known_ns)
        };
        self.scratch_ns = known_ns;
        survey
    }

    /// Like [`Self::survey`] for these candidates. `known_ns` is an empty buffer for a median.
    fn survey_of<'a>(
        &self,
        mut candidates: impl Iterator<Item = Candidate<'a>>,
        since: Instant,
        known_ns: &mut Vec<u64>,
    ) -> Option<Survey<R>> {
        let Some(rif_limit) = R::RIF_LIMIT else {
            candidates.next()?;
            return Some(Survey {
                since,
                rif_limit: None,
                stand_in_ns: 0, // not used
                moment: self.rule.moment(),
            });
        };
        let (count, lowest) = look_at(candidates, known_ns);
        let stand_in_ns = if known_ns.len() < count {
            rank::stand_in_ns(known_ns)
        } else {
            0 // not used
        };
        Some(Survey {
            since,
            rif_limit: Some(rif_limit(&self.rule, lowest?)),
            stand_in_ns,
            moment: self.rule.moment(),
        })
    }

    /// Makes a report the latest of its replica.
    fn keep(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        from: From,
        client: &mut Client,
    ) {
        let own_in_flight = client.fleet.in_flight(replica);
        let before = self.latest.find(replica).copied();
        let latency_ns = report.known_latency().map(span_ns);
        let latest = Latest {
            others: report.rif.count().saturating_sub(own_in_flight),
            // Few responses carry a latency.
            latency_ns: match from {
                From::Probe { .. } => latency_ns,
                From::Response => latency_ns.or(before.and_then(|latest| latest.latency_ns)),
            },
            received_at: now,
            local: from == From::Probe { local: true },
        };
        let reported = Reported {
            replica,
            from,
            rif: Rif::new(latest.others.saturating_add(own_in_flight)),
            latency_ns: latest.latency_ns,
            query_rate_millis: report.query_rate_millis.unwrap_or(0),
            capacity_millirif: report.capacity_millirif.unwrap_or(0),
            cost_ns: report.cost.map_or(0, span_ns),
        };
        self.rule.handle_report(now, reported);
        client.counters.replaced += u64::from(before.is_some());
        self.latest.insert(replica, latest);
    }

    /// The best of the candidates, if there is one.
    fn best(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        let survey = self.survey(query, client)?;
        let fleet = &client.fleet;
        let rank = |candidate: Candidate<'_>| {
            FleetRank::new(candidate.index, self.place(now, candidate, &survey))
        };
        let best = if self.places.is_empty() {
            let all = self.candidates(query, survey.since, fleet);
            rank::best(all.map(rank), draw)
        } else {
            let listed = self.listed(query, survey.since, fleet);
            rank::best(listed.map(rank), draw)
        }?;
        let replica = fleet.available()[best.index];
        Some(Choice {
            replica,
            reason: R::reason(best.first),
            rif_limit: survey.rif_limit,
            candidates: u16::try_from(best.count).unwrap_or(u16::MAX),
            chosen: self.view(now, replica, survey.rif_limit, fleet),
            runner_up: best.runner_up.map(|index| fleet.available()[index]),
        })
    }
}

/// A RIF in 1/1024, rounded to the nearest.
pub(in crate::policy) fn rounded(in_flight: u64) -> Rif {
    Rif::new(u32::try_from((in_flight + FINE / 2) / FINE).unwrap_or(u32::MAX))
}

/// The number of candidates, and their lowest RIF. Their known latencies go into `known_ns`.
fn look_at<'a>(
    candidates: impl Iterator<Item = Candidate<'a>>,
    known_ns: &mut Vec<u64>,
) -> (usize, Option<Rif>) {
    let (mut count, mut lowest) = (0, None);
    for candidate in candidates {
        count += 1;
        let rif = rounded(candidate.in_flight);
        lowest = Some(lowest.map_or(rif, |lowest: Rif| rif.min(lowest)));
        known_ns.extend(candidate.latest.latency_ns);
    }
    (count, lowest)
}

/// The choice when no report helps: the replica where this client has the fewest queries in flight;
/// equals are drawn. Unprobed replicas that are out of reach come last. `[A13]`
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

/// The comparison of [`fewest_in_flight`].
pub(in crate::policy) const FEWEST_IN_FLIGHT: Comparison = Comparison {
    name: "fewest_in_flight",
    formula: "fewest requests in flight from this worker",
    shared: &[],
    factors: &[Factor::flag("out_of_reach", "out of reach"), OWN_IN_FLIGHT],
    order: &[Step::lowest("out_of_reach"), Step::lowest("in_flight")],
    equals: Equals::Draw,
};

/// The place of a replica in it.
fn place_in_flight(now: Instant, client: &Client, replica: ReplicaId) -> Place {
    Place {
        first: client.is_out_of_reach(now, replica).into(),
        second: client.fleet.in_flight(replica).into(),
    }
}

impl<R: LatestRule> Keep for LatestReports<R> {
    const NAME: &'static str = R::NAME;
    const DRAWS_OTHERS: bool = true;
    const WITHOUT_REPORTS: PickReason = PickReason::LeastLoaded;

    fn pass_turn(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        if R::TAKES_TURNS && query.spares_some() {
            self.expire(now, client);
            let whole = query.avoiding_none();
            let turn = self.best(now, whole, client, draw);
            client.fleet.pass_turn(query, turn.map(|turn| turn.replica));
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        self.expire(now, client);
        self.best(now, query, client, draw)
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
        let survey = self.survey(query, client);
        let fleet = &client.fleet;
        let (comparison, shared) = match &survey {
            Some(survey) => (self.rule.comparison(), shared(survey.rif_limit)),
            None => (&FEWEST_IN_FLIGHT, Values::NONE),
        };
        explanation.compare(comparison, shared);
        let mut consider = |replica, report: Option<PooledView>, place: Place, values| {
            let (capacity_millirif, cost) = match report {
                Some(_) => self.rule.reported(replica),
                None => (None, None),
            };
            explanation.consider(explanation::Candidate {
                values,
                capacity_millirif,
                cost,
                avoided: !query.allows(replica),
                place: (place.first, place.second),
                ..explanation::Candidate::new(replica, report, fleet.in_flight(replica))
            });
        };
        let Some(survey) = survey else {
            // Without reports, queries in flight decide.
            for &replica in fleet.allowed_set(query) {
                let place = place_in_flight(now, client, replica);
                consider(
                    replica,
                    None,
                    place,
                    Values::of([place.first, place.second]),
                );
            }
            return;
        };
        // This includes replicas that the query has tried: they are recorded, and not chosen.
        for candidate in self.candidates(Query::first(), survey.since, fleet) {
            let load = self.load(now, candidate, &survey);
            let place = self.rule.place(load, &survey.moment);
            let values = self.rule.values(load, &survey.moment);
            let report = self.view(now, candidate.replica, survey.rif_limit, fleet);
            consider(candidate.replica, report, place, values);
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
        self.own
            .record(u64::from(client.fleet.in_flight(replica)) * FINE);
        self.keep(now, replica, report, From::Probe { local }, client);
    }

    fn handle_carried_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        client: &mut Client,
    ) {
        if report.capacity_millirif.is_some() {
            self.carried.report_pooled();
            if self.rule.takes_carried() {
                self.keep(now, replica, report, From::Response, client);
            }
        }
    }

    /// The latency of a query to an unprobed replica is all that is known of its speed. `[A13]`
    fn handle_head(&mut self, _now: Instant, replica: ReplicaId, head: Head) {
        if !head.failed() && self.latest.find(replica).is_some_and(|latest| latest.local) {
            self.rule.handle_own_latency(replica, span_ns(head.latency));
        }
    }

    fn handle_sent(
        &mut self,
        _now: Instant,
        query: Query<'_>,
        _choice: &Choice,
        _client: &mut Client,
        _draw: &mut dyn Draw,
    ) {
        if query.attempt == Attempt::First {
            self.carried.query();
        }
    }

    fn probe_rate(&self, client: &Client) -> Rate {
        self.rule.probe_rate(self.carried.rate(), &client.config)
    }

    fn forget(&mut self, replica: ReplicaId) {
        self.latest.remove(replica);
        self.rule.forget(replica);
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.latest.reserve(replica);
        self.rule.add_replica(replica);
    }

    fn fleet_changed(&mut self, client: &Client) {
        if R::RIF_LIMIT.is_some() {
            self.scratch_ns.clear();
            self.scratch_ns.reserve(client.fleet.known().len());
        }
        self.places.clear();
        self.places.reserve(client.fleet.known().len());
    }

    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        let rif_limit = R::RIF_LIMIT?;
        let candidates = self.candidates(Query::first(), Instant::EPOCH, &client.fleet);
        let lowest = candidates
            .map(|candidate| rounded(candidate.in_flight))
            .min()?;
        Some(rif_limit(&self.rule, lowest))
    }

    fn views(&self, now: Instant, client: &Client) -> Vec<PooledView> {
        self.seen(now, client)
    }

    fn comparison(&self, client: &Client) -> (&'static Comparison, Values) {
        (self.rule.comparison(), shared(self.rif_limit(client)))
    }

    fn compared(&self, now: Instant, client: &Client) -> Vec<Compared> {
        self.looked_at(now, client)
    }
}
