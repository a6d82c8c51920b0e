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
mod in_flight;
mod keep;
mod rule;
mod seen;

pub(in crate::policy) use in_flight::FEWEST_IN_FLIGHT;
pub(in crate::policy) use rule::{LatestLoad, LatestRule, Reported};

use crate::draw::Draw;
use crate::fixed::{Rate, mul_div};
use crate::policy::fleet::Fleet;
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::rank::{self, Place, Rank};
use crate::policy::probed::recent_mean::RecentMean;
use crate::policy::probed::{Choice, Client};
use crate::policy::query::Query;
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
    fn load(now: Instant, candidate: Candidate<'_>, survey: &Survey<R>) -> LatestLoad {
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
        let load = Self::load(now, candidate, survey);
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
            self.lowest_drawn = if self.places.is_empty() {
                lowest_drawn(self.candidates(query, since, fleet))
            } else {
                lowest_drawn(self.listed(query, since, fleet))
            };
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

/// The lowest load that was drawn for an unprobed candidate; 0 if there is none. `[A13]`
fn lowest_drawn<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> u32 {
    let drawn = candidates.filter(|it| it.latest.local);
    drawn.map(|it| it.latest.others).min().unwrap_or(0)
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
