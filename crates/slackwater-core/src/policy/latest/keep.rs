//! The latest reports as what a probing policy keeps.

use super::in_flight::{FEWEST_IN_FLIGHT, fewest_in_flight, place_in_flight};
use super::{From, LatestReports, LatestRule};
use crate::draw::Draw;
use crate::fixed::Rate;
use crate::policy::comparison::{Comparison, Values};
use crate::policy::explanation::{self, Explanation};
use crate::policy::pooled_view::PooledView;
use crate::policy::prequal::hot_cold::shared;
use crate::policy::probed::rank::Place;
use crate::policy::probed::{Choice, Client, Compared, Keep, Subject};
use crate::policy::query::{Attempt, Head, PickReason, Query};
use crate::policy::turns::FINE;
use crate::replica::ReplicaId;
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::time::Duration;

impl<R: LatestRule> Keep for LatestReports<R> {
    const NAME: &'static str = R::NAME;
    const DRAWS_OTHERS: bool = true;
    const WITHOUT_REPORTS: PickReason = PickReason::LeastLoaded;

    fn pass_turn(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) {
        if R::TAKES_TURNS && query.spares_some() {
            self.expire(now, client);
            // Without reports it is no replica's turn.
            if !self.rows.all().is_empty() {
                let turn = self.choose(now, &query.avoiding_none(), client, draw);
                client
                    .fleet
                    .pass_turn(*query, turn.map(|turn| turn.replica));
            }
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        draw: &mut dyn Draw,
    ) -> Option<Choice> {
        self.expire(now, client);
        let mut choice = self.best(now, query, client, draw);
        if choice.is_none() {
            choice = fewest_in_flight(now, client, query, draw);
        }
        choice
    }

    fn explain(
        &mut self,
        now: Instant,
        query: &Query<'_>,
        client: &mut Client,
        explanation: &mut Explanation,
    ) {
        self.expire(now, client);
        let survey = self.survey_with_buffer(query, client);
        let fleet = &client.fleet;
        let any_report = self.candidates(query).next().is_some();
        let (comparison, shared) = if any_report {
            (self.rule.comparison(), shared(survey.rif_limit))
        } else {
            (&FEWEST_IN_FLIGHT, Values::NONE)
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
        if !any_report {
            // Without reports, queries in flight decide.
            for &replica in fleet.allowed_set(*query) {
                let place = place_in_flight(now, client, replica);
                consider(
                    replica,
                    None,
                    place,
                    Values::of([place.first, place.second]),
                );
            }
            return;
        }
        // This includes replicas that the query has tried: they are recorded, and not chosen.
        for row in self.candidates(&Query::first().among(query.among)) {
            let compared = self.weighed(now, row, &survey, fleet);
            let report = self.view(now, row, &survey, fleet);
            consider(row.replica, Some(report), compared.place, compared.values);
        }
    }

    fn charge_siblings(&mut self, replica: ReplicaId, queries: u32) {
        if let Some(row) = self.rows.find_mut(replica) {
            row.others = row.others.saturating_add(queries);
        }
    }

    fn handle_report(
        &mut self,
        now: Instant,
        from: Subject,
        report: &LoadReport,
        client: &mut Client,
        _draw: &mut dyn Draw,
    ) {
        let Subject {
            replica,
            own_in_flight,
            local,
        } = from;
        if client.any_unprobed() {
            self.own.record(u64::from(own_in_flight) * FINE);
        }
        let latency_ns = known_latency_ns(report);
        let replicas = client.fleet.available().len();
        (self.own_share).reported(now, report.query_rate_millis, replicas);
        (self.further).reported(client.fleet.sent(), self.sends_most(client));
        let from = From::Probe { local };
        let replaces = self.keep(now, replica, own_in_flight, latency_ns, report, from);
        client.counters.replaced += u64::from(replaces);
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
                let own_in_flight = client.fleet.in_flight(replica);
                // Few responses carry a latency.
                let latency_ns = known_latency_ns(report);
                let latency_ns = latency_ns.or_else(|| self.rows.find(replica)?.latency_ns);
                (self.further).reported(client.fleet.sent(), self.sends_most(client));
                let from = From::Response;
                let replaces = self.keep(now, replica, own_in_flight, latency_ns, report, from);
                client.counters.replaced += u64::from(replaces);
            }
        }
    }

    /// Counts an answer. The latency of a query to an unprobed replica is all that is known of its
    /// speed. `[A13]`
    #[expect(clippy::inline_always, reason = "each query needs it once")]
    #[inline(always)]
    fn handle_head(&mut self, now: Instant, replica: ReplicaId, head: Head, client: &Client) {
        self.own_share.query_over(head.outcome);
        if let Some(row) = self.rows.find_mut(replica)
            && row.local
        {
            let latency_ns = span_ns(client.without_way(head.latency));
            (self.rule).handle_own_latency(now, replica, latency_ns, head.failed());
            row.known = self.rule.known(replica, row.others_min());
        }
    }

    fn handle_sent(
        &mut self,
        _now: Instant,
        query: &Query<'_>,
        _choice: &Choice,
        client: &mut Client,
        _draw: &mut dyn Draw,
    ) {
        if query.attempt == Attempt::First {
            self.carried.query();
        }
        if self.further.are_due(client.fleet.sent()) {
            (self.further).pass(self.rows.newest().len(), self.rows.all().len());
        }
    }

    fn probe_rate(&self, client: &Client) -> Rate {
        (self.rule).probe_rate(self.carried.rate(), self.sends_most(client), &client.config)
    }

    fn forget(&mut self, replica: ReplicaId) {
        self.rows.remove(replica);
        if self.rule.forget(replica) {
            self.know_all_anew();
        }
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.rows.reserve(replica);
        self.rule.add_replica(replica);
    }

    fn set_far(&mut self, replica: ReplicaId, round_trip: Duration) {
        self.rule.set_far(replica, round_trip);
        if let Some(row) = self.rows.find_mut(replica) {
            row.known = self.rule.known(row.replica, row.others_min());
        }
    }

    fn fleet_changed(&mut self, client: &Client) {
        if R::RIF_LIMIT.is_some() {
            self.scratch_ns.clear();
            self.scratch_ns.reserve(client.fleet.known().len());
        }
    }

    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        R::RIF_LIMIT?;
        let survey = self.survey(&Query::first(), client, &mut Vec::new());
        survey.rif_limit
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

/// The reported latency, unless it is unknown, as 0 is.
fn known_latency_ns(report: &LoadReport) -> Option<NonZeroU64> {
    NonZeroU64::new(report.latency.map_or(0, span_ns))
}
